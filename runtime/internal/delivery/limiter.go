package delivery

import (
	"errors"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
)

// downloadLimiter bounds how many files are sent at once, by this process and to one
// client network: each download holds a buffer and a connection to the object store until
// its client has received the file. A download that gets no slot is rejected at once and
// holds nothing. A downloadLimiter is safe for concurrent use.
type downloadLimiter struct {
	slots    *fairlimit.Limiter[netip.Prefix]
	rejected *prometheus.CounterVec
}

// Values of the label limit: the bound that rejected a download.
const (
	limitProcess = "process"
	limitClient  = "client_ip"
)

// retryAfter is when a client whose download was rejected may try again.
const retryAfter = 2 * time.Second

func newDownloadLimiter(cfg Config, registry prometheus.Registerer) (*downloadLimiter, error) {
	limits := fairlimit.Config{Limit: fairlimit.Unlimited, PerKey: fairlimit.Unlimited}
	if cfg.MaxDownloads > 0 {
		limits = fairlimit.Config{Limit: cfg.MaxDownloads, PerKey: max(1, cfg.MaxDownloads*cfg.DownloadPerClientPercent/100)}
	}
	l := &downloadLimiter{
		slots: fairlimit.New[netip.Prefix](limits),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_downloads_rejected_total", Help: "Downloads rejected by a limit: of the `process`, of one client IP (`client_ip`).",
		}, []string{"limit"}),
	}
	for _, limit := range []string{limitProcess, limitClient} {
		l.rejected.WithLabelValues(limit) // exported from the start, for rates
	}
	if registry == nil {
		return l, nil
	}
	if err := l.slots.Register(registry, "mediastack_downloads", "Slots of downloads"); err != nil {
		return nil, err
	}
	return l, registry.Register(l.rejected)
}

// Acquire acquires a slot for a client network. It returns a Busy fault if none is free.
func (l *downloadLimiter) Acquire(client netip.Prefix) error {
	switch err := l.slots.TryAcquire(client); {
	case errors.Is(err, fairlimit.ErrLimit):
		return l.reject(limitProcess, "too many downloads at once")
	case errors.Is(err, fairlimit.ErrKeyLimit):
		return l.reject(limitClient, "too many downloads at once from this address")
	}
	return nil
}

func (l *downloadLimiter) reject(limit, public string) error {
	l.rejected.WithLabelValues(limit).Inc()
	return &fault.Error{Kind: fault.Busy, Public: public, RetryAfter: retryAfter}
}

// Release releases a slot of a client network.
func (l *downloadLimiter) Release(client netip.Prefix) { l.slots.Release(client) }

// inFlight returns how many files are being sent.
func (l *downloadLimiter) inFlight() int { return l.slots.InFlight() }
