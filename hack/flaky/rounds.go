package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mediastack.dev/hack/processgroup"
	"mediastack.dev/hack/testevents"
)

const (
	// eventsEnv names the file for the events to the command, and eventsArgument is replaced by it.
	eventsEnv      = "EVENTS"
	eventsArgument = "{events}"
)

// round is a run of the command that was not interrupted.
type round struct {
	number   int // from 1
	loaded   bool
	elapsed  time.Duration
	failures []testevents.Failure // a command that failed without a failed test is one with a reason alone
	log      string
	events   string // the file is removed unless there are failures
}

func (r round) kind() string {
	if r.loaded {
		return "loaded"
	}
	return "quiet"
}

// runRounds runs the rounds from the first one, and prints a line for each. After an error, or an interrupt, it returns those before it.
func (c *config) runRounds(ctx context.Context, out io.Writer) ([]round, error) {
	if err := c.clearLogs(); err != nil {
		return nil, err
	}
	var all []round
	for number := c.first; number <= c.rounds; number++ {
		one := c.newRound(number)
		fmt.Fprintf(out, "round %*d of %d, %s: ", width(c.rounds), number, c.rounds, one.kind()) // the rest of the line comes minutes later
		err := c.runRound(ctx, &one)
		if ctx.Err() != nil {
			fmt.Fprintln(out, "interrupted")
			return all, ctx.Err()
		}
		if err != nil {
			fmt.Fprintln(out, "not run")
			return all, fmt.Errorf("round %d: %w", number, err)
		}
		all = append(all, one)
		fmt.Fprintf(out, "%.0f s, %s\n", one.elapsed.Seconds(), describe(one.failures))
	}
	return all, nil
}

// describe prints the failures of a round in one line.
func describe(failures []testevents.Failure) string {
	const named = 3
	var names []string
	for _, failure := range failures[:min(named, len(failures))] {
		names = append(names, failure.String())
	}
	if len(failures) > named {
		names = append(names, "...")
	}
	switch len(failures) {
	case 0:
		return "no failure"
	case 1:
		return "1 failure: " + names[0]
	}
	return fmt.Sprintf("%d failures: %s", len(failures), strings.Join(names, ", "))
}

// clearLogs makes the folder for the logs, and removes those of an earlier run, unless this one continues it. A dev stack has its
// secrets in the folder above it.
func (c *config) clearLogs() error {
	if err := os.MkdirAll(c.logs, 0o700); err != nil {
		return err
	}
	if c.first > 1 {
		return nil
	}
	old, err := filepath.Glob(filepath.Join(c.logs, "round-*"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// newRound returns a round that has not run.
func (c *config) newRound(number int) round {
	base := filepath.Join(c.logs, fmt.Sprintf("round-%0*d", width(c.rounds), number))
	return round{number: number, loaded: number%2 == 0, log: base + ".log", events: base + ".json"}
}

// runRound runs the command once. An error is not one of the tests: the command did not run as it should have.
func (c *config) runRound(ctx context.Context, one *round) (err error) {
	log, err := os.Create(one.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if one.loaded {
		busy, err := startLoad(c.program, c.load)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, busy.stop()) }()
	}
	begun := time.Now()
	ended, err := c.runCommand(ctx, one.events, log)
	one.elapsed = time.Since(begun)
	if err != nil {
		return err
	}
	one.failures = failures(one.events, ended)
	if len(one.failures) == 0 {
		return os.Remove(one.events) // of a run of all tests it has many megabytes
	}
	return nil
}

// runCommand runs the command and returns how it ended. An error is that it could not be started.
func (c *config) runCommand(ctx context.Context, events string, log *os.File) (*os.ProcessState, error) {
	args := make([]string, len(c.command))
	for i, arg := range c.command {
		args[i] = strings.ReplaceAll(arg, eventsArgument, events)
	}
	return processgroup.Run(ctx, args, []string{eventsEnv + "=" + events}, log)
}

// failures returns the failures in a file of events. A command that did not succeed has one at least.
func failures(path string, ended *os.ProcessState) []testevents.Failure {
	events, err := testevents.ReadFile(path)
	switch {
	case len(events.Failures) > 0:
		return events.Failures
	case !ended.Success():
		return []testevents.Failure{{Reason: fmt.Sprintf("the command failed (%s) without a failed test", ended)}}
	case err != nil:
		return []testevents.Failure{{Reason: "the events of the tests cannot be read: " + err.Error()}}
	case len(events.Packages) == 0:
		return []testevents.Failure{{Reason: "the command ran no tests"}}
	}
	return nil
}

// width is the number of digits of the last round.
func width(rounds int) int { return len(fmt.Sprint(rounds)) }
