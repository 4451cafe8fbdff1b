package mail

import (
	"slices"
	"sync"
	"time"
)

// idleTimeout is how long a connection stays open without an e-mail to send; mail servers close idle connections after
// some minutes.
const idleTimeout = 10 * time.Second

// connPool keeps open connections between e-mails. There are as many as e-mails were sent at once. It is safe for concurrent use.
type connPool struct {
	relay relay

	mu   sync.Mutex
	idle []idleConn
}

// idleConn is a connection that nobody uses. The timer closes it.
type idleConn struct {
	conn  *smtpConn
	timer *time.Timer
}

// take returns a connection, which may have to be opened. The one that was used last is the least likely to be closed by the server.
func (p *connPool) take() *smtpConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return &smtpConn{relay: p.relay}
	}
	last := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	last.timer.Stop()
	return last.conn
}

// put returns a connection to the pool.
func (p *connPool) put(conn *smtpConn) {
	if conn.smtp == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, idleConn{conn: conn, timer: time.AfterFunc(idleTimeout, func() { p.expire(conn) })})
}

// expire closes a connection, unless it is in use.
func (p *connPool) expire(conn *smtpConn) {
	p.mu.Lock()
	before := len(p.idle)
	p.idle = slices.DeleteFunc(p.idle, func(i idleConn) bool { return i.conn == conn })
	unused := len(p.idle) < before
	p.mu.Unlock()
	if unused {
		conn.close()
	}
}

// close closes the connections that nobody uses.
func (p *connPool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, i := range idle {
		i.timer.Stop()
		i.conn.close()
	}
}
