// Command flaky is the program behind `make flaky`: it runs the tests again and again, every second time beside processes
// that keep the processors busy, and tells which tests ever failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"mediastack.dev/hack/setup"
)

const usage = `usage: flaky [--rounds N] [--first N] [--load N] [--logs DIR] -- COMMAND [ARGUMENT...]

Runs a command that runs tests, again and again: the odd rounds alone, the even ones beside busy processes. The command
writes the events of its tests (gotestsum --jsonfile) into the file that the environment variable EVENTS names. {events}
in an argument is replaced by that file, too. Ctrl-C ends the command and prints the summary of the rounds before it;
--first continues with a later round, and keeps the logs of those before it.

Exit status: 0 no test failed, 1 a test failed, 2 the command could not run, 130 interrupted before any test failed.

`

// The exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == busyFlag {
		beBusy()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once, and with it the processes that it started.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status.
func run(ctx context.Context, args []string, out, messages io.Writer) int {
	cfg, err := parse(args, messages)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	}
	all, err := cfg.runRounds(ctx, out)
	printSummary(out, cfg.first, cfg.rounds, all)
	switch {
	case err != nil && ctx.Err() == nil:
		fmt.Fprintln(messages, "flaky:", err)
		return exitUsage
	case failed(all):
		return exitFailed
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return 0
}

// config is what the arguments say.
type config struct {
	rounds, first, load int
	logs                string
	command             []string
	// program is started with busyFlag for each busy process.
	program string
}

// parse prints what is wrong with the arguments.
func parse(args []string, messages io.Writer) (*config, error) {
	cfg := &config{}
	flags := flag.NewFlagSet("flaky", flag.ContinueOnError)
	flags.SetOutput(messages)
	flags.Usage = func() {
		fmt.Fprint(messages, usage)
		flags.PrintDefaults()
	}
	flags.IntVar(&cfg.rounds, "rounds", 20, "`number` of rounds")
	flags.IntVar(&cfg.first, "first", 1, "`number` of the round to begin with")
	flags.IntVar(&cfg.load, "load", 8, "`number` of busy processes in even rounds")
	flags.StringVar(&cfg.logs, "logs", "", "`folder` for the log of each round, and the events of those with failures (default .mediastack/flaky in the checkout)")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	err := func() (err error) {
		if cfg.command = flags.Args(); len(cfg.command) == 0 {
			return errors.New("the command is missing")
		}
		if cfg.rounds < 1 || cfg.load < 1 {
			return errors.New("--rounds and --load are at least 1")
		}
		if cfg.first < 1 || cfg.first > cfg.rounds {
			return fmt.Errorf("--first is from 1 to %d", cfg.rounds)
		}
		if cfg.program, err = os.Executable(); err != nil {
			return err
		}
		if cfg.logs == "" {
			root, err := setup.RepoRoot()
			if err != nil {
				return err
			}
			cfg.logs = filepath.Join(root, ".mediastack", "flaky")
		}
		// The command may run in another folder.
		cfg.logs, err = filepath.Abs(cfg.logs)
		return err
	}()
	if err != nil {
		flags.Usage()
		fmt.Fprintln(messages, "flaky:", err)
	}
	return cfg, err
}
