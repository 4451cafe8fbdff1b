package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/mcp"
)

// metrics returns what the replica exports.
func (rt *replica) metrics(t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+rt.server.AdminAddr()+"/metrics", nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return string(text)
}

// calls returns the counts of the replica's metric that are not 0.
func (rt *replica) calls(t *testing.T) map[string]string {
	t.Helper()
	text := rt.metrics(t)
	counts := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^mediastack_mcp_tool_calls_total\{outcome="(\w+)",tool="(\w+)"\} (\d+)$`).FindAllStringSubmatch(text, -1) {
		if line[3] != "0" {
			counts[line[2]+" "+line[1]] = line[3]
		}
	}
	// Four outcomes of each tool, those of toolsets that are off included, and one of unknown names.
	tools := strings.Count(text, "\nmediastack_mcp_tool_duration_seconds_count{")
	if lines := strings.Count(text, "\nmediastack_mcp_tool_calls_total{"); tools < len(rows) || lines != 4*tools+1 {
		t.Errorf("there are %d series of %d tools", lines, tools)
	}
	return counts
}

func TestMetrics_CountAndTimeCallsByTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, readOnly := w.tenant(t, "one"), w.tenant(t, "read-only", func(s *account.Spec) { s.ToolPolicy.ReadOnly = true })
	rt := w.replica(t, func(o *options) { o.store = broken{w.Store} })
	if counts := rt.calls(t); len(counts) != 0 {
		t.Errorf("before any call: %v", counts)
	}
	succeeded[any](t, rt.call(t, one.Key, "get_total_storage", nil))
	succeeded[any](t, rt.call(t, one.Key, "get_total_storage", nil))
	failed(t, rt.call(t, one.Key, "list_media", object{"page": 0}))
	failed(t, rt.call(t, one.Key, "get_media", object{"mediaId": uuid.NewString()})) // the store is broken
	failed(t, rt.call(t, readOnly.Key, "update_media_settings", nil))
	rt.post(t, callBody(t, "get_media_count", nil), apiKey(one.Key)) // panics
	for n := range 5 {
		rt.post(t, callBody(t, fmt.Sprintf("made_up_%d", n), nil), apiKey(one.Key))
	}
	rt.post(t, listTools, apiKey(one.Key)) // not counted
	want := map[string]string{"get_total_storage ok": "2", "list_media rejected": "1", "get_media error": "1",
		"update_media_settings rejected": "1", "get_media_count error": "1", "unknown rejected": "5"}
	if counts := rt.calls(t); fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", counts, want)
	}
	durations := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^mediastack_mcp_tool_duration_seconds_count\{tool="(\w+)"\} (\d+)$`).FindAllStringSubmatch(rt.metrics(t), -1) {
		durations[line[1]] = line[2]
	}
	// A call that is not authorized has no duration.
	for tool, want := range map[string]string{"get_total_storage": "2", "list_media": "1", "get_media": "1", "get_media_count": "1", "update_media_settings": "0", "seal_media": "0"} {
		if durations[tool] != want {
			t.Errorf("%s has %s durations, want %s", tool, durations[tool], want)
		}
	}
}

func TestOutcome_OfEveryFault(t *testing.T) {
	t.Parallel()
	disconnected, cancel := context.WithCancel(t.Context())
	cancel()
	unclassified := errors.New("broken")
	for _, tt := range []struct {
		err                     error
		connected, disconnected string
	}{
		{nil, "ok", "ok"},
		{fault.New(fault.Invalid, "x"), "rejected", "rejected"},
		{fault.New(fault.Busy, "x"), "rejected", "rejected"},
		{fault.New(fault.QuotaExceeded, "x"), "rejected", "rejected"},
		{fault.New(fault.Unavailable, "x"), "error", "canceled"},
		{unclassified, "error", "canceled"},
	} {
		if connected, gone := mcp.Outcome(t.Context(), tt.err), mcp.Outcome(disconnected, tt.err); connected != tt.connected || gone != tt.disconnected {
			t.Errorf("%v: %s, and %s after the client disconnected", tt.err, connected, gone)
		}
	}
}
