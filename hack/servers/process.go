// Package servers starts and stops the servers that mediastack depends on: etcd, kube-apiserver and
// the controllers of Kubernetes, PostgreSQL, S3 stores and a mail sink, each as a process of its own. The
// dev stack program (hack/devstack), the tests (through testenv) and the benchmarks use it; no
// shipped binary does.
package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	defaultGrace        = 10 * time.Second
	defaultReadyTimeout = 3 * time.Minute
	probePause          = 20 * time.Millisecond
	// How much of a log's end is read to find the lines that explain why a process died.
	logTail = 8 << 10
)

// Spec describes a child process.
type Spec struct {
	// Name is what messages call the process.
	Name string
	// Path and Args are the program and its arguments.
	Path string
	Args []string
	// Env is added to a minimal environment (PATH, HOME, LANG, TZ, TMPDIR of the caller).
	Env []string
	// Dir is the working directory; "/" when empty.
	Dir string
	// LogFile takes what the process prints; it is appended to.
	LogFile string
	// Credential is the user to run as; nil keeps the caller's.
	Credential *syscall.Credential
	// Namespaces are the clone flags of the namespaces that the process gets of its own.
	Namespaces uintptr
	// StopSignal asks the process to end; SIGTERM when zero.
	StopSignal syscall.Signal
	// OrphanSignal is what the kernel sends when the supervising program dies; SIGKILL when zero.
	OrphanSignal syscall.Signal
	// Grace is how long the process may take to end before it is killed; 10 s when zero.
	Grace time.Duration
	// Ready reports nil as soon as the process can be used. Nil means that it is ready at once.
	Ready func(ctx context.Context) error
	// ReadyTimeout bounds the wait for Ready; 3 min when zero.
	ReadyTimeout time.Duration
}

// Group supervises child processes. All of them share one process group of their own, so that a
// Ctrl-C on the terminal reaches only the supervisor, which ends them in the right order. They die
// if the supervising program is killed.
type Group struct {
	// The kernel sends a child its orphan signal when the thread that forked it ends, so one thread
	// that lives as long as the group forks them all.
	forks chan func()

	mu        sync.Mutex
	pgid      int
	processes []*Process
}

// NewGroup makes an empty group. Close ends it.
func NewGroup() *Group {
	forks := make(chan func())
	go func() {
		runtime.LockOSThread()
		for fork := range forks {
			fork()
		}
	}()
	return &Group{forks: forks}
}

// Process is one running child.
type Process struct {
	spec     Spec
	cmd      *exec.Cmd
	logStart int64
	done     chan struct{}
	// err and stopping are guarded by mu.
	mu       sync.Mutex
	stopping bool
	err      error
}

// ExitError reports that a process ended by itself.
type ExitError struct {
	// Name is the process's name.
	Name string
	// State is how it ended, for example "exit status 1".
	State string
	// LastLine is the end of its log, as one line.
	LastLine string
	// LogFile is where the whole log is.
	LogFile string
}

// Error is one sentence.
func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s stopped by itself (%s)", e.Name, e.State)
	switch {
	case e.LastLine != "":
		text += "; its log " + e.LogFile + " says: " + e.LastLine
	case e.LogFile != "":
		text += "; its log is " + e.LogFile
	}
	return text
}

