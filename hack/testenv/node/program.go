package node

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Program is a script that runs.
type Program struct {
	t              testing.TB
	script         string
	timeout        time.Duration
	ctx            context.Context
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan error
}

// Result is what a program printed and how it ended.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Start starts a script. home is its working and its home directory, where some keep what they remember,
// and env more of its environment. It is killed when the test ends.
func (p *Packages) Start(t testing.TB, timeout time.Duration, home string, env []string, script string, args ...string) *Program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	run := &Program{t: t, script: script, timeout: timeout, ctx: ctx, ended: make(chan error, 1), cmd: exec.CommandContext(ctx, p.program, append([]string{script}, args...)...)}
	run.stdout.more, run.stderr.more = make(chan struct{}), make(chan struct{})
	run.cmd.Dir = home
	// Some look for `node` in the PATH. Nothing else is inherited: no proxy, no secret store of the
	// session, no display to open a browser on.
	run.cmd.Env = append([]string{"PATH=" + filepath.Dir(p.program) + ":" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8", "NO_COLOR=1", "BROWSER=true"}, env...)
	run.cmd.Stdout, run.cmd.Stderr = &run.stdout, &run.stderr
	// A client may start others, which end with it.
	run.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.cmd.Cancel = func() error { return syscall.Kill(-run.cmd.Process.Pid, syscall.SIGKILL) }
	run.cmd.WaitDelay = 10 * time.Second
	must(t, run.cmd.Start())
	gone := make(chan struct{})
	go func() {
		run.ended <- run.cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() { cancel(); <-gone })
	return run
}

// WaitForOutput waits until the program has printed, to either stream, what the pattern matches,
// and returns its first group. A pattern should end with the end of a line.
func (p *Program) WaitForOutput(pattern *regexp.Regexp) string {
	p.t.Helper()
	for {
		stdout, out := p.stdout.read()
		stderr, err := p.stderr.read()
		for _, text := range []string{stdout, stderr} {
			if match := pattern.FindStringSubmatch(text); match != nil {
				return match[1]
			}
		}
		select {
		case <-out:
		case <-err:
		case problem := <-p.ended:
			p.ended <- problem
			p.t.Fatalf("%s ended (%v) and did not print %s: %s%s", p.script, problem, pattern, stdout, stderr)
		case <-p.ctx.Done():
			p.t.Fatalf("%s did not print %s within %s: %s%s", p.script, pattern, p.timeout, stdout, stderr)
		}
	}
}

// Wait waits for the program's end.
func (p *Program) Wait() Result {
	p.t.Helper()
	err := <-p.ended
	p.ended <- err
	stdout, _ := p.stdout.read()
	stderr, _ := p.stderr.read()
	var exit *exec.ExitError
	if p.ctx.Err() != nil {
		p.t.Fatalf("%s did not end within %s: %s%s", p.script, p.timeout, stdout, stderr)
	}
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("%s: %v", p.script, err)
	}
	return Result{Code: p.cmd.ProcessState.ExitCode(), Stdout: stdout, Stderr: stderr}
}

// output is what a program printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed when there is more
}

// Write takes what the program prints.
func (s *output) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.more)
	s.more = make(chan struct{})
	return s.text.Write(p)
}

func (s *output) read() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String(), s.more
}
