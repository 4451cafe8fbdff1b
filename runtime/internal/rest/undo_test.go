package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/itemcache"
	"mediastack.dev/runtime/internal/runtimetest"
)

func undoFor(who string) func(*account.Spec) {
	return func(s *account.Spec) { s.Undo = account.Undo{Window: time.Hour, For: who} }
}

// A deleted item is served by no replica, though both have cached it, and a restored one by both.
func TestUndo_TakesEffectOnEveryReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cached := func(o *options) { o.Cache = itemcache.Config{Entries: 100, Bytes: 1 << 20, Lease: 5 * time.Second} }
	one, two := w.runtime(t, cached), w.runtime(t, cached)
	tenant := w.tenant(t, "one", undoFor(account.UndoEveryone))
	older := one.sealed(t, tenant.Key, filePart("older.txt", []byte("older")))
	item := one.sealed(t, tenant.Key, filePart("a.txt", []byte("hello")), field("access", "public"), field("group", "g"))
	document := func(rt *runtime) string {
		return string(rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(tenant.Key)).ok(t))
	}
	before := document(one)
	for _, rt := range []*runtime{one, two} {
		for range 3 {
			rt.do(t, http.MethodGet, item.File).ok(t)
		}
	}

	var deleted api.Deleted
	must(t, json.Unmarshal(one.do(t, http.MethodDelete, "/media/delete/"+item.MediaId.String(), key(tenant.Key)).ok(t), &deleted))
	if !deleted.Deleted || deleted.ExpiresAt == nil || deleted.ExpiresAt.Before(one.Clock.Now().Add(59*time.Minute)) {
		t.Errorf("deleted: %+v", deleted)
	}
	for _, rt := range []*runtime{two, one} {
		rt.do(t, http.MethodGet, item.File).Is(t, http.StatusNotFound, "the file of a deleted item")
		rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(tenant.Key)).Is(t, http.StatusNotFound, "a deleted item")
	}
	two.expect(t, tenant, 1, 5)
	got := two.do(t, http.MethodGet, "/media/deleted?limit=1", key(tenant.Key))
	var list []api.DeletedItem
	must(t, json.Unmarshal(got.ok(t), &list))
	if len(list) != 1 || list[0].MediaId != item.MediaId || list[0].OriginalFileName != "a.txt" || list[0].Group != "g" || !list[0].ExpiresAt.Equal(*deleted.ExpiresAt) || got.Header.Get("X-Total-Count") != "1" ||
		got.Header.Get("Link") != fmt.Sprintf(`<%s/media/deleted?limit=1&page=1>; rel="first", <%[1]s/media/deleted?limit=1&page=1>; rel="last"`, baseURL) {
		t.Errorf("deleted items: %+v %v", list, got.Header)
	}

	var restored api.MediaItem
	must(t, json.Unmarshal(two.do(t, http.MethodPost, "/media/restore/"+item.MediaId.String(), key(tenant.Key)).ok(t), &restored))
	if restored.File != item.File {
		t.Errorf("the address was %s, and is %s", item.File, restored.File)
	}
	for _, rt := range []*runtime{one, two} {
		rt.do(t, http.MethodGet, item.File).ok(t)
		if after := document(rt); after != before {
			t.Errorf("the item was %s, and is %s", before, after)
		}
	}
	one.expect(t, tenant, 2, 10)
	for _, operation := range []string{"delete", "restore"} {
		got := two.do(t, http.MethodPost, "/media/batch", text(fmt.Sprintf(`{"operation": %q, "ids": [%q, %q]}`, operation, item.MediaId, uuid.New())), key(tenant.Key))
		if results := decode[api.BatchResults](t, got).Results; results[0].Status != http.StatusOK || results[1].Status != http.StatusNotFound || (results[0].Item != nil) != (operation == "restore") {
			t.Errorf("%s of many: %s", operation, got.Body)
		}
	}
	var all []api.MediaItem
	must(t, json.Unmarshal(one.do(t, http.MethodGet, "/media/get", key(tenant.Key)).ok(t), &all))
	if len(all) != 2 || all[0].MediaId != item.MediaId || all[1].MediaId != older.MediaId {
		t.Errorf("the list is %+v", all)
	}
}

