package imaging

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of jobs and worker processes.
type metrics struct {
	jobs      *prometheus.CounterVec
	duration  prometheus.Histogram
	queueWait prometheus.Histogram
	exits     *prometheus.CounterVec
	busy      prometheus.Gauge
	formats   *prometheus.GaugeVec
}

// Values of the label result, beside those of protocol.Reason.
const (
	resultSuccess     = "success"
	resultCanceled    = "canceled"
	resultSourceError = "source_error"
	resultTimeout     = "timeout"
	resultWorkerError = "worker_error"
)

// Values of the label reason: why a worker process exited.
const (
	exitRecycled    = "recycled"     // it did maxJobs, or held too much memory
	exitCrashed     = "crashed"      // it crashed, hung or violated the protocol
	exitCanceled    = "canceled"     // its job was canceled
	exitStartFailed = "start_failed" // it sent no handshake
)

func newMetrics(registry prometheus.Registerer, waiting func() int) (*metrics, error) {
	m := &metrics{
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_image_jobs_total", Help: "Image jobs by result: `success`, `canceled`, `source_error` (the file could not be read), `timeout`, `worker_error`, or why the file was rejected.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mediastack_image_job_duration_seconds", Help: "Duration of an image job, including its retry.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		queueWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mediastack_image_queue_wait_seconds", Help: "Time that an image job waited for a worker.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60},
		}),
		exits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_image_worker_exits_total", Help: "Exits of image worker processes by reason: `recycled` (planned), `crashed`, `canceled` (with its job), `start_failed`.",
		}, []string{"reason"}),
		busy: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mediastack_image_workers_busy", Help: "Image workers that process a job.",
		}),
		formats: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mediastack_image_format_supported", Help: "1 if the image workers can read the format, 0 if its decoder is not installed.",
		}, []string{"format"}),
	}
	// Exported from the start, for rates.
	for _, result := range []string{resultSuccess, resultCanceled, resultSourceError, resultTimeout, resultWorkerError} {
		m.jobs.WithLabelValues(result)
	}
	for _, reason := range []string{exitRecycled, exitCrashed, exitCanceled, exitStartFailed} {
		m.exits.WithLabelValues(reason)
	}
	length := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mediastack_image_queue_length", Help: "Image jobs that wait for a worker.",
	}, func() float64 { return float64(waiting()) })
	for _, collector := range []prometheus.Collector{m.jobs, m.duration, m.queueWait, m.exits, m.busy, m.formats, length} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) observe(result string, elapsed time.Duration) {
	m.jobs.WithLabelValues(result).Inc()
	m.duration.Observe(elapsed.Seconds())
}
