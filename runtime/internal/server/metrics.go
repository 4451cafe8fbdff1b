package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count requests by route pattern, never by path: paths hold ids.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	bytes    *prometheus.CounterVec
}

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_http_requests_total", Help: "Requests by route, method and status code.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mediastack_http_request_duration_seconds", Help: "Time from the header to the end of the answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mediastack_http_requests_in_flight", Help: "Requests that are being answered.",
		}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_http_body_bytes_total", Help: "Bytes of bodies read (in) and written (out) by route.",
		}, []string{"route", "direction"}),
	}
	registry.MustRegister(m.requests, m.duration, m.inFlight, m.bytes)
	return m
}

func (m *metrics) observe(method, route string, status int, took time.Duration, in, out int64) {
	method = known(method)
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route, method).Observe(took.Seconds())
	m.bytes.WithLabelValues(route, "in").Add(float64(in))
	m.bytes.WithLabelValues(route, "out").Add(float64(out))
}

// known keeps made-up methods from making a time series each.
func known(method string) string {
	for _, m := range methods {
		if m == method {
			return m
		}
	}
	return "other"
}

// connectionMetrics are those of the public listener. A nil one counts nothing.
type connectionMetrics struct {
	open     prometheus.Gauge
	rejected *prometheus.CounterVec
	evicted  prometheus.Counter
}

func newConnectionMetrics(registry *prometheus.Registry) *connectionMetrics {
	m := &connectionMetrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "mediastack_http_connections_open", Help: "Open connections of clients.",
		}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_http_connections_rejected_total", Help: "Connections rejected by a bound: of all connections (total), of those of one client IP (client_ip).",
		}, []string{"limit"}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mediastack_http_connections_evicted_total", Help: "Connections without a request that were closed to make room for new ones.",
		}),
	}
	registry.MustRegister(m.open, m.rejected, m.evicted)
	for _, reason := range []string{rejectedByTotal, rejectedByAddress} {
		m.rejected.WithLabelValues(reason) // there from the start, for rates
	}
	return m
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
