package mcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/runtimetest"
)

// A key at MCP seals by an upload signature only while the tool policy allows it.
func TestCapabilities_SealFollowsTheToolPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tools := func(names ...string) func(*account.Spec) {
		return func(s *account.Spec) {
			s.ToolPolicy = account.ToolPolicy{Toolsets: []string{"core", "capabilities"}, Tools: names}
		}
	}
	one := w.tenant(t, "one", tools("create_upload_signature", "seal_media"))
	rt := w.replica(t)
	create := func(arguments object) result { return rt.call(t, one.Key, "create_upload_signature", arguments) }
	made := succeeded[api.Signature](t, create(object{"seal": true})).Signature
	send := func() int {
		body := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nhello\r\n--x--\r\n"
		return rt.send(t, http.MethodPost, "/media/create", strings.NewReader(body), header("x-service-signature", made), header("Content-Type", "multipart/form-data; boundary=x")).Status
	}
	if status := send(); status != http.StatusCreated {
		t.Errorf("while it is allowed: %d", status)
	}
	w.Change(t, one, tools("create_upload_signature"))
	wait.Until(t, "the policy is in force", func() bool { return create(object{"seal": true}).IsError })
	if says := failed(t, create(object{"seal": true})); !strings.Contains(says, "leave out seal") {
		t.Errorf("%s", says)
	}
	if status := send(); status != http.StatusForbidden {
		t.Errorf("while it is not allowed: %d", status)
	}
	succeeded[api.Signature](t, create(object{"seal": false, "count": 1}))
	w.Counts(t, 1, "items", `SELECT count(*) FROM item`)
}

// A key at MCP seals by an upload from a URL only while the tool policy allows it, also when the job runs.
func TestFetchTools_SealFollowsTheToolPolicy(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	w := newWorld(t)
	tools := func(names ...string) func(*account.Spec) {
		return func(s *account.Spec) {
			s.ToolPolicy = account.ToolPolicy{Toolsets: []string{"fetch"}, Tools: names}
		}
	}
	one := w.tenant(t, "one", tools("upload_media_from_url", "get_upload_from_url", "seal_media"))
	rt := w.replica(t, func(o *options) { o.Source = site.Client(t) })
	arguments := object{"url": site.URL("/a.txt"), "seal": true}
	queued := succeeded[api.URLUpload](t, rt.call(t, one.Key, "upload_media_from_url", arguments))
	w.Change(t, one, tools("upload_media_from_url", "get_upload_from_url"))
	wait.Until(t, "the policy is in force", func() bool { return rt.call(t, one.Key, "upload_media_from_url", arguments).IsError })
	if says := failed(t, rt.call(t, one.Key, "upload_media_from_url", arguments)); !strings.Contains(says, "leave out seal") {
		t.Errorf("%s", says)
	}
	// The key is not limited by REST.
	byREST := rt.send(t, http.MethodPost, "/media/create/url", strings.NewReader(`{"url": "`+site.URL("/b.txt")+`", "seal": true}`), header("x-service-apikey", one.Key))
	var other api.URLUpload
	must(t, json.Unmarshal(byREST.Body, &other))
	w.RunFetches(t, rt.Core)
	wait.Until(t, "the jobs have ended", func() bool { return w.QueryInt(t, `SELECT count(*) FROM fetch_job WHERE ended_at IS NULL`) == 0 })
	state := succeeded[api.URLUpload](t, rt.call(t, one.Key, "get_upload_from_url", object{"jobId": queued.JobId}))
	if state.State != api.Failed || state.Error.Code != "not_permitted" {
		t.Errorf("%+v", state)
	}
	if state := succeeded[api.URLUpload](t, rt.call(t, one.Key, "get_upload_from_url", object{"jobId": other.JobId})); state.State != api.Done {
		t.Errorf("by REST: %+v", state)
	}
	w.Counts(t, 1, "items", `SELECT count(*) FROM item`)
}
