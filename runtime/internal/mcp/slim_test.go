package mcp_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/imaging/imagetest"
)

// withSlim writes a spec that offers all tools, with short lists.
func withSlim(s *account.Spec) {
	allToolsets(s)
	s.ToolPolicy.Toolsets = append(s.ToolPolicy.Toolsets, account.ToolsetSlim)
	s.Undo = account.Undo{Window: time.Hour, For: account.UndoEveryone}
}

// The lists of the toolset have no URLs, whichever members are chosen, and the tools that return one item have all of it.
func TestSlim_ListsAreShortAndItemsComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", withSlim)
	rt := w.replica(t, func(o *options) { o.Images = true })
	picture := imagetest.PNG(imagetest.Picture(60, 40))
	long := strings.Repeat("é", 101)
	store := func(name, caption string) string {
		id := rt.uploadWith(t, one.Key, picture, object{"fileName": name, "mimeType": "image/png", "caption": caption, "group": "g", "access": "public"}).MediaID
		succeeded[any](t, rt.call(t, one.Key, "update_media", object{"mediaId": id, "metadata": object{"a": long, "b": "c"}}))
		return id
	}
	draft, sealed, deleted := store("draft.png", ""), store("sealed.png", long), store("deleted.png", "x")
	for _, id := range []string{sealed, deleted} {
		if got := succeeded[object](t, rt.call(t, one.Key, "seal_media", object{"mediaId": id})); got["width"] != 60.0 || got["createdAt"] == nil || got["metadata"] == nil || got["file"] == nil {
			t.Errorf("seal_media returns %v", got)
		}
	}
	succeeded[any](t, rt.call(t, one.Key, "delete_media", object{"mediaId": deleted}))
	if got := succeeded[object](t, rt.call(t, one.Key, "get_media", object{"mediaId": sealed})); got["height"] != 40.0 || got["caption"] != long || got["metadata"].(object)["a"] != long || got["thumbnail"] == "" {
		t.Errorf("get_media returns %v", got)
	}
	tools := map[string]listed{}
	for _, tool := range rt.tools(t, one.Key) {
		tools[tool.Name] = tool
		output, err := tool.OutputSchema.Resolve(nil)
		must(t, err)
		if strings.HasPrefix(tool.Name, "list_") && tool.Name != "list_activity" {
			must(t, output.Validate(succeeded[any](t, rt.call(t, one.Key, tool.Name, nil))))
		}
	}
	cut := strings.Repeat("é", 100) + "…"
	for tool, tt := range map[string]struct {
		id       string
		defaults []string
		all      []string
	}{
		"list_media":         {sealed, []string{"mediaId", "fileName", "caption", "group", "createdAt", "cut"}, []string{"mimeType", "size", "access", "sealedAt", "width", "height", "metadata"}},
		"search_media":       {sealed, []string{"mediaId", "fileName", "caption", "group", "createdAt", "cut"}, []string{"mimeType", "size", "access", "sealedAt", "width", "height", "metadata"}},
		"list_drafts":        {draft, []string{"mediaId", "fileName", "group", "expiresAt"}, []string{"mimeType", "size", "access", "createdAt", "width", "height", "metadata", "cut"}},
		"list_deleted_media": {deleted, []string{"mediaId", "fileName", "caption", "group", "deletedAt"}, []string{"mimeType", "size", "access", "createdAt", "sealedAt", "expiresAt", "width", "height", "metadata", "cut"}},
	} {
		var allowed []any
		schema, err := json.Marshal(tools[tool].InputSchema.Properties["fields"].Items.Enum)
		must(t, err)
		must(t, json.Unmarshal(schema, &allowed))
		for chosen, want := range map[string]struct {
			arguments object
			members   []string
		}{
			"the defaults": {nil, tt.defaults},
			"none":         {object{"fields": []string{}}, []string{"mediaId"}},
			"one, twice":   {object{"fields": []string{"fileName", "fileName"}}, []string{"mediaId", "fileName"}},
			"all":          {object{"fields": allowed}, slices.Concat(tt.defaults, tt.all)},
		} {
			got := succeeded[struct {
				MediaItems []object `json:"mediaItems"`
				Total      int      `json:"total"`
				Page       int      `json:"page"`
				Next       string   `json:"next"`
				Hint       string   `json:"hint"`
			}](t, rt.call(t, one.Key, tool, want.arguments))
			if len(got.MediaItems) != 1 || got.MediaItems[0]["mediaId"] != tt.id {
				t.Fatalf("%s, %s: %+v", tool, chosen, got)
			}
			item := got.MediaItems[0]
			slices.Sort(want.members)
			if members := slices.Sorted(maps.Keys(item)); !slices.Equal(members, want.members) {
				t.Errorf("%s, %s: the members are %q, want %q", tool, chosen, members, want.members)
			}
			if chosen != "all" {
				continue
			}
			if metadata := item["metadata"].(object); item["width"] != 60.0 || item["height"] != 40.0 || item["access"] != "public" || metadata["a"] != cut || metadata["b"] != "c" || item["mimeType"] != "image/png" || item["size"] != float64(len(picture)) {
				t.Errorf("%s: the item is %v", tool, item)
			}
			wantCut := "[metadata]"
			if tt.id == sealed {
				wantCut = "[caption metadata]"
				if item["caption"] != cut {
					t.Errorf("%s: the caption is %v", tool, item["caption"])
				}
			}
			if fmt.Sprint(item["cut"]) != wantCut {
				t.Errorf("%s: cut is %v, want %s", tool, item["cut"], wantCut)
			}
		}
		if says := failed(t, rt.call(t, one.Key, tool, object{"fields": []string{"file"}})); !strings.HasPrefix(says, "fields must be a list of fileName, caption, group, ") {
			t.Errorf("%s: %q", tool, says)
		}
		if says := failed(t, rt.call(t, one.Key, tool, object{"fields": "size"})); !strings.HasPrefix(says, "fields must be a list of strings") {
			t.Errorf("%s: %q", tool, says)
		}
	}
	// Without the toolset the tools are as they were.
	w.Change(t, one, allToolsets)
	wait.Until(t, "the lists have URLs", func() bool {
		return strings.Contains(string(rt.call(t, one.Key, "list_media", nil).StructuredContent), `"file":"http`)
	})
	for _, tool := range []string{"list_media", "search_media", "list_drafts", "list_deleted_media"} {
		if says := failed(t, rt.call(t, one.Key, tool, object{"fields": []string{"size"}})); !strings.HasPrefix(says, `unknown argument "fields"`) {
			t.Errorf("%s without the toolset: %q", tool, says)
		}
	}
	if got := succeeded[object](t, rt.call(t, one.Key, "get_media", object{"mediaId": sealed})); got["createdAt"] != nil || got["width"] != nil || got["metadata"] != nil {
		t.Errorf("get_media without the toolset returns %v", got)
	}
	if got := succeeded[object](t, rt.call(t, one.Key, "search_media", nil))["mediaItems"].([]any)[0].(object); got["width"] != 60.0 || got["height"] != 40.0 || got["metadata"] == nil || got["createdAt"] == nil {
		t.Errorf("search_media without the toolset returns %v", got)
	}
	if got := succeeded[found2](t, rt.call(t, one.Key, "list_deleted_media", nil)).MediaItems[0]; got["width"] != 60.0 || got["metadata"].(object)["b"] != "c" {
		t.Errorf("list_deleted_media without the toolset returns %v", got)
	}
}

