package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/ratelimit"
)

// A body that has not arrived holds a connection of the replica. The bounds of connections do not
// suffice behind a proxy, whose connections are those of all its clients. So bodies are counted, from
// the head of their request until their last byte, by client IP and by account.

const (
	// bodiesOfConnections is the part of the connections that bodies with a credential may hold, in
	// percent. The others are left for requests without a body.
	bodiesOfConnections = 75
	// stalledAfter is how long a client must be behind SERVICE_MIN_TRANSFER_RATE before its body may be
	// ended for others. It is longer than the pauses of slow networks.
	stalledAfter = 5 * time.Second
	// documentStep is how many bytes of a document SERVICE_JSON_BODY_TIMEOUT is the time for.
	documentStep = 64 << 10
	// maxEnding is how many connections over the bound may wait for the response to a body that was
	// ended. Further ones are closed without one.
	maxEnding = 16
)

// Bounds that reject a body, as a metric's label.
const (
	bodyOfIP      = "client_ip"
	bodyOfAccount = "account"
	bodyOfTotal   = "total"
)

// bodies counts the bodies that have not arrived yet. It is safe for concurrent use.
type bodies struct {
	accounts *fairlimit.Limiter[uuid.UUID]
	clients  *fairlimit.Limiter[netip.Prefix]
	exempt   func(netip.Addr) bool // reports whether the bound of client IPs does not apply
	rejected *prometheus.CounterVec
	ended    prometheus.Counter

	mu       sync.Mutex
	admitted map[*arrival]struct{} // those that hold a slot of an account
}

// newBodies returns the bounds of a server with this many connections, all of which are free.
func newBodies(cfg Config, connections int, exempt func(netip.Addr) bool, registry prometheus.Registerer) (*bodies, error) {
	limit := max(1, int(int64(connections)*bodiesOfConnections/100))
	perAccount := fairlimit.Unlimited
	if cfg.BodyPerAccountPercent > 0 {
		perAccount = max(1, int(int64(connections)*int64(cfg.BodyPerAccountPercent)/100))
	}
	perClient := fairlimit.Unlimited
	if cfg.MaxConnectionsPerIP > 0 {
		perClient = cfg.MaxConnectionsPerIP
	}
	b := &bodies{exempt: exempt, admitted: map[*arrival]struct{}{},
		// The reserve leaves room for accounts with few bodies when others hold what they can. If it is held, too, an
		// account without a body gets one nevertheless.
		accounts: fairlimit.New[uuid.UUID](fairlimit.Config{Limit: limit, PerKey: perAccount, FirstBeyondLimit: true, Reserve: fairlimit.ReserveOf(limit, perAccount)}),
		clients:  fairlimit.New[netip.Prefix](fairlimit.Config{Limit: fairlimit.Unlimited, PerKey: perClient}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_http_bodies_rejected_total", Help: "Requests rejected by a bound of the bodies that have not arrived: of one client IP (`client_ip`), of one account (`account`), of all accounts (`total`).",
		}, []string{"limit"}),
		ended: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mediastack_http_bodies_ended_total", Help: "Stalled bodies that were ended because others needed their place.",
		}),
	}
	for _, limit := range []string{bodyOfIP, bodyOfAccount, bodyOfTotal} {
		b.rejected.WithLabelValues(limit) // exported from the start, for rates
	}
	if err := b.accounts.Register(registry, "mediastack_http_bodies", "Places of request bodies with a credential that have not arrived"); err != nil {
		return nil, err
	}
	return b, register(registry, b.rejected, b.ended)
}

// arrival is the place of one body among those that have not arrived.
type arrival struct {
	of         *bodies
	control    *http.ResponseController
	connection *connection // nil outside of a Server

	// The goroutine of the request changes what follows under the lock. Another one may end the body.
	mu          sync.Mutex
	client      netip.Prefix // valid while it holds a slot of the client IP
	account     uuid.UUID    // not nil while it holds a slot of the account
	waits       time.Time    // since when a read waits for the client; zero = none does
	behind      time.Duration
	interrupted bool
	closed      bool // the connection may serve another request
}

