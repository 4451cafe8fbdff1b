// Package limit bounds how often clients may ask: token buckets for each API key, for
// each client address, and stricter ones for addresses that fail to authenticate or begin
// logins.
// The buckets are this process's own: N replicas let through up to N times as much.
// Package server takes a token for every request's address, package auth one for the
// key; whatever carries several requests in one (MCP) takes its own.
package limit

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/lru"
)

// Config says how much is too much. The tags are flag and environment names. Rates
// are in requests a second; 0 switches a limit off.
type Config struct {
	Key            float64  `name:"rate-limit-key" env:"SERVICE_RATE_LIMIT_KEY" default:"500" help:"Requests a second of one API key, those by its upload signatures included; 0 = no limit. For each replica, like all rates."`
	KeyBurst       int      `name:"rate-limit-key-burst" env:"SERVICE_RATE_LIMIT_KEY_BURST" default:"2000" help:"How many of them may come at once."`
	Address        float64  `name:"rate-limit-ip" env:"SERVICE_RATE_LIMIT_IP" default:"1000" help:"Requests a second of one client address (IPv6: of one /64), files included; 0 = no limit."`
	AddressBurst   int      `name:"rate-limit-ip-burst" env:"SERVICE_RATE_LIMIT_IP_BURST" default:"4000" help:"How many of them may come at once."`
	Failures       float64  `name:"rate-limit-auth-failures" env:"SERVICE_RATE_LIMIT_AUTH_FAILURES" default:"1" help:"Credentials a second of one client address that may turn out wrong; 0 = no limit."`
	FailuresBurst  int      `name:"rate-limit-auth-failures-burst" env:"SERVICE_RATE_LIMIT_AUTH_FAILURES_BURST" default:"60" help:"How many of them may come at once."`
	Logins         float64  `name:"rate-limit-logins" env:"SERVICE_RATE_LIMIT_LOGINS" default:"5" help:"Logins a second that one client address may begin; 0 = no limit."`
	LoginsBurst    int      `name:"rate-limit-logins-burst" env:"SERVICE_RATE_LIMIT_LOGINS_BURST" default:"100" help:"How many of them may come at once."`
	TrustedProxies []string `name:"trusted-proxies" env:"SERVICE_TRUSTED_PROXIES" help:"Addresses (CIDR) of the proxies in front, whose X-Forwarded-For is believed. Without it, all clients of a proxy count as one address."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	for _, l := range []struct {
		name  string
		rate  float64
		burst int
	}{
		{"SERVICE_RATE_LIMIT_KEY", c.Key, c.KeyBurst},
		{"SERVICE_RATE_LIMIT_IP", c.Address, c.AddressBurst},
		{"SERVICE_RATE_LIMIT_AUTH_FAILURES", c.Failures, c.FailuresBurst},
		{"SERVICE_RATE_LIMIT_LOGINS", c.Logins, c.LoginsBurst},
	} {
		// The lower bound keeps a bucket's window within a day's order of magnitude.
		if l.rate != 0 && (math.IsNaN(l.rate) || l.rate < 0.001 || l.rate > 1e6) {
			return fmt.Errorf("%s must be 0, or from 0.001 to 1000000, not %v", l.name, l.rate)
		}
		if l.rate != 0 && (l.burst < 1 || l.burst > 1e6) {
			return fmt.Errorf("%s_BURST must be from 1 to 1000000, not %d", l.name, l.burst)
		}
	}
	_, err := parseProxies(c.TrustedProxies)
	return err
}

// remembered bounds how many clients each limit knows at once, some 10 MB for all of
// them. Who was not seen for longest is forgotten, and begins anew with a full bucket.
const remembered = 1 << 15

// Names of the limits, in RateLimit-Policy and as a metric's label.
const (
	policyKey      = "api_key"
	policyIP       = "client_ip"
	policyFailures = "auth_failures"
	policyLogins   = "logins"
)

// Limiter keeps the buckets. It is safe for concurrent use; a nil Limiter lets
// everything through.
type Limiter struct {
	keys     *buckets[uuid.UUID]
	address  *buckets[netip.Prefix]
	failures *buckets[netip.Prefix]
	logins   *buckets[netip.Prefix]
	proxies  []netip.Prefix
	refused  *prometheus.CounterVec
	log      *slog.Logger
	warned   sync.Once
}

// New makes full buckets.
func New(cfg Config, registry prometheus.Registerer, now func() time.Time, log *slog.Logger) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	proxies, err := parseProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_rate_limit_rejections_total", Help: "Requests rejected by a rate limit: of an API key, of a client IP, of a client IP whose credentials fail, of a client IP that begins logins.",
	}, []string{"limit"})
	if err := registry.Register(refused); err != nil {
		return nil, err
	}
	l := &Limiter{proxies: proxies, refused: refused, log: log,
		keys:     newBuckets[uuid.UUID](policyKey, cfg.Key, cfg.KeyBurst, now),
		address:  newBuckets[netip.Prefix](policyIP, cfg.Address, cfg.AddressBurst, now),
		failures: newBuckets[netip.Prefix](policyFailures, cfg.Failures, cfg.FailuresBurst, now),
		logins:   newBuckets[netip.Prefix](policyLogins, cfg.Logins, cfg.LoginsBurst, now),
	}
	for _, policy := range []string{policyKey, policyIP, policyFailures, policyLogins} {
		refused.WithLabelValues(policy) // there from the start, for rates
	}
	return l, nil
}

// TakeKey counts a request of an API key.
func (l *Limiter) TakeKey(id uuid.UUID) Verdict {
	if l == nil {
		return Verdict{}
	}
	return l.note(l.keys.take(id, true))
}

// TakeAddress counts a request from an address.
func (l *Limiter) TakeAddress(address netip.Addr) Verdict {
	if l == nil {
		return Verdict{}
	}
	return l.note(l.address.take(Network(address), true))
}

// TakeLogin counts a login that begins at an address.
func (l *Limiter) TakeLogin(address netip.Addr) Verdict {
	if l == nil {
		return Verdict{}
	}
	return l.note(l.logins.take(Network(address), true))
}

// Failed counts a credential that was not accepted.
func (l *Limiter) Failed(address netip.Addr) {
	if l != nil {
		l.failures.take(Network(address), true)
	}
}

// MayFail reports whether credentials from an address are still looked up. It counts
// nothing.
func (l *Limiter) MayFail(address netip.Addr) Verdict {
	if l == nil {
		return Verdict{}
	}
	return l.note(l.failures.take(Network(address), false))
}

func (l *Limiter) note(v Verdict) Verdict {
	if v.Refused {
		l.refused.WithLabelValues(v.policy).Inc()
	}
	return v
}

// Network is what counts as one address: a client has a whole /64 of IPv6.
func Network(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits) // an unknown address is the zero prefix: they count as one
	return prefix
}

// Verdict is what a limit says of one request. The zero Verdict is that of a limit
// which is off.
type Verdict struct {
	// Refused means that the request must not be carried out.
	Refused bool

	policy    string
	quota     int
	window    time.Duration // in which the quota comes back
	remaining int
	wait      time.Duration // until there is one more
}

// Describe writes the RateLimit-Policy and RateLimit fields
// (draft-ietf-httpapi-ratelimit-headers-10), beside those of other limits.
func (v Verdict) Describe(header http.Header) {
	if v.policy == "" {
		return
	}
	name := `"` + v.policy + `"`
	header.Add("RateLimit-Policy", name+";q="+strconv.Itoa(v.quota)+";w="+strconv.Itoa(seconds(v.window)))
	left := name + ";r=" + strconv.Itoa(v.remaining)
	if v.wait > 0 {
		left += ";t=" + strconv.Itoa(seconds(v.wait))
	}
	header.Add("RateLimit", left)
}

// Err is the fault of a request that was refused, nil for any other.
func (v Verdict) Err() error {
	if !v.Refused {
		return nil
	}
	public := "too many requests"
	switch v.policy {
	case policyFailures:
		public = "too many wrong credentials"
	case policyLogins:
		public = "Too many logins were begun from your network."
	}
	return &fault.Error{Kind: fault.Busy, Public: public, RetryAfter: v.wait,
		Cause: errors.New("over the limit by " + v.policy)}
}

func seconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// buckets are those of one limit.
type buckets[K comparable] struct {
	policy string
	rate   rate.Limit
	burst  int
	now    func() time.Time

	mu    sync.Mutex
	known *lru.Map[K, *rate.Limiter]
}

func newBuckets[K comparable](policy string, perSecond float64, burst int, now func() time.Time) *buckets[K] {
	return &buckets[K]{policy: policy, rate: rate.Limit(perSecond), burst: burst, now: now, known: lru.New[K, *rate.Limiter](remembered)}
}

// take looks at a client's bucket and, when it is to count, takes a token out.
func (b *buckets[K]) take(who K, count bool) Verdict {
	if b.rate == 0 {
		return Verdict{}
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	bucket, ok := b.known.Get(who)
	if !ok {
		bucket = rate.NewLimiter(b.rate, b.burst)
		if count {
			b.known.Put(who, bucket)
		}
	}
	allowed := bucket.TokensAt(now) >= 1
	if count {
		allowed = bucket.AllowN(now, 1)
	}
	left := bucket.TokensAt(now)
	verdict := Verdict{policy: b.policy, Refused: !allowed, quota: b.burst, remaining: max(0, int(left)),
		window: time.Duration(float64(b.burst) / float64(b.rate) * float64(time.Second))}
	if left < float64(b.burst) {
		verdict.wait = time.Duration((math.Floor(left) + 1 - left) / float64(b.rate) * float64(time.Second))
	}
	return verdict
}
