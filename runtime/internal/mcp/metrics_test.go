package mcp_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
)

// calls are the counts that the replica shows and that are not 0.
func (rt *replica) calls(t *testing.T) map[string]string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+rt.server.AdminAddr()+"/metrics", nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	counts := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^mediastack_mcp_tool_calls_total\{outcome="(\w+)",tool="(\w+)"\} (\d+)$`).FindAllStringSubmatch(string(text), -1) {
		if line[3] != "0" {
			counts[line[2]+" "+line[1]] = line[3]
		}
	}
	if lines := strings.Count(string(text), "\nmediastack_mcp_tool_calls_total{"); lines != 4*len(rows)+1 {
		t.Errorf("there are %d series", lines)
	}
	return counts
}

func TestMetrics_CountCallsByToolAndOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, held := w.tenant(t, "one"), w.tenant(t, "held", func(s *account.Spec) { s.ToolPolicy.ReadOnly = true })
	rt := w.replica(t, func(o *options) { o.store = broken{w.Store} })
	if counts := rt.calls(t); len(counts) != 0 {
		t.Errorf("before any call: %v", counts)
	}
	gives[any](t, rt.call(t, one.Key, "get_total_storage", nil))
	gives[any](t, rt.call(t, one.Key, "get_total_storage", nil))
	fails(t, rt.call(t, one.Key, "list_media", object{"page": 0}))
	fails(t, rt.call(t, one.Key, "get_media", object{"mediaId": uuid.NewString()})) // the store is broken
	fails(t, rt.call(t, held.Key, "update_media_settings", nil))
	rt.post(t, callBody(t, "get_media_count", nil), apiKey(one.Key)) // which panics
	for n := range 5 {
		rt.post(t, callBody(t, fmt.Sprintf("made_up_%d", n), nil), apiKey(one.Key))
	}
	rt.post(t, listTools, apiKey(one.Key)) // is no call
	want := map[string]string{"get_total_storage ok": "2", "list_media rejected": "1", "get_media error": "1",
		"update_media_settings rejected": "1", "get_media_count error": "1", "unknown rejected": "5"}
	if counts := rt.calls(t); fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("counted %v, want %v", counts, want)
	}
}
