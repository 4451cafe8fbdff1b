package splice_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/splice"
)

var must = check.NoError

// connect returns both ends of a TCP connection.
func connect(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	dialed, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	must(t, err)
	accepted, err := listener.Accept()
	must(t, err)
	t.Cleanup(func() { _, _ = dialed.Close(), accepted.Close() })
	return accepted.(*net.TCPConn), dialed.(*net.TCPConn)
}

func rawOf(t *testing.T, conn *net.TCPConn) syscall.RawConn {
	t.Helper()
	raw, err := conn.SyscallConn()
	must(t, err)
	return raw
}

func newPipe(t *testing.T) *splice.Pipe {
	t.Helper()
	p, err := splice.New()
	must(t, err)
	return p
}

func randomBytes(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

func TestPipe_PassesAStreamBetweenConnections(t *testing.T) {
	t.Parallel()
	data := randomBytes(5<<20 + 17)
	from, sender := connect(t)
	to, receiver := connect(t)
	received := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(receiver)
		received <- all
	}()
	go func() {
		_, _ = sender.Write(data)
		_ = sender.Close()
	}()
	p := newPipe(t)
	raw, sent := rawOf(t, from), int64(0)
	for {
		n := p.Fill(raw, len(p.Buffer()))
		if n == 0 {
			break
		}
		if p.Held() != n {
			t.Fatalf("it holds %d of %d bytes", p.Held(), n)
		}
		written, err := to.ReadFrom(p) // as net/http does
		must(t, err)
		if written != int64(n) || p.Held() != 0 {
			t.Fatalf("%d of %d bytes were written, %d are held", written, n, p.Held())
		}
		sent += written
	}
	must(t, to.Close())
	if !bytes.Equal(<-received, data) {
		t.Error("other bytes arrived")
	}
	if p.Passed() != sent || sent != int64(len(data)) {
		t.Errorf("the kernel has passed %d of %d bytes", p.Passed(), sent)
	}
	p.Release()
	if again := newPipe(t); again.Passed() != 0 { // most often the same one
		t.Errorf("a new pipe has passed %d bytes", again.Passed())
	}
}

func TestPipe_AWriterThatIsNoConnectionGetsACopy(t *testing.T) {
	t.Parallel()
	from, sender := connect(t)
	_, err := sender.Write([]byte("abcdef"))
	must(t, err)
	p := newPipe(t)
	defer p.Release()
	if n := p.Fill(rawOf(t, from), 4); n != 4 {
		t.Fatalf("it took %d bytes of 4", n)
	}
	var got bytes.Buffer
	n, err := io.Copy(&got, p)
	if err != nil || n != 4 || got.String() != "abcd" || p.Held() != 0 || p.Passed() != 0 {
		t.Errorf("%d bytes, %q, %v; %d are held, %d were passed", n, &got, err, p.Held(), p.Passed())
	}
	if n, err := p.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("an empty pipe: %d, %v", n, err)
	}
}

// The caller reads the connection itself then, which says why.
func TestPipe_FillReturnsNothing(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(near, far *net.TCPConn) error{
		"at the end":                    func(_, far *net.TCPConn) error { return far.Close() },
		"of a closed connection":        func(near, _ *net.TCPConn) error { return near.Close() },
		"past the read deadline":        func(near, _ *net.TCPConn) error { return near.SetReadDeadline(time.Unix(1, 0)) },
		"of a connection that is reset": func(_, far *net.TCPConn) error { return errors.Join(far.SetLinger(0), far.Close()) },
	} {
		near, far := connect(t)
		p := newPipe(t)
		raw := rawOf(t, near)
		must(t, end(near, far))
		if n := p.Fill(raw, 10); n != 0 || p.Held() != 0 {
			t.Errorf("%s: %d bytes, %d are held", what, n, p.Held())
		}
		p.Release()
	}
}

func TestPipe_WriteToReturnsTheErrorOfTheConnection(t *testing.T) {
	t.Parallel()
	for want, end := range map[error]func(to *net.TCPConn) error{
		os.ErrDeadlineExceeded: func(to *net.TCPConn) error { return to.SetWriteDeadline(time.Unix(1, 0)) },
		net.ErrClosed:          func(to *net.TCPConn) error { return to.Close() },
	} {
		from, sender := connect(t)
		to, _ := connect(t)
		_, err := sender.Write([]byte("abcdef"))
		must(t, err)
		p := newPipe(t)
		if p.Fill(rawOf(t, from), 6) != 6 {
			t.Fatal("the pipe did not take the bytes")
		}
		must(t, end(to))
		if n, err := to.ReadFrom(p); n != 0 || !errors.Is(err, want) {
			t.Errorf("%d bytes, %v, want %v", n, err, want)
		}
		p.Release()
	}
}

// The next user would send them to another client.
func TestPipe_ThatHoldsBytesIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for range 20 {
		from, sender := connect(t)
		_, err := sender.Write([]byte("secret"))
		must(t, err)
		p := newPipe(t)
		if p.Fill(rawOf(t, from), 6) != 6 {
			t.Fatal("the pipe did not take the bytes")
		}
		p.Release()
		if next := newPipe(t); next == p || next.Held() != 0 {
			t.Fatal("the pipe is used again")
		}
	}
}

func TestPipe_TakesOnlyWhatIsReadIntoItsBuffer(t *testing.T) {
	t.Parallel()
	p, other := newPipe(t), newPipe(t)
	defer p.Release()
	defer other.Release()
	for what, c := range map[string]struct {
		into  []byte
		takes bool
	}{
		"the buffer":          {p.Buffer(), true},
		"its first bytes":     {p.Buffer()[:1], true},
		"no byte":             {p.Buffer()[:0], false},
		"its last bytes":      {p.Buffer()[1:], false},
		"another buffer":      {make([]byte, 10), false},
		"that of another one": {other.Buffer(), false},
	} {
		if got := p.Takes(c.into); got != c.takes {
			t.Errorf("%s: %t", what, got)
		}
	}
	if splice.FromContext(splice.WithPipe(t.Context(), p)) != p || splice.FromContext(context.Background()) != nil {
		t.Error("the context has another pipe")
	}
}
