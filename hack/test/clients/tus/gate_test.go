package tusclients_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// gate is the one address of the service, as a load balancer is. It leads to one replica
// at a time, and can cut off whatever is on its way.
type gate struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	conns  map[net.Conn]bool // true = the client's end
	left   int64             // bytes from clients until the cut; 0 = none is planned
	after  func()            // what happens then, before anything passes again; it has the lock
	passed map[string]int64
	// keep leaves the replica's end of a connection open when the client's is cut: the
	// replica waits for bytes that don't come.
	keep bool
}

func newGate(t *testing.T) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	g := &gate{listener: listener, conns: map[net.Conn]bool{}, passed: map[string]int64{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { g.pass(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		g.mu.Lock()
		g.keep = false
		g.hangUp()
		g.mu.Unlock()
		serving.Wait()
	})
	return g
}

// lead leads new connections to a replica.
func (g *gate) lead(address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.target, g.passed, g.keep = address, map[string]int64{}, false
}

// cut plans to end every connection after so many bytes from clients.
func (g *gate) cut(bytes int64, after func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.after = bytes, after
}

// wasCut reports whether what was planned has happened.
func (g *gate) wasCut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.left == 0
}

// took tells how many bytes a replica was sent since lead.
func (g *gate) took(address string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.passed[address]
}

func (g *gate) hangUp() {
	for conn, client := range g.conns {
		if client || !g.keep {
			_ = conn.Close()
		}
	}
}

func (g *gate) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	g.mu.Lock()
	target := g.target
	g.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	g.mu.Lock()
	g.conns[client], g.conns[server] = true, false
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.conns, client)
		delete(g.conns, server)
	}()
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_, _ = io.Copy(&counted{gate: g, to: server, target: target}, client)
	g.mu.Lock()
	if !g.keep {
		_ = server.Close()
	}
	g.mu.Unlock()
	answers.Wait()
}

// counted is the way to a replica.
type counted struct {
	gate   *gate
	to     net.Conn
	target string
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	g := c.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passed[c.target] += int64(n)
	if g.left > 0 {
		if g.left = max(0, g.left-int64(n)); g.left == 0 {
			g.after()
			g.hangUp()
		}
	}
	return n, err
}
