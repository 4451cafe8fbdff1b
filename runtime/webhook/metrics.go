package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of an attempt.
const (
	outcomeAccepted = "accepted"
	outcomeFailed   = "failed" // it is tried again
	outcomeGone     = "gone"   // the receiver has ended the webhook
	outcomeGivenUp  = "given_up"
)

type metrics struct {
	attempts *prometheus.CounterVec
	delay    prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) (metrics, error) {
	m := metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_webhook_attempts_total", Help: "Attempts at deliveries of webhooks by outcome: `accepted`, `failed` (it is tried again), `given_up` (it was the last attempt), `gone` (the receiver has ended the webhook).",
		}, []string{"outcome"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mediastack_webhook_delay_seconds", Help: "Time from an event until its receiver has accepted it.",
			Buckets: []float64{.25, .5, 1, 2, 5, 10, 60, 600, 3600, 36_000},
		}),
	}
	for _, outcome := range []string{outcomeAccepted, outcomeFailed, outcomeGone, outcomeGivenUp} {
		m.attempts.WithLabelValues(outcome)
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.attempts, m.delay} {
		if err := registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

func (m metrics) accepted(event, now time.Time) {
	m.attempts.WithLabelValues(outcomeAccepted).Inc()
	m.delay.Observe(now.Sub(event).Seconds())
}
