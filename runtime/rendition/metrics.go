package rendition

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// Values of the label source: where a rendition came from.
const (
	fromCache    = "cache"    // the row was in the cache of this process
	fromDatabase = "database" // it was stored before, or another process made it
	fromMemory   = "memory"   // it could not be stored, and this process has it in memory
	fromJob      = "job"      // a job of this process, for one or for several requests
)

// Values of the label reason: why a rendition was sent and not stored.
const (
	noRoom      = "no_room"
	ended       = "ended"        // the item was deleted, or an upload needed the room
	storeFailed = "store_failed" // PostgreSQL or S3 failed
	notWritable = "held"         // nothing may be stored at present
)

// Values of the label reason: why a request has no rendition.
const (
	knownReason       = "known" // as a short time ago: no job was started
	unsupportedReason = "unsupported"
	notOfferedReason  = "not_offered"
	busyReason        = "busy"
	canceledReason    = "canceled"
	errorReason       = "error"
)

// metrics count what a Service does.
type metrics struct {
	made     prometheus.Counter
	lost     prometheus.Counter
	duration prometheus.Histogram
	requests *prometheus.CounterVec
	unstored *prometheus.CounterVec
	failed   *prometheus.CounterVec
}

// newMetrics returns the metrics, and registers them unless registry is nil.
func newMetrics(registry prometheus.Registerer) (metrics, error) {
	m := metrics{
		made: prometheus.NewCounter(prometheus.CounterOpts{Name: "mediastack_rendition_jobs_total", Help: "Jobs of the image workers for a rendition that a request needed, failed ones included."}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "mediastack_rendition_objects_lost_total", Help: "Renditions that were made again because the object store did not have their object."}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "mediastack_rendition_duration_seconds", Help: "Time to make and store a rendition, the wait for an image worker included.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mediastack_rendition_requests_total",
			Help: "Renditions that requests got: from the `cache` of rows, the `database` (stored, or made by another process), the `memory` (it could not be stored), a `job` of this process."}, []string{"source"}),
		unstored: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mediastack_rendition_unstored_total",
			Help: "Renditions that were sent and not stored: `no_room` (under the storage cap), `ended` (item deleted, or an upload needed the room), `store_failed`, `held` (nothing may be stored)."}, []string{"reason"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mediastack_rendition_failures_total",
			Help: "Requests without one: `unsupported` (no image, broken, too large), `not_offered` (too large for the format), `known` (as shortly before; or a worker failed), `busy`, `canceled`, `error`."}, []string{"reason"}),
	}
	for vector, values := range map[*prometheus.CounterVec][]string{
		m.requests: {fromCache, fromDatabase, fromMemory, fromJob}, m.unstored: {noRoom, ended, storeFailed, notWritable},
		m.failed: {knownReason, unsupportedReason, notOfferedReason, busyReason, canceledReason, errorReason},
	} {
		for _, value := range values {
			vector.WithLabelValues(value) // exported from the start, for rates
		}
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.made, m.lost, m.duration, m.requests, m.unstored, m.failed} {
		if err := registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

func (m metrics) served(source string)  { m.requests.WithLabelValues(source).Inc() }
func (m metrics) keepNot(reason string) { m.unstored.WithLabelValues(reason).Inc() }
func (m metrics) fail(reason string)    { m.failed.WithLabelValues(reason).Inc() }

// reasonOf returns the label of an error.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, errKnown):
		return knownReason
	case errors.Is(err, media.ErrNotOffered):
		return notOfferedReason
	case errors.Is(err, context.Canceled):
		return canceledReason
	case fault.Is(err, fault.UnsupportedType):
		return unsupportedReason
	case fault.Is(err, fault.Busy):
		return busyReason
	}
	return errorReason
}
