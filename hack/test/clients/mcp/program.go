package mcpclients

import (
	"bytes"
	"context"
	"errors"
	"io"
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
	stdout, stderr spoken
	ended          chan error
}

// Ended is how a program ended.
type Ended struct {
	Code           int
	Stdout, Stderr string
}

// Start starts a script. home is its home folder, where some keep what they were told
// to remember, and env more of its environment. It is killed when the test ends.
func (n *Node) Start(t testing.TB, timeout time.Duration, home string, env []string, script string, args ...string) *Program {
	t.Helper()
	return n.launch(t, timeout, home, nil, env, script, args)
}

func (n *Node) launch(t testing.TB, timeout time.Duration, home string, stdin io.Reader, env []string, script string, args []string) *Program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	p := &Program{t: t, script: script, timeout: timeout, ctx: ctx, ended: make(chan error, 1), cmd: exec.CommandContext(ctx, n.program, append([]string{script}, args...)...)}
	p.stdout.more, p.stderr.more = make(chan struct{}), make(chan struct{})
	p.cmd.Dir = home
	// Some look for `node` in the PATH. Nothing else of the caller's environment is theirs:
	// no proxy, no keyring of the session, no screen to open a browser on.
	p.cmd.Env = append([]string{"PATH=" + filepath.Dir(n.program) + ":" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8", "NO_COLOR=1", "BROWSER=true"}, env...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, &p.stdout, &p.stderr
	// A client may start others, which end with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.WaitDelay = 10 * time.Second
	must(t, p.cmd.Start())
	gone := make(chan struct{})
	go func() {
		p.ended <- p.cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() { cancel(); <-gone })
	return p
}

// Says waits until the program has printed, to either stream, what the pattern matches,
// and returns its first group. A pattern should end with the end of a line.
func (p *Program) Says(pattern *regexp.Regexp) string {
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
			p.t.Fatalf("%s ended (%v) and did not say %s: %s%s", p.script, problem, pattern, stdout, stderr)
		case <-p.ctx.Done():
			p.t.Fatalf("%s did not say %s within %s: %s%s", p.script, pattern, p.timeout, stdout, stderr)
		}
	}
}

// Wait waits for the program's end.
func (p *Program) Wait() Ended {
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
	return Ended{Code: p.cmd.ProcessState.ExitCode(), Stdout: stdout, Stderr: stderr}
}

// spoken is what a program printed so far.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed when there is more
}

// Write takes what the program prints.
func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.more)
	s.more = make(chan struct{})
	return s.text.Write(p)
}

func (s *spoken) read() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String(), s.more
}
