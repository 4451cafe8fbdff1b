package server

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/tracing"
)

// requestTracer begins and ends the span of a request, which is the root of its trace. A nil
// requestTracer does nothing.
type requestTracer struct {
	tracer trace.Tracer
	// continues reports whether the trace of a peer is continued.
	continues func(peer netip.Addr) bool
}

// newRequestTracer returns a requestTracer; nil without a tracer.
func newRequestTracer(cfg Config, tracer trace.Tracer, limits *ratelimit.Limiter) *requestTracer {
	if tracer == nil {
		return nil
	}
	return &requestTracer{tracer: tracer, continues: func(peer netip.Addr) bool { return cfg.TrustTraceparent && limits.TrustsProxy(peer) }}
}

// start begins the span of a request. A trace that the client names is linked: only a trusted proxy
// decides about sampling, and adds to its own traces.
func (t *requestTracer) start(ctx context.Context, r *http.Request) context.Context {
	if t == nil {
		return ctx
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	// Without its state, a text that the client chose.
	named := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))).WithTraceState(trace.TraceState{})
	switch peer, err := netip.ParseAddrPort(r.RemoteAddr); {
	case !named.IsValid():
	case err == nil && t.continues(peer.Addr().Unmap()):
		ctx = trace.ContextWithRemoteSpanContext(ctx, named)
	default:
		options = append(options, trace.WithLinks(trace.Link{SpanContext: named}))
	}
	ctx, _ = t.tracer.Start(ctx, methodName(r.Method), options...)
	return ctx
}

// methodName returns the name of a method; unknown ones share one.
func methodName(method string) string {
	if methodLabel(method) != method {
		return "HTTP"
	}
	return method
}

// end ends the span of a request.
func (t *requestTracer) end(r *http.Request, info *httpapi.RequestInfo, route string, status int, in, out int64, aborted bool) {
	span := trace.SpanFromContext(r.Context())
	if t == nil || !span.IsRecording() {
		return
	}
	span.SetName(methodName(r.Method) + " " + route)
	span.SetAttributes(
		attribute.String("http.request.method", methodLabel(r.Method)), attribute.String("http.route", route),
		attribute.Int("http.response.status_code", status), attribute.Int64("http.request.body.size", in), attribute.Int64("http.response.body.size", out),
		attribute.String("mediastack.request_id", info.RequestID))
	if info.AccountID != uuid.Nil {
		span.SetAttributes(attribute.String("mediastack.account", info.AccountID.String()), attribute.String("mediastack.app", info.AppID.String()))
	}
	switch {
	case aborted:
		tracing.Fail(span, "aborted")
	case status >= http.StatusInternalServerError:
		tracing.Fail(span, strconv.Itoa(status))
	}
	span.End()
}
