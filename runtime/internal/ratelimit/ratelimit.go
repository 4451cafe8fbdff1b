// Package ratelimit implements rate limits: token buckets for each API key and each client IP,
// and stricter ones for failed authentication, for logins and for new pictures of a client IP. Buckets are
// local to the process: N replicas allow up to N times the rate. Package server takes a
// token for the client IP of every request, package auth one for the API key, package
// mcp one for each message of a batch after the first, and package delivery one for each picture of a preset that a
// request has made.
package ratelimit

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
	"mediastack.dev/runtime/lru"
)

// Config sets the rate limits. The tags are flag and environment names. Rates are in
// requests per second; 0 disables a limit.
type Config struct {
	Key            float64  `name:"rate-limit-key" env:"SERVICE_RATE_LIMIT_KEY" default:"500" help:"Requests per second of one API key, including those by its upload signatures; 0 = no limit."`
	KeyBurst       int      `name:"rate-limit-key-burst" env:"SERVICE_RATE_LIMIT_KEY_BURST" default:"2000" help:"Burst of SERVICE_RATE_LIMIT_KEY."`
	IP             float64  `name:"rate-limit-ip" env:"SERVICE_RATE_LIMIT_IP" default:"1000" help:"Requests per second of one client IP (IPv6: one /64), including downloads; 0 = no limit."`
	IPBurst        int      `name:"rate-limit-ip-burst" env:"SERVICE_RATE_LIMIT_IP_BURST" default:"4000" help:"Burst of SERVICE_RATE_LIMIT_IP."`
	Failures       float64  `name:"rate-limit-auth-failures" env:"SERVICE_RATE_LIMIT_AUTH_FAILURES" default:"1" help:"Invalid credentials per second of one client IP; 0 = no limit."`
	FailuresBurst  int      `name:"rate-limit-auth-failures-burst" env:"SERVICE_RATE_LIMIT_AUTH_FAILURES_BURST" default:"60" help:"Burst of SERVICE_RATE_LIMIT_AUTH_FAILURES."`
	Logins         float64  `name:"rate-limit-logins" env:"SERVICE_RATE_LIMIT_LOGINS" default:"5" help:"Logins per second that one client IP may start; 0 = no limit."`
	LoginsBurst    int      `name:"rate-limit-logins-burst" env:"SERVICE_RATE_LIMIT_LOGINS_BURST" default:"100" help:"Burst of SERVICE_RATE_LIMIT_LOGINS."`
	Pictures       float64  `name:"rate-limit-pictures" env:"SERVICE_RATE_LIMIT_PICTURES" default:"1" help:"Pictures of presets per second that one client IP may have made; those that are stored do not count; 0 = no limit."`
	PicturesBurst  int      `name:"rate-limit-pictures-burst" env:"SERVICE_RATE_LIMIT_PICTURES_BURST" default:"120" help:"Burst of SERVICE_RATE_LIMIT_PICTURES."`
	TrustedProxies []string `name:"trusted-proxies" env:"SERVICE_TRUSTED_PROXIES" help:"Networks (CIDR) of the proxies in front, whose X-Forwarded-For is trusted. Without it, all clients of a proxy count as one client IP."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	for _, l := range []struct {
		name  string
		rate  float64
		burst int
	}{
		{"SERVICE_RATE_LIMIT_KEY", c.Key, c.KeyBurst},
		{"SERVICE_RATE_LIMIT_IP", c.IP, c.IPBurst},
		{"SERVICE_RATE_LIMIT_AUTH_FAILURES", c.Failures, c.FailuresBurst},
		{"SERVICE_RATE_LIMIT_LOGINS", c.Logins, c.LoginsBurst},
		{"SERVICE_RATE_LIMIT_PICTURES", c.Pictures, c.PicturesBurst},
	} {
		// The lower bound keeps the window in which a bucket refills within a time.Duration.
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

// maxTrackedClients bounds how many clients each limit tracks, some 10 MB for all limits.
// The least recently seen client is evicted, and starts again with a full bucket.
const maxTrackedClients = 1 << 15

// Names of the limits, in RateLimit-Policy and as a metric's label.
const (
	policyKey      = "api_key"
	policyIP       = "client_ip"
	policyFailures = "auth_failures"
	policyLogins   = "logins"
	policyPictures = "pictures"
)

// Limiter holds the buckets. It is safe for concurrent use; a nil Limiter allows
// everything.
type Limiter struct {
	keys     *buckets[uuid.UUID]
	ips      *buckets[netip.Prefix]
	failures *buckets[netip.Prefix]
	logins   *buckets[netip.Prefix]
	pictures *buckets[netip.Prefix]
	proxies  []netip.Prefix
	rejected *prometheus.CounterVec
	log      *slog.Logger
	warnOnce sync.Once
}

// Deps are what a Limiter uses.
type Deps struct {
	Registry prometheus.Registerer
	Now      func() time.Time
	Log      *slog.Logger
}

// New returns a Limiter whose buckets are full.
func New(cfg Config, deps Deps) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	proxies, err := parseProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	rejected := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_rate_limit_rejections_total", Help: "Requests rejected by a rate limit: of an `api_key`, of a `client_ip`; of a client IP whose credentials fail (`auth_failures`), that begins `logins`, that has `pictures` made.",
	}, []string{"limit"})
	if err := deps.Registry.Register(rejected); err != nil {
		return nil, err
	}
	l := &Limiter{proxies: proxies, rejected: rejected, log: deps.Log,
		keys:     newBuckets[uuid.UUID](policyKey, cfg.Key, cfg.KeyBurst, deps.Now),
		ips:      newBuckets[netip.Prefix](policyIP, cfg.IP, cfg.IPBurst, deps.Now),
		failures: newBuckets[netip.Prefix](policyFailures, cfg.Failures, cfg.FailuresBurst, deps.Now),
		logins:   newBuckets[netip.Prefix](policyLogins, cfg.Logins, cfg.LoginsBurst, deps.Now),
		pictures: newBuckets[netip.Prefix](policyPictures, cfg.Pictures, cfg.PicturesBurst, deps.Now),
	}
	for _, policy := range []string{policyKey, policyIP, policyFailures, policyLogins, policyPictures} {
		rejected.WithLabelValues(policy) // exported from the start, for rates
	}
	return l, nil
}

// AllowKey takes a token for a request of an API key.
func (l *Limiter) AllowKey(id uuid.UUID) Decision {
	if l == nil {
		return Decision{}
	}
	return l.countRejection(l.keys.allow(id))
}

// AllowIP takes a token for a request of a client IP.
func (l *Limiter) AllowIP(ip netip.Addr) Decision {
	if l == nil {
		return Decision{}
	}
	return l.countRejection(l.ips.allow(ClientPrefix(ip)))
}

// AllowLogin takes a token for a login that a client IP begins.
func (l *Limiter) AllowLogin(ip netip.Addr) Decision {
	if l == nil {
		return Decision{}
	}
	return l.countRejection(l.logins.allow(ClientPrefix(ip)))
}

// AllowPicture takes a token for a picture that is made for a client IP.
func (l *Limiter) AllowPicture(ip netip.Addr) Decision {
	if l == nil {
		return Decision{}
	}
	return l.countRejection(l.pictures.allow(ClientPrefix(ip)))
}

// PeekPicture returns the Decision of the next picture that is made for a client IP. It takes no token, and counts no rejection.
func (l *Limiter) PeekPicture(ip netip.Addr) Decision {
	if l == nil {
		return Decision{}
	}
	return l.pictures.peek(ClientPrefix(ip))
}

// RecordFailure takes a token for a credential of a client IP that was invalid.
func (l *Limiter) RecordFailure(ip netip.Addr) {
	if l != nil {
		l.failures.allow(ClientPrefix(ip))
	}
}

// AllowAttempt decides whether a client IP may authenticate. It takes no token: only
// failures count.
func (l *Limiter) AllowAttempt(ip netip.Addr) Decision {
	if l == nil {
		return Decision{}
	}
	return l.countRejection(l.failures.peek(ClientPrefix(ip)))
}

func (l *Limiter) countRejection(d Decision) Decision {
	if d.Limited {
		l.rejected.WithLabelValues(d.policy).Inc()
	}
	return d
}

// Decision is the result of a limit for one request. The zero Decision is the result of a
// limit that is off.
type Decision struct {
	// Limited means that the request must be rejected.
	Limited bool

	policy    string
	quota     int
	window    time.Duration // in which an empty bucket refills
	remaining int
	wait      time.Duration // until there is one token more
}

// AddHeaders adds the RateLimit-Policy and RateLimit fields
// (draft-ietf-httpapi-ratelimit-headers-10) to those of other limits.
func (d Decision) AddHeaders(header http.Header) {
	if d.policy == "" {
		return
	}
	name := `"` + d.policy + `"`
	header.Add("RateLimit-Policy", name+";q="+strconv.Itoa(d.quota)+";w="+strconv.Itoa(seconds(d.window)))
	remaining := name + ";r=" + strconv.Itoa(d.remaining)
	if d.wait > 0 {
		remaining += ";t=" + strconv.Itoa(seconds(d.wait))
	}
	header.Add("RateLimit", remaining)
}

// Err returns a Busy fault if the request is limited.
func (d Decision) Err() error {
	if !d.Limited {
		return nil
	}
	public := "too many requests"
	switch d.policy {
	case policyFailures:
		public = "too many wrong credentials"
	case policyLogins:
		public = "Too many logins were started from your network."
	case policyPictures:
		public = "too many new pictures for this address"
	}
	return &fault.Error{Kind: fault.Busy, Public: public, RetryAfter: d.wait,
		Cause: errors.New("over the limit by " + d.policy)}
}

func seconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// buckets are the token buckets of one limit.
type buckets[K comparable] struct {
	policy string
	rate   rate.Limit
	burst  int
	now    func() time.Time

	mu       sync.Mutex
	limiters *lru.Map[K, *rate.Limiter]
}

func newBuckets[K comparable](policy string, perSecond float64, burst int, now func() time.Time) *buckets[K] {
	return &buckets[K]{policy: policy, rate: rate.Limit(perSecond), burst: burst, now: now, limiters: lru.New[K, *rate.Limiter](maxTrackedClients)}
}

// allow takes a token out of the bucket of a client.
func (b *buckets[K]) allow(client K) Decision { return b.decide(client, true) }

// peek returns the Decision of the next request of a client, and takes no token.
func (b *buckets[K]) peek(client K) Decision { return b.decide(client, false) }

func (b *buckets[K]) decide(client K, take bool) Decision {
	if b.rate == 0 {
		return Decision{}
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	bucket, ok := b.limiters.Get(client)
	if !ok {
		bucket = rate.NewLimiter(b.rate, b.burst)
		if take {
			b.limiters.Put(client, bucket)
		}
	}
	allowed := bucket.TokensAt(now) >= 1
	if take {
		allowed = bucket.AllowN(now, 1)
	}
	tokens := bucket.TokensAt(now)
	decision := Decision{policy: b.policy, Limited: !allowed, quota: b.burst, remaining: max(0, int(tokens)),
		window: time.Duration(float64(b.burst) / float64(b.rate) * float64(time.Second))}
	if tokens < float64(b.burst) {
		decision.wait = time.Duration((math.Floor(tokens) + 1 - tokens) / float64(b.rate) * float64(time.Second))
	}
	return decision
}
