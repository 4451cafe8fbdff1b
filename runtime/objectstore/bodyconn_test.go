package objectstore

import (
	"bytes"
	"net"
	"testing"
)

// countedConn counts the system calls that send bytes.
type countedConn struct {
	net.Conn
	writes int
	sent   bytes.Buffer
}

// Write implements net.Conn.
func (c *countedConn) Write(p []byte) (int, error) {
	c.writes++
	return c.sent.Write(p)
}

func TestBodyConn_SendsABodyInLargePieces(t *testing.T) {
	t.Parallel()
	for size, writes := range map[int]int{0: 0, 100_000: 1, writeSize: 1, writeSize + 1: 2, 10 * writeSize: 10} {
		body := bytes.Repeat([]byte("x"), size)
		conn := &countedConn{}
		n, err := (&bodyConn{Conn: conn}).ReadFrom(bytes.NewReader(body))
		if err != nil || n != int64(size) || !bytes.Equal(conn.sent.Bytes(), body) || conn.writes != writes {
			t.Errorf("%d bytes: %d were sent by %d calls, %v; want %d calls", size, n, conn.writes, err, writes)
		}
	}
}
