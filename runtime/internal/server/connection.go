package server

import (
	"container/list"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/limit"
)

// connection is an accepted TCP connection. It counts against the bounds of its listener
// until it is closed.
type connection struct {
	*net.TCPConn
	listener *listener
	network  netip.Prefix
	// waiting is the connection's place among those that wait for a request, nil while a
	// request is under way. The listener's mutex guards it.
	waiting *list.Element

	// What Close still reads and drops, and for how long; the mutex guards both.
	lingerLimit   int64
	lingerTimeout time.Duration

	closed sync.Once
}

// Close closes the connection and makes room for another one. A connection that was told
// to linger is closed for writing only at first, and reads on in the background.
func (c *connection) Close() error {
	var err error
	c.closed.Do(func() {
		if limit, timeout := c.listener.lingering(c); limit > 0 && timeout > 0 {
			go c.drain(limit, timeout)
			return
		}
		c.listener.release(c)
		err = c.TCPConn.Close()
	})
	return err
}

// evict ends a connection that waits for a request or for the body of one without a
// credential, or that lingers.
func (c *connection) evict() {
	_ = c.TCPConn.Close() // who reads from it notices, and releases it
}

// makeWay puts a connection among those that make room for others, or takes it back. A
// nil connection has no place.
func (c *connection) makeWay(yes bool) {
	if c == nil {
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	switch {
	case !yes:
		c.listener.stopWaiting(c)
	case c.waiting == nil:
		c.waiting = c.listener.waiting.PushBack(c)
	}
}

// linger tells Close to read and drop what the client still sends: so many bytes, for so
// long.
func (c *connection) linger(limit int64, timeout time.Duration) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.lingerLimit, c.lingerTimeout = limit, timeout
}

// drain ends a connection that lingers. Whatever fails in it ends it as well.
func (c *connection) drain(limit int64, timeout time.Duration) {
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(timeout))
	if n, _ := io.CopyN(io.Discard, c.TCPConn, limit); n == limit {
		// More comes, and the connection will be reset. Until then a client that reads while
		// it writes has time for its answer.
		<-time.After(resetDelay)
	}
	c.listener.release(c)
	_ = c.TCPConn.Close()
}

// resetDelay is how long net/http waits in the same place.
const resetDelay = 500 * time.Millisecond

type connectionKey struct{}

// withConnection is http.Server.ConnContext.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*connection); ok {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return ctx
}

// connectionOf returns the connection of a request, nil when the server has no listener
// of this package.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// Reasons for which a connection is rejected, as a metric's label.
const (
	rejectedByTotal   = "total"
	rejectedByAddress = "client_ip"
)

// listener bounds the connections that are open at once, in total and for each client
// address. Over the total, the connection that has waited longest for its client is closed:
// for a request, or for the body of a request without a credential. If there is none, the
// new one is rejected with 503; over the bound of its address it is rejected with 429.
type listener struct {
	*net.TCPListener
	max        int                   // all connections
	perAddress int                   // of one address (IPv6: one /64); 0 = no bound
	exempt     func(netip.Addr) bool // whose connections count against max only
	metrics    *connectionMetrics    // nil = not counted
	log        *slog.Logger
	warned     sync.Once

	mu        sync.Mutex
	open      int
	byNetwork map[netip.Prefix]int
	waiting   *list.List // of *connection, the longest waiting first
	rejecting int
}

// maxRejecting bounds how many rejected connections are open at once to receive their
// answer. Further ones are closed without one.
const maxRejecting = 16

func newListener(at *net.TCPListener, maximum, perAddress int, exempt func(netip.Addr) bool, m *connectionMetrics, log *slog.Logger) *listener {
	return &listener{TCPListener: at, max: maximum, perAddress: perAddress, exempt: exempt, metrics: m, log: log,
		byNetwork: map[netip.Prefix]int{}, waiting: list.New()}
}

// Accept returns the next connection that is within the bounds.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		c := &connection{TCPConn: conn, listener: l}
		address := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap() //nolint:forcetypeassert // of a TCP connection
		if l.perAddress > 0 && (l.exempt == nil || !l.exempt(address)) {
			c.network = limit.ClientPrefix(address)
		}
		evicted, rejected := l.admit(c)
		if evicted != nil {
			evicted.evict()
		}
		if rejected == "" {
			return c, nil
		}
		l.reject(c, address, rejected)
	}
}

