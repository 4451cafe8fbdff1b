package mcp_test

import (
	"bytes"
	"image"
	"image/png"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/runtime/internal/api"
)

type list struct {
	MediaItems []api.MediaItem `json:"mediaItems"`
	Total      int             `json:"total"`
	Page       int             `json:"page"`
}

// An assistant stores a file, seals it, lists it and deletes it.
func TestItem_FromUploadToDelete(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	data := noise(3 << 20)
	id := rt.upload(t, one.Key, "dir/notes.bin", data, object{"caption": "Größe", "group": "2026", "access": "public"})

	draft := succeeded[api.MediaItem](t, rt.call(t, one.Key, "get_media", object{"mediaId": id}))
	if !draft.Temp || draft.OriginalFileName != "notes.bin" || draft.Size != int64(len(data)) || draft.Caption != "Größe" || draft.Group != "2026" || draft.Access != api.Public {
		t.Errorf("the draft is %+v", draft)
	}
	if !bytes.Equal(rt.read(t, draft), data) {
		t.Error("the draft's file has other bytes")
	}
	if got := succeeded[list](t, rt.call(t, one.Key, "list_media", nil)); len(got.MediaItems) != 0 || got.Total != 0 || got.Page != 1 {
		t.Errorf("drafts are listed: %+v", got)
	}
	sealed := succeeded[api.MediaItem](t, rt.call(t, one.Key, "seal_media", object{"mediaId": id}))
	if sealed.Temp || sealed.MediaId.String() != id {
		t.Errorf("the sealed item is %+v", sealed)
	}
	if resealed := succeeded[api.MediaItem](t, rt.call(t, one.Key, "seal_media", object{"mediaId": id})); !reflect.DeepEqual(resealed, sealed) {
		t.Errorf("after the second seal it is %+v", resealed)
	}
	for _, arguments := range []object{nil, {}, {"page": 1.0, "limit": 100}, {"group": "2026"}, {"access": "public", "group": "2026"}} {
		if got := succeeded[list](t, rt.call(t, one.Key, "list_media", arguments)); len(got.MediaItems) != 1 || !reflect.DeepEqual(got.MediaItems[0], sealed) || got.Total != 1 {
			t.Errorf("%v lists %+v", arguments, got)
		}
	}
	if got := succeeded[list](t, rt.call(t, one.Key, "list_media", object{"page": 2})); len(got.MediaItems) != 0 || got.MediaItems == nil || got.Total != 1 || got.Page != 2 {
		t.Errorf("the second page is %+v", got)
	}
	if got := succeeded[list](t, rt.call(t, one.Key, "list_media", object{"access": "private"})); got.Total != 0 {
		t.Errorf("private items: %+v", got)
	}
	if got := succeeded[api.Count](t, rt.call(t, one.Key, "get_media_count", nil)); got.Count != 1 {
		t.Errorf("the count is %d", got.Count)
	}
	if got := succeeded[api.Totals](t, rt.call(t, one.Key, "get_total_storage", object{})); got != (api.Totals{Storage: int64(len(data)), MaxStorage: maxStorage}) {
		t.Errorf("the totals are %+v", got)
	}
	if got := succeeded[api.Deleted](t, rt.call(t, one.Key, "delete_media", object{"mediaId": id})); !got.Deleted || got.MediaId.String() != id {
		t.Errorf("the deletion is %+v", got)
	}
	if w.leftovers(t) != 0 {
		t.Error("rows or bytes are left")
	}
}

// A change of the settings applies to the next upload.
func TestUploadMedia_ProcessesImagesByTheSettings(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t, func(o *options) { o.Images = true })
	var picture bytes.Buffer
	must(t, png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 400, 300))))
	succeeded[any](t, rt.call(t, one.Key, "update_media_settings", object{"useWebP": true, "thumbnailWidth": 40}))
	id := rt.upload(t, one.Key, "a.png", picture.Bytes(), object{"mimeType": "image/png"})
	item := succeeded[api.MediaItem](t, rt.call(t, one.Key, "seal_media", object{"mediaId": id}))
	if item.MimeType != "image/webp" || !strings.HasPrefix(item.Thumbnail, baseURL+"/media/file/"+id+"/thumbnail/") {
		t.Errorf("the item is %+v", item)
	}
}

// A key gives access to the items of its app, not to those of the account's other apps.
func TestTools_IsolateAppsOfOneAccount(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	id := rt.upload(t, one.Key, "f", []byte("f"), object{"group": "g"})
	succeeded[api.MediaItem](t, rt.call(t, one.Key, "seal_media", object{"mediaId": id}))
	apps, _, err := w.Registry.OpenApps(t.Context(), one.Account.ID, []string{"web"})
	must(t, err)
	for _, app := range apps {
		if app.Name != "web" {
			continue
		}
		token, _, err := w.Registry.IssueKey(t.Context(), app.ID, 1, 0)
		must(t, err)
		for _, tool := range []string{"get_media", "seal_media", "delete_media"} {
			if says := failed(t, rt.call(t, token.Reveal(), tool, object{"mediaId": id})); !strings.Contains(says, "media item not found") {
				t.Errorf("%s says %q", tool, says)
			}
		}
		if got := succeeded[list](t, rt.call(t, token.Reveal(), "list_media", object{"group": "g"})); got.Total != 0 {
			t.Errorf("it lists %+v", got)
		}
		if got := succeeded[api.Count](t, rt.call(t, token.Reveal(), "get_media_count", nil)); got.Count != 0 {
			t.Errorf("it counts %+v", got)
		}
	}
}

// The SDK's client, in the newest revision, validates results against the schemas.
func TestSDKClient_AcceptsResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	session := w.replica(t).connect(t, one.Key)
	if got := session.InitializeResult(); got.ProtocolVersion != "2026-07-28" || got.Capabilities.Tools == nil || got.Capabilities.Tools.ListChanged || got.Instructions == "" {
		t.Errorf("the result of initialize is %+v", got)
	}
	tools, err := session.ListTools(t.Context(), nil)
	must(t, err)
	if len(tools.Tools) != 10 || tools.CacheScope != "private" || tools.TTLMs <= 0 {
		t.Errorf("%d tools, %q for %d ms", len(tools.Tools), tools.CacheScope, tools.TTLMs)
	}
	made, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "upload_media", Arguments: object{"fileBase64": "aGFsbG8", "fileName": "a.txt", "mimeType": "text/markdown"}})
	must(t, err)
	if made.IsError {
		t.Fatalf("%+v", made.Content[0])
	}
	id := made.StructuredContent.(map[string]any)["mediaId"]
	got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "seal_media", Arguments: object{"mediaId": id}})
	must(t, err)
	if item := got.StructuredContent.(map[string]any); got.IsError || item["mimeType"] != "text/markdown" || item["size"] != 5.0 {
		t.Errorf("sealed: %+v", got)
	}
}