// admitClient takes a slot of a client IP. It returns a fault if the client holds too many.
func (a *arrival) admitClient(ip netip.Addr) error {
	if a == nil || a.of.exempt(ip) { // the address of a proxy that names no client is that of all its clients
		return nil
	}
	client := ratelimit.ClientPrefix(ip)
	if a.of.clients.TryAcquire(client) != nil {
		a.of.rejected.WithLabelValues(bodyOfIP).Inc()
		return &fault.Error{Kind: fault.Busy, Public: "too many request bodies from this address are on their way", Cause: errors.New("over SERVICE_MAX_CONNECTIONS_PER_IP")}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client = client
	return nil
}

// admit takes a slot of an account. If all of them are held, the oldest stalled body is ended for it.
func (a *arrival) admit(account uuid.UUID) error {
	b := a.of
	err := b.accounts.TryAcquire(account)
	for err != nil && !b.accounts.KeyFull(account) && b.endStalled() != nil {
		err = b.accounts.TryAcquire(account)
	}
	switch {
	case err == nil:
	case b.accounts.KeyFull(account):
		b.rejected.WithLabelValues(bodyOfAccount).Inc()
		return &fault.Error{Kind: fault.Busy, Public: "too many request bodies of this account are on their way", Cause: errors.New("over SERVICE_BODY_PER_ACCOUNT_PERCENT")}
	default:
		b.rejected.WithLabelValues(bodyOfTotal).Inc()
		return &fault.Error{Kind: fault.Unavailable, Public: "too many request bodies are on their way", Cause: errors.New("bodies hold their part of SERVICE_MAX_CONNECTIONS")}
	}
	a.mu.Lock()
	a.account = account
	a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admitted[a] = struct{}{}
	return nil
}

// endStalled ends the body whose client has been behind the minimum rate for the longest time, and
// returns it. It returns nil if no body is stalled. The slot is free at once; the handler of the body
// gets an error from its read.
func (b *bodies) endStalled() *arrival {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		var worst *arrival
		longest, now := stalledAfter, time.Now()
		for one := range b.admitted {
			if behind := one.stalled(now); behind >= longest {
				worst, longest = one, behind
			}
		}
		if worst == nil {
			return nil
		}
		if worst.interrupt() { // it has not arrived meanwhile
			delete(b.admitted, worst)
			b.ended.Inc()
			return worst
		}
	}
}

// stalled returns how long the client has been behind the minimum rate, 0 if no read waits for it.
func (a *arrival) stalled(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waits.IsZero() {
		return 0
	}
	return a.behind + now.Sub(a.waits)
}

// interrupt ends the read of the body that waits, and releases the slots. It returns false if the body
// has arrived meanwhile.
func (a *arrival) interrupt() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.waits.IsZero() {
		return false
	}
	a.interrupted = true
	_ = a.control.SetReadDeadline(time.Now()) // a transport without deadlines has none
	a.releaseLocked()
	return true
}

// errEnded is the cause of a read that interrupt ended.
var errEnded = fmt.Errorf("the body stalled, and others needed its place: %w", os.ErrDeadlineExceeded)

// wait begins a read, whose deadline is set. behind is how long the client has been behind the minimum
// rate. It returns errEnded if the body was ended before.
func (a *arrival) wait(start time.Time, behind time.Duration) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.interrupted {
		return errEnded
	}
	a.waits, a.behind = start, behind
	return nil
}

// waited ends a read, and returns its error.
func (a *arrival) waited(err error) error {
	if a == nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = time.Time{}
	if a.interrupted && errors.Is(err, os.ErrDeadlineExceeded) {
		return errEnded
	}
	return err
}

// release releases the slots once the body has arrived, or its request has ended.
func (a *arrival) release() {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	delete(a.of.admitted, a)
	a.of.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.releaseLocked()
}

func (a *arrival) releaseLocked() {
	if a.client.IsValid() {
		a.of.clients.Release(a.client)
		a.client = netip.Prefix{}
	}
	if a.account != uuid.Nil {
		a.of.accounts.Release(a.account)
		a.account = uuid.Nil
	}
}

// documentTime bounds the time of a document: timeout for every documentStep bytes of it. Time in which
// no read waits does not count.
type documentTime struct {
	timeout time.Duration // 0 = no limit
	on      bool          // what is read next belongs to the document
	read    int64
	waited  time.Duration
}

// end returns the deadline of a read, false if it has none.
func (d *documentTime) end(now time.Time) (time.Time, bool) {
	if !d.on || d.timeout == 0 {
		return time.Time{}, false
	}
	return now.Add(d.timeout*time.Duration(1+d.read/documentStep) - d.waited), true
}

// record records a read.
func (d *documentTime) record(n int, waited time.Duration) {
	if d.on {
		d.read += int64(n)
		d.waited += waited
	}
}
