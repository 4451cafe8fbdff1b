package objectstore

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of the requests to the store.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
}

// Values of the label outcome.
const (
	outcomeOK       = "ok"
	outcomeRejected = "rejected" // 4xx: also an object that does not exist
	outcomeFailed   = "failed"   // 5xx
	outcomeLost     = "lost"     // no response
	outcomeCanceled = "canceled" // by the caller
)

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_object_store_requests_total", Help: "Requests to the object store, each retry included, by outcome: `ok`, `rejected` (4xx), `failed` (5xx), `lost` (no response), `canceled` (by the caller).",
		}, []string{"operation", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mediastack_object_store_request_duration_seconds", Help: "Time from a request to the object store, with its body, to the header of the response.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"operation"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_object_store_body_bytes_total", Help: "Bytes of bodies written to (`out`) and read from (`in`) the object store.",
		}, []string{"direction"}),
	}
}

// Register registers the metrics of the requests.
func (s *Store) Register(registry prometheus.Registerer) error {
	for _, direction := range []string{"in", "out"} {
		s.metrics.bytes.WithLabelValues(direction) // exported from the start, for rates
	}
	for _, collector := range []prometheus.Collector{s.metrics.requests, s.metrics.duration, s.metrics.bytes} {
		if err := registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// measuredTransport measures requests, each attempt of a retried one.
type measuredTransport struct {
	next    http.RoundTripper
	host    string // of the endpoint
	metrics *metrics
}

// RoundTrip implements http.RoundTripper.
func (t measuredTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	operation, start := operationOf(request, t.host), time.Now()
	measured := request
	if request.Body != nil && request.Body != http.NoBody {
		measured = request.WithContext(request.Context()) // a RoundTripper must not change the request
		measured.Body = countedBody{request.Body, t.metrics.bytes.WithLabelValues("out")}
	}
	response, err := t.next.RoundTrip(measured)
	t.metrics.duration.WithLabelValues(operation).Observe(time.Since(start).Seconds())
	t.metrics.requests.WithLabelValues(operation, outcomeOf(request.Context(), response, err)).Inc()
	if err == nil {
		response.Body = countedBody{response.Body, t.metrics.bytes.WithLabelValues("in")}
	}
	return response, err
}

func outcomeOf(ctx context.Context, response *http.Response, err error) string {
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled) && !isSilent(ctx):
		return outcomeCanceled
	case err != nil:
		return outcomeLost
	case response.StatusCode >= http.StatusInternalServerError:
		return outcomeFailed
	case response.StatusCode >= http.StatusBadRequest:
		return outcomeRejected
	}
	return outcomeOK
}

// countedBody counts the bytes that are read from a body.
type countedBody struct {
	io.ReadCloser
	read prometheus.Counter
}

// Read implements io.Reader.
func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(float64(n))
	return n, err
}
