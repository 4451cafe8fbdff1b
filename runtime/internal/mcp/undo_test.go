package mcp_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
)

// undoable is the result of delete_media with the toolset undo.
type undoable struct {
	api.Deleted
	Message string `json:"message"`
}

// A delete of an assistant can be undone on every replica, and a delete with the key at REST cannot
// (spec.undo.for: Agents).
func TestUndo_RestoresWhatAnAssistantDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt, second := w.replica(t), w.replica(t)
	undo := func(s *account.Spec) {
		s.Undo = account.Undo{Window: time.Hour, For: account.UndoAgents}
		s.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetUndo}
	}
	one, other := w.tenant(t, "one", undo), w.tenant(t, "other", undo)
	plain := w.tenant(t, "plain")
	if got := strings.Join(rt.names(t, one.Key), " "); !strings.Contains(got, "list_deleted_media") || !strings.Contains(got, "restore_media") {
		t.Errorf("the tools are %s", got)
	}
	for _, name := range []string{"list_deleted_media", "restore_media"} {
		if got := rt.call(t, plain.Key, name, nil); !got.IsError || !strings.Contains(got.Content[0].Text, "toolset undo") {
			t.Errorf("%s without the toolset: %+v", name, got)
		}
	}
	type deletedList struct {
		MediaItems []struct {
			api.DeletedItem
			Metadata map[string]string `json:"metadata"`
		}
		Total int64
		Page  int
	}
	deleted := func(rt *replica, of tenant) deletedList {
		return succeeded[deletedList](t, rt.call(t, of.Key, "list_deleted_media", object{"limit": 100}))
	}
	draft := rt.upload(t, one.Key, "a.txt", []byte("hello"), object{"group": "g"})
	sealed := succeeded[api.MediaItem](t, rt.call(t, one.Key, "seal_media", object{"mediaId": draft}))
	for range 2 {
		if got := succeeded[undoable](t, rt.call(t, one.Key, "delete_media", object{"mediaId": draft})); !got.Deleted.Deleted || got.ExpiresAt == nil ||
			!strings.Contains(got.Message, "call restore_media with this mediaId") || !strings.Contains(got.Message, "list_deleted_media lists") {
			t.Errorf("the result of delete_media is %+v", got)
		}
		if says := failed(t, second.call(t, one.Key, "get_media", object{"mediaId": draft})); !strings.HasSuffix(says, "list_media lists what there is; list_deleted_media lists deleted items that can be restored") {
			t.Errorf("a deleted item: %q", says)
		}
		list := deleted(second, one)
		if list.Total != 1 || list.Page != 1 || list.MediaItems[0].MediaId != sealed.MediaId || list.MediaItems[0].Group != "g" || !list.MediaItems[0].ExpiresAt.Equal(list.MediaItems[0].DeletedAt.Add(time.Hour)) {
			t.Errorf("deleted items: %+v", list)
		}
		if list := deleted(second, other); list.Total != 0 || len(list.MediaItems) != 0 {
			t.Errorf("another tenant sees %+v", list)
		}
		if got := second.call(t, other.Key, "restore_media", object{"mediaId": draft}); !got.IsError || !strings.Contains(got.Content[0].Text, "media item not found") {
			t.Errorf("another tenant restores the item: %+v", got)
		}
		restored := succeeded[api.MediaItem](t, second.call(t, one.Key, "restore_media", object{"mediaId": draft}))
		if restored.MediaId != sealed.MediaId || string(rt.read(t, restored)) != "hello" {
			t.Errorf("restored: %+v", restored)
		}
	}
	for _, tool := range rt.tools(t, one.Key) {
		if tool.Name == "delete_media" && (!strings.Contains(tool.Description, "restore_media can restore the item") || strings.Contains(tool.Description, "This cannot be undone")) {
			t.Errorf("delete_media is described as %q", tool.Description)
		}
	}
	if got := rt.send(t, http.MethodDelete, "/media/delete/"+draft, nil, apiKey(one.Key)); got.Status != http.StatusOK || deleted(rt, one).Total != 0 || w.QueryInt(t, `SELECT count(*) FROM stored_item`) != 0 {
		t.Errorf("a delete with the key at REST: %d %s", got.Status, got.Body)
	}
	for _, arguments := range []object{{"page": 0}, {"limit": 101}, {"mediaId": draft}} {
		if got := rt.call(t, one.Key, "list_deleted_media", arguments); !got.IsError {
			t.Errorf("%v: %+v", arguments, got)
		}
	}
	// A draft cannot be restored, and without the toolset the result is that of the specification.
	final := rt.call(t, one.Key, "delete_media", object{"mediaId": rt.upload(t, one.Key, "b.txt", []byte("b"))})
	w.Change(t, other, func(s *account.Spec) { s.ToolPolicy.Toolsets = nil })
	wait.Until(t, "the toolset is gone", func() bool { return !strings.Contains(strings.Join(rt.names(t, other.Key), " "), "restore_media") })
	kept := rt.upload(t, other.Key, "b.txt", []byte("b"))
	succeeded[api.MediaItem](t, rt.call(t, other.Key, "seal_media", object{"mediaId": kept}))
	for _, got := range []string{string(final.StructuredContent), string(rt.call(t, other.Key, "delete_media", object{"mediaId": kept}).StructuredContent)} {
		if strings.Contains(got, "expiresAt") || strings.Contains(got, "message") || !strings.Contains(got, `"deleted":true`) {
			t.Errorf("the result of delete_media is %s", got)
		}
	}
}
