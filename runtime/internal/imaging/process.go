package imaging

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"mediastack.dev/runtime/internal/imaging/protocol"
)

const (
	// startTimeout is how long a worker may take to send its handshake.
	startTimeout = 20 * time.Second
	// stopGrace is how long a worker may take to exit when its input is closed.
	stopGrace = 2 * time.Second
	// Bounds of the standard error of a worker that is logged.
	maxLogLines = 20
	maxLogLine  = 300
)

var errTimeout = errors.New("timed out")

// process is a running worker process. It is used by one goroutine at a time; kill may be
// called by any.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     io.Closer
	reader  *protocol.Reader
	writer  *protocol.Writer
	sandbox protocol.Layers
	// formats can be read, and encoders are those that pictures can be made in.
	formats, encoders protocol.Formats

	jobs     int           // that it did
	exited   chan struct{} // closed when it has exited and state is set
	state    string
	timedOut atomic.Bool // it was killed by a timeout
}

// start starts a worker and waits for its handshake. The calling goroutine must be locked
// to its thread while the worker runs: the kernel kills the worker when that thread ends.
func start(ctx context.Context, path string, memory int64, log *slog.Logger) (*process, error) {
	cmd := exec.Command(path, "--memory="+strconv.FormatInt(memory, 10)) //nolint:gosec,noctx // the path comes from configuration; a worker outlives the job that it is started for
	cmd.Dir = "/"
	// The environment of the service holds secrets.
	cmd.Env = []string{
		"LC_ALL=C.UTF-8",
		"GOTRACEBACK=none",                      // registers and stacks may hold parts of a file
		"MALLOC_ARENA_MAX=2",                    // half the memory, and no slower: one thread does the work
		"GLIBC_TUNABLES=glibc.malloc.hugetlb=1", // fewer page faults: 1 to 2 % of a conversion
		"VIPS_CONCURRENCY=1",                    // one core for each worker
		"VIPS_DISC_THRESHOLD=1000g",             // no temporary files: the sandbox allows none
		"VIPS_BLOCK_UNTRUSTED=1",                // besides the list of loaders that the worker enables
		"G_MESSAGES_DEBUG=",                     // no output of glib
		"GOMAXPROCS=2",                          // the Go code of the worker only copies bytes
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the image worker: %w", err)
	}
	p := &process{cmd: cmd, in: in, out: out, reader: protocol.NewReader(out), writer: protocol.NewWriter(in), exited: make(chan struct{})}
	go p.wait()
	go logStderr(stderr, log.With("worker", cmd.Process.Pid))

	timer := time.AfterFunc(startTimeout, p.killTimedOut)
	defer timer.Stop()
	defer context.AfterFunc(ctx, p.kill)()
	handshake, err := p.handshake()
	if err != nil {
		p.terminate()
		return nil, fmt.Errorf("handshake of the image worker: %w (%s)", err, p.exitReason())
	}
	p.sandbox, p.formats, p.encoders = handshake.Sandbox, handshake.Formats, handshake.Encoders
	return p, nil
}

// handshake reads the handshake, and checks its version.
func (p *process) handshake() (protocol.Handshake, error) {
	frame, err := p.reader.Next()
	if err != nil {
		return protocol.Handshake{}, err
	}
	handshake, err := frame.Handshake()
	if err == nil && handshake.Version != protocol.Version {
		err = fmt.Errorf("its protocol version is %d, not %d: it is of another build", handshake.Version, protocol.Version)
	}
	return handshake, err
}

// wait waits for the exit of the process and records its state.
func (p *process) wait() {
	state, err := p.cmd.Process.Wait()
	if p.state = state.String(); err != nil {
		p.state = err.Error()
	}
	close(p.exited)
}

// logStderr logs the first lines of a worker's standard error, and discards the rest.
func logStderr(stderr io.ReadCloser, log *slog.Logger) {
	defer stderr.Close()
	lines := bufio.NewReaderSize(stderr, maxLogLine)
	for logged := 0; logged < maxLogLines; {
		line, more, err := lines.ReadLine()
		if err != nil {
			return
		}
		if text := strings.TrimSpace(sanitize(string(line))); text != "" {
			log.Warn("image worker stderr", "text", text)
			logged++
		}
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
	}
	_, _ = io.Copy(io.Discard, stderr)
}

// kill kills the process without waiting. It ignores that the process may have exited.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// killTimedOut kills the process and records that it timed out.
func (p *process) killTimedOut() {
	p.timedOut.Store(true)
	p.kill()
}

// stop closes the input of the process and waits for its exit. After stopGrace the process
// is killed.
func (p *process) stop() {
	_ = p.in.Close()
	timer := time.AfterFunc(stopGrace, p.kill)
	defer timer.Stop()
	<-p.exited
	_ = p.out.Close()
}

// terminate kills the process and waits for its exit.
func (p *process) terminate() {
	p.kill()
	<-p.exited
	_ = p.in.Close()
	_ = p.out.Close()
}

// exitReason returns why the process exited.
func (p *process) exitReason() string {
	if p.timedOut.Load() {
		return errTimeout.Error()
	}
	return p.state
}

// rss returns the resident memory of the process in bytes, 0 if it is unknown.
func (p *process) rss() int64 {
	statm, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
