package objectstore

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/tracing"
)

// tracedTransport adds a span for each request to S3, so for each attempt, to the trace of a request
// or of a purge. A span has the name of the operation: neither the URL, nor a header. The store does
// not learn the ids of the trace.
type tracedTransport struct {
	next http.RoundTripper
	host string // of the endpoint
}

// RoundTrip implements http.RoundTripper. The span ends with the body of the response.
func (t tracedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !tracing.Recording(request.Context()) {
		return t.next.RoundTrip(request)
	}
	name := operationOf(request, t.host)
	ctx, span := tracing.Start(request.Context(), "s3 "+name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("rpc.system.name", "aws-api"), attribute.String("rpc.method", "S3/"+name), attribute.String("server.address", t.host),
		attribute.String("http.request.method", request.Method), attribute.Int64("http.request.body.size", max(request.ContentLength, 0))))
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		tracing.Fail(span, requestErrorClass(err))
		span.End()
		return response, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	if response.StatusCode >= http.StatusBadRequest && response.StatusCode != http.StatusNotFound {
		tracing.Fail(span, strconv.Itoa(response.StatusCode))
	}
	response.Body = &tracedBody{ReadCloser: response.Body, span: span}
	return response, nil
}

// tracedBody ends a span at its end.
type tracedBody struct {
	io.ReadCloser
	span  trace.Span
	bytes int64
}

// Read implements io.Reader.
func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		tracing.Fail(b.span, requestErrorClass(err))
	}
	return n, err
}

// Close implements io.Closer.
func (b *tracedBody) Close() error {
	b.span.SetAttributes(attribute.Int64("http.response.body.size", b.bytes))
	b.span.End()
	return b.ReadCloser.Close()
}

// requestErrorClass returns the class of an error of a request that got no response, or not all of
// it.
func requestErrorClass(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "connection"
}
