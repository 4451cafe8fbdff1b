// Package splice passes the bytes of one TCP connection to another one inside of the kernel (splice(2)): the process
// neither copies nor sees them.
package splice

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// MinLength is the length of the shortest body that is worth a pipe. Shorter ones take a few system calls either way.
const MinLength = 1 << 20

const (
	// bufferSize is the length of Buffer, and the most that a Pipe takes at once. Larger ones are not faster.
	bufferSize = 128 << 10
	// A connection that is not ready is awaited by Go's poller, not by a thread.
	flags = unix.SPLICE_F_MOVE | unix.SPLICE_F_NONBLOCK
)

// Pipe is a pipe of the kernel, between a connection that is read and one that is written.
//
// A reader of a body reads into Buffer. Each read either takes bytes into the pipe, of which Held then returns the number, or
// copies bytes into Buffer, and Held returns 0. So net/http parses the response, and bounds its body, as always.
//
// A Pipe is not safe for concurrent use.
type Pipe struct {
	buffer  []byte
	ends    ends
	held    int
	passed  int64
	cleanup runtime.Cleanup
}

// ends are the file descriptors of a pipe.
type ends struct{ read, write int }

func (e ends) close() {
	_ = unix.Close(e.read)
	_ = unix.Close(e.write)
}

// pipes are empty. The garbage collector closes those that nobody needs.
var pipes sync.Pool

// New returns an empty pipe, which the caller releases. It fails if the process has no more file descriptors, or its user has
// too many pipes: smaller ones than these are slower than a copy.
func New() (*Pipe, error) {
	if p, ok := pipes.Get().(*Pipe); ok {
		p.passed = 0
		return p, nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	p := &Pipe{buffer: make([]byte, bufferSize), ends: ends{fds[0], fds[1]}}
	if _, err := unix.FcntlInt(uintptr(p.ends.write), unix.F_SETPIPE_SZ, bufferSize); err != nil {
		p.ends.close()
		return nil, os.NewSyscallError("F_SETPIPE_SZ", err)
	}
	p.cleanup = runtime.AddCleanup(p, ends.close, p.ends)
	return p, nil
}

// Release makes the pipe available to others. One that holds bytes is closed.
func (p *Pipe) Release() {
	if p.held == 0 {
		pipes.Put(p)
		return
	}
	p.cleanup.Stop()
	p.ends.close()
}

// Buffer returns the buffer to read into.
func (p *Pipe) Buffer() []byte { return p.buffer }

// Held returns how many bytes are in the pipe.
func (p *Pipe) Held() int { return p.held }

// Passed returns how many bytes the kernel has passed to connections since New.
func (p *Pipe) Passed() int64 { return p.passed }

// Takes reports whether a read into b may fill the pipe instead: whether b begins where Buffer does.
func (p *Pipe) Takes(b []byte) bool { return len(b) > 0 && &b[0] == &p.buffer[0] }

// Fill waits until a connection has bytes, and takes up to n of them. The pipe must be empty. It returns 0 at the end of the
// stream, and if it fails: a read of the connection returns the reason.
func (p *Pipe) Fill(from syscall.RawConn, n int) int {
	moved := whenReady(from.Read, func(fd int) (int64, error) { return unix.Splice(fd, nil, p.ends.write, nil, n, flags) })
	p.held += moved
	return moved
}

// WriteTo writes all that the pipe holds. It implements io.WriterTo, which net.TCPConn calls for the body of a response. A
// writer that is no connection, or to which the kernel does not pass the bytes, gets a copy.
func (p *Pipe) WriteTo(w io.Writer) (written int64, err error) {
	if conn, ok := w.(syscall.Conn); ok {
		to, err := conn.SyscallConn()
		if err != nil {
			return 0, err
		}
		for p.held > 0 {
			moved := whenReady(to.Write, func(fd int) (int64, error) { return unix.Splice(p.ends.read, nil, fd, nil, p.held, flags) })
			if moved == 0 {
				break // the write below returns the reason
			}
			p.held -= moved
			written += int64(moved)
		}
		p.passed += written
	}
	copied, err := io.Copy(struct{ io.Writer }{w}, struct{ io.Reader }{p})
	return written + copied, err
}

// Read copies bytes out of the pipe. It returns io.EOF if the pipe is empty.
func (p *Pipe) Read(b []byte) (int, error) {
	if p.held == 0 {
		return 0, io.EOF
	}
	n, err := unix.Read(p.ends.read, b[:min(len(b), p.held)]) // it holds bytes, so nothing interrupts a wait
	if err != nil {
		return 0, os.NewSyscallError("read", err)
	}
	p.held -= n
	return n, nil
}

// whenReady calls splice when a connection is ready, and returns how many bytes it has moved.
func whenReady(wait func(func(uintptr) bool) error, splice func(fd int) (int64, error)) (moved int) {
	_ = wait(func(fd uintptr) bool {
		for {
			n, err := splice(int(fd))
			switch {
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				return false
			default:
				moved = int(max(n, 0))
				return true
			}
		}
	})
	return moved
}

type contextKey struct{}

// WithPipe returns a context whose reads of an object may fill a pipe. The object must be closed before the pipe is released.
func WithPipe(ctx context.Context, p *Pipe) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the pipe of WithPipe, nil if there is none.
func FromContext(ctx context.Context) *Pipe {
	p, _ := ctx.Value(contextKey{}).(*Pipe)
	return p
}
