package media

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what the use cases did.
type metrics struct {
	sealed   prometheus.Counter
	deleted  prometheus.Counter
	restored prometheus.Counter
}

// newMetrics returns the metrics, and registers them unless registry is nil.
func newMetrics(registry prometheus.Registerer) (metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := metrics{
		sealed:   counter("mediastack_items_sealed_total", "Drafts that were sealed."),
		deleted:  counter("mediastack_items_deleted_total", "Drafts and sealed items that were deleted by a request."),
		restored: counter("mediastack_items_restored_total", "Deleted items that were restored."),
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.sealed, m.deleted, m.restored} {
		if err := registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

// CountSealed counts an item that was sealed when its upload was committed.
func (s *Service) CountSealed() { s.metrics.sealed.Inc() }

// countSeal counts an item that was sealed at now, and not before. The database rounds times down to
// microseconds.
func (m metrics) countSeal(item Item, now time.Time) {
	if item.SealedAt != nil && item.SealedAt.Equal(now.Truncate(time.Microsecond)) {
		m.sealed.Inc()
	}
}
