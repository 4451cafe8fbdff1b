package cdn

import "github.com/prometheus/client_golang/prometheus"

// Outcomes of a purge.
const (
	outcomeSent   = "sent"
	outcomeFailed = "failed" // it is tried again
)

type metrics struct {
	purges          *prometheus.CounterVec
	waiting, oldest prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) (metrics, error) {
	m := metrics{
		purges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_cdn_purges_total", Help: "Tags that were to be purged from the CDN, by outcome: `sent` (the CDN has accepted it; each is sent twice), `failed` (it is tried again).",
		}, []string{"outcome"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "mediastack_cdn_purges_waiting", Help: "Purges that the CDN has not accepted yet. Every replica with a purger exports it."}),
		oldest:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "mediastack_cdn_purge_wait_seconds", Help: "For how long the oldest purge has waited that the CDN has not accepted yet; 0 without one. Every replica with a purger exports it."}),
	}
	for _, outcome := range []string{outcomeSent, outcomeFailed} {
		m.purges.WithLabelValues(outcome) // exported from the start, for rates
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.purges, m.waiting, m.oldest} {
		if err := registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

// count counts the tags of a request.
func (m metrics) count(tags int, err error) {
	outcome := outcomeSent
	if err != nil {
		outcome = outcomeFailed
	}
	m.purges.WithLabelValues(outcome).Add(float64(tags))
}
