package rest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/rest"
	"mediastack.dev/runtime/media"
)

// isolation has the checks of a route. A route without an entry fails the test below.
type isolation struct {
	// foreign sends requests for a tenant's items with the key of another tenant.
	foreign func(t *testing.T, rt *runtime, other tenant, draft, sealed api.MediaItem)
	// open is set for routes that need no key.
	open bool
	// shared is set for routes of the account, which are the same for all its apps.
	shared bool
	// send has the options of a valid request besides its key.
	send []option
}

const (
	anyItem = "0190a0a0-0000-7000-8000-000000000000"
	noItem  = `{"error":"Not Found","code":"not_found","detail":"media item not found"}`
)

// sameAsMissing requires the same response for another tenant's item and for a missing one.
func sameAsMissing(method, path string, send ...option) func(*testing.T, *runtime, tenant, api.MediaItem, api.MediaItem) {
	return func(t *testing.T, rt *runtime, other tenant, draft, sealed api.MediaItem) {
		t.Helper()
		for _, id := range []uuid.UUID{draft.MediaId, sealed.MediaId, uuid.MustParse(anyItem)} {
			got := rt.do(t, method, strings.Replace(path, "{mediaId}", id.String(), 1), append(send, key(other.Key))...)
			if got.Status != http.StatusNotFound || strings.TrimSpace(string(got.Body)) != noItem {
				t.Errorf("%s: %d %s", id, got.Status, got.Body)
			}
		}
	}
}

// batchesAreMissing sends each operation of a batch for another tenant's items and for a missing one.
func batchesAreMissing(t *testing.T, rt *runtime, other tenant, draft, sealed api.MediaItem) {
	t.Helper()
	for _, operation := range []string{`"seal"`, `"delete"`, `"update", "patch": {"caption": "theirs"}`} {
		body := fmt.Sprintf(`{"operation": %s, "ids": ["%s", "%s", "%s"]}`, operation, draft.MediaId, sealed.MediaId, anyItem)
		results := decode[api.BatchResults](t, rt.do(t, http.MethodPost, "/media/batch", text(body), key(other.Key))).Results
		for _, result := range results {
			if result.Status != http.StatusNotFound || result.Item != nil || result.Error == nil || *result.Error != *results[2].Error {
				t.Errorf("%s: %+v", operation, result)
			}
		}
	}
}

// seesNothing checks a route that sums or lists.
func seesNothing(method, path, want string) func(*testing.T, *runtime, tenant, api.MediaItem, api.MediaItem) {
	return func(t *testing.T, rt *runtime, other tenant, _, _ api.MediaItem) {
		t.Helper()
		got := rt.do(t, method, path, key(other.Key))
		if got.Status != http.StatusOK || strings.TrimSpace(string(got.Body)) != want {
			t.Errorf("%d %s, want %s", got.Status, got.Body, want)
		}
	}
}

