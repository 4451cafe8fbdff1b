package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"mediastack.dev/hack/daemon"
	"mediastack.dev/hack/servers"
)

type ports struct {
	API             int `name:"port" json:"api" help:"Port of the REST, TUS and MCP endpoints. 0: the one of the last run, or a free one; the same for the other ports."`
	Admin           int `name:"admin-port" json:"admin" help:"Port of the runtime's health and metrics."`
	Postgres        int `name:"postgres-port" json:"postgres" help:"Port of PostgreSQL."`
	S3              int `name:"s3-port" json:"s3" help:"Port of the S3 store."`
	Kube            int `name:"kube-port" json:"kube" help:"Port of the Kubernetes API server."`
	SMTP            int `name:"smtp-port" json:"smtp" help:"Port of the mail sink."`
	OperatorHealth  int `name:"operator-health-port" json:"operatorHealth" help:"Port of the operator's health."`
	OperatorMetrics int `name:"operator-metrics-port" json:"operatorMetrics" help:"Port of the operator's metrics."`
}

type runCommand struct {
	dataFlag
	Detach       bool          `help:"Return when the account is ready and leave the stack running; the stop command ends it."`
	Ports        ports         `embed:""`
	Cluster      string        `help:"Use the cluster of this context of the kubeconfig instead of a control plane of the stack's own; 1 is the current context. Nothing is installed into its nodes: the operator and the runtime run on this machine."`
	PurgeEvery   time.Duration `default:"1h" help:"Pause between two purges of old drafts."`
	ReadyTimeout time.Duration `default:"2m" help:"How long the account may take to become ready."`
}

// Run starts the stack and supervises it until it is interrupted or one of its processes dies.
func (c *runCommand) Run(ctx context.Context, command *kong.Context, signals interrupts) error {
	if c.PurgeEvery <= 0 {
		return fmt.Errorf("--purge-every must be longer than nothing, not %s", c.PurgeEvery)
	}
	data, err := c.open()
	if err != nil {
		return err
	}
	if c.Detach {
		return detach(ctx, data)
	}
	parent, err := daemon.OpenParent()
	if err != nil {
		return err
	}
	taken, err := data.acquire()
	if err != nil {
		return parent.Finish(err)
	}
	if !taken {
		pid, err := data.runningPID()
		if err != nil {
			return parent.Finish(err)
		}
		if pid == 0 {
			return parent.Finish(fmt.Errorf("another stack in %s was just ending; try again", data.dir))
		}
		return parent.Finish(errors.Join(printIgnoredFlags(parent.Out(), command), printRunning(ctx, parent.Out(), data, pid)))
	}
	defer data.release()

	s := &stack{
		runCommand: c,
		data:       data,
		group:      servers.NewGroup(),
		progress:   &daemon.Progress{Started: time.Now(), Out: parent.Out()},
	}
	go func() {
		<-signals
		<-signals // the second one kills all processes at once
		s.group.KillAll()
		os.Exit(exitInterrupted)
	}()
	return s.run(ctx, parent)
}

// run brings the stack up, supervises it, and takes it down again. To be interrupted is no failure,
// once the stack was ready.
func (s *stack) run(ctx context.Context, parent *daemon.Parent) error {
	err := s.start(ctx)
	if err == nil {
		err = s.description.print(s.progress.Out)
	}
	ready := err == nil
	if ready {
		if !parent.Waits() {
			s.progress.Printf("running; Ctrl-C ends it")
		} else {
			s.progress.Printf("running; `make stop` ends it")
		}
		_ = parent.Finish(nil)
		err = s.supervise(ctx)
	}
	switch {
	case ctx.Err() == nil:
		s.progress.Printf("%v", err)
		s.progress.Printf("ending the stack")
		err = daemon.ErrReported
	case ready:
		err = nil
		s.progress.Printf("ending the stack; once more Ctrl-C kills it")
	default:
		err = ctx.Err()
		s.progress.Printf("ending the stack; once more Ctrl-C kills it")
	}
	s.stop()
	s.progress.Printf("ended; the data stays in %s", s.data.dir)
	return parent.Finish(err)
}

// supervise returns an error when a process has died, and nil when the context has ended.
func (s *stack) supervise(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	purged := make(chan struct{})
	go func() {
		defer close(purged)
		s.purge(ctx)
	}()
	err := s.group.Dead(ctx)
	cancel()
	<-purged
	return err
}

// purge runs the purge job periodically. A failed run is reported and repeated at the next turn, as a
// CronJob would.
func (s *stack) purge(ctx context.Context) {
	ticker := time.NewTicker(s.PurgeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.group.Run(ctx, s.runtimeSpec("the purge", "purge.log", "purge")); err != nil && ctx.Err() == nil {
			s.progress.Printf("%v", err)
		}
	}
}

// stackLog has what a detached stack reports, in its data directory.
const stackLog = "logs/stack.log"

// detach starts the stack in a session of its own and repeats what it reports until it is ready.
func detach(ctx context.Context, data *dataDir) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data.path("logs"), 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	log, err := os.OpenFile(data.path(stackLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return arg == "--detach" })
	child := exec.Command(self, args...)
	child.Stdout, child.Stderr = log, log
	return daemon.Start(ctx, child, os.Stdout)
}
