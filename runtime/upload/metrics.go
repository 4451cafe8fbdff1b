package upload

import (
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/media"
)

// metrics count what uploads did.
type metrics struct {
	drafts   *prometheus.CounterVec
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
	for _, collector := range []prometheus.Collector{m.drafts, m.created, m.resumed, m.canceled, m.received} {
		if err := registry.Register(collector); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

// draftMade counts an upload that became a draft, and was perhaps sealed at once, and says that its derivatives are to be made, or its file
// is to be checked.
func (s *Service) draftMade(upload string, item media.Item) {
	s.metrics.drafts.WithLabelValues(upload).Inc()
	if item.SealedAt != nil {
		s.deps.Items.CountSealed()
	}
	if item.Derivatives == media.DerivativesPending && s.deps.DerivativesPending != nil {
		s.deps.DerivativesPending()
	}
	if item.Check.Pending() && s.deps.CheckPending != nil {
		s.deps.CheckPending()
	}
}
