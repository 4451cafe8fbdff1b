package server

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of requests, by route pattern: paths contain ids.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	bytes    *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_http_requests_total", Help: "Requests by route, method and status code. Where clients of resumable uploads get 503 for a limit, or for a body that stalls, the code is 429 or 408. The route `unmatched` is none of the service.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mediastack_http_request_duration_seconds", Help: "Time from the header of a request to the end of its response, by route and method, without the time for which it waited for events.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mediastack_http_requests_in_flight", Help: "Requests in progress.",
		}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_http_body_bytes_total", Help: "Bytes of bodies read (`in`) and written (`out`), by route.",
		}, []string{"route", "direction"}),
	}
	return m, register(registry, m.requests, m.duration, m.inFlight, m.bytes)
}

func register(registry prometheus.Registerer, collectors ...prometheus.Collector) error {
	for _, collector := range collectors {
		if err := registry.Register(collector); err != nil {
			return fmt.Errorf("register metrics of the server: %w", err)
		}
	}
	return nil
}

func (m *metrics) observe(method, route string, status int, elapsed time.Duration, in, out int64) {
	method = methodLabel(method)
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route, method).Observe(elapsed.Seconds())
	m.bytes.WithLabelValues(route, "in").Add(float64(in))
	m.bytes.WithLabelValues(route, "out").Add(float64(out))
}

// methodLabel returns the label of a method. Unknown methods share one, to bound the time
// series.
func methodLabel(method string) string {
	for _, m := range methods {
		if m == method {
			return m
		}
	}
	return "other"
}

// connectionMetrics are the metrics of the public listener. Methods of nil do nothing.
type connectionMetrics struct {
	open     prometheus.Gauge
	rejected *prometheus.CounterVec
	evicted  prometheus.Counter
}

func newConnectionMetrics(registry prometheus.Registerer) (*connectionMetrics, error) {
	m := &connectionMetrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mediastack_http_connections_open", Help: "Open connections of clients.",
		}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_http_connections_rejected_total", Help: "Connections rejected by a bound: of all connections (`total`), of those of one client IP (`client_ip`).",
		}, []string{"limit"}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mediastack_http_connections_evicted_total", Help: "Connections without a request that were closed to make room for new ones.",
		}),
	}
	for _, reason := range []string{rejectedByTotal, rejectedByIP} {
		m.rejected.WithLabelValues(reason) // exported from the start, for rates
	}
	return m, register(registry, m.open, m.rejected, m.evicted)
}

func (m *connectionMetrics) set(open int) {
	if m != nil {
		m.open.Set(float64(open))
	}
}

func (m *connectionMetrics) reject(reason string) {
	if m != nil {
		m.rejected.WithLabelValues(reason).Inc()
	}
}

func (m *connectionMetrics) evict() {
	if m != nil {
		m.evicted.Inc()
	}
}