// A batch says of each delete whether it can be undone, as the delete of the item alone does. A draft cannot be restored.
func TestUndo_OfABatchHasATimeForEachItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t, func(o *options) { o.Auth.Resource = runtimetest.BaseURL + "/mcp" })
	for name, test := range map[string]struct {
		undo       string
		app        bool
		restorable bool
	}{
		"everyone may undo":                           {account.UndoEveryone, false, true},
		"agents may undo, and a key deletes":          {account.UndoAgents, false, false},
		"agents may undo, and an application deletes": {account.UndoAgents, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := w.tenant(t, name, undoFor(test.undo)) // its list has the items of this case only
			credential := key(tenant.Key)
			if test.app {
				credential = bearer(w.Session(t, tenant, auth.ScopeRead, auth.ScopeWrite, auth.ScopeDelete))
			}
			item := rt.sealed(t, tenant.Key, filePart("a.txt", []byte("hello")))
			draft := rt.upload(t, tenant.Key, filePart("b.txt", []byte("hello")))
			answer := rt.batch(t, fmt.Sprintf(`{"operation": "delete", "ids": [%q, %q]}`, item.MediaId, draft.MediaId), credential)
			results := decode[api.BatchResults](t, answer).Results
			if results[0].Status != http.StatusOK || results[1].Status != http.StatusOK || results[1].ExpiresAt != nil || (results[0].ExpiresAt != nil) != test.restorable {
				t.Fatalf("the results are %s", answer.Body)
			}
			var list []api.DeletedItem
			must(t, json.Unmarshal(rt.do(t, http.MethodGet, "/media/deleted?limit=1", credential).ok(t), &list))
			if !test.restorable {
				if len(list) != 0 {
					t.Errorf("deleted items: %+v", list)
				}
				return
			}
			if len(list) != 1 || list[0].MediaId != item.MediaId || !list[0].ExpiresAt.Equal(*results[0].ExpiresAt) {
				t.Errorf("deleted items: %+v, and the result is %s", list, answer.Body)
			}
		})
	}
}

func TestDelete_PermanentNeedsAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t, func(o *options) { o.Auth.Resource = runtimetest.BaseURL + "/mcp" })
	tenant := w.tenant(t, "one", undoFor(account.UndoAgents))
	token := w.Session(t, tenant, auth.ScopeRead, auth.ScopeWrite, auth.ScopeDelete)
	remove := func(id uuid.UUID, query string, credential option) answer {
		return rt.do(t, http.MethodDelete, "/media/delete/"+id.String()+query, credential)
	}
	left := func() int64 { return w.QueryInt(t, `SELECT count(*) FROM stored_item`) }
	item := rt.sealed(t, tenant.Key, filePart("a.txt", []byte("hello")))
	for _, query := range []string{"?permanent=yes", "?permanent=1", "?permanent=t", "?permanent=T", "?permanent=True", "?permanent=TRUE", "?permanent=0", "?permanent=False", "?permanent=1&permanent=1", "?force=true"} {
		remove(item.MediaId, query, key(tenant.Key)).rejected(t, http.StatusBadRequest, "Bad Request")
	}
	remove(item.MediaId, "?permanent=true", bearer(token)).rejected(t, http.StatusForbidden, "Forbidden")
	rt.expect(t, tenant, 1, 5)
	// An application's delete can be undone, that of the key cannot.
	var deleted api.Deleted
	must(t, json.Unmarshal(remove(item.MediaId, "?permanent=false", bearer(token)).ok(t), &deleted))
	if deleted.ExpiresAt == nil || left() != 1 {
		t.Errorf("a delete of an application: %+v, %d left", deleted, left())
	}
	if got := rt.do(t, http.MethodPost, "/media/restore/"+item.MediaId.String(), bearer(token)); got.item(t).MediaId != item.MediaId {
		t.Errorf("restored: %s", got.Body)
	}
	deleted = api.Deleted{}
	must(t, json.Unmarshal(remove(item.MediaId, "", key(tenant.Key)).ok(t), &deleted))
	if deleted.ExpiresAt != nil || left() != 0 {
		t.Errorf("a delete with the key: %+v, %d left", deleted, left())
	}
	// The key also ends what an application has deleted.
	other := rt.sealed(t, tenant.Key, filePart("b.txt", []byte("hello")))
	remove(other.MediaId, "", bearer(token)).ok(t)
	remove(other.MediaId, "", key(tenant.Key)).rejected(t, http.StatusNotFound, "Not Found")
	remove(other.MediaId, "?permanent=true", key(tenant.Key)).ok(t)
	rt.do(t, http.MethodPost, "/media/restore/"+other.MediaId.String(), key(tenant.Key)).rejected(t, http.StatusNotFound, "Not Found")
	if left() != 0 {
		t.Errorf("%d items are left", left())
	}
}

// ok returns the body of a success.
func (a answer) ok(t *testing.T) []byte {
	t.Helper()
	if a.Status/100 != 2 {
		t.Fatalf("status %d: %s", a.Status, a.Body)
	}
	return a.Body
}
