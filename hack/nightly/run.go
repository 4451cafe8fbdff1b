package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"mediastack.dev/hack/processgroup"
)

// runSteps runs the steps, prints how each ended, and returns the exit status.
func (n *nightly) runSteps(ctx context.Context, chosen []step) (int, error) {
	// A dev stack has its secrets in the folder above it.
	if err := os.MkdirAll(n.logs(), 0o700); err != nil {
		return 0, err
	}
	selected := n.selected()
	n.printf("%s, about %s", count(len(chosen)), duration(n.remaining(chosen)))
	if selected != "" {
		n.printf("with %s a step is not whole: no result is recorded", selected)
	}
	begun := time.Now()
	possible, impossible, err := n.checkMachine(ctx, chosen)
	if err != nil {
		return 0, err
	}
	var passed, failed []string
	for i, s := range possible {
		if ctx.Err() != nil {
			break
		}
		takes, measured := n.record.estimate(s)
		estimate := "It usually takes " + duration(takes)
		if measured {
			estimate = "It took " + duration(takes) + " last time"
		}
		n.printf("%s (%d of %d) begins at %s. %s; with the steps after it, %s. Output: %s",
			s.target, i+1, len(possible), time.Now().Format("15:04"), estimate, duration(n.remaining(possible[i:])), n.log(s.target))
		one, err := n.runStep(ctx, s, selected == "")
		switch {
		case err != nil:
			return 0, err
		case ctx.Err() != nil: // how it ended says nothing
		case one.passed:
			passed = append(passed, s.target)
		default:
			failed = append(failed, s.target)
		}
	}
	n.printf("%d of %s passed in %s", len(passed), count(len(chosen)), duration(time.Since(begun)))
	if len(failed) > 0 {
		n.printf("failed: %s", strings.Join(failed, ", "))
	}
	if len(impossible) > 0 {
		n.printf("cannot run on this machine: %s", strings.Join(impossible, ", "))
	}
	if selected == "" {
		if err := n.printMissing(context.WithoutCancel(ctx)); err != nil {
			return 0, err
		}
	}
	switch {
	case ctx.Err() != nil:
		return exitInterrupted, nil
	case len(passed) < len(chosen):
		return exitFailed, nil
	}
	return 0, nil
}

// selected returns the variables that make steps less than they are.
func (n *nightly) selected() string {
	var found []string
	for _, name := range selections {
		if value := n.getenv(name); value != "" {
			found = append(found, name+"="+value)
		}
	}
	return strings.Join(found, " ")
}

// remaining returns how long the steps take together.
func (n *nightly) remaining(of []step) (sum time.Duration) {
	for _, s := range of {
		takes, _ := n.record.estimate(s)
		sum += takes
	}
	return sum
}

// checkMachine separates the steps that this machine cannot run, and prints why it cannot.
func (n *nightly) checkMachine(ctx context.Context, chosen []step) (possible []step, impossible []string, err error) {
	problems := map[string]bool{"": false}
	for _, s := range chosen {
		problem, checked := problems[s.machine]
		if !checked {
			state, err := n.runTarget(ctx, s.machine)
			if err != nil {
				return nil, nil, err
			}
			problem = !state.Success()
			problems[s.machine] = problem
			if problem && ctx.Err() == nil {
				n.printf("make %s says that this machine cannot run %s:", s.machine, s.target)
				n.printEnd(n.log(s.machine))
			}
		}
		if problem {
			impossible = append(impossible, s.target)
		} else {
			possible = append(possible, s)
		}
	}
	return possible, impossible, nil
}

