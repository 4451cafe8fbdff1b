package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/runtimetest"
)

// Each test here calls one of two replicas, and reads or races at the other one. TestUndo_RestoresWhatAnAssistantDeleted
// and TestCapabilities_AreArgumentsOfTheirToolset do so for their toolsets.

// A toolset that is switched on or off is so at every replica.
func TestReplicas_OfferTheSameToolsets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replicas := []*replica{w.replica(t), w.replica(t)}
	one := w.tenant(t, "one")
	core := replicas[0].names(t, one.Key)
	draft := replicas[0].upload(t, one.Key, "a.txt", []byte("a"))
	for _, toolsets := range [][]string{{account.ToolsetCore, account.ToolsetOrganize}, nil, {account.ToolsetFind, account.ToolsetCore, account.ToolsetOrganize}} {
		w.Change(t, one, func(s *account.Spec) { s.ToolPolicy.Toolsets = toolsets })
		organizes := slices.Contains(toolsets, account.ToolsetOrganize)
		for _, rt := range replicas {
			wait.Until(t, fmt.Sprintf("%v are offered", toolsets), func() bool { return slices.Contains(rt.names(t, one.Key), "update_media") == organizes })
			if got := rt.call(t, one.Key, "update_media", object{"mediaId": draft, "caption": "c"}); got.IsError == organizes {
				t.Errorf("%v: update_media is answered %s", toolsets, got.Content[0].Text)
			}
		}
		if here, there := replicas[0].names(t, one.Key), replicas[1].names(t, one.Key); !slices.Equal(here, there) || toolsets == nil && !slices.Equal(here, core) {
			t.Errorf("%v: the tools are %q and %q", toolsets, here, there)
		}
	}
}

