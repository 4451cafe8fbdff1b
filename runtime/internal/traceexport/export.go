package traceexport

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// queue bounds the spans that wait for their export. A span for which there is no room is dropped
// and counted; nothing waits. It wraps the processor and the exporter of the SDK, whose own count of
// dropped spans cannot be read.
type queue struct {
	limit   int64
	waiting atomic.Int64

	exported       prometheus.Counter
	full, rejected prometheus.Counter
}

// newQueue returns a queue. registry may be nil.
func newQueue(limit int, registry prometheus.Registerer) (*queue, error) {
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_trace_spans_dropped_total", Help: "Spans that were not delivered: the queue was full (`queue`), or the collector did not accept them (`export`).",
	}, []string{"reason"})
	q := &queue{limit: int64(limit), full: dropped.WithLabelValues("queue"), rejected: dropped.WithLabelValues("export"),
		exported: prometheus.NewCounter(prometheus.CounterOpts{Name: "mediastack_trace_spans_exported_total", Help: "Spans that the collector accepted."})}
	if registry == nil {
		return q, nil
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mediastack_trace_spans_waiting", Help: "Spans that wait for their export."},
		func() float64 { return float64(q.waiting.Load()) })
	for _, collector := range []prometheus.Collector{dropped, q.exported, waiting} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// processor hands spans to the SDK's processor while there is room in the queue. Its own queue has
// the same size, so it drops none.
type processor struct {
	sdk.SpanProcessor
	queue *queue
}

// OnEnd implements sdk.SpanProcessor.
func (p processor) OnEnd(span sdk.ReadOnlySpan) {
	if p.queue.waiting.Add(1) > p.queue.limit {
		p.queue.waiting.Add(-1)
		p.queue.full.Inc()
		return
	}
	p.SpanProcessor.OnEnd(span)
}

// exporter counts what the collector accepts, and logs when it stops or begins to. The SDK exports
// one batch after the other.
type exporter struct {
	sdk.SpanExporter
	queue   *queue
	log     *slog.Logger
	failing bool
}

// ExportSpans implements sdk.SpanExporter. It returns no error: the SDK would log each one.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.queue.waiting.Add(int64(-len(spans)))
	if err != nil {
		e.queue.rejected.Add(float64(len(spans)))
	} else {
		e.queue.exported.Add(float64(len(spans)))
	}
	switch failing := err != nil; {
	case failing && !e.failing:
		e.log.WarnContext(ctx, "traces are not delivered: the collector does not accept them", "error", err)
	case !failing && e.failing:
		e.log.InfoContext(ctx, "traces are delivered again")
	}
	e.failing = err != nil
	return nil
}
