package main

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// A mode is how a proxy treats what passes through it.
type mode int

const (
	// open passes everything.
	open mode = iota
	// cut ends every connection and takes none.
	cut
	// stall keeps connections, and holds back what is sent both ways.
	stall
	// mute passes what is asked and swallows what is answered: the work is done, and
	// its client gets no answer.
	mute
)

// proxy stands in front of a server on one port, and outlives the server's crashes.
type proxy struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	mode    mode
	changed chan struct{} // closed when mode changes
	conns   map[net.Conn]bool
}

func startProxy(target string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, target: target, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	go p.serve()
	return p, nil
}

func (p *proxy) port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// set changes the mode. Connections that were muted are ended when that is over: what
// they lost can't be made up.
func (p *proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m == cut || p.mode == mute {
		for conn := range p.conns {
			_ = conn.Close()
		}
	}
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.set(cut)
}

func (p *proxy) current() (mode, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.changed
}

func (p *proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.pass(conn)
	}
}

// keep notes a connection to be ended by a cut; false when that is now.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.conns[conn] = true
	}
	return p.mode != cut
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(p.conns, conn)
	}
}

func (p *proxy) pass(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	defer p.drop(client, server)
	if !p.keep(client, server) {
		return
	}
	ended := make(chan struct{}, 2)
	go func() { p.copy(server, client, false); ended <- struct{}{} }()
	go func() { p.copy(client, server, true); ended <- struct{}{} }()
	<-ended
}

// copy passes bytes until either end has gone.
func (p *proxy) copy(to, from net.Conn, answers bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			w, changed := p.current()
			for w == stall {
				<-changed
				w, changed = p.current()
			}
			if w == mute && answers {
				continue
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) String() string { return fmt.Sprintf("127.0.0.1:%d", p.port()) }
