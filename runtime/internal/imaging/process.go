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
	// startTimeout is how long a worker may take to greet.
	startTimeout = 20 * time.Second
	// endGrace is how long a worker may take to leave when it is asked to.
	endGrace = 2 * time.Second
	// What of a worker's standard error goes into the log.
	maxLogLines = 20
	maxLogLine  = 300
)

var errTimeout = errors.New("it took too long")

// process is a running worker. One goroutine at a time uses it; kill may come from any.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Closer
	reader *protocol.Reader
	writer *protocol.Writer
	locked protocol.Layers

	jobs  int           // that it did
	ended chan struct{} // closed when it has ended; then state is there
	state string
	late  atomic.Bool // killed because it took too long
}

// start runs a worker and waits for its greeting. The calling goroutine must be
// locked to its thread and stay so for as long as the worker lives: the kernel kills
// the worker when that thread ends.
func start(ctx context.Context, path string, memory int64, log *slog.Logger) (*process, error) {
	cmd := exec.Command(path, "--memory="+strconv.FormatInt(memory, 10)) //nolint:gosec,noctx // the path comes from configuration; a worker outlives the job that it was started for
	cmd.Dir = "/"
	// Nothing of our environment: it holds the service's secrets.
	cmd.Env = []string{
		"LC_ALL=C.UTF-8",
		"GOTRACEBACK=none",          // a crash's registers and stacks may hold a piece of a file
		"MALLOC_ARENA_MAX=2",        // half the memory, no slower: one thread does the work
		"VIPS_CONCURRENCY=1",        // one core for each worker
		"VIPS_DISC_THRESHOLD=1000g", // no temporary files: there is no place for any
		"VIPS_BLOCK_UNTRUSTED=1",    // a second lock on the loaders that the worker takes off by list
		"G_MESSAGES_DEBUG=",         // glib says nothing
		"GOMAXPROCS=2",              // the worker's Go code only moves bytes
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
	p := &process{cmd: cmd, in: in, out: out, reader: protocol.NewReader(out), writer: protocol.NewWriter(in), ended: make(chan struct{})}
	go p.wait()
	go relay(stderr, log.With("worker", cmd.Process.Pid))

	alarm := time.AfterFunc(startTimeout, p.timeOut)
	defer alarm.Stop()
	defer context.AfterFunc(ctx, p.kill)()
	hello, err := p.greeting()
	if err != nil {
		p.discard()
		return nil, fmt.Errorf("the image worker did not greet: %w (%s)", err, p.why())
	}
	p.locked = hello.Locked
	return p, nil
}

func (p *process) greeting() (protocol.Hello, error) {
	frame, err := p.reader.Next()
	if err != nil {
		return protocol.Hello{}, err
	}
	hello, err := frame.Hello()
	if err == nil && hello.Version != protocol.Version {
		err = fmt.Errorf("it speaks version %d of the protocol, not %d: it is of another build", hello.Version, protocol.Version)
	}
	return hello, err
}

// wait reaps the worker.
func (p *process) wait() {
	state, err := p.cmd.Process.Wait()
	if p.state = state.String(); err != nil {
		p.state = err.Error()
	}
	close(p.ended)
}

// relay logs the first lines of a worker's standard error, and drops the rest.
func relay(stderr io.ReadCloser, log *slog.Logger) {
	defer stderr.Close()
	lines := bufio.NewReaderSize(stderr, maxLogLine)
	for logged := 0; logged < maxLogLines; {
		line, more, err := lines.ReadLine()
		if err != nil {
			return
		}
		if text := strings.TrimSpace(printable(string(line))); text != "" {
			log.Warn("the image worker says", "text", text)
			logged++
		}
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
	}
	_, _ = io.Copy(io.Discard, stderr)
}

// kill ends the worker at once. A worker that has ended already is no error.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// timeOut kills a worker that is late.
func (p *process) timeOut() {
	p.late.Store(true)
	p.kill()
}

// stop asks the worker to leave, and makes it.
func (p *process) stop() {
	_ = p.in.Close()
	alarm := time.AfterFunc(endGrace, p.kill)
	defer alarm.Stop()
	<-p.ended
	_ = p.out.Close()
}

// discard ends a worker that is not to be trusted any more.
func (p *process) discard() {
	p.kill()
	<-p.ended
	_ = p.in.Close()
	_ = p.out.Close()
}

// why says what became of a worker that was killed or ended by itself.
func (p *process) why() string {
	if p.late.Load() {
		return errTimeout.Error()
	}
	return p.state
}

// resident returns the bytes of memory that the worker holds; 0 when that can't be told.
func (p *process) resident() int64 {
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