// Start starts a process and waits until it is ready. If that fails, nothing of it is left running.
func (g *Group) Start(ctx context.Context, spec Spec) (*Process, error) {
	p, err := g.launch(spec)
	if err != nil {
		return nil, err
	}
	if err := p.waitReady(ctx); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Run runs a program to its end. Its error has the exit status and the log's last line.
func (g *Group) Run(ctx context.Context, spec Spec) error {
	p, err := g.launch(spec)
	if err != nil {
		return err
	}
	defer g.forget(p)
	select {
	case <-p.done:
	case <-ctx.Done():
		p.Stop()
		return fmt.Errorf("%s was interrupted: %w", spec.Name, context.Cause(ctx))
	}
	if state := p.cmd.ProcessState; !state.Success() {
		return fmt.Errorf("%s failed (%s); its log %s says: %s", spec.Name, state, spec.LogFile, p.lastLine())
	}
	return nil
}

func (g *Group) forget(p *Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.processes = slices.DeleteFunc(g.processes, func(other *Process) bool { return other == p })
}

func (g *Group) launch(spec Spec) (*Process, error) {
	var log *os.File
	var logStart int64
	if spec.LogFile != "" {
		var err error
		if log, err = os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, fmt.Errorf("open the log of %s: %w", spec.Name, err)
		}
		defer log.Close()
		if logStart, err = log.Seek(0, io.SeekEnd); err != nil {
			return nil, fmt.Errorf("open the log of %s: %w", spec.Name, err)
		}
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	cmd, err := g.fork(spec, log, g.pgid)
	if err != nil && g.pgid != 0 && errors.Is(err, syscall.EPERM) {
		// Every earlier member is gone and their group with them: this child leads a new one.
		cmd, err = g.fork(spec, log, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	if cmd.SysProcAttr.Pgid == 0 {
		g.pgid = cmd.Process.Pid
	}
	p := &Process{spec: spec, cmd: cmd, logStart: logStart, done: make(chan struct{})}
	g.processes = append(g.processes, p)
	go p.wait()
	return p, nil
}

func (g *Group) fork(spec Spec, log *os.File, pgid int) (*exec.Cmd, error) {
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Env = append(minimalEnv(), spec.Env...)
	if log != nil {
		cmd.Stdout, cmd.Stderr = log, log
	}
	orphan := spec.OrphanSignal
	if orphan == 0 {
		orphan = syscall.SIGKILL
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:    true,
		Pgid:       pgid,
		Pdeathsig:  orphan,
		Credential: spec.Credential,
		Cloneflags: spec.Namespaces,
	}
	result := make(chan error)
	g.forks <- func() { result <- cmd.Start() }
	return cmd, <-result
}

// minimalEnv keeps the caller's settings (a proxy, a kubeconfig, PGHOST ...) from changing what the
// servers do.
func minimalEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR", "GOMEMLIMIT", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (p *Process) wait() {
	err := p.cmd.Wait()
	p.mu.Lock()
	if !p.stopping {
		state := "exit status 0"
		if err != nil {
			state = err.Error()
		}
		p.err = &ExitError{Name: p.spec.Name, State: state, LastLine: p.lastLine(), LogFile: p.spec.LogFile}
	}
	p.mu.Unlock()
	close(p.done)
}

func (p *Process) waitReady(ctx context.Context) error {
	if p.spec.Ready == nil {
		return nil
	}
	timeout := p.spec.ReadyTimeout
	if timeout == 0 {
		timeout = defaultReadyTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it was not ready after %s", timeout))
	defer cancel()
	for {
		probe, cancelProbe := context.WithTimeout(ctx, 5*time.Second)
		last := p.spec.Ready(probe)
		cancelProbe()
		if last == nil {
			// Another process may have answered on a port that this one failed to get.
			select {
			case <-p.done:
				return p.Err()
			default:
				return nil
			}
		}
		select {
		case <-p.done:
			return p.Err()
		case <-ctx.Done():
			text := fmt.Sprintf("%s did not start: %v; last answer: %v", p.spec.Name, context.Cause(ctx), last)
			if line := p.lastLine(); line != "" {
				text += "; last line of " + p.spec.LogFile + ": " + line
			}
			return errors.New(text)
		case <-time.After(probePause):
		}
	}
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogFile is where the process's output goes.
func (p *Process) LogFile() string { return p.spec.LogFile }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is nil while the process runs and after Stop or Kill, and an *ExitError after it ended by itself.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Stop asks the process to end, kills it when its grace is over, and returns when it is gone.
func (p *Process) Stop() {
	signal := p.spec.StopSignal
	if signal == 0 {
		signal = syscall.SIGTERM
	}
	grace := p.spec.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	p.expectEnd()
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.done:
		return
	case <-time.After(grace):
	}
	p.Kill()
}

// Kill ends the process at once, as a crash would, and returns when it is gone.
func (p *Process) Kill() {
	p.expectEnd()
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *Process) expectEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
}

// lastLine returns the line of this run's log that explains most: the last one with a failure,
// else the last one.
func (p *Process) lastLine() string {
	if p.spec.LogFile == "" {
		return ""
	}
	file, err := os.Open(p.spec.LogFile)
	if err != nil {
		return ""
	}
	defer file.Close()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	tail, err := io.ReadAll(io.NewSectionReader(file, max(p.logStart, end-logTail), logTail))
	if err != nil {
		return ""
	}
	last := ""
	lines := bytes.Split(bytes.TrimSpace(tail), []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(string(lines[i]))
		if last == "" {
			last = line
		}
		lower := strings.ToLower(line)
		for _, word := range []string{"address already in use", "fatal", "panic:", "error:"} {
			if strings.Contains(lower, word) {
				return shorten(line)
			}
		}
	}
	return shorten(last)
}

func shorten(line string) string {
	const limit = 400
	if len(line) > limit {
		return line[:limit] + "..."
	}
	return line
}

// Dead waits until any process of the group ends by itself, and returns its *ExitError; it returns
// nil when the context ends first. Processes that are started later are not watched by it.
func (g *Group) Dead(ctx context.Context) error {
	g.mu.Lock()
	processes := slices.Clone(g.processes)
	g.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan error)
	for _, p := range processes {
		go func() {
			select {
			case <-p.Done():
				if err := p.Err(); err != nil {
					select {
					case first <- err:
					case <-ctx.Done():
					}
				}
			case <-ctx.Done():
			}
		}()
	}
	select {
	case err := <-first:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Close stops what still runs, last started first, makes sure that nothing of the group is left,
// and ends the group.
func (g *Group) Close() {
	g.mu.Lock()
	processes := slices.Clone(g.processes)
	g.mu.Unlock()
	for i := len(processes) - 1; i >= 0; i-- {
		processes[i].Stop()
	}
	g.KillAll()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forks != nil {
		close(g.forks)
		g.forks = nil
	}
}

// KillAll ends every process of the group at once, children of children included, and returns when
// they are gone.
func (g *Group) KillAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.processes {
		p.expectEnd()
		_ = p.cmd.Process.Kill()
	}
	if g.pgid != 0 {
		_ = syscall.Kill(-g.pgid, syscall.SIGKILL)
	}
	for _, p := range g.processes {
		<-p.done
	}
}
