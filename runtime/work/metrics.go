package work

import "github.com/prometheus/client_golang/prometheus"

// Outcomes of an attempt.
const (
	outcomeDone      = "done"
	outcomeSnoozed   = "snoozed"
	outcomeRetry     = "retry"     // it failed, and the task is tried again
	outcomeReturned  = "returned"  // the process shut down
	outcomeDiscarded = "discarded" // it can never succeed, or has failed too often
	outcomeExpired   = "expired"   // its time was over, or would be before the next attempt
	outcomeLost      = "lost"      // the claim had ended before
	outcomeUnknown   = "unknown"   // its end could not be recorded; the task runs again after its claim
)

func outcomes() []string {
	return []string{outcomeDone, outcomeSnoozed, outcomeRetry, outcomeReturned, outcomeDiscarded, outcomeExpired, outcomeLost, outcomeUnknown}
}

// metrics are those of all kinds.
type metrics struct {
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	running  *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) (metrics, error) {
	m := metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_work_attempts_total", Help: "Attempts at tasks by kind and outcome: `done`, `retry`, `snoozed`, `returned`, `discarded`, `expired`, `lost`, `unknown`.",
		}, []string{"kind", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mediastack_work_attempt_duration_seconds", Help: "Duration of attempts at tasks, by kind.",
			Buckets: []float64{.005, .02, .1, .5, 2, 10, 60, 600},
		}, []string{"kind"}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mediastack_work_running", Help: "Tasks that the process runs now, by kind.",
		}, []string{"kind"}),
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.attempts, m.duration, m.running} {
		if err := registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

// add exports the series of a kind as 0 before its first attempt, for rates.
func (m metrics) add(kind Kind) {
	for _, outcome := range outcomes() {
		m.attempts.WithLabelValues(string(kind), outcome)
	}
	m.duration.WithLabelValues(string(kind))
	m.running.WithLabelValues(string(kind))
}
