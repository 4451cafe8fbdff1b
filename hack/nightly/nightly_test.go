package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
)

var must = check.NoError

// checkout is a repository of its own, with a program that takes the place of make.
type checkout struct {
	*nightly
	out      *check.Buffer
	progress chan time.Time
}

// scripts are what targets do, by their names. The checkout is the working directory, and without a script a target passes.
type scripts map[string]string

// newCheckout makes a repository with one commit and the steps one, two and three. The target machine checks that three can run.
func newCheckout(t *testing.T, targets scripts) *checkout {
	t.Helper()
	root := t.TempDir()
	for name, text := range targets {
		must(t, os.WriteFile(filepath.Join(root, name+".sh"), []byte(text), 0o600))
	}
	// Called as make -C ROOT TARGET.
	program := filepath.Join(t.TempDir(), "make")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\nset -e\ncd \"$2\"\n[ ! -e \"$3.sh\" ] || . \"./$3.sh\"\n"), 0o700))
	made := &checkout{out: &check.Buffer{}, progress: make(chan time.Time)}
	made.nightly = &nightly{
		root: root, make: program, out: made.out, progress: made.progress, getenv: func(string) string { return "" },
		steps: []step{
			{target: "one", usual: 10 * time.Minute},
			{target: "two", usual: 3 * time.Hour},
			{target: "three", usual: time.Minute, machine: "machine"},
		},
	}
	must(t, os.WriteFile(filepath.Join(root, ".gitignore"), []byte(".mediastack\nran\n"), 0o600))
	made.git(t, "init", "--quiet")
	made.commitAll(t)
	return made
}

func (c *checkout) git(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"}, args...)...)
	command.Dir = c.root
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, output)
	}
}

func (c *checkout) commitAll(t *testing.T) {
	t.Helper()
	c.git(t, "add", "--all")
	c.git(t, "commit", "--quiet", "--allow-empty", "--message", "files: change")
}

// varying are the times, commits and folders in what is printed. They become T, COMMIT and LOGS.
var varying = []struct {
	found *regexp.Regexp
	name  string
}{
	{regexp.MustCompile(`\d\d\d\d-\d\d-\d\d \d\d:\d\d|\b\d\d:\d\d\b|\b\d+ s\b`), "T"},
	{regexp.MustCompile(`\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b`), "COMMIT"},
	{regexp.MustCompile(`/\S*/nightly-logs/`), "LOGS/"},
}

// night runs the command, and returns its exit status and what it prints.
func (c *checkout) night(ctx context.Context, args ...string) (status int, printed string) {
	before := len(c.out.String())
	status = c.run(ctx, args, c.out)
	printed = c.out.String()[before:]
	for _, one := range varying {
		printed = one.found.ReplaceAllString(printed, one.name)
	}
	return status, printed
}

// expect runs the command and compares its exit status and what it prints.
func (c *checkout) expect(t *testing.T, status int, want string, args ...string) {
	t.Helper()
	if got, printed := c.night(t.Context(), args...); got != status || printed != want {
		t.Errorf("nightly %q ends with %d instead of %d, and prints\n%s\ninstead of\n%s", args, got, status, printed, want)
	}
}

// ran returns the targets that have run, where their scripts say so.
func (c *checkout) ran(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(c.root, "ran"))
	must(t, err)
	must(t, os.Remove(filepath.Join(c.root, "ran")))
	return strings.Join(strings.Fields(string(content)), " ")
}

func TestSteps_AreTargetsOfTheMakefile(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	must(t, err)
	for _, s := range steps {
		for _, target := range []string{s.target, s.machine} {
			if target != "" && !regexp.MustCompile(`(?m)^`+target+`:`).Match(makefile) {
				t.Errorf("the Makefile has no target %s", target)
			}
		}
		if s.usual == 0 {
			t.Errorf("nothing says how long %s takes", s.target)
		}
	}
	for _, name := range selections {
		if !regexp.MustCompile(`\b` + name + `\b`).Match(makefile) {
			t.Errorf("the Makefile has no variable %s", name)
		}
	}
}

func TestRun_SaysHowEachStepEnded(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, scripts{
		"one": "echo 'note: one store is not installed'; echo done",
		"two": "echo '--- FAIL: TestFirst (0.1s)'; seq 30; echo broken; exit 1",
	})
	c.expect(t, exitFailed, `nightly: 3 steps, about 3 h 11 min
nightly: one (1 of 3) begins at T. It usually takes 10 min; with the steps after it, 3 h 11 min. Output: LOGS/one.log
nightly: one passed in T, with T of processor time
    note: one store is not installed
nightly: two (2 of 3) begins at T. It usually takes 3 h 0 min; with the steps after it, 3 h 1 min. Output: LOGS/two.log
nightly: two FAILED in T, with T of processor time
    --- FAIL: TestFirst (0.1s)
    `+strings.Join(strings.Fields("12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30"), "\n    ")+`
    broken
nightly: three (3 of 3) begins at T. It usually takes T; with the steps after it, T. Output: LOGS/three.log
nightly: three passed in T, with T of processor time
nightly: 2 of 3 steps passed in T
nightly: failed: two
nightly: on COMMIT these have not passed, and make nightly CONTINUE=1 runs them: two
`)
}

