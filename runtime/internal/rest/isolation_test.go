package rest_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/rest"
	"mediastack.dev/runtime/internal/rest/wire"
)

// isolation says what a route must not let through. A route without an entry fails
// the test below.
type isolation struct {
	// foreign is called with another tenant's key, and items that are not that tenant's.
	foreign func(t *testing.T, rt *runtime, other tenant, draft, sealed wire.MediaItem)
	// open routes need no key.
	open bool
	// send is what a valid request carries besides its key.
	send []option
}

const (
	anyItem = "0190a0a0-0000-7000-8000-000000000000"
	noItem  = `{"error":"Not Found","detail":"there is no such item"}`
)

// sameAsMissing asks a route for another tenant's items, and for one that never was:
// the answers must not differ.
func sameAsMissing(method, path string) func(*testing.T, *runtime, tenant, wire.MediaItem, wire.MediaItem) {
	return func(t *testing.T, rt *runtime, other tenant, draft, sealed wire.MediaItem) {
		t.Helper()
		for _, id := range []uuid.UUID{draft.MediaId, sealed.MediaId, uuid.MustParse(anyItem)} {
			got := rt.do(t, method, strings.Replace(path, "{mediaId}", id.String(), 1), key(other.key))
			if got.status != http.StatusNotFound || strings.TrimSpace(string(got.body)) != noItem {
				t.Errorf("%s: %d %s", id, got.status, got.body)
			}
		}
	}
}

// seesNothing asks a route that sums or lists.
func seesNothing(method, path, want string) func(*testing.T, *runtime, tenant, wire.MediaItem, wire.MediaItem) {
	return func(t *testing.T, rt *runtime, other tenant, _, _ wire.MediaItem) {
		t.Helper()
		got := rt.do(t, method, path, key(other.key))
		if got.status != http.StatusOK || strings.TrimSpace(string(got.body)) != want {
			t.Errorf("%d %s, want %s", got.status, got.body, want)
		}
	}
}

