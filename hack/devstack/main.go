// Command mediastack-dev is the program behind `make run`, the dev stack: it starts the whole product
// and the servers that it needs on one machine, makes a sample account and prints commands that use it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"mediastack.dev/hack/daemon"
	"mediastack.dev/hack/setup"
)

// exitInterrupted is the exit status of a program that a second Ctrl-C ended.
const exitInterrupted = 130

type commandLine struct {
	Run    runCommand    `cmd:"" help:"Start the stack and print commands that use it. Ctrl-C stops it. Settings of the runtime and the operator in the environment (SERVICE_CORS_ORIGINS, SERVICE_RATE_LIMIT_KEY ...), SSL_CERT_FILE and SSL_CERT_DIR take effect, except those that the stack sets itself."`
	Stop   stopCommand   `cmd:"" help:"Stop a running stack."`
	Status statusCommand `cmd:"" help:"Print whether a stack runs, and its commands."`
	Clean  cleanCommand  `cmd:"" help:"Remove the data of a stack that is not running."`
}

// dataFlag is shared by all commands.
type dataFlag struct {
	DataDir string `type:"path" env:"MEDIASTACK_DATA" help:"Data directory; .mediastack in the checkout by default."`
}

// open returns the data directory.
func (f dataFlag) open() (*dataDir, error) {
	dir := f.DataDir
	if dir == "" {
		root, err := setup.RepoRoot()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(root, ".mediastack")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return &dataDir{dir: dir}, nil
}

func main() {
	ctx, interrupts := interruptible()
	var cli commandLine
	command := kong.Parse(&cli,
		kong.Name("mediastack-dev"),
		kong.Description("Runs all of mediastack on one machine, for trying it out. Not for production."),
		kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(interrupts),
	)
	if err := command.Run(); err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			os.Exit(exitInterrupted)
		}
		if !errors.Is(err, daemon.ErrReported) {
			fmt.Fprintln(os.Stderr, "mediastack-dev:", err)
		}
		os.Exit(1)
	}
}

// interrupts carries every signal; the first one cancels the context.
type interrupts <-chan os.Signal

func interruptible() (context.Context, interrupts) {
	stopSignals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	ctx, _ := signal.NotifyContext(context.Background(), stopSignals...)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stopSignals...)
	return ctx, signals
}

type stopCommand struct{ dataFlag }

// Run ends a running stack and waits until it is gone.
func (c *stopCommand) Run(ctx context.Context) error {
	data, err := c.open()
	if err != nil {
		return err
	}
	pid, err := data.runningPID()
	if err != nil {
		return err
	}
	if pid == 0 {
		fmt.Printf("No stack runs in %s.\n", data.dir)
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("end the stack (process %d): %w", pid, err)
	}
	fmt.Printf("Ending the stack in %s (process %d).\n", data.dir, pid)
	if err := data.waitUnlocked(ctx); err != nil {
		return fmt.Errorf("the stack (process %d) has not ended: %w", pid, err)
	}
	fmt.Println("The stack has ended; its data stays.")
	return nil
}

type statusCommand struct{ dataFlag }

// Run prints the lines of a running stack, or that there is none.
func (c *statusCommand) Run(ctx context.Context) error {
	data, err := c.open()
	if err != nil {
		return err
	}
	pid, err := data.runningPID()
	if err != nil {
		return err
	}
	if pid == 0 {
		printStopped(os.Stdout, data)
		return nil
	}
	return printRunning(ctx, os.Stdout, data, pid)
}

// printStopped prints that no stack runs, and where a detached one said why it ended.
func printStopped(w io.Writer, data *dataDir) {
	fmt.Fprintf(w, "No stack runs in %s.\n", data.dir)
	if log, err := os.Stat(data.path(stackLog)); err == nil && log.Size() > 0 {
		fmt.Fprintf(w, "The last lines of %s say why the last one ended.\n", data.path(stackLog))
	}
}

type cleanCommand struct {
	dataFlag
	LeaveCluster bool          `help:"Leave the objects of the stack in the cluster that it used."`
	Timeout      time.Duration `default:"2m" help:"How long the deletion of one object in the cluster may take."`
}

// Run removes the data directory, and what the stack has applied to the cluster of another.
func (c *cleanCommand) Run(ctx context.Context) error {
	data, err := c.open()
	if err != nil {
		return err
	}
	removed, err := data.remove(func() error {
		saved, fresh, err := data.loadState()
		if err != nil || fresh || saved.Cluster == "" || c.LeaveCluster {
			return err
		}
		released, err := releaseCluster(ctx, data, c.Timeout)
		if err != nil {
			return fmt.Errorf("remove the objects of the stack from the cluster %s: %w; with --leave-cluster they stay there", saved.Cluster, err)
		}
		if !released {
			return nil
		}
		fmt.Printf("Removed the objects of the stack from the cluster %s.\n", saved.Cluster)
		return nil
	})
	if err != nil {
		return err
	}
	if !removed {
		fmt.Printf("Nothing to remove in %s.\n", data.dir)
		return nil
	}
	fmt.Printf("Removed %s.\n", data.dir)
	return nil
}