// ownOnly is for routes that concern the caller's account only. The test checks at its end that they
// changed nothing of the first tenant.
func ownOnly(method, path string, send ...option) func(*testing.T, *runtime, tenant, api.MediaItem, api.MediaItem) {
	return func(t *testing.T, rt *runtime, other tenant, _, _ api.MediaItem) {
		t.Helper()
		if got := rt.do(t, method, path, append(send, key(other.Key))...); got.Status/100 != 2 {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
}

// onlySigned requests files without a signature, and with another file's.
func onlySigned(method string) func(*testing.T, *runtime, tenant, api.MediaItem, api.MediaItem) {
	return func(t *testing.T, rt *runtime, other tenant, draft, sealed api.MediaItem) {
		t.Helper()
		theirs := rt.upload(t, other.Key, filePart("theirs.txt", []byte("theirs")))
		_, query, _ := strings.Cut(theirs.File, "?")
		for _, item := range []api.MediaItem{draft, sealed} {
			plain, _, _ := strings.Cut(item.File, "?")
			rt.do(t, method, plain, key(other.Key)).Is(t, http.StatusNotFound, "without a signature")
			rt.do(t, method, plain+"?"+query, key(other.Key)).Is(t, http.StatusForbidden, "with another item's signature")
		}
	}
}

// foreignJob requires the same response for another app's upload from a URL and for a missing one.
func foreignJob(t *testing.T, rt *runtime, other tenant, _, _ api.MediaItem) {
	t.Helper()
	for _, id := range []uuid.UUID{rt.job, uuid.MustParse(anyItem)} {
		got := rt.do(t, http.MethodGet, "/media/create/url/"+id.String(), key(other.Key))
		if detail := got.rejected(t, http.StatusNotFound, "Not Found"); detail != "upload from a URL not found" {
			t.Errorf("%s: %s", id, got.Body)
		}
	}
}

// foreignEvents requires that no event is of an item of another app.
func foreignEvents(t *testing.T, rt *runtime, other tenant, draft, sealed api.MediaItem) {
	t.Helper()
	got := rt.do(t, http.MethodGet, "/events?limit=1000", key(other.Key))
	page := decode[api.EventPage](t, got)
	for _, event := range page.Events {
		if id := event.MediaId; id != nil && (*id == draft.MediaId || *id == sealed.MediaId || *id == rt.running) || event.App != other.App.Name {
			t.Errorf("an event of another app: %+v", event)
		}
	}
}

// foreignUpload requires the same response for another app's resumable upload and for a missing one.
func foreignUpload(t *testing.T, rt *runtime, other tenant, _, _ api.MediaItem) {
	t.Helper()
	for _, id := range []string{rt.running.String(), anyItem, "x"} {
		got := rt.do(t, http.MethodDelete, "/media/uploads/"+id, key(other.Key))
		if got.Status != http.StatusNotFound || strings.TrimSpace(string(got.Body)) != `{"error":"Not Found","code":"not_found","detail":"there is no such upload"}` {
			t.Errorf("%s: %d %s", id, got.Status, got.Body)
		}
	}
}

func isolations() map[operation]isolation {
	settingsBody := []option{text(`{"thumbnailWidth": 99}`)}
	patch := []option{text(`{"caption": "theirs"}`), header("Content-Type", "application/json")}
	batch := []option{text(`{"operation": "seal", "ids": ["` + anyItem + `"]}`)}
	upload := []option{form(filePart("x.txt", []byte("x")))}
	fromURL := []option{text(`{"url": "https://files.example.com/x.txt"}`)}
	return map[operation]isolation{
		{"POST", "/media/create"}:               {foreign: ownOnly("POST", "/media/create", upload...), send: upload},
		{"POST", "/media/create/url"}:           {foreign: ownOnly("POST", "/media/create/url", fromURL...), send: fromURL},
		{"GET", "/media/create/url/{jobId}"}:    {foreign: foreignJob},
		{"POST", "/media/seal/{mediaId}"}:       {foreign: sameAsMissing("POST", "/media/seal/{mediaId}")},
		{"GET", "/media/get"}:                   {foreign: seesNothing("GET", "/media/get?limit=100", "[]")},
		{"POST", "/media/get"}:                  {foreign: seesNothing("POST", "/media/get?limit=100", "[]")},
		{"GET", "/media/get/count"}:             {foreign: seesNothing("GET", "/media/get/count", `{"count":0}`)},
		{"POST", "/media/get/count"}:            {foreign: seesNothing("POST", "/media/get/count", `{"count":0}`)},
		{"GET", "/media/get/size"}:              {shared: true, foreign: seesNothing("GET", "/media/get/size", `{"storage":0,"maxStorage":67108864}`)},
		{"POST", "/media/get/size"}:             {shared: true, foreign: seesNothing("POST", "/media/get/size", `{"storage":0,"maxStorage":67108864}`)},
		{"GET", "/media/get/{mediaId}"}:         {foreign: sameAsMissing("GET", "/media/get/{mediaId}")},
		{"POST", "/media/get/{mediaId}"}:        {foreign: sameAsMissing("POST", "/media/get/{mediaId}")},
		{"DELETE", "/media/delete/{mediaId}"}:   {foreign: sameAsMissing("DELETE", "/media/delete/{mediaId}")},
		{"GET", "/media/groups"}:                {foreign: seesNothing("GET", "/media/groups", "[]")},
		{"GET", "/media/metadata/keys"}:         {foreign: seesNothing("GET", "/media/metadata/keys", `{"keys":[]}`)},
		{"GET", "/media/deleted"}:               {foreign: seesNothing("GET", "/media/deleted?limit=100", "[]")},
		{"GET", "/events"}:                      {foreign: foreignEvents},
		{"GET", "/media/uploads"}:               {foreign: seesNothing("GET", "/media/uploads?limit=100", "[]")},
		{"DELETE", "/media/uploads/{uploadId}"}: {foreign: foreignUpload},
		{"POST", "/media/restore/{mediaId}"}:    {foreign: sameAsMissing("POST", "/media/restore/{mediaId}")},
		{"PATCH", "/media/{mediaId}"}:           {foreign: sameAsMissing("PATCH", "/media/{mediaId}", patch...), send: patch},
		{"POST", "/media/batch"}:                {foreign: batchesAreMissing, send: batch},
		{"POST", "/media/signature/create"}:     {foreign: ownOnly("POST", "/media/signature/create")},
		{"GET", "/settings/media/get"}:          {shared: true, foreign: ownOnly("GET", "/settings/media/get")},
		{"POST", "/settings/media/get"}:         {shared: true, foreign: ownOnly("POST", "/settings/media/get")},
		{"POST", "/settings/media/create"}:      {shared: true, foreign: ownOnly("POST", "/settings/media/create", settingsBody...), send: settingsBody},

		{"GET", "/media/file/{mediaId}/{variant}/{name}"}:  {foreign: onlySigned("GET"), open: true},
		{"HEAD", "/media/file/{mediaId}/{variant}/{name}"}: {foreign: onlySigned("HEAD"), open: true},
		{"GET", "/openapi.json"}: {open: true, foreign: func(t *testing.T, rt *runtime, _ tenant, _, _ api.MediaItem) {
			t.Helper()
			rt.do(t, "GET", "/openapi.json").Is(t, http.StatusOK, "the answer")
		}},
	}
}

func TestRoutes_IsolateTenants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	blog := w.AddApp(t, one, "blog")
	w.journal(t, one, other)
	draft := rt.upload(t, one.Key, filePart("draft.txt", []byte("draft")))
	sealed := rt.sealed(t, one.Key, filePart("sealed.txt", []byte("sealed")))
	before := rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key)).Body
	theirs := rt.upload(t, other.Key, filePart("theirs.txt", []byte("theirs")))
	_, theirAddress, _ := strings.Cut(theirs.File, "?")
	rt.job = decode[api.URLUpload](t, rt.do(t, http.MethodPost, "/media/create/url", key(one.Key), text(`{"url": "https://files.example.com/x.txt"}`))).JobId
	rt.running = rt.resumable(t, w, one)
	granted, theirGrant := rt.sign(t, one.Key, ""), rt.sign(t, other.Key, "")
	made, err := account.NewKeySecret(0)
	must(t, err)
	wait.Until(t, "the events of the items can be read", func() bool {
		return strings.Contains(string(rt.do(t, http.MethodGet, "/events?types=media.sealed", key(one.Key)).Body), sealed.MediaId.String())
	})

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
			if !c.shared {
				c.foreign(t, rt, blog, draft, sealed) // the same for another app of the account
			}
			if c.open {
				return
			}
			send := func(path string, change ...option) answer {
				return rt.do(t, route.method, path, append(change, c.send...)...)
			}
			for _, id := range []uuid.UUID{sealed.MediaId, draft.MediaId} {
				path := strings.Replace(route.path, "{mediaId}", id.String(), 1)
				send(path).rejected(t, http.StatusUnauthorized, "Unauthorized")
				for _, wrong := range []string{made.Reveal(), "x", one.Key + "x", one.Key[:len(one.Key)-1], " "} {
					send(path, key(wrong)).rejected(t, http.StatusUnauthorized, "Unauthorized")
				}
				// The URL of a file is valid for that file only.
				_, address, _ := strings.Cut(draft.File, "?")
				for _, query := range []string{address, theirAddress} {
					send(path+"?"+query).rejected(t, http.StatusUnauthorized, "Unauthorized")
					send(path+"?"+query, key(other.Key)).Is(t, http.StatusBadRequest, "with a key and a file's address")
				}
				if !auth.AcceptsSignature(route.path) {
					// A signature is valid for uploads only.
					for _, s := range []string{granted, theirGrant} {
						send(path, signature(s)).rejected(t, http.StatusUnauthorized, "Unauthorized")
					}
				}
			}
			if auth.AcceptsSignature(route.path) && route.path != "/media/create" {
				// A signature that is no capability has no uploads of its own.
				for _, s := range []string{granted, theirGrant} {
					send(strings.Replace(route.path, "{uploadId}", rt.running.String(), 1), signature(s)).rejected(t, http.StatusForbidden, "Forbidden")
				}
			}
			if route.path == "/media/create" {
				// The signature of another tenant uploads to that tenant.
				item := send(route.path, signature(theirGrant)).item(t)
				rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).rejected(t, http.StatusNotFound, "Not Found")
				rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(other.Key)).item(t)
			}
		})
	}
	for route := range cases {
		t.Errorf("%s has an isolation case and is not served", route)
	}

	// The requests of the other tenant changed nothing of the first one.
	if left := decode[api.RunningUploadList](t, rt.do(t, http.MethodGet, "/media/uploads", key(one.Key))); len(left) != 1 || left[0].UploadId != rt.running {
		t.Errorf("the running uploads are %+v", left)
	}
	if item := rt.do(t, "GET", "/media/get/"+draft.MediaId.String(), key(one.Key)).item(t); !item.Temp || item.Caption != "" {
		t.Error("the draft was changed by another tenant")
	}
	rt.expect(t, one, 1, sealed.Size)
	if after := rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key)).Body; !bytes.Equal(after, before) {
		t.Errorf("the settings were changed by another tenant: %s", after)
	}
}

