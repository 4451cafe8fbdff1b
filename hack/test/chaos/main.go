// Command chaos tests that the service loses nothing that it acknowledged and keeps nothing
// that it deleted. Two shipped runtimes and the purge job serve clients that upload, seal,
// delete, read and ask for pictures, while faults are injected: processes are killed, and PostgreSQL and the S3
// store are killed, stopped and disconnected. Afterwards every acknowledgement is compared
// with what the service, the database and the bucket hold. `make crash` runs it.
//
// A seed fixes the faults, their order and their pauses, and what every client sends. It does
// not fix how the machine schedules the processes: the same seed injects the same faults again,
// but not at the same instruction.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"mediastack.dev/hack/test/chaos/operators"
)

type options struct {
	Scenario string        `help:"What faults are injected into: service (two runtimes, the purge), operator (two operators), or all." enum:"service,operator,all" default:"all"`
	Seed     uint64        `help:"Seed of the faults and of what clients send; 0 = choose one, and print it."`
	Kills    int           `help:"Number of kills." default:"300"`
	Pause    time.Duration `help:"Scenario service: how long a pause between two faults is at most. A longer one lets more requests succeed on a machine where a runtime needs long to start." default:"700ms"`
	Clients  int           `help:"Concurrent clients." default:"8"`
	Accounts int           `help:"Number of accounts in the scenario operator." default:"300"`
	Former   string        `help:"Scenario service: a mediastack-runtime of an earlier version, which runs beside one of this version, as in a rolling update." type:"existingfile"`
	Dir      string        `help:"Data directory; a temporary one by default. It is kept after a failure." type:"path"`
	Wait     bool          `help:"Wait minutes for leases and claims to expire at the end, instead of expiring them in the database."`
}

func main() {
	var o options
	kong.Parse(&o, kong.Name("chaos"), kong.Description("Kill the service many times under load, and compare what is left with what was acknowledged."))
	klog.SetLogger(logr.Discard()) // client-go reports the API server that is killed
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// run runs the scenarios.
func (o options) run(ctx context.Context, out io.Writer) error {
	if o.Kills < 1 || o.Clients < 1 || o.Pause <= 50*time.Millisecond || o.Accounts < o.Clients {
		return fmt.Errorf("kills and clients must be positive, the pause over 50ms, and accounts as many as clients or more")
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	if o.Scenario != "operator" {
		if err := run(ctx, o, out); err != nil {
			return err
		}
	}
	if o.Scenario == "service" {
		return nil
	}
	return operators.Run(ctx, operators.Options{Seed: o.Seed, Kills: o.Kills, Clients: o.Clients, Accounts: o.Accounts, Dir: o.Dir}, out)
}

// run is a whole run of the scenario service. It fails when an invariant was violated.
func run(ctx context.Context, o options, out io.Writer) error {
	begun := time.Now()
	e, err := startEnvironment(ctx, o.Dir, o.Former)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d, %d kills, %d clients, data in %s\n", o.Seed, o.Kills, o.Clients, e.dir)
	m := newModel(begun)
	keep, err := e.inject(ctx, o, m, out)
	e.close(keep)
	if err != nil {
		return fmt.Errorf("seed %d: %w", o.Seed, err)
	}
	fmt.Fprintf(out, "seed %d: nothing lost, nothing left, in %s\n", o.Seed, time.Since(begun).Round(time.Second))
	return nil
}

// inject injects faults under load, and verifies. keep reports whether the data helps to explain a failure.
func (e *environment) inject(ctx context.Context, o options, m *model, out io.Writer) (keep bool, err error) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	for n, t := range e.tenants {
		c := &client{env: e, model: m, tenant: t, draw: newDraw(o.Seed, uint64(n)), http: newHTTP()}
		if err := errors.Join(c.declare(working), c.changePresets(working)); err != nil {
			return true, err
		}
		if o.Former == "" {
			e.followers = append(e.followers, &follower{client: &client{env: e, model: m, tenant: t, draw: newDraw(o.Seed, uint64(50+n)), http: newHTTP()}, read: map[string]bool{}})
		}
	}
	if o.Former == "" {
		if e.receiver, err = startReceiver(working, e, m); err != nil {
			return true, fmt.Errorf("store a webhook: %w", err)
		}
	}
	var all sync.WaitGroup
	e.startLoad(working, m, o, &all)
	e.startBackground(working, m, &all)
	c := newChaos(e, m, o.Seed, o.Pause)
	progress := time.NewTicker(10 * time.Second)
	defer progress.Stop()
	injected := make(chan error, 1)
	go func() { injected <- c.Run(working, o.Kills) }()
	for running := true; running; {
		select {
		case err = <-injected:
			running = false
		case <-progress.C:
			fmt.Fprintf(out, "%4.0f s  %d of %d kills; %s\n", time.Since(m.begun).Seconds(), c.Kills(), o.Kills, m.progress())
		}
		if m.failed() {
			break
		}
	}
	stop()
	all.Wait()
	if err == nil && !m.failed() && ctx.Err() == nil {
		err = e.verify(ctx, m, o.Wait)
	}
	fmt.Fprintf(out, "faults: %s\n", c)
	fmt.Fprintf(out, "answers: %s\n", m.answers())
	fmt.Fprintf(out, "items: %s\n", m.progress())
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case m.failed():
		m.print(out, e.logLines)
		_ = os.WriteFile(filepath.Join(e.dir, "schedule.log"), []byte(m.schedule()), 0o600)
		return true, errors.Join(err, fmt.Errorf("%d things are wrong; the data is in %s", m.wrongs(), e.dir))
	}
	return err != nil, err
}
