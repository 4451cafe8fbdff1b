package mcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
)

// withFetch offers uploads from a URL without the toolset handover.
func withFetch(s *account.Spec) {
	s.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetFetch}
}

// A host fills in a file of the conversation, where the toolset says that the tool takes one.
func TestUploadFromURL_TakesAnAttachedFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, plain := w.tenant(t, "one", handover), w.tenant(t, "plain", withFetch)
	rt := w.replica(t)
	listed := func(of tenant) (meta map[string]any, required []string) {
		got := rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, apiKey(of.Key))
		got.MustBe(t, http.StatusOK, "tools/list")
		var message struct {
			Result struct {
				Tools []struct {
					Name        string
					Meta        map[string]any `json:"_meta"`
					InputSchema struct{ Required []string }
				}
			}
		}
		must(t, json.Unmarshal(got.Body, &message))
		for _, tool := range message.Result.Tools {
			if tool.Name == "upload_media_from_url" {
				return tool.Meta, tool.InputSchema.Required
			}
		}
		t.Fatalf("the tool is not listed: %s", got.Body)
		return nil, nil
	}
	if meta, required := listed(plain); meta != nil || len(required) != 1 {
		t.Errorf("without the toolset the tool has %v and needs %v", meta, required)
	}
	meta, required := listed(one)
	if text, _ := json.Marshal(meta); string(text) != `{"openai/fileParams":["file"]}` || len(required) != 0 {
		t.Errorf("the tool has %s and needs %v", text, required)
	}
	file := object{"download_url": "https://files.example.com/x", "file_id": "file_1", "mime_type": "image/png", "file_name": "/tmp/the dog.png"}
	job := succeeded[api.URLUpload](t, rt.call(t, one.Key, "upload_media_from_url", object{"file": file}))
	w.Counts(t, 1, "jobs of the attached file", `SELECT count(*) FROM fetch_job WHERE id = $1 AND url = 'https://files.example.com/x' AND file_name = 'the dog.png'`, job.JobId)
	for says, arguments := range map[string]object{
		"send url or file, not both":      {"url": "https://files.example.com/x", "file": file},
		"url is missing":                  {},
		"file must have download_url":     {"file": object{"file_id": "file_1"}},
		"file must be an object":          {"file": "https://files.example.com/x"},
		`unknown argument "download_url"`: {"download_url": "https://files.example.com/x"},
	} {
		if text := failed(t, rt.call(t, one.Key, "upload_media_from_url", arguments)); !strings.Contains(text, says) {
			t.Errorf("%v: %q, want %q", arguments, text, says)
		}
	}
	if text := failed(t, rt.call(t, plain.Key, "upload_media_from_url", object{"url": "https://files.example.com/x", "file": file})); !strings.Contains(text, `unknown argument "file"`) {
		t.Errorf("without the toolset: %q", text)
	}
}
