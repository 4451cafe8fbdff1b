package faults

import (
	"io"
	"net"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

func TestProxy_CutsStallsAndMutes(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = server.Close() }()
	heard := make(chan string, 10)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				buffer := make([]byte, 100)
				for {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					heard <- string(buffer[:n])
					_, _ = conn.Write(buffer[:n])
				}
			}()
		}
	}()
	p, err := StartProxy(server.Addr().String())
	must(t, err)
	defer p.Close()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", p.String())
		must(t, err)
		return conn
	}
	say := func(conn net.Conn, text string) {
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(conn net.Conn, n int) (string, error) {
		buffer := make([]byte, n)
		_, err := io.ReadFull(conn, buffer)
		return string(buffer), err
	}
	conn := dial()
	say(conn, "one")
	if got, err := hear(conn, 3); got != "one" || <-heard != "one" {
		t.Errorf("open: %q %v", got, err)
	}
	p.Set(Stall)
	say(conn, "two")
	select {
	case text := <-heard:
		t.Errorf("stalled, the server heard %q", text)
	case <-time.After(100 * time.Millisecond): //nolint:forbidigo // nothing may come
	}
	p.Set(Open)
	if got, err := hear(conn, 3); got != "two" || <-heard != "two" {
		t.Errorf("after a stall: %q %v", got, err)
	}
	p.Set(Mute)
	say(conn, "three")
	if text := <-heard; text != "three" {
		t.Errorf("muted, the server heard %q", text)
	}
	p.Set(Open)
	if got, err := hear(conn, 1); err == nil {
		t.Errorf("after a mute the client heard %q", got)
	}
	conn = dial()
	say(conn, "four")
	if text := <-heard; text != "four" {
		t.Errorf("the server heard %q", text)
	}
	p.Set(Cut)
	if got, err := hear(conn, 100); err == nil {
		t.Errorf("cut, the client heard %q", got)
	}
	if _, err := hear(dial(), 1); err == nil {
		t.Error("a cut proxy took a connection")
	}
}

func TestProxy_RedirectsNewConnections(t *testing.T) {
	t.Parallel()
	var targets []string
	for _, name := range []string{"first", "second"} {
		server, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer func() { _ = server.Close() }()
		targets = append(targets, server.Addr().String())
		go func() {
			for {
				conn, err := server.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, name) // and the connection stays
			}
		}()
	}
	p, err := StartProxy(targets[0])
	must(t, err)
	defer p.Close()
	greeting := func(want string) net.Conn {
		conn, err := net.Dial("tcp", p.String())
		must(t, err)
		buffer := make([]byte, len(want))
		if _, err := io.ReadFull(conn, buffer); err != nil || string(buffer) != want {
			t.Errorf("%q answers, %v; want %q", buffer, err, want)
		}
		return conn
	}
	former := greeting("first")
	defer func() { _ = former.Close() }()
	p.Redirect(targets[1])
	if _, err := former.Read(make([]byte, 1)); err == nil {
		t.Error("a connection to the former address stays")
	}
	defer func() { _ = greeting("second").Close() }()
}

// A process that is killed at a request must be dead before its request is passed on.
func TestProxy_StopsAtAnAwaitedRequest(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = server.Close() }()
	p, err := StartProxy(server.Addr().String())
	must(t, err)
	defer p.Close()
	client, err := net.Dial("tcp", p.String())
	must(t, err)
	defer client.Close()
	conn, err := server.Accept()
	must(t, err)
	defer conn.Close()
	exchange := func(text string) string {
		if _, err := client.Write([]byte(text)); err != nil {
			t.Error(err)
		}
		buffer := make([]byte, 100)
		n, err := conn.Read(buffer)
		if err != nil {
			t.Error(err)
		}
		return string(buffer[:n])
	}
	forgotten := p.Await(1)
	p.Forget(forgotten)
	request := p.Await(2)
	if got := exchange("one"); got != "one" {
		t.Errorf("the first request is %q", got)
	}
	arrived := make(chan string, 1)
	go func() { arrived <- exchange("two") }()
	<-request.Passing
	select {
	case got := <-arrived:
		t.Errorf("%q was passed on", got)
	default:
	}
	close(request.Pass)
	if got := <-arrived; got != "two" {
		t.Errorf("the second request is %q", got)
	}
}
