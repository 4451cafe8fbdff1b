package rendition

import "github.com/prometheus/client_golang/prometheus"

// Values of the label result: how an attempt to make the pictures of an item in advance ended.
const (
	eagerDone     = "done"     // all are stored
	eagerFailed   = "failed"   // it is given up
	eagerRetried  = "retried"  // it is tried again later
	eagerFull     = "no_room"  // under the storage cap; tried again later
	eagerReturned = "returned" // the process shut down
)

// eagerMetrics count what an Eager does.
type eagerMetrics struct {
	items *prometheus.CounterVec
	made  prometheus.Counter
}

// newEagerMetrics returns the metrics, and registers them unless registry is nil.
func newEagerMetrics(registry prometheus.Registerer) (eagerMetrics, error) {
	m := eagerMetrics{
		items: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mediastack_rendition_eager_items_total",
			Help: "Items, by result of the pictures in advance: `done`, `failed` (broken, too large; lost, or workers failed, in 3 attempts), `retried`, `no_room`, `returned` (at a shutdown)."}, []string{"result"}),
		made: prometheus.NewCounter(prometheus.CounterOpts{Name: "mediastack_rendition_eager_made_total", Help: "Pictures that were made in advance and stored."}),
	}
	for _, result := range []string{eagerDone, eagerFailed, eagerRetried, eagerFull, eagerReturned} {
		m.items.WithLabelValues(result) // exported from the start, for rates
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.items, m.made} {
		if err := registry.Register(collector); err != nil {
			return eagerMetrics{}, err
		}
	}
	return m, nil
}
