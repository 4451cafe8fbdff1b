package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/runtimetest"
)

func TestUploadFromURL_IsAskedForAtAnyReplica(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	w := newWorld(t)
	asked := w.runtime(t, func(o *options) { o.Source = site.Client(t) })
	other := w.runtime(t, func(o *options) { o.Source = site.Client(t) })
	one := w.tenant(t, "one")
	got := asked.do(t, http.MethodPost, "/media/create/url", key(one.Key), text(`{"url": "`+site.URL("/a/caf%C3%A9.txt?token=secret")+`", "access": "public", "group": "g", "caption": "c", "metadata": {"k": "v"}, "seal": true}`))
	queued := decode[api.URLUpload](t, got)
	if got.Status != http.StatusAccepted || got.Header.Get("Location") != baseURL+"/media/create/url/"+queued.JobId.String() || queued.State != api.Queued {
		t.Fatalf("%d %v %s", got.Status, got.Header, got.Body)
	}
	w.runFetches(t, asked)
	state := other.endedUpload(t, one.Key, queued)
	if state.State != api.Done || state.MediaId == nil || state.Bytes != 5 || *state.Total != 5 || state.EndedAt == nil {
		t.Fatalf("%+v", state)
	}
	item := other.do(t, http.MethodGet, "/media/get/"+state.MediaId.String(), key(one.Key)).item(t)
	if item.OriginalFileName != "café.txt" || item.Temp || item.Access != api.Public || item.Group != "g" || item.Caption != "c" || item.Size != 5 || !strings.HasPrefix(item.MimeType, "text/plain") {
		t.Errorf("%+v", item)
	}
	if n := w.QueryInt(t, `SELECT count(*) FROM fetch_job WHERE url <> ''`); n != 0 {
		t.Error("the URL is kept after the end")
	}
	for _, rt := range []*runtime{asked, other} {
		if log := rt.Logs.String(); strings.Contains(log, "secret") || strings.Contains(log, "caf%") || strings.Contains(log, "café") {
			t.Errorf("the log has a part of the URL: %s", log)
		}
	}
}

func TestUploadFromURL_FailsWithACode(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, http.NotFound)
	w, one, rt := withTenant(t, func(o *options) { o.Source = site.Client(t) })
	w.runFetches(t, rt)
	for url, want := range map[string]api.URLUploadError{
		site.URL("/secret"):                          {Code: "status_404", Detail: "the server answered with status 404"},
		site.Named("internal.example.com", "/"):      {Code: "address_not_allowed", Detail: "the host has no public address"},
		site.Named("nothing.example.com", "/secret"): {Code: "address_not_allowed", Detail: "the host has no public address"},
	} {
		site.Resolve("internal.example.com", "127.0.0.2")
		queued := decode[api.URLUpload](t, rt.do(t, http.MethodPost, "/media/create/url", key(one.Key), text(`{"url": "`+url+`"}`)))
		if state := rt.endedUpload(t, one.Key, queued); state.State != api.Failed || *state.Error != want || state.MediaId != nil {
			t.Errorf("%s: %+v %+v", url, state, state.Error)
		}
	}
	if log := rt.Logs.String(); strings.Contains(log, "secret") {
		t.Errorf("the log has a part of the URL: %s", log)
	}
	if trapped := site.Trapped.Load(); trapped != 0 {
		t.Errorf("%d connections to an address that is not allowed", trapped)
	}
}

func TestUploadFromURL_InvalidRequestQueuesNothing(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, http.NotFound)
	w, one, rt := withTenant(t, func(o *options) { o.Source = site.Client(t) })
	for body, want := range map[string]string{
		``:                                   "url is missing",
		`{}`:                                 "url is missing",
		`{"url": null}`:                      "url is missing",
		`{"url": 1}`:                         "url must be a string",
		`{"url": "http://example.com/"}`:     "url must begin with https://",
		`{"url": "https://u:p@example.com"}`: "url must not have a user name or password",
		`{"url": "https://127.0.0.2/"}`:      "url has an address that is not public",
		`{"url": "https://example.com/", "seal": "yes"}`:                               "seal must be true or false",
		`{"url": "https://example.com/", "metadata": {"k": 1}}`:                        "metadata.k must be a string",
		`{"url": "https://example.com/", "metadata": {"K": "v"}}`:                      `a metadata key must have 1 to 64 characters of a-z, 0-9, '.', '_' and '-', and begin with a letter, unlike "K"`,
		`{"url": "https://example.com/", "access": "all"}`:                             "access must be public or private",
		`{"url": "https://example.com/", "Seal": true}`:                                `unknown field "Seal"`,
		`{"url": "https://example.com/", "group": "` + strings.Repeat("g", 256) + `"}`: "group must be at most 255 bytes",
	} {
		if detail := rt.do(t, http.MethodPost, "/media/create/url", key(one.Key), text(body)).rejected(t, http.StatusBadRequest, "Bad Request"); detail != want {
			t.Errorf("%s: %s", body, detail)
		}
	}
	w.Counts(t, 0, "jobs", `SELECT count(*) FROM fetch_job`)
}

// A login may seal by a job only if its account allows connected applications to seal.
func TestUploadFromURL_FollowsTheToolPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t, func(o *options) { o.Auth.Resource = runtimetest.BaseURL + "/mcp" })
	one := w.tenant(t, "one", func(s *account.Spec) { s.ToolPolicy.Tools = []string{"upload_media_from_url"} })
	login := bearer(w.Session(t, one, auth.ScopeRead, auth.ScopeWrite))
	const plain, sealed = `{"url": "https://example.com/"}`, `{"url": "https://example.com/", "seal": true}`
	decode[api.URLUpload](t, rt.do(t, http.MethodPost, "/media/create/url", login, text(plain)))
	rt.do(t, http.MethodPost, "/media/create/url", login, text(sealed)).rejected(t, http.StatusForbidden, "Forbidden")
	decode[api.URLUpload](t, rt.do(t, http.MethodPost, "/media/create/url", key(one.Key), text(sealed)))
}

// runFetches runs the uploads from a URL of a replica, as a process that has served for an hour.
func (w *world) runFetches(t *testing.T, rt *runtime) { t.Helper(); w.RunFetches(t, rt.Core) }

// ended waits until an upload from a URL has ended.
func (rt *runtime) endedUpload(t *testing.T, k string, of api.URLUpload) (state api.URLUpload) {
	t.Helper()
	wait.Until(t, "the upload has ended", func() bool {
		state = decode[api.URLUpload](t, rt.do(t, http.MethodGet, "/media/create/url/"+of.JobId.String(), key(k)))
		return state.EndedAt != nil
	})
	return state
}
