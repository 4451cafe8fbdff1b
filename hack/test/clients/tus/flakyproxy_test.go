package tus_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// flakyProxy is the one address of the service, as a load balancer is. It directs clients to one
// replica at a time, and cuts connections in the middle of a body.
type flakyProxy struct {
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

func newFlakyProxy(t *testing.T) *flakyProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &flakyProxy{listener: listener, conns: map[net.Conn]bool{}, passed: map[string]int64{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.pass(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		p.keep = false
		p.closeConns()
		p.mu.Unlock()
		serving.Wait()
	})
	return p
}

// setTarget directs new connections to a replica.
func (p *flakyProxy) setTarget(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target, p.passed, p.keep = address, map[string]int64{}, false
}

// cutAfter plans to end every connection after so many bytes from clients.
func (p *flakyProxy) cutAfter(bytes int64, after func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.after = bytes, after
}

// wasCut reports whether what was planned has happened.
func (p *flakyProxy) wasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left == 0
}

// received returns how many bytes a replica was sent since setTarget.
func (p *flakyProxy) received(address string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed[address]
}

func (p *flakyProxy) closeConns() {
	for conn, client := range p.conns {
		if client || !p.keep {
			_ = conn.Close()
		}
	}
}

func (p *flakyProxy) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, false
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, server)
	}()
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_, _ = io.Copy(&counted{proxy: p, to: server, target: target}, client)
	p.mu.Lock()
	if !p.keep {
		_ = server.Close()
	}
	p.mu.Unlock()
	answers.Wait()
}

// counted counts what is sent to a replica.
type counted struct {
	proxy  *flakyProxy
	to     net.Conn
	target string
}

func (c *counted) Write(data []byte) (int, error) {
	n, err := c.to.Write(data)
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed[c.target] += int64(n)
	if p.left > 0 {
		if p.left = max(0, p.left-int64(n)); p.left == 0 {
			p.after()
			p.closeConns()
		}
	}
	return n, err
}