// What is changed at one replica is read at the other one. Of changes that race, the last one is what both
// read.
func TestReplicas_ReadWhatAnAssistantChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replicas := []*replica{w.replica(t), w.replica(t)}
	one := w.tenant(t, "one", withOrganize)
	id := replicas[0].upload(t, one.Key, "a.txt", []byte("hello"))
	public := succeeded[api.MediaItem](t, replicas[1].call(t, one.Key, "seal_media", object{"mediaId": id}))
	for i, access := range []string{"public", "private", "public", "private"} {
		rt, other := replicas[i%2], replicas[1-i%2]
		changed := succeeded[api.MediaItem](t, rt.call(t, one.Key, "update_media", object{"mediaId": id, "access": access}))
		if access == "public" {
			public = changed
		}
		for _, at := range []*replica{rt, other} {
			if got := succeeded[api.MediaItem](t, at.call(t, one.Key, "get_media", object{"mediaId": id})); string(got.Access) != access {
				t.Errorf("it is %s, not %s", got.Access, access)
			}
			if got := at.send(t, http.MethodGet, strings.TrimPrefix(public.File, baseURL), nil); (got.Status == http.StatusOK) != (access == "public") {
				t.Errorf("the public address of a %s item: %d", access, got.Status)
			}
		}
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"update_media","arguments":{"mediaId":%q,"caption":"%d","group":"%[2]d"}}}`, id, i)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, baseURL+"/mcp", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}, "X-Service-Apikey": {one.Key}}
			response, err := replicas[i%2].Client.Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("change %d is answered %d", i, response.StatusCode)
			}
		})
	}
	all.Wait()
	read := func(rt *replica) api.MediaItem {
		return succeeded[api.MediaItem](t, rt.call(t, one.Key, "get_media", object{"mediaId": id}))
	}
	if here, there := read(replicas[0]), read(replicas[1]); here.Caption == "" || here.Caption != here.Group || here.Caption != there.Caption || here.Group != there.Group {
		t.Errorf("the item is %+v and %+v", here, there)
	}
}

// A search that begins at one replica continues at the other one.
func TestReplicas_ContinueASearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replicas := []*replica{w.replica(t), w.replica(t)}
	one := w.tenant(t, "one", allToolsets)
	for i := range 5 {
		id := replicas[i%2].upload(t, one.Key, fmt.Sprintf("beach %d.txt", i), []byte("x"))
		if i < 4 {
			succeeded[any](t, replicas[1-i%2].call(t, one.Key, "seal_media", object{"mediaId": id}))
		}
		replicas[i%2].upload(t, one.Key, fmt.Sprintf("draft %d.txt", i), []byte("x"))
	}
	for tool, tt := range map[string]struct {
		arguments object
		want      []string
	}{
		"search_media": {object{"name": "each", "sort": "name", "limit": 1}, []string{"beach 0.txt", "beach 1.txt", "beach 2.txt", "beach 3.txt"}},
		"list_drafts":  {object{"limit": 2, "name": "draft"}, []string{"draft 4.txt", "draft 3.txt", "draft 2.txt", "draft 1.txt", "draft 0.txt"}},
	} {
		var names []string
		for part := range 10 {
			got := succeeded[found](t, replicas[part%2].call(t, one.Key, tool, tt.arguments))
			names = append(names, got.names()...)
			if got.Next == "" {
				break
			}
			tt.arguments["after"] = got.Next
		}
		if !slices.Equal(names, tt.want) {
			t.Errorf("%s in parts of two replicas: %q, want %q", tool, names, tt.want)
		}
	}
}

// The state of an upload from a URL is known at the replica that was not asked for it.
func TestReplicas_KnowUploadsFromAURL(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	w := newWorld(t)
	fetches := func(o *options) { o.Source = site.Client(t) }
	asked, other := w.replica(t, fetches), w.replica(t, fetches)
	one := w.tenant(t, "one", allToolsets)
	queued := succeeded[api.URLUpload](t, asked.call(t, one.Key, "upload_media_from_url", object{"url": site.URL("/a.txt"), "seal": true}))
	if got := succeeded[api.URLUpload](t, other.call(t, one.Key, "get_upload_from_url", object{"jobId": queued.JobId})); got.State != api.Queued || got.JobId != queued.JobId {
		t.Errorf("before it began: %+v", got)
	}
	w.RunFetches(t, asked.Core)
	var state api.URLUpload
	wait.Until(t, "the upload has ended", func() bool {
		state = succeeded[api.URLUpload](t, other.call(t, one.Key, "get_upload_from_url", object{"jobId": queued.JobId}))
		return state.EndedAt != nil
	})
	if state.State != api.Done || state.MediaId == nil {
		t.Fatalf("%+v", state)
	}
	for _, rt := range []*replica{asked, other} {
		if got := succeeded[api.MediaItem](t, rt.call(t, one.Key, "get_media", object{"mediaId": state.MediaId})); got.Temp || string(rt.read(t, got)) != "hello" {
			t.Errorf("%+v", got)
		}
	}
}

// A token has the same scopes at every replica.
func TestReplicas_SplitTheSameRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replicas := []*replica{w.replica(t), w.replica(t)}
	one := w.tenant(t, "one")
	reader, writer, eraser := w.Session(t, one, auth.ScopeRead), w.Session(t, one, auth.ScopeRead, auth.ScopeWrite), w.Session(t, one, auth.ScopeDelete)
	for i, rt := range replicas {
		draft := replicas[1-i].upload(t, one.Key, "a.txt", []byte("a"))
		for _, tt := range []struct {
			tool, token string
			status      int
		}{
			{"seal_media", reader, http.StatusForbidden}, {"delete_media", reader, http.StatusForbidden}, {"delete_media", writer, http.StatusForbidden}, {"seal_media", eraser, http.StatusForbidden},
			{"get_media", eraser, http.StatusForbidden}, {"seal_media", writer, http.StatusOK}, {"get_media", reader, http.StatusOK}, {"delete_media", eraser, http.StatusOK},
		} {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"mediaId":%q}}}`, tt.tool, draft)
			if got := rt.post(t, body, bearer(tt.token)); got.Status != tt.status || strings.Contains(string(got.Body), `"isError":true`) {
				t.Errorf("replica %d: %s is answered %d %s, want %d", i, tt.tool, got.Status, got.Body, tt.status)
			}
		}
	}
}