// runStep runs a step and prints how it ended.
func (n *nightly) runStep(ctx context.Context, s step, whole bool) (result, error) {
	before, err := n.commit(ctx)
	if err != nil {
		return result{}, ctxOr(ctx, err)
	}
	begun := time.Now()
	state, err := n.runTarget(ctx, s.target)
	if err != nil {
		return result{}, err
	}
	one := result{step: s.target, passed: state.Success(), elapsed: time.Since(begun), processor: state.UserTime() + state.SystemTime(), ended: time.Now()}
	if ctx.Err() != nil {
		n.printf("%s was interrupted after %s", s.target, duration(one.elapsed))
		return one, nil
	}
	n.printf("%s %s in %s, with %s of processor time", s.target, strings.Replace(one.verb(), "failed", "FAILED", 1), duration(one.elapsed), duration(one.processor))
	n.printNotes(n.log(s.target))
	if !one.passed {
		n.printEnd(n.log(s.target))
	}
	if !whole {
		return one, nil
	}
	after, err := n.commit(ctx)
	if err != nil {
		return one, ctxOr(ctx, err)
	}
	if before == after {
		one.commit = before
	}
	return one, n.record.add(one)
}

// ctxOr returns no error of what an interrupt has ended.
func ctxOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// runTarget runs a target of the Makefile, with its output in its log, and says now and then how far it is.
func (n *nightly) runTarget(ctx context.Context, target string) (state *os.ProcessState, err error) {
	log, err := os.Create(n.log(target))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	begun := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		state, err = processgroup.Run(ctx, []string{n.make, "-C", n.root, target}, nil, log)
	}()
	for {
		select {
		case <-done:
			return state, err
		case <-n.progress:
			n.printf("%s runs for %s: %s", target, duration(time.Since(begun)), lastLine(n.log(target)))
		}
	}
}

// printMissing prints which steps have not passed on the commit that is checked out.
func (n *nightly) printMissing(ctx context.Context) error {
	commit, err := n.commit(ctx)
	if err != nil {
		return err
	}
	var missing []string
	for _, s := range n.steps {
		if !n.record.passedOn(s.target, commit) {
			missing = append(missing, s.target)
		}
	}
	switch {
	case strings.HasSuffix(commit, dirty):
		n.printf("there are changes that are not committed, so make release needs all steps again")
	case len(missing) > 0:
		n.printf("on %.12s these have not passed, and make nightly CONTINUE=1 runs them: %s", commit, strings.Join(missing, ", "))
	default:
		n.printf("all steps have passed on %.12s: make release goes on", commit)
	}
	return nil
}

const (
	// shownLines are the last lines of a log that are printed, and shownFailures the most lines before them that name failures.
	shownLines, shownFailures = 20, 20
	// shownWidth is the most of a line that tells how far a step is.
	shownWidth = 160
)

// failure is a line of go test or make that names what failed.
var failure = regexp.MustCompile(`^(\s*--- FAIL: |FAIL\s|panic: |WARNING: DATA RACE|fuzz: failed: )`)

// readLines returns the lines of a log. A log that cannot be read has one that says so.
func readLines(path string) []string {
	content, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	return strings.Split(strings.TrimRight(string(bytes.ToValidUTF8(content, []byte("?"))), "\n"), "\n")
}

// printEnd prints the lines of a log that name failures, and its end.
func (n *nightly) printEnd(path string) {
	lines := readLines(path)
	end := max(0, len(lines)-shownLines)
	var failures []string
	for _, line := range lines[:end] {
		if failure.MatchString(line) && len(failures) < shownFailures {
			failures = append(failures, line)
		}
	}
	for _, line := range append(failures, lines[end:]...) {
		fmt.Fprintf(n.out, "    %s\n", line)
	}
}

// printNotes prints the lines of a log in which a step says what it left out.
func (n *nightly) printNotes(path string) {
	for _, line := range readLines(path) {
		if strings.HasPrefix(line, "note: ") {
			fmt.Fprintf(n.out, "    %s\n", line)
		}
	}
}

// lastLine returns the last line of a log.
func lastLine(path string) string {
	lines := readLines(path)
	line := []rune(strings.TrimSpace(lines[len(lines)-1]))
	return string(line[:min(len(line), shownWidth)])
}

// count names a number of steps.
func count(number int) string {
	if number == 1 {
		return "1 step"
	}
	return fmt.Sprintf("%d steps", number)
}