func TestRun_SaysBeforeAllStepsWhatTheMachineCannotRun(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, scripts{"machine": "echo machine >>ran; echo 'it needs root'; exit 3", "one": "echo one >>ran", "three": "echo three >>ran"})
	c.expect(t, exitFailed, `nightly: 2 steps, about 11 min
nightly: make machine says that this machine cannot run three:
    it needs root
nightly: one (1 of 1) begins at T. It usually takes 10 min; with the steps after it, 10 min. Output: LOGS/one.log
nightly: one passed in T, with T of processor time
nightly: 1 of 2 steps passed in T
nightly: cannot run on this machine: three
nightly: on COMMIT these have not passed, and make nightly CONTINUE=1 runs them: two, three
`, "one", "three")
	if got := c.ran(t); got != "machine one" {
		t.Errorf("%s ran", got)
	}
}

func TestContinue_LeavesOutWhatHasPassedOnTheCommit(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, scripts{"one": "echo one >>ran", "two": "echo two >>ran; [ -e .mediastack/repaired ]", "three": "echo three >>ran"})
	if status, _ := c.night(t.Context()); status != exitFailed {
		t.Errorf("it ends with %d", status)
	}
	if got := c.ran(t); got != "one two three" {
		t.Errorf("%s ran", got)
	}
	must(t, os.WriteFile(filepath.Join(c.root, ".mediastack", "repaired"), nil, 0o600))
	c.expect(t, 0, `nightly: 1 step, about 3 h 0 min
nightly: two (1 of 1) begins at T. It usually takes 3 h 0 min; with the steps after it, 3 h 0 min. Output: LOGS/two.log
nightly: two passed in T, with T of processor time
nightly: 1 of 1 step passed in T
nightly: all steps have passed on COMMIT: make release goes on
`, "--continue")
	if got := c.ran(t); got != "two" {
		t.Errorf("%s ran", got)
	}
	c.expect(t, 0, "nightly: all of these steps have passed on COMMIT\n", "--continue")
	c.expect(t, 0, "one              passed at T in T, on this commit\ntwo              passed at T in T, on this commit\nthree            passed at T in T, on this commit\n", "--status")

	c.commitAll(t)
	c.expect(t, exitFailed, "one              passed at T in T\n", "--status", "one")
	if status, _ := c.night(t.Context(), "--continue"); status != 0 {
		t.Errorf("on the next commit it ends with %d", status)
	}
	if got := c.ran(t); got != "one two three" {
		t.Errorf("on the next commit %s ran", got)
	}
}

func TestStatus_CountsTheLastRunOfAStep(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, scripts{"one": "[ ! -e .mediastack/broken ]"})
	c.expect(t, exitFailed, "one              has not run\n", "--status", "one")
	if status, _ := c.night(t.Context(), "one"); status != 0 {
		t.Errorf("it ends with %d", status)
	}
	c.expect(t, 0, "one              passed at T in T, on this commit\n", "--status", "one")
	must(t, os.WriteFile(filepath.Join(c.root, ".mediastack", "broken"), nil, 0o600))
	if status, _ := c.night(t.Context(), "one"); status != exitFailed {
		t.Errorf("the step that fails ends with %d", status)
	}
	c.expect(t, exitFailed, "one              failed at T in T, on this commit\n", "--status", "one")
}

func TestRecord_HasNoRunThatProvesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*testing.T, *checkout)
		want   string
	}{
		"with changes beside the commit": {
			func(t *testing.T, c *checkout) {
				must(t, os.WriteFile(filepath.Join(c.root, ".gitignore"), []byte(".mediastack\n"), 0o600))
			}, "nightly: there are changes that are not committed, so make release needs all steps again\n"},
		"of another commit when it ended": {
			func(t *testing.T, c *checkout) {
				must(t, os.WriteFile(filepath.Join(c.root, "one.sh"), []byte("git -c user.name=Test -c user.email=test@example.org commit --quiet --allow-empty --message 'files: change again'"), 0o600))
				c.commitAll(t)
			}, "nightly: on COMMIT these have not passed, and make nightly CONTINUE=1 runs them: one, two, three\n"},
		"of a part of a step": {
			func(_ *testing.T, c *checkout) {
				c.getenv = func(name string) string { return map[string]string{"FUZZTIME": "5s"}[name] }
			}, "nightly: with FUZZTIME=5s a step is not whole: no result is recorded\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCheckout(t, scripts{"one": ":"})
			test.change(t, c)
			status, printed := c.night(t.Context(), "one")
			if status != 0 || !strings.Contains(printed, test.want) {
				t.Errorf("it ends with %d, and prints\n%s\nwithout\n%s", status, printed, test.want)
			}
			if status, printed := c.night(t.Context(), "--status", "one"); status != exitFailed || !strings.HasPrefix(printed, "one  ") || strings.Contains(printed, "on this commit") {
				t.Errorf("afterwards --status ends with %d, and prints\n%s", status, printed)
			}
			if status, printed := c.night(t.Context(), "--continue", "one"); status != 0 || !strings.Contains(printed, "one passed") {
				t.Errorf("--continue ends with %d, and prints\n%s", status, printed)
			}
		})
	}
}

