package media

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what the use cases did.
type metrics struct {
	drafts   *prometheus.CounterVec
	sealed   prometheus.Counter
	deleted  prometheus.Counter
	restored prometheus.Counter
	created  prometheus.Counter
	resumed  prometheus.Counter
	canceled prometheus.Counter
	received prometheus.Counter
}

// Values of the label upload.
const (
	singleUpload    = "single" // in one request
	resumableUpload = "resumable"
)

// newMetrics returns the metrics, and registers them unless registry is nil.
func newMetrics(registry prometheus.Registerer) (metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := metrics{
		drafts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mediastack_drafts_created_total", Help: "Uploads that became drafts: `single` (in one request), `resumable`.",
		}, []string{"upload"}),
		sealed:   counter("mediastack_items_sealed_total", "Drafts that were sealed."),
		deleted:  counter("mediastack_items_deleted_total", "Drafts and sealed items that were deleted by a request."),
		restored: counter("mediastack_items_restored_total", "Deleted items that were restored."),
		created:  counter("mediastack_resumable_uploads_created_total", "Resumable uploads that were created."),
		resumed:  counter("mediastack_resumable_uploads_resumed_total", "Requests that continued a resumable upload behind its first byte."),
		canceled: counter("mediastack_resumable_uploads_canceled_total", "Resumable uploads that a client ended."),
		received: counter("mediastack_resumable_upload_received_bytes_total", "Bytes of resumable uploads that became durable."),
	}
	for _, upload := range []string{singleUpload, resumableUpload} {
		m.drafts.WithLabelValues(upload) // exported from the start, for rates
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.drafts, m.sealed, m.deleted, m.restored, m.created, m.resumed, m.canceled, m.received} {
		if err := registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

// countDraft counts an upload that became a draft, and was perhaps sealed at once.
func (m metrics) countDraft(upload string, item Item) {
	m.drafts.WithLabelValues(upload).Inc()
	if item.SealedAt != nil {
		m.sealed.Inc()
	}
}

// countSeal counts an item that was sealed at now, and not before. The database rounds times down to
// microseconds.
func (m metrics) countSeal(item Item, now time.Time) {
	if item.SealedAt != nil && item.SealedAt.Equal(now.Truncate(time.Microsecond)) {
		m.sealed.Inc()
	}
}
