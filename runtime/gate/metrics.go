package gate

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
)

// Outcomes of a check, beside the verdicts.
const (
	outcomeUnchecked = "unchecked" // the scanner was not available, and the account allows that
	outcomeOff       = "off"       // the account has no gate anymore
)

// metrics count what was checked.
type metrics struct {
	scans    *prometheus.CounterVec
	failed   *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(deps Deps) (metrics, error) {
	m := metrics{
		scans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_gate_checks_total", Help: "Files that were checked before their seal, by verdict: `clean`, `infected`, `unscannable`, `unchecked`, `off`.",
		}, []string{"verdict"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_gate_failures_total", Help: "Scans that failed since the scanner was not available, by scanner.",
		}, []string{"scanner"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mediastack_gate_scan_duration_seconds", Help: "Duration of scans, with the transfer of the file, by scanner.",
			Buckets: []float64{.005, .02, .1, .5, 2, 10, 60, 300},
		}, []string{"scanner"}),
	}
	for _, verdict := range []string{string(Clean), string(Infected), string(Unscannable), outcomeUnchecked, outcomeOff} {
		m.scans.WithLabelValues(verdict)
	}
	for _, scanner := range []string{account.ScannerClamd, account.ScannerHTTP} {
		m.failed.WithLabelValues(scanner)
		m.duration.WithLabelValues(scanner)
	}
	if deps.Registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.scans, m.failed, m.duration, newWaitingCollector(deps)} {
		if err := deps.Registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

// countTimeout bounds the count of what waits.
const countTimeout = 2 * time.Second

// waitingCollector counts what waits when metrics are read. All replicas count the same. Without an answer of the database there is no sample.
type waitingCollector struct {
	deps            Deps
	waiting, oldest *prometheus.Desc
}

func newWaitingCollector(deps Deps) waitingCollector {
	return waitingCollector{deps, prometheus.NewDesc("mediastack_gate_waiting", "Drafts whose file waits for a verdict, in the whole installation.", nil, nil),
		prometheus.NewDesc("mediastack_gate_oldest_waiting_seconds", "Age of the oldest draft whose file waits for a verdict; 0 if none does.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (c waitingCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.waiting
	descs <- c.oldest
}

// Collect implements prometheus.Collector.
func (c waitingCollector) Collect(samples chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	waiting, oldest, err := c.deps.Store.CountWaiting(ctx)
	if err != nil {
		return
	}
	age := 0.0
	if waiting > 0 {
		age = max(0, c.deps.Now().Sub(oldest).Seconds())
	}
	samples <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(waiting))
	samples <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age)
}
