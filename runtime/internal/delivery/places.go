package delivery

import (
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
)

// places bounds how many files are sent at once, by this process and to one network:
// each holds a buffer and a connection to the object store for as long as its client
// likes. Nobody waits for a place: a client that is told to come back holds nothing
// here. It is safe for concurrent use.
type places struct {
	limit int // 0 = no limit
	share int // of them for one network

	mu    sync.Mutex
	taken int
	of    map[netip.Prefix]int // networks with files on their way

	busy    prometheus.GaugeFunc
	refused *prometheus.CounterVec
}

// Why there is no place, as the metric says it.
const (
	overLimit = "process"
	overShare = "client_ip"
)

// placePause is when a client that found no place may come back.
const placePause = 2 * time.Second

func newPlaces(cfg Config) *places {
	p := &places{limit: cfg.MaxDownloads, share: max(1, cfg.MaxDownloads*cfg.DownloadShare/100), of: map[netip.Prefix]int{},
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_downloads_rejected_total", Help: "Downloads rejected by a limit: of the process, of one client IP.",
		}, []string{"limit"})}
	p.busy = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mediastack_downloads_in_flight", Help: "Files that are being sent.",
	}, func() float64 { return float64(p.count()) })
	for _, limit := range []string{overLimit, overShare} {
		p.refused.WithLabelValues(limit) // there from the start, for rates
	}
	return p
}

// enter takes a place for a network, which leave gives back. Busy when there is none.
func (p *places) enter(from netip.Prefix) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.limit == 0:
	case p.taken >= p.limit:
		return p.full(overLimit, "too many downloads at once")
	case p.of[from] >= p.share:
		return p.full(overShare, "too many downloads at once from this address")
	}
	p.taken++
	p.of[from]++
	return nil
}

func (p *places) full(limit, public string) error {
	p.refused.WithLabelValues(limit).Inc()
	return &fault.Error{Kind: fault.Busy, Public: public, RetryAfter: placePause}
}

func (p *places) leave(from netip.Prefix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[from]--; p.of[from] == 0 {
		delete(p.of, from)
	}
}

func (p *places) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Register shows how many files are being sent, and how many were refused.
func (d *Delivery) Register(registry prometheus.Registerer) error {
	if err := registry.Register(d.places.busy); err != nil {
		return err
	}
	return registry.Register(d.places.refused)
}
