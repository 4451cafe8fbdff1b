package mcp_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/runtimetest"
)

func TestFetchTools_UploadFromAURL(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	w := newWorld(t)
	toolsets := func(s *account.Spec) { s.ToolPolicy.Toolsets = []string{"core", "fetch"} }
	one, other := w.tenant(t, "one", toolsets), w.tenant(t, "other", toolsets)
	reader := w.tenant(t, "reader", toolsets, func(s *account.Spec) { s.ToolPolicy.ReadOnly = true })
	core := w.tenant(t, "core")
	rt := w.replica(t, func(o *options) { o.Source = site.Client(t) })
	w.RunFetches(t, rt.Core)
	for of, want := range map[string][2]bool{one.Key: {true, true}, reader.Key: {false, true}, core.Key: {false, false}} {
		if names := rt.names(t, of); slices.Contains(names, "upload_media_from_url") != want[0] || slices.Contains(names, "get_upload_from_url") != want[1] {
			t.Errorf("the tools are %q, want %v", names, want)
		}
	}
	if says := failed(t, rt.call(t, core.Key, "upload_media_from_url", object{"url": site.URL("/a.txt")})); !strings.Contains(says, "toolset fetch") {
		t.Errorf("without the toolset: %s", says)
	}
	if says := failed(t, rt.call(t, one.Key, "upload_media_from_url", object{"url": "http://example.com/"})); !strings.Contains(says, "https://") {
		t.Errorf("%s", says)
	}
	queued := succeeded[api.URLUpload](t, rt.call(t, one.Key, "upload_media_from_url", object{"url": site.URL("/a.txt"), "seal": true, "metadata": object{"k": "v"}, "caption": nil, "group": ""}))
	foreign := failed(t, rt.call(t, other.Key, "get_upload_from_url", object{"jobId": queued.JobId}))
	if missing := failed(t, rt.call(t, other.Key, "get_upload_from_url", object{"jobId": "0190a0a0-0000-7000-8000-000000000000"})); foreign != missing {
		t.Errorf("the job of another tenant is %q, a missing one %q", foreign, missing)
	}
	state := queued
	wait.UntilNone(t, func() string {
		if state = succeeded[api.URLUpload](t, rt.call(t, one.Key, "get_upload_from_url", object{"jobId": queued.JobId})); state.EndedAt == nil {
			return fmt.Sprintf("the upload has not ended: %+v", state)
		}
		return ""
	})
	if state.State != api.Done || state.MediaId == nil {
		t.Fatalf("%+v", state)
	}
	if item := succeeded[map[string]any](t, rt.call(t, one.Key, "get_media", object{"mediaId": state.MediaId})); item["originalFileName"] != "a.txt" || item["temp"] != nil {
		t.Errorf("%+v", item)
	}
}

func TestFetchTools_AreAbsentWhereTheInstallationHasNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.ToolPolicy.Toolsets = []string{"fetch"} })
	rt := w.replica(t, func(o *options) { o.NoFetch = true })
	if names := rt.names(t, one.Key); len(names) != 0 {
		t.Errorf("the tools are %q", names)
	}
}
