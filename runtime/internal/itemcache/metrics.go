package itemcache

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	hits, misses, dropped prometheus.Counter
	lookups               *prometheus.CounterVec
}

func newMetrics() *metrics {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_item_cache_lookups_total", Help: "Items that downloads and reads of one item looked up: `hit` (in the cache), `miss` (in PostgreSQL).",
	}, []string{"result"})
	return &metrics{
		lookups: lookups, hits: lookups.WithLabelValues("hit"), misses: lookups.WithLabelValues("miss"),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mediastack_item_cache_invalidations_total", Help: "Items that were dropped from the cache because they, or their account, changed.",
		}),
	}
}

// register registers the metrics; registry may be nil.
func (c *Cache) register(registry prometheus.Registerer) error {
	if registry == nil {
		return nil
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return value()
		})
	}
	for _, collector := range []prometheus.Collector{
		c.metrics.lookups, c.metrics.dropped,
		gauge("mediastack_item_cache_entries", "Items in the cache.", func() float64 { return float64(c.entries.Len()) }),
		gauge("mediastack_item_cache_bytes", "Estimated memory of the items in the cache.", func() float64 { return float64(c.bytes) }),
		gauge("mediastack_item_cache_registered", "1 while the cache is used: PostgreSQL confirmed within the lease that changes are waited for. Else 0.", func() float64 {
			if c.serves(c.now()) {
				return 1
			}
			return 0
		}),
	} {
		if err := registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}