// found2 is a page of a list.
type found2 struct {
	MediaItems []object `json:"mediaItems"`
	Total      int      `json:"total"`
	Page       int      `json:"page"`
}

// The instructions and the texts of tools are those of the caller, by each way that has them.
func TestInstructions_FollowTheToolsets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, slim := w.tenant(t, "plain"), w.tenant(t, "slim", withSlim)
	reader := w.tenant(t, "reader", func(s *account.Spec) { s.ToolPolicy.ReadOnly = true })
	rt := w.replica(t)
	for _, tt := range []struct {
		of            tenant
		says, doesNot []string
	}{
		{plain, []string{"upload_media makes a draft, and seal_media makes it permanent", "for larger ones call create_upload_signature"}, []string{"restore_media", "search_media", "update_media changes"}},
		{slim, []string{"The items of lists are short", "search_media finds", "update_media changes one item", "restore_media restores", "for larger ones, or files on the user's device, call request_upload"}, nil},
		{reader, []string{"Stores the media files of one account."}, []string{"upload_media", "seal_media", "create_upload_signature"}},
	} {
		key := apiKey(tt.of.Key)
		for way, got := range map[string]answer{
			"initialize":      rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, key),
			"server/discover": rt.post(t, stateless(1, "server/discover", ""), key, inStatelessRevision("server/discover")),
		} {
			var message struct{ Result struct{ Instructions string } }
			if err := json.Unmarshal(got.Body, &message); err != nil || got.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", way, got.Status, got.Body)
			}
			for _, want := range tt.says {
				if !strings.Contains(message.Result.Instructions, want) {
					t.Errorf("%s of %s: %q does not say %q", way, tt.of.Account.Name, message.Result.Instructions, want)
				}
			}
			for _, not := range tt.doesNot {
				if strings.Contains(message.Result.Instructions, not) {
					t.Errorf("%s of %s: %q says %q", way, tt.of.Account.Name, message.Result.Instructions, not)
				}
			}
		}
	}
	for _, tool := range rt.tools(t, slim.Key) {
		id, ok := tool.InputSchema.Properties["mediaId"]
		want := map[string]string{"seal_media": "Id of the item, from upload_media, get_upload_from_url, get_upload or list_drafts.", "get_media": "Id of the item, from upload_media, get_upload_from_url, get_upload, list_media, search_media or list_drafts.",
			"restore_media": "Id of the item, from list_deleted_media or delete_media."}[tool.Name]
		if ok && want != "" && id.Description != want {
			t.Errorf("mediaId of %s is %q, want %q", tool.Name, id.Description, want)
		}
	}
}

