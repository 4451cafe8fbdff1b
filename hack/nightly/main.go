// Command nightly is the program behind `make nightly`: it runs the targets of the Makefile that take too long for each
// change, and records which have passed on which commit. `make release` asks it whether all have passed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"mediastack.dev/hack/setup"
)

const usage = `usage: nightly [--continue | --status] [STEP...]

Runs the steps, or those that are named, one after the other: a step is a target of the Makefile. One that fails, or that
this machine cannot run, does not end the others. Ctrl-C ends the step that runs, and the program.

The results are recorded in the git directory, where make clean removes nothing. A step has passed on a commit if nothing
was changed beside it, before or while the step ran.

Exit status: 0 all of these steps passed, 1 one did not, 2 wrong usage, 130 interrupted.

`

// The exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once, and with it the step that it started.
	context.AfterFunc(ctx, stop)
	root, err := setup.RepoRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(exitUsage)
	}
	night := &nightly{root: root, steps: steps, make: "make", getenv: os.Getenv, out: os.Stdout, progress: time.Tick(5 * time.Minute)}
	os.Exit(night.run(ctx, os.Args[1:], os.Stderr))
}

// nightly runs steps of one checkout.
type nightly struct {
	root   string // of the checkout
	steps  []step // all of them
	make   string // the program make
	getenv func(string) string
	out    io.Writer
	// progress has a value each time when a step that runs should say how far it is.
	progress <-chan time.Time
	record   record
}

// run returns the exit status.
func (n *nightly) run(ctx context.Context, args []string, messages io.Writer) int {
	flags := flag.NewFlagSet("nightly", flag.ContinueOnError)
	flags.SetOutput(messages)
	flags.Usage = func() {
		fmt.Fprint(messages, usage)
		flags.PrintDefaults()
	}
	rest := flags.Bool("continue", false, "leave out the steps that have passed on this commit")
	status := flags.Bool("status", false, "run nothing, and print how the steps ended last; the exit status is 1 unless all have passed on this commit")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitUsage
	}
	ended, err := n.choose(ctx, flags.Args(), *rest, *status)
	if err != nil {
		fmt.Fprintln(messages, "nightly:", err)
		return exitUsage
	}
	return ended
}

// choose runs the steps that the arguments name, or prints how they ended last, and returns the exit status.
func (n *nightly) choose(ctx context.Context, names []string, rest, status bool) (int, error) {
	chosen, err := n.named(names)
	if err != nil {
		return 0, err
	}
	if status && rest {
		return 0, errors.New("--status and --continue exclude each other")
	}
	path, err := n.git(ctx, "rev-parse", "--path-format=absolute", "--git-path", "mediastack-nightly.tsv")
	if err != nil {
		return 0, err
	}
	if n.record, err = readRecord(path); err != nil {
		return 0, err
	}
	commit, err := n.commit(ctx)
	if err != nil {
		return 0, err
	}
	if status {
		return n.printStatus(chosen, commit), nil
	}
	if rest {
		chosen = slices.DeleteFunc(chosen, func(s step) bool { return n.record.passedOn(s.target, commit) })
		if len(chosen) == 0 {
			n.printf("all of these steps have passed on %s", commit)
			return 0, nil
		}
	}
	return n.runSteps(ctx, chosen)
}

// named returns the steps of these names in the order of the names, or all.
func (n *nightly) named(names []string) ([]step, error) {
	if len(names) == 0 {
		return slices.Clone(n.steps), nil
	}
	var chosen []step
	for _, name := range names {
		i := slices.IndexFunc(n.steps, func(s step) bool { return s.target == name })
		if i < 0 {
			var all []string
			for _, s := range n.steps {
				all = append(all, s.target)
			}
			return nil, fmt.Errorf("there is no step %s; there are %s", name, strings.Join(all, ", "))
		}
		chosen = append(chosen, n.steps[i])
	}
	return chosen, nil
}

// printStatus prints a line for each step, and returns 0 if all have passed on the commit.
func (n *nightly) printStatus(chosen []step, commit string) int {
	status := 0
	for _, s := range chosen {
		last, ran := n.record.last(s.target)
		text := "has not run"
		if ran {
			text = fmt.Sprintf("%s at %s in %s", last.verb(), last.ended.Format("2006-01-02 15:04"), duration(last.elapsed))
		}
		if ran && last.commit == commit && !strings.HasSuffix(commit, dirty) {
			text += ", on this commit"
		}
		if !n.record.passedOn(s.target, commit) {
			status = exitFailed
		}
		fmt.Fprintf(n.out, "%-16s %s\n", s.target, text)
	}
	return status
}

// dirty is the end of the name of a commit with changes beside it.
const dirty = "-dirty"

// commit returns the commit that is checked out.
func (n *nightly) commit(ctx context.Context) (string, error) {
	return n.git(ctx, "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty="+dirty)
}

func (n *nightly) git(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = n.root
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(output)), nil
}

// log returns the path of the output of a target.
func (n *nightly) log(target string) string { return filepath.Join(n.logs(), target+".log") }

func (n *nightly) logs() string { return filepath.Join(n.root, ".mediastack", "nightly-logs") }

func (n *nightly) printf(format string, args ...any) {
	fmt.Fprintf(n.out, "nightly: "+format+"\n", args...)
}

// duration rounds a time to what a person waits for.
func duration(d time.Duration) string {
	switch minutes := int(d.Round(time.Minute).Minutes()); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case minutes < 120:
		return fmt.Sprintf("%d min", minutes)
	default:
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	}
}