// ownOnly is for routes whose only subject is the caller's own account: what they
// change is checked by the test as a whole, on the first tenant's side.
func ownOnly(method, path string, send ...option) func(*testing.T, *runtime, tenant, wire.MediaItem, wire.MediaItem) {
	return func(t *testing.T, rt *runtime, other tenant, _, _ wire.MediaItem) {
		t.Helper()
		if got := rt.do(t, method, path, append(send, key(other.key))...); got.status/100 != 2 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

// onlySigned asks for files with nothing, and with another file's signature.
func onlySigned(method string) func(*testing.T, *runtime, tenant, wire.MediaItem, wire.MediaItem) {
	return func(t *testing.T, rt *runtime, other tenant, draft, sealed wire.MediaItem) {
		t.Helper()
		theirs := rt.upload(t, other.key, filePart("theirs.txt", []byte("theirs")))
		_, query, _ := strings.Cut(theirs.File, "?")
		for _, item := range []wire.MediaItem{draft, sealed} {
			plain, _, _ := strings.Cut(item.File, "?")
			if got := rt.do(t, method, plain, key(other.key)); got.status != http.StatusNotFound {
				t.Errorf("without a signature: %d %s", got.status, got.body)
			}
			if got := rt.do(t, method, plain+"?"+query, key(other.key)); got.status != http.StatusForbidden {
				t.Errorf("with another item's signature: %d %s", got.status, got.body)
			}
		}
	}
}

func isolations() map[operation]isolation {
	settingsBody := []option{text(`{"thumbnailWidth": 99}`)}
	upload := []option{form(filePart("x.txt", []byte("x")))}
	return map[operation]isolation{
		{"POST", "/media/create"}:             {foreign: ownOnly("POST", "/media/create", upload...), send: upload},
		{"POST", "/media/seal/{mediaId}"}:     {foreign: sameAsMissing("POST", "/media/seal/{mediaId}")},
		{"GET", "/media/get"}:                 {foreign: seesNothing("GET", "/media/get?limit=100", "[]")},
		{"POST", "/media/get"}:                {foreign: seesNothing("POST", "/media/get?limit=100", "[]")},
		{"GET", "/media/get/count"}:           {foreign: seesNothing("GET", "/media/get/count", `{"count":0}`)},
		{"POST", "/media/get/count"}:          {foreign: seesNothing("POST", "/media/get/count", `{"count":0}`)},
		{"GET", "/media/get/size"}:            {foreign: seesNothing("GET", "/media/get/size", `{"storage":0,"maxStorage":67108864}`)},
		{"POST", "/media/get/size"}:           {foreign: seesNothing("POST", "/media/get/size", `{"storage":0,"maxStorage":67108864}`)},
		{"GET", "/media/get/{mediaId}"}:       {foreign: sameAsMissing("GET", "/media/get/{mediaId}")},
		{"POST", "/media/get/{mediaId}"}:      {foreign: sameAsMissing("POST", "/media/get/{mediaId}")},
		{"DELETE", "/media/delete/{mediaId}"}: {foreign: sameAsMissing("DELETE", "/media/delete/{mediaId}")},
		{"POST", "/media/signature/create"}:   {foreign: ownOnly("POST", "/media/signature/create")},
		{"GET", "/settings/media/get"}:        {foreign: ownOnly("GET", "/settings/media/get")},
		{"POST", "/settings/media/get"}:       {foreign: ownOnly("POST", "/settings/media/get")},
		{"POST", "/settings/media/create"}:    {foreign: ownOnly("POST", "/settings/media/create", settingsBody...), send: settingsBody},

		{"GET", "/media/file/{mediaId}/{variant}/{name}"}:  {foreign: onlySigned("GET"), open: true},
		{"HEAD", "/media/file/{mediaId}/{variant}/{name}"}: {foreign: onlySigned("HEAD"), open: true},
		{"GET", "/openapi.json"}: {open: true, foreign: func(t *testing.T, rt *runtime, _ tenant, _, _ wire.MediaItem) {
			t.Helper()
			if got := rt.do(t, "GET", "/openapi.json"); got.status != http.StatusOK {
				t.Errorf("%d %s", got.status, got.body)
			}
		}},
	}
}

func TestEveryRouteKeepsTenantsApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	draft := rt.upload(t, one.key, filePart("draft.txt", []byte("draft")))
	sealed := rt.sealed(t, one.key, filePart("sealed.txt", []byte("sealed")))
	before := rt.do(t, http.MethodGet, "/settings/media/get", key(one.key)).body

	cases := isolations()
	for _, route := range routesOf(t, (&rest.API{}).Mount, (&delivery.Delivery{}).Mount) {
		c, ok := cases[route]
		if !ok {
			t.Errorf("%s has no isolation case: add one", route)
			continue
		}
		delete(cases, route)
		t.Run(route.String(), func(t *testing.T) {
			c.foreign(t, rt, other, draft, sealed)
			if c.open {
				return
			}
			path := strings.Replace(route.path, "{mediaId}", sealed.MediaId.String(), 1)
			rt.do(t, route.method, path, c.send...).refused(t, http.StatusUnauthorized, "Unauthorized")
			made, err := account.NewToken()
			must(t, err)
			for _, wrong := range []string{made.Reveal(), "x", one.key + "x", one.key[:len(one.key)-1], " "} {
				rt.do(t, route.method, path, append([]option{key(wrong)}, c.send...)...).refused(t, http.StatusUnauthorized, "Unauthorized")
			}
			if route.path != "/media/create" {
				// A signature opens uploads and nothing else.
				granted := decode[wire.Signature](t, rt.do(t, "POST", "/media/signature/create", key(one.key)))
				rt.do(t, route.method, path, append([]option{signature(granted.Signature)}, c.send...)...).refused(t, http.StatusUnauthorized, "Unauthorized")
			}
		})
	}
	for route := range cases {
		t.Errorf("%s has an isolation case and is not served", route)
	}

	// Whatever the other tenant did, nothing of the first one's changed.
	if item := rt.do(t, "GET", "/media/get/"+draft.MediaId.String(), key(one.key)).item(t); !item.Temp {
		t.Error("the draft was sealed by another tenant")
	}
	rt.expect(t, one, 1, sealed.Size)
	if after := rt.do(t, http.MethodGet, "/settings/media/get", key(one.key)).body; !bytes.Equal(after, before) {
		t.Errorf("the settings were changed by another tenant: %s", after)
	}
}

func TestAppsOfOneAccountAreKeptApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t)
	one := w.tenant(t, "one")
	apps, err := w.registry.SetApps(t.Context(), one.account.ID, []string{"blog"})
	must(t, err)
	for _, app := range apps {
		if app.Name == "blog" {
			token, _, err := w.registry.IssueKey(t.Context(), app.ID, 1, 0)
			must(t, err)
			sealed := rt.sealed(t, one.key, filePart("a", []byte("abc")))
			rt.do(t, "GET", "/media/get/"+sealed.MediaId.String(), key(token.Reveal())).refused(t, http.StatusNotFound, "Not Found")
			// The totals are the account's, the count is the app's.
			if got := decode[wire.Totals](t, rt.do(t, "GET", "/media/get/size", key(token.Reveal()))); got.Storage != 3 {
				t.Errorf("totals %+v", got)
			}
			if got := decode[wire.Count](t, rt.do(t, "GET", "/media/get/count", key(token.Reveal()))); got.Count != 0 {
				t.Errorf("count %+v", got)
			}
			return
		}
	}
	t.Fatal("the app blog is missing")
}