// admit counts a connection, and returns the one that has to make room for it, or the
// bound that rejects it.
func (l *listener) admit(c *connection) (evicted *connection, rejected string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.network.IsValid() && l.byNetwork[c.network] >= l.perAddress:
		rejected = rejectedByAddress
	case l.open >= l.max:
		if oldest := l.waiting.Front(); oldest != nil {
			evicted = oldest.Value.(*connection) //nolint:forcetypeassert // the list holds nothing else
			l.stopWaiting(evicted)
		} else {
			rejected = rejectedByTotal
		}
	}
	if rejected != "" {
		l.metrics.reject(rejected)
		return nil, rejected
	}
	if evicted != nil {
		l.metrics.evict()
	}
	l.open++
	if c.network.IsValid() {
		l.byNetwork[c.network]++
	}
	l.metrics.set(l.open)
	c.waiting = l.waiting.PushBack(c)
	return evicted, ""
}

// release releases what a closed connection counted.
func (l *listener) release(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopWaiting(c)
	l.open--
	l.metrics.set(l.open)
	if !c.network.IsValid() {
		return
	}
	if l.byNetwork[c.network]--; l.byNetwork[c.network] == 0 {
		delete(l.byNetwork, c.network)
	}
}

// observe is http.Server.ConnState: it keeps the list of waiting connections.
func (l *listener) observe(conn net.Conn, state http.ConnState) {
	c, ok := conn.(*connection)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state { //nolint:exhaustive // StateNew waits since Accept, and a closed connection is released by Close
	case http.StateActive:
		l.stopWaiting(c)
	case http.StateIdle:
		if c.waiting == nil {
			c.waiting = l.waiting.PushBack(c)
		}
	}
}

// lingering returns what a connection still reads before it is closed. Meanwhile it is one
// of those that make room for others.
func (l *listener) lingering(c *connection) (limit int64, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.waiting == nil && c.lingerLimit > 0 {
		c.waiting = l.waiting.PushBack(c)
	}
	return c.lingerLimit, c.lingerTimeout
}

// stopWaiting takes a connection off the list. The caller holds the mutex.
func (l *listener) stopWaiting(c *connection) {
	if c.waiting != nil {
		l.waiting.Remove(c.waiting)
		c.waiting = nil
	}
}

// Answers to connections over a bound. Nothing of the request was read.
var rejections = map[string][]byte{
	rejectedByAddress: rejection(http.StatusTooManyRequests, api.ErrorCodeTooManyRequests, "too many connections from this address are open at once"),
	rejectedByTotal:   rejection(http.StatusServiceUnavailable, api.ErrorCodeUnavailable, "too many connections are open at once"),
}

func rejection(status int, code api.ErrorCode, detail string) []byte {
	body := fmt.Sprintf(`{"error":%q,"code":%q,"detail":%q}`+"\n", http.StatusText(status), code, detail)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: 5\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
}

// rejectTimeout is how long a rejected client has to send its request and read the answer.
const rejectTimeout = time.Second

// reject answers a connection that was not admitted and closes it.
func (l *listener) reject(c *connection, address netip.Addr, reason string) {
	if reason == rejectedByAddress {
		l.warned.Do(func() {
			l.log.Warn("connections are rejected: an address has SERVICE_MAX_CONNECTIONS_PER_IP of them open; if it is a proxy's, name it in SERVICE_TRUSTED_PROXIES", "address", address)
		})
	}
	l.mu.Lock()
	answered := l.rejecting < maxRejecting
	if answered {
		l.rejecting++
	}
	l.mu.Unlock()
	if !answered {
		_ = c.TCPConn.Close()
		return
	}
	go func() {
		defer func() {
			_ = c.TCPConn.Close()
			l.mu.Lock()
			l.rejecting--
			l.mu.Unlock()
		}()
		_ = c.SetDeadline(time.Now().Add(rejectTimeout))
		if _, err := c.Write(rejections[reason]); err != nil {
			return
		}
		_ = c.CloseWrite()
		// A connection that is closed with unread bytes is reset, and the answer is lost.
		_, _ = io.CopyN(io.Discard, c.TCPConn, rejectedRequest)
	}()
}

// rejectedRequest bounds what is read of a rejected request, in bytes.
const rejectedRequest = 64 << 10

// reservedDescriptors are kept for what is not a client's connection: the database pool,
// image workers, logs, and the admin server.
const reservedDescriptors = 128

// maxConnections is how many client connections fit: the configured number (0 = no other
// bound), but no more than the file descriptors allow. Half of those are left for the
// connections to the object store that requests need.
func maxConnections(configured int, descriptors uint64) (allowed int, reduced bool) {
	room := math.MaxInt32
	if descriptors < math.MaxInt32 {
		room = max(minConnections, (int(descriptors)-reservedDescriptors)/2)
	}
	if configured == 0 || configured > room {
		return room, configured > room
	}
	return configured, false
}

// minConnections are served however few descriptors there are.
const minConnections = 8

// descriptorLimit returns how many files the process may have open (RLIMIT_NOFILE).
func descriptorLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	return limit.Cur, nil
}
