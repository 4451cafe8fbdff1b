package objectstore

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mediastack.dev/runtime/splice"
)

// writeSize is how many bytes of a body are sent to the store with one system call: all of most
// files.
const writeSize = 128 << 10

type writeBuffer [writeSize]byte

// writeBuffers are used while a body is sent. net/http would allocate 32 KiB for each body.
var writeBuffers = sync.Pool{New: func() any { return new(writeBuffer) }}

// bodyConn is a connection that sends bodies in large pieces. With TLS it makes no difference: a
// record has at most 16 KiB. What it receives may go to a pipe instead of the process.
type bodyConn struct {
	net.Conn
	raw  syscall.RawConn // nil = it can fill no pipe
	pipe atomic.Pointer[splice.Pipe]
}

var _ io.ReaderFrom = (*bodyConn)(nil)

// Read reads into p. If p is the buffer of the pipe, the bytes are in the pipe, and p is unchanged. net/http reads a
// body with a length directly into the buffer of its reader, after what it has read with the header.
func (c *bodyConn) Read(p []byte) (int, error) {
	if pipe := c.pipe.Load(); pipe != nil && pipe.Takes(p) {
		if n := pipe.Fill(c.raw, len(p)); n > 0 {
			return n, nil
		}
	}
	return c.Conn.Read(p)
}

// ReadFrom sends a body. net/http calls it for bodies that are not in the memory of a known type.
func (c *bodyConn) ReadFrom(body io.Reader) (int64, error) {
	buffer, _ := writeBuffers.Get().(*writeBuffer)
	defer writeBuffers.Put(buffer)
	// Neither side may choose another way to copy.
	return io.CopyBuffer(struct{ io.Writer }{c.Conn}, struct{ io.Reader }{body}, buffer[:])
}

// dial opens a connection to the store.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	body := &bodyConn{Conn: conn}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if body.raw, err = tcp.SyscallConn(); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return body, nil
}