// resumable creates a resumable upload.
func (rt *runtime) resumable(t *testing.T, w *world, of tenant) uuid.UUID {
	t.Helper()
	created, err := rt.Uploads.CreateResumable(t.Context(), w.Principal(t, of), 10, media.Fields{FileName: "large.bin"}, "")
	must(t, err)
	return created.State().ItemID
}

func TestRoutes_RejectEndedCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t)
	for name, end := range map[string]func(*testing.T, tenant){
		"a revoked key": func(t *testing.T, of tenant) {
			_, _, err := w.Registry.IssueKey(t.Context(), of.App.ID, 2, 0)
			must(t, err)
		},
		"a closed app": func(t *testing.T, of tenant) {
			must(t, w.Registry.CloseApps(t.Context(), of.Account.ID, []account.App{of.App}))
		},
		"a suspended account": func(t *testing.T, of tenant) {
			of.Spec.Suspended = true
			must(t, check.ErrorOf(w.Registry.Ensure(t.Context(), of.Spec)))
		},
		"a closed account": func(t *testing.T, of tenant) {
			must(t, check.ErrorOf(w.Registry.Close(t.Context(), of.Account.ID, account.CloseOptions{})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := w.tenant(t, strings.ReplaceAll(name, " ", "-"))
			if name == "a closed app" {
				of = w.AddApp(t, of, "blog")
			}
			public := rt.sealed(t, of.Key, filePart("a.txt", []byte("hello")), field("access", "public"))
			private := rt.sealed(t, of.Key, filePart("b.txt", []byte("hello")))
			draft := rt.upload(t, of.Key, filePart("c.txt", []byte("hello")))
			granted := rt.sign(t, of.Key, "")
			end(t, of)
			wait.Until(t, "it has ended", func() bool {
				return rt.do(t, http.MethodGet, "/media/get", key(of.Key)).Status == http.StatusUnauthorized
			})
			cases := isolations()
			for _, route := range routesOf(t, (&rest.API{}).Mount, (&delivery.Delivery{}).Mount) {
				c := cases[route]
				for _, item := range []api.MediaItem{public, private, draft} {
					path := strings.Replace(route.path, "{mediaId}", item.MediaId.String(), 1)
					switch {
					case strings.HasPrefix(route.path, "/media/file/"):
						got := rt.do(t, route.method, item.File)
						// The URLs of files are valid after the end of the key and of the app.
						if served := got.Status == http.StatusOK; served == strings.Contains(name, "account") {
							t.Errorf("%s %s: %d", route.method, item.File, got.Status)
						}
					case c.open:
					default:
						rt.do(t, route.method, path, append([]option{key(of.Key)}, c.send...)...).rejected(t, http.StatusUnauthorized, "Unauthorized")
						status, text := http.StatusUnauthorized, "Unauthorized"
						if auth.AcceptsSignature(route.path) {
							status, text = http.StatusForbidden, "Invalid signature"
						}
						rt.do(t, route.method, path, append([]option{signature(granted)}, c.send...)...).rejected(t, status, text)
					}
				}
			}
		})
	}
}

