package imaging

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count jobs and what becomes of workers.
type metrics struct {
	jobs     *prometheus.CounterVec
	duration prometheus.Histogram
	waited   prometheus.Histogram
	workers  *prometheus.CounterVec
	busy     prometheus.Gauge
}

// Why a worker was ended.
const (
	endSpent   = "recycled"     // it did its share of jobs, or grew
	endFailed  = "crashed"      // it crashed, hung or broke the protocol
	endStopped = "canceled"     // its job was given up
	endStart   = "start_failed" // it never greeted
)

func newMetrics(registry prometheus.Registerer, waiting func() int) (*metrics, error) {
	m := &metrics{
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_image_jobs_total", Help: "Images that were worked on, by result.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mediastack_image_job_duration_seconds", Help: "Time that a worker took for an image, retry included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mediastack_image_queue_wait_seconds", Help: "Time that an image waited for a worker.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60},
		}),
		workers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_image_worker_exits_total", Help: "Image workers that were ended or ended themselves, by reason.",
		}, []string{"reason"}),
		busy: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mediastack_image_workers_busy", Help: "Image workers that work on an image.",
		}),
	}
	length := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mediastack_image_queue_length", Help: "Images that wait for a worker.",
	}, func() float64 { return float64(waiting()) })
	for _, collector := range []prometheus.Collector{m.jobs, m.duration, m.waited, m.workers, m.busy, length} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) observe(result string, worked time.Duration) {
	m.jobs.WithLabelValues(result).Inc()
	m.duration.Observe(worked.Seconds())
}