func TestEstimate_IsTheTimeOfTheLastRunThatPassed(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, nil)
	must(t, os.WriteFile(filepath.Join(c.root, ".git", "mediastack-nightly.tsv"), []byte(`no result
2026-11-01T00:00:00Z	one	passed	600	900	a
2026-11-02T00:00:00Z	one	passed	1500	900	b
2026-11-03T00:00:00Z	one	failed	60	90	c
2026-11-03T00:00:00Z	one	pas`), 0o600))
	status, printed := c.night(t.Context(), "one", "two")
	for _, want := range []string{
		"nightly: 2 steps, about 3 h 25 min\n",
		"one (1 of 2) begins at T. It took 25 min last time; with the steps after it, 3 h 25 min. Output: ",
		"two (2 of 2) begins at T. It usually takes 3 h 0 min; with the steps after it, 3 h 0 min. Output: ",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in\n%s", want, printed)
		}
	}
	// The half line is that of a machine that stopped: the next result has a line of its own.
	if after, _ := c.night(t.Context(), "--status", "one", "two"); status != 0 || after != 0 {
		t.Errorf("it ends with %d, and --status with %d", status, after)
	}
}

func TestProgress_IsTheLastLineOfTheLog(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, scripts{"one": `echo first; echo "second ` + strings.Repeat("x", 200) + `"; : >.mediastack/printed; while [ ! -e .mediastack/go ]; do sleep 0.01; done`})
	ended := make(chan int, 1)
	go func() {
		status, _ := c.night(t.Context(), "one")
		ended <- status
	}()
	wait.Until(t, "the output of the step", func() bool {
		_, err := os.Stat(filepath.Join(c.root, ".mediastack", "printed"))
		return err == nil
	})
	c.progress <- time.Time{}
	wait.Until(t, "a line of progress", func() bool { return strings.Contains(c.out.String(), "nightly: one runs for ") })
	must(t, os.WriteFile(filepath.Join(c.root, ".mediastack", "go"), nil, 0o600))
	if status := wait.Receive(t, "the end", ended); status != 0 {
		t.Errorf("it ends with %d", status)
	}
	if want := " s: second " + strings.Repeat("x", shownWidth-len("second ")) + "\n"; !strings.Contains(c.out.String(), want) {
		t.Errorf("%q is not in\n%s", want, c.out)
	}
}

func TestInterrupt_EndsTheStepAndKeepsWhatHasPassed(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, scripts{"two": `trap ': >.mediastack/interrupted; exit 1' INT; : >.mediastack/began; while :; do sleep 0.01; done`})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	var printed string
	go func() {
		var status int
		status, printed = c.night(ctx)
		ended <- status
	}()
	wait.Until(t, "the second step", func() bool {
		_, err := os.Stat(filepath.Join(c.root, ".mediastack", "began"))
		return err == nil
	})
	cancel()
	if status := wait.Receive(t, "the end", ended); status != exitInterrupted {
		t.Errorf("it ends with %d", status)
	}
	if _, err := os.Stat(filepath.Join(c.root, ".mediastack", "interrupted")); err != nil {
		t.Errorf("the step got no interrupt: %v", err)
	}
	if want := `nightly: two was interrupted after T
nightly: 1 of 3 steps passed in T
nightly: on COMMIT these have not passed, and make nightly CONTINUE=1 runs them: two, three
`; !strings.HasSuffix(printed, want) {
		t.Errorf("it prints\n%s\nand not at its end\n%s", printed, want)
	}
}

func TestRun_ExplainsItsArguments(t *testing.T) {
	t.Parallel()
	c := newCheckout(t, nil)
	c.expect(t, exitUsage, "nightly: there is no step four; there are one, two, three\n", "one", "four")
	c.expect(t, exitUsage, "nightly: --status and --continue exclude each other\n", "--status", "--continue")
	if status, printed := c.night(t.Context(), "--help"); status != 0 || !strings.HasPrefix(printed, "usage: nightly [--continue | --status] [STEP...]\n") {
		t.Errorf("--help ends with %d, and prints\n%s", status, printed)
	}
}
