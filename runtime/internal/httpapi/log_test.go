package httpapi_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/internal/httpapi"
)

func TestLogHandler_AddsTheIDsOfTheRequest(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := slog.New(httpapi.LogHandler{Handler: slog.NewJSONHandler(&text, nil)}).With("item", "1")
	ctx := httpapi.NewContext(t.Context(), httpapi.NewRequestInfo(httptest.NewRequest(http.MethodGet, "/", nil), "request-1", netip.Addr{}))
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	log.WarnContext(trace.ContextWithSpanContext(ctx, span), "slow")
	var line map[string]any
	if err := json.Unmarshal(text.Bytes(), &line); err != nil || line["request_id"] != "request-1" || line["trace_id"] != span.TraceID().String() || line["span_id"] != span.SpanID().String() || line["item"] != "1" {
		t.Errorf("%v: %s", err, &text)
	}
	text.Reset()
	log.WarnContext(t.Context(), "no request")
	line = nil
	if err := json.Unmarshal(text.Bytes(), &line); err != nil || len(line) != 4 {
		t.Errorf("%v: %s", err, &text)
	}
}