// signatures are the queries of signed URLs, which change with each answer.
var signatures = regexp.MustCompile(`\?[^"]*`)

// theirs are what a tenant has, of which another one must see nothing.
type theirs struct{ draft, sealed, deleted, job, request string }

// isolated has a check for each tool of each toolset: what the other tenant gets for their ids, and for
// none. A tool without an entry fails the test below.
func isolated() map[string]func(t *testing.T, call func(arguments object) result, of theirs) {
	type check = func(t *testing.T, call func(object) result, of theirs)
	sameAsMissing := func(arguments object) check {
		return func(t *testing.T, call func(object) result, of theirs) {
			t.Helper()
			for _, id := range []string{of.draft, of.sealed, of.deleted, uuid.NewString()} {
				with := object{"mediaId": id}
				for name, value := range arguments {
					with[name] = value
				}
				if says := failed(t, call(with)); !strings.HasPrefix(says, "media item not found") {
					t.Errorf("%s: %q", id, says)
				}
			}
		}
	}
	seesNothing := func(want string) check {
		return func(t *testing.T, call func(object) result, _ theirs) {
			t.Helper()
			if got := succeeded[any](t, call(nil)); fmt.Sprint(got) != want {
				t.Errorf("got %v, want %s", got, want)
			}
		}
	}
	ownOnly := func(arguments object) check {
		return func(t *testing.T, call func(object) result, _ theirs) {
			t.Helper()
			succeeded[any](t, call(arguments))
		}
	}
	return map[string]check{
		"get_media":     sameAsMissing(nil),
		"seal_media":    sameAsMissing(nil),
		"delete_media":  sameAsMissing(nil),
		"restore_media": sameAsMissing(nil),
		"update_media": func(t *testing.T, call func(object) result, of theirs) {
			t.Helper()
			sameAsMissing(object{"caption": "theirs"})(t, call, of)
			for _, dryRun := range []bool{true, false} {
				got := succeeded[changes](t, call(object{"mediaIds": []string{of.draft, of.sealed, of.deleted, anyID}, "caption": "theirs", "dryRun": dryRun}))
				for _, one := range got.Results {
					if one.Outcome != "failed" || one.Error.Code != "not_found" || one.Error.Detail != got.Results[3].Error.Detail {
						t.Errorf("dryRun %t: %+v", dryRun, one)
					}
				}
			}
		},
		"list_media":              seesNothing("map[mediaItems:[] page:1 total:0]"),
		"list_drafts":             seesNothing("map[mediaItems:[]]"),
		"list_deleted_media":      seesNothing("map[mediaItems:[] page:1 total:0]"),
		"search_media":            seesNothing("map[mediaItems:[]]"),
		"list_groups":             seesNothing("map[groups:[]]"),
		"list_metadata_keys":      seesNothing("map[keys:[]]"),
		"get_media_count":         seesNothing("map[count:0]"),
		"get_total_storage":       seesNothing("map[maxStorage:2.68435456e+08 storage:0]"),
		"get_media_settings":      ownOnly(nil),
		"update_media_settings":   ownOnly(object{"thumbnailWidth": 99}),
		"create_upload_signature": ownOnly(object{"group": "g"}),
		"upload_media":            ownOnly(uploadArguments("caption", "c")),
		"upload_media_from_url":   ownOnly(object{"url": "https://files.example.com/x.txt"}),
		"request_upload":          ownOnly(object{"caption": "c"}),
		"list_activity": func(t *testing.T, call func(object) result, of theirs) {
			t.Helper()
			for _, id := range []string{of.draft, of.sealed, of.deleted, uuid.NewString()} {
				if got := succeeded[activity](t, call(object{"mediaId": id})); len(got.Events) != 0 || got.Next != "" {
					t.Errorf("%s: %+v", id, got)
				}
			}
			for _, event := range succeeded[activity](t, call(object{"limit": 100})).Events {
				if strings.HasPrefix(event.Type, "media.") { // its own changes come later
					t.Errorf("got %+v", event)
				}
			}
		},
		"get_upload_from_url": func(t *testing.T, call func(object) result, of theirs) {
			t.Helper()
			for _, id := range []string{of.job, uuid.NewString()} {
				if says := failed(t, call(object{"jobId": id})); says != "upload from a URL not found" {
					t.Errorf("%s: %q", id, says)
				}
			}
		},
		"get_upload": func(t *testing.T, call func(object) result, of theirs) {
			t.Helper()
			for _, id := range []string{of.request, uuid.NewString()} {
				if says := failed(t, call(object{"uploadId": id})); says != "there is no such request for a file, or it has expired long ago" {
					t.Errorf("%s: %q", id, says)
				}
			}
		},
	}
}

