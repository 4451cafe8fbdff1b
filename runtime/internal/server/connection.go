package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
)

// connection is an accepted TCP connection. It counts against the bounds of its listener
// until it is closed.
type connection struct {
	*net.TCPConn
	listener *listener
	network  netip.Prefix
	// waiting is the connection's element of listener.waiting, nil while a request is running.
	// The listener's mutex guards it.
	waiting *list.Element
	// waits is since when it waits. The listener's mutex guards it.
	waits time.Time
	// released is set once the slot is free. The listener's mutex guards it.
	released bool

	// lingerLimit and lingerTimeout bound the bytes that Close discards, and the time for it.
	// The listener's mutex guards both.
	lingerLimit   int64
	lingerTimeout time.Duration

	handled atomic.Bool // a handler has begun, and its response is not complete
	// head is the head of the request that arrives. net/http reads it before it calls a handler, in the goroutine that
	// writes its own responses and sets handled.
	head   requestHead
	closed sync.Once
}

// Close closes the connection and releases its slot. After a call of linger it closes the
// connection for writing only, and discards what the client still sends in the background.
func (c *connection) Close() error {
	var err error
	c.closed.Do(func() {
		if limit, timeout := c.listener.startLingering(c); limit > 0 && timeout > 0 {
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
	_ = c.TCPConn.Close() // its reader fails and releases it
}

// setEvictable sets whether the connection may be evicted for a new one. It does nothing for
// a nil connection.
func (c *connection) setEvictable(evictable bool) {
	if c == nil {
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	switch {
	case !evictable:
		c.listener.stopWaiting(c)
	default:
		c.listener.startWaiting(c)
	}
}

// linger makes Close discard what the client still sends, up to limit bytes within timeout.
func (c *connection) linger(limit int64, timeout time.Duration) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.lingerLimit, c.lingerTimeout = limit, timeout
}

// drain discards up to limit bytes within timeout, and closes the connection. It also closes
// it after an error.
func (c *connection) drain(limit int64, timeout time.Duration) {
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(timeout))
	if n, _ := io.CopyN(io.Discard, c.TCPConn, limit); n == limit {
		// The client sends more, so that closing resets the connection. Until then, a client
		// that reads while it writes has time to read its response.
		<-time.After(resetDelay)
	}
	c.listener.release(c)
	_ = c.TCPConn.Close()
}

// resetDelay is the delay of net/http before it closes such a connection.
const resetDelay = 500 * time.Millisecond

type connectionKey struct{}

// withConnection is http.Server.ConnContext.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := accepted(conn); ok {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return ctx
}

// accepted returns the connection that a listener accepted, below that of TLS.
func accepted(conn net.Conn) (*connection, bool) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	c, ok := conn.(*connection)
	return c, ok
}

// connectionOf returns the connection of a request, nil if the server has no listener of
// this package.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// Reasons for which a connection is rejected, as a metric's label.
const (
	rejectedByTotal = "total"
	rejectedByIP    = "client_ip"
)

// listener bounds the open connections, in total and per client IP. If a new connection
// exceeds the total, the connection that has waited longest for its client is evicted: for a
// request, or for the body of a request without a credential. If all have waited for less than
// evictedAfter, the oldest stalled body with a credential is ended, because the request of such a
// connection may have arrived unread. If no body is stalled, the connection is evicted nevertheless.
// If none waits, the new one is rejected with 503. A new connection over the bound of its client IP
// is rejected with 429.
type listener struct {
	*net.TCPListener
	max      int                   // bound of all connections
	maxPerIP int                   // bound of one client IP (IPv6: one /64); 0 = none
	exempt   func(netip.Addr) bool // reports whether maxPerIP does not apply; nil = it always applies
	metrics  *connectionMetrics    // nil = not counted
	bodies   *bodies               // those with a credential; nil = none can be ended
	tls      *tls.Config           // nil = rejected connections get their response unencrypted
	log      *slog.Logger
	warned   sync.Once

	mu        sync.Mutex
	open      int
	byNetwork map[netip.Prefix]int
	waiting   *list.List // of *connection, the longest waiting first
	rejecting int
}

// evictedAfter is how long a connection waits before it is evicted rather than a stalled body ended. On a
// busy machine a request needs a while from the network to its goroutine.
const evictedAfter = time.Second

// maxRejecting bounds how many rejected connections are open at once to receive their
// response. Further ones are closed without one.
const maxRejecting = 16