// A day is a time wherever a tool takes one: an upper bound includes it.
func TestSearch_TakesDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", withSlim)
	rt := w.replica(t)
	id := rt.uploadWith(t, one.Key, []byte("a"), object{"fileName": "a.txt", "mimeType": "text/plain"}).MediaID
	sealed := succeeded[struct{ CreatedAt time.Time }](t, stripped(t, rt.call(t, one.Key, "seal_media", object{"mediaId": id}), "createdAt"))
	day := func(days int) string { return sealed.CreatedAt.UTC().AddDate(0, 0, days).Format(time.DateOnly) }
	for _, tt := range []struct {
		arguments object
		found     int
	}{
		{object{"from": day(0)}, 1}, {object{"from": day(1)}, 0}, {object{"to": day(0)}, 1}, {object{"to": day(-1)}, 0}, {object{"from": day(0), "to": day(0)}, 1},
		{object{"from": "2026-03-01", "to": "9998-12-31"}, 1}, {object{"from": day(0) + "T00:00:00Z", "to": day(1) + "T00:00:00Z"}, 1},
	} {
		if got := succeeded[found](t, rt.call(t, one.Key, "search_media", tt.arguments)); len(got.MediaItems) != tt.found {
			t.Errorf("%v finds %d", tt.arguments, len(got.MediaItems))
		}
	}
	for _, bad := range []string{"2026-02-30", "2026-3-1", "9999-12-31", "0000-01-01", "20260301", "2026-03-01 10:00", "March"} {
		if says := failed(t, rt.call(t, one.Key, "search_media", object{"to": bad})); !strings.HasPrefix(says, "to must be a time") || !strings.Contains(says, "2026-11-22") {
			t.Errorf("%q: %s", bad, says)
		}
	}
}

// stripped returns a result with one member only.
func stripped(t *testing.T, r result, member string) result {
	t.Helper()
	all := succeeded[object](t, r)
	text, err := json.Marshal(object{member: all[member]})
	must(t, err)
	r.StructuredContent, r.Content[0].Text = text, string(text)
	return r
}
