package mcp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
)

// found is a part of a list.
type found struct {
	MediaItems []map[string]any `json:"mediaItems"`
	Next       string           `json:"next"`
}

func (f found) names() []string {
	var names []string
	for _, item := range f.MediaItems {
		names = append(names, fmt.Sprint(item["originalFileName"]))
	}
	return names
}

func TestFindTools_SearchAndListDrafts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.ToolPolicy.Toolsets = []string{"core", "find"} })
	other := w.tenant(t, "other")
	rt := w.replica(t)
	for _, of := range []tenant{one, other} {
		for _, name := range []string{"beach 1.txt", "beach 2.txt", "report.txt", "draft.txt"} {
			id := rt.upload(t, of.Key, name, []byte(name))
			if name != "draft.txt" {
				succeeded[any](t, rt.call(t, of.Key, "seal_media", object{"mediaId": id}))
			}
		}
	}
	w.QueryInt(t, `WITH changed AS (INSERT INTO group_total (app_id, group_label, slot, private_items) SELECT app_id, 'trips', 20, 3 FROM item WHERE file_name = 'report.txt' RETURNING 1) SELECT count(*) FROM changed`)
	w.QueryInt(t, `WITH changed AS (UPDATE item SET metadata = '{"color": "red"}', ref = 'user 12' WHERE file_name = 'report.txt' RETURNING 1) SELECT count(*) FROM changed`)
	if names := rt.names(t, other.Key); slices.Contains(names, "search_media") || slices.Contains(names, "list_drafts") {
		t.Errorf("an account without the toolset has %q", names)
	}
	if says := failed(t, rt.call(t, other.Key, "list_drafts", nil)); !strings.Contains(says, "toolset find") {
		t.Errorf("list_drafts without the toolset says %q", says)
	}
	arguments := object{"name": "BEACH", "type": "text/*", "sort": "name", "limit": 1, "from": time.Now().Add(-time.Hour).Format(time.RFC3339), "group": "", "metadata": nil}
	first := succeeded[found](t, rt.call(t, one.Key, "search_media", arguments))
	arguments["after"] = first.Next
	second := succeeded[found](t, rt.call(t, one.Key, "search_media", arguments))
	if got := append(first.names(), second.names()...); !slices.Equal(got, []string{"beach 1.txt", "beach 2.txt"}) || first.Next == "" || second.Next != "" {
		t.Errorf("found %q, next %q and %q", got, first.Next, second.Next)
	}
	if got := succeeded[found](t, rt.call(t, one.Key, "search_media", object{"metadata": object{"color": "red"}})); !slices.Equal(got.names(), []string{"report.txt"}) {
		t.Errorf("found %q by metadata", got.names())
	} else if item := got.MediaItems[0]; item["createdAt"] == nil || item["sealedAt"] == nil || item["expiresAt"] != nil || item["ref"] != "user 12" || fmt.Sprint(item["metadata"]) != "map[color:red]" {
		t.Errorf("the item is %v", item)
	}
	for words, want := range map[string][]string{`RÉPORT -"beach"`: {"report.txt"}, "red": {"report.txt"}, "beach 2": {"beach 2.txt"}, "absent": nil} {
		if got := succeeded[found](t, rt.call(t, one.Key, "search_media", object{"q": words, "lacks": "caption", "maxBytes": 100})); !slices.Equal(got.names(), want) {
			t.Errorf("%s: found %q", words, got.names())
		}
	}
	if got := succeeded[found](t, rt.call(t, one.Key, "list_drafts", object{"q": "draft"})); !slices.Equal(got.names(), []string{"draft.txt"}) {
		t.Errorf("found the drafts %q by a word", got.names())
	}
	if got := succeeded[any](t, rt.call(t, one.Key, "list_groups", nil)); fmt.Sprint(got) != "map[groups:[map[count:3 group:trips]]]" {
		t.Errorf("the groups are %v", got)
	}
	if got := succeeded[any](t, rt.call(t, one.Key, "list_metadata_keys", nil)); fmt.Sprint(got) != "map[keys:[map[count:1 key:color]]]" {
		t.Errorf("the keys are %v", got)
	}
	drafts := succeeded[found](t, rt.call(t, one.Key, "list_drafts", nil))
	if !slices.Equal(drafts.names(), []string{"draft.txt"}) || drafts.MediaItems[0]["temp"] != true || drafts.MediaItems[0]["expiresAt"] == nil || drafts.MediaItems[0]["createdAt"] == nil || drafts.MediaItems[0]["metadata"] == nil || drafts.MediaItems[0]["sealedAt"] != nil {
		t.Errorf("the drafts are %+v", drafts)
	}
	for _, bad := range []struct {
		tool  string
		input object
		says  string
	}{
		{"search_media", object{"q": strings.Repeat("word ", 10_000)}, "q must be at most 500 characters"},
		{"search_media", object{"q": `"open`}, "without a closing one"},
		{"search_media", object{"has": "group", "lacks": "group"}, "has and lacks cannot both be group"},
		{"search_media", object{"minWidth": -1}, "minWidth must be 0 or more"},
		{"search_media", object{"color": "blue"}, "color must be six hexadecimal digits"},
		{"list_groups", object{"after": "!"}, "after must be the cursor"},
		{"list_groups", object{"limit": 1001}, "limit must be from 1 to 1000"},
		{"list_groups", object{"access": "all"}, "access must be"},
		{"list_metadata_keys", object{"limit": 1}, "unknown argument"},
		{"search_media", object{"after": "x"}, "after must be the cursor"},
		{"search_media", object{"after": first.Next}, "after is the cursor of another list"},
		{"search_media", object{"metadata": object{"color": 1}}, "metadata.color must be a string"},
		{"search_media", object{"metadata": object{"color": ""}}, "meta.color must not be empty"},
		{"search_media", object{"type": "image/jpg"}, "write image/jpeg"},
		{"search_media", object{"metadata": object{"Color": "x"}}, "meta.Color: a key must have"},
		{"search_media", object{"sort": "color"}, "sort must be"},
		{"search_media", object{"to": "tomorrow"}, "to must be a time"},
		{"search_media", object{"limit": 101}, "limit must be from 1 to 100"},
		{"search_media", object{"state": "draft"}, "unknown argument"},
		{"list_drafts", object{"type": "image"}, "type must be"},
		{"list_drafts", object{"sort": "name"}, "unknown argument"},
	} {
		if says := failed(t, rt.call(t, one.Key, bad.tool, bad.input)); !strings.Contains(says, bad.says) {
			t.Errorf("%s %v says %q, want %q", bad.tool, bad.input, says, bad.says)
		}
	}
	for _, tool := range rt.tools(t, one.Key) {
		if !slices.Contains([]string{"search_media", "list_drafts", "list_groups", "list_metadata_keys"}, tool.Name) {
			continue
		}
		described(t, tool.Name, tool.InputSchema)
		described(t, tool.Name, tool.OutputSchema)
		output, err := tool.OutputSchema.Resolve(nil)
		must(t, err)
		must(t, output.Validate(succeeded[any](t, rt.call(t, one.Key, tool.Name, nil))))
	}
	// The policy of the account holds for both.
	w.Change(t, one, func(s *account.Spec) { s.ToolPolicy.Tools = []string{"list_media"} })
	wait.Until(t, "the policy is in force", func() bool { return slices.Equal(rt.names(t, one.Key), []string{"list_media"}) })
	for _, tool := range []string{"search_media", "list_drafts"} {
		if says := failed(t, rt.call(t, one.Key, tool, nil)); !strings.Contains(says, "not allowed") {
			t.Errorf("%s says %q", tool, says)
		}
	}
}