func newListener(at *net.TCPListener, maximum, maxPerIP int, exempt func(netip.Addr) bool, m *connectionMetrics, log *slog.Logger) *listener {
	return &listener{TCPListener: at, max: maximum, maxPerIP: maxPerIP, exempt: exempt, metrics: m, log: log,
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
		if l.maxPerIP > 0 && (l.exempt == nil || !l.exempt(address)) {
			c.network = ratelimit.ClientPrefix(address)
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

// admit counts a connection. It returns the connection to evict for it, or the bound that
// rejects it.
func (l *listener) admit(c *connection) (evicted *connection, rejected string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.network.IsValid() && l.byNetwork[c.network] >= l.maxPerIP:
		rejected = rejectedByIP
	case l.open >= l.max:
		evicted, rejected = l.makeRoom(time.Now())
	}
	if rejected != "" {
		l.metrics.reject(rejected)
		return nil, rejected
	}
	l.open++
	if c.network.IsValid() {
		l.byNetwork[c.network]++
	}
	l.metrics.set(l.open)
	l.startWaiting(c)
	return evicted, ""
}

// makeRoom returns the connection to evict for another one, nil if the body that it ended makes room, or
// the bound that rejects it. The caller holds the mutex.
func (l *listener) makeRoom(now time.Time) (evicted *connection, rejected string) {
	if front := l.waiting.Front(); front != nil {
		evicted = front.Value.(*connection) //nolint:forcetypeassert // the list holds nothing else
	}
	if evicted == nil || now.Sub(evicted.waits) < evictedAfter {
		if ended := l.bodies.endStalled(); ended != nil {
			if l.open < l.max+maxEnding {
				return nil, ""
			}
			l.releaseLocked(ended.connection) // too many wait for their response
			return ended.connection, ""
		}
	}
	if evicted == nil {
		return nil, rejectedByTotal
	}
	// It is closed at once. Its goroutine may need a while to notice, in which it would count as open.
	l.releaseLocked(evicted)
	l.metrics.evict()
	return evicted, ""
}

// release releases the slot of a closed connection.
func (l *listener) release(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked(c)
}

func (l *listener) releaseLocked(c *connection) {
	l.stopWaiting(c)
	if c.released {
		return
	}
	c.released = true
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
	c, ok := accepted(conn)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state { //nolint:exhaustive // StateNew waits since Accept, and a closed connection is released by Close
	case http.StateActive:
		l.stopWaiting(c)
	case http.StateIdle:
		c.setHandled(false)
		l.startWaiting(c)
	}
}

// startLingering returns the bounds of a connection that lingers, and makes it evictable.
func (l *listener) startLingering(c *connection) (limit int64, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.lingerLimit > 0 {
		l.startWaiting(c)
	}
	return c.lingerLimit, c.lingerTimeout
}

// startWaiting adds a connection to the list, unless it is there or closed. The caller holds the mutex.
func (l *listener) startWaiting(c *connection) {
	if c.waiting == nil && !c.released {
		c.waiting, c.waits = l.waiting.PushBack(c), time.Now()
	}
}

// stopWaiting removes a connection from the list. The caller holds the mutex.
func (l *listener) stopWaiting(c *connection) {
	if c.waiting != nil {
		l.waiting.Remove(c.waiting)
		c.waiting = nil
	}
}

// rejections are the responses to connections over a bound, by its label.
var rejections = map[string]rejection{
	rejectedByIP:    {http.StatusTooManyRequests, api.ErrorCodeTooManyRequests, "too many connections from this address are open at once"},
	rejectedByTotal: {http.StatusServiceUnavailable, api.ErrorCodeUnavailable, "too many connections are open at once"},
}

type rejection struct {
	status int
	code   api.ErrorCode
	detail string
}

// rejectedRetryAfter is when a client may connect again, before it is spread.
const rejectedRetryAfter = 5 * time.Second

// response is sent before a request is read.
func (r rejection) response() []byte {
	body := fmt.Sprintf(`{"error":%q,"code":%q,"detail":%q}`+"\n", http.StatusText(r.status), r.code, r.detail)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: %d\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n%s",
		r.status, http.StatusText(r.status), len(body), httpapi.Seconds(httpapi.Spread(rejectedRetryAfter)), body)
}

// rejectTimeout bounds the time of a rejected client to send its request and to read the
// response.
const rejectTimeout = time.Second

// reject sends an error response on a connection that was not admitted, and closes it.
func (l *listener) reject(c *connection, address netip.Addr, reason string) {
	if reason == rejectedByIP {
		l.warned.Do(func() {
			l.log.Warn("connections are rejected: a client IP has SERVICE_MAX_CONNECTIONS_PER_IP of them open; if it is a proxy, add it to SERVICE_TRUSTED_PROXIES", "address", address)
		})
	}
	l.mu.Lock()
	respond := l.rejecting < maxRejecting
	if respond {
		l.rejecting++
	}
	l.mu.Unlock()
	if !respond {
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
		var response interface {
			io.Writer
			CloseWrite() error
		} = c.TCPConn
		if l.tls != nil {
			response = tls.Server(c.TCPConn, l.tls) // its first write makes the handshake
		}
		if _, err := response.Write(rejections[reason].response()); err != nil {
			return
		}
		_ = response.CloseWrite()
		// A connection that is closed with unread bytes is reset, and the response is lost.
		_, _ = io.CopyN(io.Discard, c.TCPConn, maxRejectedRequest)
	}()
}

// maxRejectedRequest bounds how many bytes of a rejected request are discarded.
const maxRejectedRequest = 64 << 10

// reservedDescriptors are file descriptors that are not for client connections: those of the
// database pool, image workers, logs, and the admin server.
const reservedDescriptors = 128

// maxConnections returns the bound of client connections: the configured one (0 = none), but
// no more than the limit of file descriptors permits. A request may need a connection to the
// object store as well, so that half of the descriptors are left for these. reduced reports
// whether the configured bound was too high.
func maxConnections(configured int, descriptors uint64) (allowed int, reduced bool) {
	fit := math.MaxInt32
	if descriptors < math.MaxInt32 {
		fit = max(minConnections, (int(descriptors)-reservedDescriptors)/2)
	}
	if configured == 0 || configured > fit {
		return fit, configured > fit
	}
	return configured, false
}

// minConnections is the minimum of maxConnections at any limit of file descriptors.
const minConnections = 8

// descriptorLimit returns the limit of open files of the process (RLIMIT_NOFILE).
func descriptorLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	return limit.Cur, nil
}