func TestTools_IsolateTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.replica(t)
	undoable := func(s *account.Spec) {
		s.Undo, s.Journal = account.Undo{Window: time.Hour, For: account.UndoEveryone}, time.Hour
	}
	one, other := w.tenant(t, "one", allToolsets, undoable), w.tenant(t, "other", allToolsets, undoable)
	blog := w.AddApp(t, w.tenant(t, "blogs", allToolsets, undoable), "blog")
	of := theirs{draft: rt.upload(t, one.Key, "draft.txt", []byte("a")), sealed: rt.upload(t, one.Key, "sealed.txt", []byte("b")), deleted: rt.upload(t, one.Key, "deleted.txt", []byte("c")),
		job:     succeeded[api.URLUpload](t, rt.call(t, one.Key, "upload_media_from_url", object{"url": "https://files.example.com/x.txt"})).JobId.String(),
		request: rt.request(t, one.Key, object{}).UploadID}
	for _, id := range []string{of.sealed, of.deleted} {
		succeeded[any](t, rt.call(t, one.Key, "seal_media", object{"mediaId": id}))
	}
	succeeded[any](t, rt.call(t, one.Key, "delete_media", object{"mediaId": of.deleted}))
	state := func() string {
		var all []any
		for tool, arguments := range map[string]object{"list_media": nil, "list_drafts": nil, "list_deleted_media": nil, "get_total_storage": nil, "get_media_settings": nil, "get_upload_from_url": {"jobId": of.job}} {
			got := string(rt.call(t, one.Key, tool, arguments).StructuredContent)
			all = append(all, tool+" "+signatures.ReplaceAllString(got, ""))
		}
		slices.SortFunc(all, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		text, err := json.Marshal(all)
		must(t, err)
		return string(text)
	}
	before := state()
	cases := isolated()
	// The tools that read come first: the others give the tenants something to read.
	for _, reads := range []bool{true, false} {
		for _, tool := range rt.tools(t, one.Key) {
			if tool.Annotations["readOnlyHint"] != reads {
				continue
			}
			check, ok := cases[tool.Name]
			if !ok {
				t.Errorf("%s has no isolation case: add one", tool.Name)
				continue
			}
			delete(cases, tool.Name)
			t.Run(tool.Name, func(t *testing.T) {
				for _, who := range []tenant{other, blog} {
					check(t, func(arguments object) result { return rt.call(t, who.Key, tool.Name, arguments) }, of)
				}
			})
		}
	}
	for name := range cases {
		t.Errorf("%s has an isolation case and is not served", name)
	}
	if after := state(); after != before {
		t.Errorf("another tenant changed\n%s\nto\n%s", before, after)
	}
}
