package mcp_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
)

// names returns the names of the tools that are listed for a key.
func (rt *replica) names(t *testing.T, key string) []string {
	t.Helper()
	names := []string{}
	for _, tool := range rt.tools(t, key) {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

var reading = []string{"get_media", "get_media_count", "get_media_settings", "get_total_storage", "list_media"}

func TestToolPolicy_RestrictsListsAndCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.replica(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	all := rt.names(t, one.Key)
	for _, tt := range []struct {
		policy account.ToolPolicy
		names  []string
	}{
		{account.ToolPolicy{ReadOnly: true}, reading},
		{account.ToolPolicy{Tools: []string{"delete_media", "list_media"}}, []string{"delete_media", "list_media"}},
		{account.ToolPolicy{ReadOnly: true, Tools: []string{"delete_media", "list_media"}}, []string{"list_media"}},
		{account.ToolPolicy{Tools: []string{"no_such_tool"}}, []string{}},
		{account.ToolPolicy{Tools: []string{}}, []string{}},
		{account.ToolPolicy{}, all},
	} {
		w.Change(t, one, func(s *account.Spec) { s.ToolPolicy = tt.policy })
		wait.Until(t, "the list has changed", func() bool { return slices.Equal(rt.names(t, one.Key), tt.names) })
		draft := rt.upload(t, other.Key, "f", []byte("f"))
		for _, name := range all {
			got := rt.call(t, one.Key, name, rows[name].right(draft))
			if forbidden := got.IsError && strings.Contains(got.Content[0].Text, name+" is not allowed for assistants"); forbidden == slices.Contains(tt.names, name) {
				t.Errorf("%+v: %s returns %s", tt.policy, name, got.Content[0].Text)
			}
		}
	}
	if !slices.Equal(rt.names(t, other.Key), all) || len(all) != 10 {
		t.Error("another tenant is restricted, too")
	}
	// The policy does not restrict a key at REST.
	w.Change(t, one, func(s *account.Spec) { s.ToolPolicy = account.ToolPolicy{Tools: []string{}} })
	rt.send(t, http.MethodGet, "/media/get/count", nil, apiKey(one.Key)).Is(t, http.StatusOK, "REST")
}

// A file that the caller may not upload, or that is no argument of upload_media, is not buffered.
func TestForbiddenFile_HoldsNoSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	readOnly := w.tenant(t, "read-only", func(s *account.Spec) { s.ToolPolicy.ReadOnly = true })
	free := w.tenant(t, "free")
	rt := w.replica(t, func(o *options) { o.Upload.MaxUploads, o.Upload.UploadQueue = 1, 0 })
	const right = `"method":"tools/call","params":{"name":"upload_media",`
	for _, tt := range []struct {
		of      tenant
		context string // replaces the right one in the request
		slot    bool   // the file holds a slot
	}{
		{readOnly, right, false},
		{free, right, true},
		{free, `"params":{`, true}, // the names follow the file, or are missing
		{free, `"method":"ping","params":{"name":"upload_media",`, false},
		{free, `"method":"tools/call","params":{"name":"get_media",`, false},
		{free, `"method":"tools/call","params":{"name":"upload_media","x":{`, false},
	} {
		body, write := io.Pipe()
		answered := make(chan answer, 1)
		go func() { answered <- rt.send(t, http.MethodPost, "/mcp", body, apiKey(tt.of.Key)) }()
		request := strings.Replace(upload(1, base64.StdEncoding.EncodeToString(noise(9<<20)), ""), right, tt.context, 1)
		// More than the buffers of the connection hold, so that the service has read most of it.
		must(t, check.ErrorOf(io.WriteString(write, request[:12<<20])))
		other, err := rt.Uploads.Begin(t.Context(), account.Principal{Account: account.Account{ID: uuid.New(), BucketOwned: true}}, 0)
		if (err != nil) != tt.slot {
			t.Errorf("%s, %s: another upload: %v", tt.of.Account.Name, tt.context, err)
		}
		if err == nil {
			other.Close(t.Context())
		}
		must(t, check.ErrorOf(io.WriteString(write, request[12<<20:])))
		must(t, write.Close())
		got := <-answered
		if forbidden := bytes.Contains(got.Body, []byte("upload_media is not allowed for assistants")); forbidden != (tt.of.Key == readOnly.Key) {
			t.Errorf("%s: %d %s", tt.of.Account.Name, got.Status, got.Body)
		}
		if created := bytes.Contains(got.Body, []byte("structuredContent")); created != (tt.slot && tt.context == right) {
			t.Errorf("%s: %d %s", tt.context, got.Status, got.Body)
		}
	}
}

// The enumeration of spec.mcp.tools has the names of all tools.
func TestCustomResource_AcceptsEveryTool(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "config", "crd", "bases", "mediastack.dev_mediaaccounts.yaml"))
	must(t, err)
	var definition any
	must(t, yaml.Unmarshal(text, &definition))
	for _, step := range []any{"spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec", "properties", "mcp", "properties", "tools", "items", "enum"} {
		switch step := step.(type) {
		case string:
			definition = definition.(map[string]any)[step]
		case int:
			definition = definition.([]any)[step]
		}
	}
	known := []string{}
	for _, name := range definition.([]any) {
		known = append(known, name.(string))
	}
	slices.Sort(known)
	w := newWorld(t)
	if names := w.replica(t, withImages).names(t, w.tenant(t, "one", allToolsets).Key); !slices.Equal(names, known) {
		t.Errorf("the tools are %v, spec.mcp.tools allows %v", names, known)
	}
}
