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
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/mcp"
)

// metrics returns what the replica exports.
func (rt *replica) metrics(t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+rt.AdminAddr()+"/metrics", nil)
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
	rt := w.replica(t, func(o *options) { o.Store = broken{w.Store.Items} })
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

// A call whose client left while it ran was a failure of the service: status 500, by which any tenant could raise the alert.
func TestCanceledCall_IsNoFailureOfTheService(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE app_total IN ACCESS EXCLUSIVE MODE`)
	must(t, err)
	waiting := func() int64 {
		return w.QueryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	}
	for what, body := range map[string]string{"a call": callBody(t, "get_media_count", nil), "a batch": "[" + callBody(t, "get_media_count", nil) + "]"} {
		before := strings.Count(rt.Logs.String(), `"status":499`)
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+"/mcp", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "application/json, text/event-stream")
			request.Header.Set("x-service-apikey", one.Key)
			if response, err := rt.Client.Do(request); err == nil {
				_ = response.Body.Close()
				t.Errorf("%s: the client got %d", what, response.StatusCode)
			}
		}()
		wait.Until(t, "the call waits for the table", func() bool { return waiting() > 0 })
		leave()
		wait.Receive(t, "the client has left", ended)
		wait.UntilNone(t, func() string {
			if strings.Count(rt.Logs.String(), `"status":499`) > before {
				return ""
			}
			return what + " is not logged as canceled: " + rt.Logs.String()
		})
		// PostgreSQL ends a statement a moment after its client. Until then the next call seems to wait before it has begun.
		wait.Until(t, "its statement ends", func() bool { return waiting() == 0 })
	}
	must(t, tx.Rollback(t.Context()))
	if text := rt.Logs.String(); strings.Contains(text, `"status":500`) || strings.Contains(text, `"level":"ERROR"`) {
		t.Errorf("the log has %s", text)
	}
	wait.Until(t, "the calls are counted", func() bool { return rt.calls(t)["get_media_count canceled"] == "2" })
	if counts := rt.calls(t); len(counts) != 1 {
		t.Errorf("counted %v", counts)
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
