// Package tracing adds spans to OpenTelemetry traces (docs/decisions/0020).
//
// The HTTP server begins a trace for each request, the purge one for each pass. Stores, workers and
// tools call Start, which adds a span to the trace of its context. Without a trace it does nothing,
// so that what runs in the background has none, and a program that exports none pays for one look
// into the context. Package internal/traceexport exports the traces.
//
// Attributes hold operations, sizes, statuses and ids. They hold nothing that a client sent, except a
// well-formed X-Request-Id, and no text of an error: a text may quote input. The log has the texts,
// with the ids of the trace.
package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of all spans.
const Scope = "mediastack.dev/runtime"

// Recording reports whether ctx carries a span of a trace that is sampled.
func Recording(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// Start begins a span in the trace of ctx. If that has no trace, or one that is not sampled, it
// returns ctx and a span without effect.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, inactive
	}
	return parent.TracerProvider().Tracer(Scope).Start(ctx, name, options...)
}

// inactive is a span without effect.
var inactive = trace.SpanFromContext(context.Background())

// Fail marks a span as failed. kind is a class of errors, such as an SQLSTATE or a status code, or
// the name of a kind of fault; never the text of an error.
func Fail(span trace.Span, kind string) {
	span.SetAttributes(attribute.String("error.type", strings.ReplaceAll(kind, " ", "_")))
	span.SetStatus(codes.Error, "")
}
