package approval

import "github.com/prometheus/client_golang/prometheus"

// The outcomes of requests, and of the changes of those that were allowed.
const (
	outcomeAsked    = "asked"
	outcomeAllowed  = "allowed"
	outcomeDenied   = "denied"
	outcomeDone     = "done"
	outcomeOutdated = "outdated"
	outcomeFailed   = "failed"
)

// metrics count what owners are asked, and what becomes of it.
type metrics struct {
	requests *prometheus.CounterVec
	changes  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) (metrics, error) {
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_approval_requests_total", Help: "Calls that wait for an owner (`asked`), and decisions of owners (`allowed`, `denied`), by outcome. Several calls may wait for one decision.",
		}, []string{"outcome"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_approval_changes_total", Help: "Changes that an owner has allowed, by outcome: `done`, `outdated` (the item was changed or deleted since), `failed`.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{outcomeAsked, outcomeAllowed, outcomeDenied} {
		m.requests.WithLabelValues(outcome)
	}
	for _, outcome := range []string{outcomeDone, outcomeOutdated, outcomeFailed} {
		m.changes.WithLabelValues(outcome)
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.requests, m.changes} {
		if err := registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}
