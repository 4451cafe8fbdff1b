package gate

import (
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
)

// Outcomes of a check, beside the results.
const (
	outcomeUnchecked = "unchecked" // the scanner was not available, and the account allows that
	outcomeOff       = "off"       // the account has no gate anymore
)

// metrics count what was checked. How many files wait is known by their tasks (mediastack_work_tasks).
type metrics struct {
	scans    *prometheus.CounterVec
	failed   *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) (metrics, error) {
	m := metrics{
		scans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_gate_checks_total", Help: "Files that were checked before their seal, by result: `clean`, `infected`, `unscannable`, `unchecked`, `off`.",
		}, []string{"result"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_gate_failures_total", Help: "Scans that failed since the scanner was not available, by scanner.",
		}, []string{"scanner"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mediastack_gate_scan_duration_seconds", Help: "Duration of scans, with the transfer of the file, by scanner.",
			Buckets: []float64{.005, .02, .1, .5, 2, 10, 60, 300},
		}, []string{"scanner"}),
	}
	for _, result := range []string{string(Clean), string(Infected), string(Unscannable), outcomeUnchecked, outcomeOff} {
		m.scans.WithLabelValues(result)
	}
	for _, scanner := range []string{account.ScannerClamd, account.ScannerHTTP} {
		m.failed.WithLabelValues(scanner)
		m.duration.WithLabelValues(scanner)
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.scans, m.failed, m.duration} {
		if err := registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}
