package faults

import (
	"net"
	"sync"
	"time"
)

// A Mode is how a proxy treats what passes through it.
type Mode int

const (
	// Open passes everything.
	Open Mode = iota
	// Cut ends every connection and takes none.
	Cut
	// Stall keeps connections, and holds back what is sent both ways.
	Stall
	// Mute passes what is asked and swallows what is answered: the work is done, and
	// its client gets no answer.
	Mute
)

// Proxy stands in front of a server on one port, and outlives the server's crashes.
type Proxy struct {
	listener net.Listener

	mu      sync.Mutex
	target  string
	mode    Mode
	changed chan struct{} // closed when mode changes
	conns   map[net.Conn]bool
	// left and awaited count the requests until the awaited one; awaited is nil when there is
	// none.
	left    int
	awaited *Request
}

// Request is an awaited request. A request is what a client sends at once: a statement, a
// part of a body, a TLS record.
type Request struct {
	// Passing is closed when it is about to be passed on.
	Passing chan struct{}
	// Pass passes it on when the caller of Await closes it.
	Pass chan struct{}
}

// StartProxy starts a proxy in front of an address, on a loopback port of its own.
func StartProxy(target string) (*Proxy, error) { return StartProxyAt("127.0.0.1:0", target) }

// StartProxyAt starts a proxy that listens at an address, in front of another one.
func StartProxyAt(address, target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, target: target, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	go p.serve()
	return p, nil
}

// String returns the address.
func (p *Proxy) String() string { return p.listener.Addr().String() }

// Redirect leads new connections to another address, and ends those that are there.
func (p *Proxy) Redirect(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Set changes the mode. Connections that were muted are ended when that is over: what
// they lost can't be made up.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m == Cut || p.mode == Mute {
		for conn := range p.conns {
			_ = conn.Close()
		}
	}
	p.mode = m
	close(p.changed)
	p.changed = make(chan struct{})
}

// Await stops the n-th request from now on, until its Pass is closed. One request is awaited at a
// time: an earlier one is passed on.
func (p *Proxy) Await(n int) *Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.awaited = max(n, 1), &Request{Passing: make(chan struct{}), Pass: make(chan struct{})}
	return p.awaited
}

// Forget ends the wait for a request that has not come.
func (p *Proxy) Forget(request *Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awaited == request {
		p.awaited = nil
	}
}

// requested counts a request, and waits if it is the awaited one.
func (p *Proxy) requested() {
	p.mu.Lock()
	request := p.awaited
	if request != nil {
		if p.left--; p.left > 0 {
			request = nil
		} else {
			p.awaited = nil
		}
	}
	p.mu.Unlock()
	if request != nil {
		close(request.Passing)
		<-request.Pass
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Set(Cut)
}

func (p *Proxy) current() (Mode, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.changed
}

func (p *Proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.pass(conn)
	}
}

// keep notes a connection to be ended by a cut; false when that is now.
func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.conns[conn] = true
	}
	return p.mode != Cut
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(p.conns, conn)
	}
}

func (p *Proxy) pass(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
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
func (p *Proxy) copy(to, from net.Conn, answers bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !answers {
				p.requested()
			}
			w, changed := p.current()
			for w == Stall {
				<-changed
				w, changed = p.current()
			}
			if w == Mute && answers {
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
