package fetch

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count the attempts of this process.
type metrics struct {
	attempts *prometheus.CounterVec
	received prometheus.Counter
	duration prometheus.Histogram
	inFlight prometheus.Gauge
	limit    prometheus.Gauge
}

// Values of the label outcome. A job that has failed has its code, and that of any status is outcomeStatus.
const (
	outcomeDone     = "done"
	outcomeRetry    = "retry"    // it is tried again
	outcomeReturned = "returned" // to the queue, for a shutdown or another account
	outcomeLost     = "lost"     // the job is another process's, or was deleted with its account
	outcomeStatus   = "status"
)

// outcomes are the values of the label outcome.
var outcomes = []string{outcomeDone, outcomeRetry, outcomeReturned, outcomeLost, outcomeStatus, string(AddressNotAllowed), string(Unreachable), string(TLSFailed),
	string(RedirectNotAllowed), string(Timeout), string(InvalidResponse), string(UnsupportedEncoding), string(Incomplete), string(TooLarge), string(StorageCapExceeded),
	string(NotPermitted), string(Interrupted), string(Unavailable), string(InternalError)}

// newMetrics returns the metrics, and registers them unless registry is nil.
func newMetrics(registry prometheus.Registerer, slots int) (metrics, error) {
	m := metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_fetch_attempts_total", Help: "Attempts at uploads from a URL by outcome: `done`, `retry`, `returned` (to the queue), `lost` (to another process), or why the upload failed.",
		}, []string{"outcome"}),
		received: prometheus.NewCounter(prometheus.CounterOpts{Name: "mediastack_fetch_received_bytes_total", Help: "Bytes of files that other servers sent for uploads from a URL."}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "mediastack_fetch_attempt_duration_seconds", Help: "Duration of an attempt at an upload from a URL.",
			Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600}}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "mediastack_fetch_in_flight", Help: "Uploads from a URL that this process runs."}),
		limit:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "mediastack_fetch_limit", Help: "Uploads from a URL that this process may run at once (`SERVICE_FETCH_CONCURRENCY`)."}),
	}
	m.limit.Set(float64(slots))
	for _, outcome := range outcomes {
		m.attempts.WithLabelValues(outcome) // exported from the start, for rates
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.attempts, m.received, m.duration, m.inFlight, m.limit} {
		if err := registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

// outcomeOf returns the value of the label for a job that failed: statuses of HTTP share one.
func outcomeOf(code Code) string {
	if strings.HasPrefix(string(code), statusPrefix) {
		return outcomeStatus
	}
	return string(code)
}

// countAttempt counts an attempt that has ended.
func (m metrics) countAttempt(outcome string, took time.Duration) {
	m.attempts.WithLabelValues(outcome).Inc()
	m.duration.Observe(took.Seconds())
}