// A signature beside a key was ignored where no signature is accepted.
func TestRoutes_RejectASignatureBesideAnotherCredential(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t, func(o *options) { o.Auth.Resource = baseURL + "/mcp" })
	item := rt.upload(t, one.Key, filePart("a.txt", []byte("hello")))
	granted := rt.sign(t, one.Key, "")
	cases := isolations()
	for _, route := range routesOf(t, (&rest.API{}).Mount) {
		c := cases[route]
		if c.open {
			continue
		}
		path := strings.NewReplacer("{mediaId}", item.MediaId.String(), "{jobId}", anyItem).Replace(route.path)
		for what, credential := range map[string]option{"a key": key(one.Key), "a token": header("Authorization", "Bearer "+strings.Repeat("x", 40))} {
			got := rt.do(t, route.method, path, append([]option{credential, signature(granted)}, c.send...)...)
			if detail := got.rejected(t, http.StatusBadRequest, "Bad Request"); !strings.Contains(detail, "exactly one credential") {
				t.Errorf("%s, %s beside a signature: %s", route, what, got.Body)
			}
		}
		if got := rt.do(t, route.method, path, append([]option{key(one.Key), signature("")}, c.send...)...); strings.Contains(string(got.Body), "credential") {
			t.Errorf("%s: beside an empty header: %d %s", route, got.Status, got.Body)
		}
	}
}

func TestRoutes_IsolateAppsOfOneAccount(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	blog := w.AddApp(t, one, "blog")
	sealed := rt.sealed(t, one.Key, filePart("a", []byte("abc")))
	rt.do(t, "GET", "/media/get/"+sealed.MediaId.String(), key(blog.Key)).rejected(t, http.StatusNotFound, "Not Found")
	// The totals are those of the account, the count is that of the app.
	if got := decode[api.Totals](t, rt.do(t, "GET", "/media/get/size", key(blog.Key))); got.Storage != 3 {
		t.Errorf("totals %+v", got)
	}
	if got := decode[api.Count](t, rt.do(t, "GET", "/media/get/count", key(blog.Key))); got.Count != 0 {
		t.Errorf("count %+v", got)
	}
	// A signature is bound to its app.
	item := rt.uploadSigned(t, rt.sign(t, blog.Key, ""), filePart("b", []byte("b"))).item(t)
	rt.do(t, "GET", "/media/get/"+item.MediaId.String(), key(one.Key)).rejected(t, http.StatusNotFound, "Not Found")
	rt.do(t, "GET", "/media/get/"+item.MediaId.String(), key(blog.Key)).item(t)
}
