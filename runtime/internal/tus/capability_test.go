package tus_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/postgres"
)

// capability creates an upload signature.
func (rt *replica) capability(t *testing.T, k, body string) option {
	t.Helper()
	got := rt.do(t, http.MethodPost, "/media/signature/create", key(k), plain(body))
	var created api.Signature
	if err := json.Unmarshal(got.Body, &created); got.Status != http.StatusOK || err != nil {
		t.Fatalf("create a signature: %d %s", got.Status, got.Body)
	}
	if created.UploadUrl != baseURL+"/media/create" || created.ResumableUrl != baseURL+collection {
		t.Errorf("the URLs are %q and %q", created.UploadUrl, created.ResumableUrl)
	}
	return signature(created.Signature)
}

func plain(body string) option { return func(r *request) { r.Body = strings.NewReader(body) } }

// form sends a file and fields, names and values in turn, by REST.
func form(contentType string, data []byte, fields ...string) option {
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = writer.WriteField(fields[i], fields[i+1])
	}
	part, _ := writer.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="a.bin"`}, "Content-Type": {contentType}})
	_, _ = part.Write(data)
	_ = writer.Close()
	return func(r *request) {
		r.Body = bytes.NewReader(body.Bytes())
		r.Header.Set("Content-Type", writer.FormDataContentType())
	}
}

// chunked hides the length of the body.
func chunked(r *request) { r.Body = io.MultiReader(r.Body) }

// item decodes the document of a REST answer.
func (a answer) item(t *testing.T) api.MediaItem {
	t.Helper()
	var item api.MediaItem
	if err := json.Unmarshal(a.Body, &item); err != nil || a.Status/100 != 2 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return item
}

// denied checks the status and the text of an error, by REST or TUS.
func (a answer) denied(t *testing.T, what string, status int, text string) {
	t.Helper()
	if a.Status != status || !strings.Contains(string(a.Body), text) {
		t.Errorf("%s: got %d %s, want %d with %q", what, a.Status, a.Body, status, text)
	}
}

// replicas returns two replicas with connections of their own.
func (w *world) replicas(t *testing.T, change ...func(*options)) []*replica {
	t.Helper()
	var all []*replica
	for range 2 {
		store, err := postgres.Open(t.Context(), w.Database)
		must(t, err)
		t.Cleanup(store.Close)
		all = append(all, w.replica(t, append(change, func(o *options) { o.Store, o.Uploads = store.Items, store.Uploads })...))
	}
	return all
}

// uses returns how many uses of capabilities are taken.
func (w *world) uses(t *testing.T) int64 {
	t.Helper()
	return w.QueryInt(t, `SELECT coalesce(sum(uses), 0) FROM capability_use`)
}

func TestCapability_WithACountOfOneMakesOneDraftOfAThousandRacers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	replicas := w.replicas(t, func(o *options) {
		o.Upload.MaxUploads, o.Upload.UploadQueue = 64, 4000
	})
	once := replicas[0].capability(t, one.Key, `{"count": 1}`)
	const racers = 1000
	statuses := make(chan int, racers)
	var running sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		running.Go(func() {
			<-start
			rt := replicas[i%2]
			path, send := "/media/create", []option{once, form("text/plain", []byte("abc"))}
			if i%4 > 1 {
				path, send = collection, []option{once, length(3), chunk([]byte("abc"))}
			}
			got, err := rt.try(t.Context(), http.MethodPost, path, send...)
			if err != nil {
				t.Error(err)
			}
			statuses <- got.Status
		})
	}
	close(start)
	running.Wait()
	close(statuses)
	counts := map[int]int{}
	for status := range statuses {
		counts[status]++
	}
	if counts[http.StatusCreated] != 1 || counts[http.StatusForbidden] != racers-1 {
		t.Errorf("the racers got %v", counts)
	}
	if n := w.QueryInt(t, `SELECT count(*) FROM item`); n != 1 || w.uses(t) != 1 {
		t.Errorf("%d drafts and %d uses", n, w.uses(t))
	}
	w.purged(t, one)
	w.Counts(t, 0, "counts are left after the purge", `SELECT count(*) FROM capability_use`)
}

func TestCapability_UseIsGivenBackByAnUploadThatBecomesNoDraft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	replicas := w.replicas(t)
	rt, other := replicas[0], replicas[1]
	once := rt.capability(t, one.Key, `{"count": 1, "maxBytes": 20000000, "types": ["text/plain"]}`)
	// More than a part, so that the use is taken before the file turns out to be too long.
	rt.do(t, http.MethodPost, "/media/create", once, form("text/plain", bytes.Repeat([]byte("a"), 20_000_001)), chunked).denied(t, "too long", http.StatusRequestEntityTooLarge, "20000000 bytes")
	if n := w.uses(t); n != 0 {
		t.Fatalf("an upload that failed keeps %d uses", n)
	}
	canceled := other.do(t, http.MethodPost, collection, once, length(3)).Header.Get("Location")
	rt.do(t, http.MethodPost, collection, once, length(3)).denied(t, "a second upload", http.StatusForbidden, "as often as it permits")
	rt.do(t, http.MethodPost, "/media/create", once, form("text/plain", []byte("abc"))).denied(t, "a second upload by REST", http.StatusForbidden, "as often as it permits")
	rt.do(t, http.MethodDelete, canceled, once).MustBe(t, http.StatusNoContent, "cancel")
	// A file of another type ends its upload, which could never become an item.
	pdf := rt.do(t, http.MethodPost, collection, once, length(9)).Header.Get("Location")
	other.do(t, http.MethodPatch, pdf, once, at(0), chunk([]byte("%PDF-1.4\n"))).denied(t, "a PDF", http.StatusUnsupportedMediaType, "application/pdf")
	rt.do(t, http.MethodHead, pdf, once).Is(t, http.StatusNotFound, "the rejected upload")
	draft := other.do(t, http.MethodPost, "/media/create", once, form("text/plain", []byte("abc"))).item(t)
	// A draft that was made counts, also when it is gone.
	rt.do(t, http.MethodDelete, "/media/delete/"+draft.MediaId.String(), key(one.Key)).MustBe(t, http.StatusOK, "delete")
	rt.do(t, http.MethodPost, "/media/create", once, form("text/plain", []byte("abc"))).denied(t, "after its draft was deleted", http.StatusForbidden, "as often as it permits")
	w.purged(t, one)
}

// The type is that of the bytes, whatever the client declares.
func TestCapability_TypesAreHeldAgainstTheBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replicas(t)[1]
	png := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00")
	for what, c := range map[string]struct {
		types, declared string
		data            []byte
		want            string // the type; empty = rejected
	}{
		"a PDF that is declared as an image":        {`["image/*"]`, "image/png", []byte("%PDF-1.4\n"), ""},
		"a page that is declared as an image":       {`["image/*"]`, "image/png", []byte("<html><script>"), ""},
		"an image that is declared as a page":       {`["image/png"]`, "text/html", png, "image/png"},
		"an image of a list in capitals":            {`["Application/PDF", "IMAGE/*"]`, "", png, "image/png"},
		"another image":                             {`["image/jpeg"]`, "image/jpeg", png, ""},
		"bytes of no known type, declared as one":   {`["application/x-game"]`, "application/x-game", []byte{0, 1, 2, 3}, ""},
		"bytes of no known type, where they may be": {`["application/octet-stream"]`, "application/x-game", []byte{0, 1, 2, 3}, "application/octet-stream"},
	} {
		permits := rt.capability(t, one.Key, `{"types": `+c.types+`}`)
		byREST := rt.do(t, http.MethodPost, "/media/create", permits, form(c.declared, c.data))
		byTUS := rt.do(t, http.MethodPost, collection, permits, length(len(c.data)), chunk(c.data), metadata("filetype", c.declared))
		if c.want == "" {
			byREST.denied(t, what, http.StatusUnsupportedMediaType, "the upload signature permits")
			byTUS.denied(t, what, http.StatusUnsupportedMediaType, "the upload signature permits")
			continue
		}
		if byREST.item(t).MimeType != c.want || byTUS.document(t).MimeType != c.want {
			t.Errorf("%s: %s %v", what, byREST.Body, byTUS.Header)
		}
	}
	rt.do(t, http.MethodPost, "/media/signature/create", key(one.Key), plain(`{"types": ["image/png; q=1"]}`)).denied(t, "a type with a parameter", http.StatusBadRequest, "types must be")
	w.purged(t, one)
}

func TestCapability_LimitsTheSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replicas(t)[0]
	small := rt.capability(t, one.Key, `{"maxBytes": 10}`)
	ten, eleven := []byte("0123456789"), []byte("0123456789a")
	const text = "larger than the upload signature permits, 10 bytes"
	rt.do(t, http.MethodPost, "/media/create", small, form("", ten)).item(t)
	rt.do(t, http.MethodPost, "/media/create", small, form("", eleven)).denied(t, "REST", http.StatusRequestEntityTooLarge, text)
	rt.do(t, http.MethodPost, "/media/create", small, form("", eleven), chunked).denied(t, "a body without a length", http.StatusRequestEntityTooLarge, text)
	rt.do(t, http.MethodPost, "/media/create", small, form("", bytes.Repeat(ten, 20_000))).denied(t, "by the stated length", http.StatusRequestEntityTooLarge, text)
	rt.do(t, http.MethodPost, collection, small, length(11)).denied(t, "a stated length", http.StatusRequestEntityTooLarge, text)

	deferred := header("Upload-Defer-Length", "1")
	created := func() string {
		t.Helper()
		return rt.do(t, http.MethodPost, collection, small, deferred).Header.Get("Location")
	}
	rt.do(t, http.MethodPatch, created(), small, at(0), chunk(eleven)).denied(t, "more than permitted", http.StatusRequestEntityTooLarge, text)
	rt.do(t, http.MethodPatch, created(), small, at(0), length(11), chunk(ten)).denied(t, "a length that is declared late", http.StatusRequestEntityTooLarge, text)
	// The restriction is that of the upload, not of the credential that continues it.
	rt.do(t, http.MethodPatch, created(), key(one.Key), at(0), chunk(eleven)).denied(t, "with the key", http.StatusRequestEntityTooLarge, text)
	if got := rt.do(t, http.MethodOptions, collection, small); got.Header.Get("Tus-Max-Size") != "10" {
		t.Errorf("Tus-Max-Size is %q", got.Header.Get("Tus-Max-Size"))
	}
	w.purged(t, one)
}

func TestCapability_SetsWhatTheUploadCannotChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replicas(t)[0]
	set := rt.capability(t, one.Key, `{"access": "public", "group": "avatars", "metadata": {"order": "7"}, "ref": "user 12"}`)
	check := func(what string, item api.MediaItem) {
		t.Helper()
		if item.Access != api.Public || item.Group != "avatars" || item.Ref != "user 12" || item.Caption != "c" || !item.Temp {
			t.Errorf("%s: %+v", what, item)
		}
		if got := rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).item(t); got.Ref != "user 12" {
			t.Errorf("%s: the server reads %+v", what, got)
		}
		if n := w.QueryInt(t, `SELECT count(*) FROM item WHERE id = $1 AND metadata = '{"order": "7"}'`, item.MediaId); n != 1 {
			t.Errorf("%s: the metadata is missing", what)
		}
	}
	abc := []byte("abc")
	check("REST", rt.do(t, http.MethodPost, "/media/create", set, form("", abc, "caption", "c")).item(t))
	check("REST, with the same values", rt.do(t, http.MethodPost, "/media/create", set, form("", abc, "caption", "c", "group", "avatars", "access", "public")).item(t))
	check("TUS", rt.do(t, http.MethodPost, collection, set, length(3), chunk(abc), metadata("caption", "c")).document(t))
	for _, field := range [][]string{{"access", "private"}, {"group", "others"}} {
		text := field[0] + " is set by the upload signature"
		rt.do(t, http.MethodPost, "/media/create", set, form("", abc, field...)).denied(t, "REST", http.StatusForbidden, text)
		rt.do(t, http.MethodPost, collection, set, length(3), chunk(abc), metadata(field...)).denied(t, "TUS", http.StatusForbidden, text)
	}
	// What is not set can be chosen.
	free := rt.capability(t, one.Key, `{"ref": "user 12"}`)
	if item := rt.do(t, http.MethodPost, "/media/create", free, form("", abc, "group", "mine", "access", "public")).item(t); item.Group != "mine" || item.Access != api.Public {
		t.Errorf("chosen: %+v", item)
	}
	if n := w.QueryInt(t, `SELECT count(*) FROM capability_use`); n != 0 {
		t.Errorf("capabilities without a count have %d rows", n)
	}
	w.purged(t, one)
}

func TestCapability_SealsAnUploadThatIsComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replicas(t)[0]
	sealed := rt.capability(t, one.Key, `{"seal": true, "group": "g", "count": 2}`)
	first := rt.do(t, http.MethodPost, "/media/create", sealed, form("", []byte("abc"))).item(t)
	if first.Temp || first.SealedAt == nil || first.ExpiresAt != nil {
		t.Errorf("REST: %+v", first)
	}
	address := rt.do(t, http.MethodPost, collection, sealed, length(6), chunk([]byte("abc"))).Header.Get("Location")
	got := rt.do(t, http.MethodPatch, address, sealed, at(3), chunk([]byte("def")))
	second := got.document(t)
	if late := rt.do(t, http.MethodHead, address, sealed); late.Header.Get("x-service-media-id") != second.MediaId.String() || late.Header.Get("x-service-media") != "" {
		t.Errorf("HEAD of the sealed item: %v", late.Header)
	}
	if second.Temp || second.SealedAt == nil || second.Size != 6 {
		t.Errorf("TUS: %+v", second)
	}
	var listed []api.MediaItem
	list := rt.do(t, http.MethodGet, "/media/get?group=g", key(one.Key))
	if err := json.Unmarshal(list.Body, &listed); err != nil || len(listed) != 2 {
		t.Errorf("the list is %s", list.Body)
	}
	if count := rt.do(t, http.MethodGet, "/media/get/count?group=g", key(one.Key)); strings.TrimSpace(string(count.Body)) != `{"count":2}` {
		t.Errorf("the count is %s", count.Body)
	}
	if size := rt.do(t, http.MethodGet, "/media/get/size", key(one.Key)); !strings.HasPrefix(string(size.Body), `{"storage":9,`) {
		t.Errorf("the totals are %s", size.Body)
	}
	rt.do(t, http.MethodPost, collection, sealed, length(3)).denied(t, "a third", http.StatusForbidden, "as often as it permits")
}

// A signature is valid for uploads that begin in time. What has begun goes on, with this signature only.
func TestCapability_ExpiryCountsWhenAnUploadBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	replicas := w.replicas(t)
	rt := replicas[0]
	short := rt.capability(t, one.Key, `{"expiresIn": 60, "group": "g"}`)
	address := rt.do(t, http.MethodPost, collection, short, length(6), chunk([]byte("abc"))).Header.Get("Location")
	other := rt.capability(t, one.Key, `{"expiresIn": 60, "group": "g"}`)
	plainForm := signature(rt.Auth.Sign(auth.Identity{Principal: w.Principal(t, one)}, ""))
	for _, late := range replicas {
		late.Clock.Advance(time.Hour + time.Second)
	}
	late := replicas[1]
	late.do(t, http.MethodPost, collection, short, length(3)).denied(t, "a new upload", http.StatusForbidden, "has expired")
	late.do(t, http.MethodPost, "/media/create", short, form("", []byte("abc"))).denied(t, "a new upload by REST", http.StatusForbidden, "has expired")
	late.do(t, http.MethodPatch, address, plainForm, at(3), chunk([]byte("def"))).denied(t, "a signature that is no capability", http.StatusForbidden, "has expired")
	late.do(t, http.MethodPatch, address, other, at(3), chunk([]byte("def"))).Is(t, http.StatusNotFound, "another capability")
	if got := late.do(t, http.MethodHead, address, short); got.Header.Get("Upload-Offset") != "3" {
		t.Errorf("HEAD: %d %v", got.Status, got.Header)
	}
	if item := late.do(t, http.MethodPatch, address, short, at(3), chunk([]byte("def"))).document(t); item.Size != 6 || item.Group != "g" {
		t.Errorf("the draft is %+v", item)
	}
	// The key that created it has ended, and so has the capability.
	_, _, err := w.Registry.IssueKey(t.Context(), one.App.ID, 2, 0)
	must(t, err)
	wait.Until(t, "the capability of a key that was rotated is rejected", func() bool {
		return rt.do(t, http.MethodHead, address, short).Status == http.StatusForbidden
	})
}

// Another tenant's and another app's capabilities reach nothing, nor does another one of the same app.
func TestCapability_ReachesItsOwnUploadsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.tenant(t, "one"), w.tenant(t, "two")
	app := w.AddApp(t, one, "other")
	rt := w.replica(t)
	ours := rt.capability(t, one.Key, `{"count": 3}`)
	byCapability := rt.do(t, http.MethodPost, collection, ours, length(6)).Header.Get("Location")
	byKey := rt.created(t, one.Key, 6)
	for who, k := range map[string]string{"another tenant": two.Key, "another app": app.Key, "the same app": one.Key} {
		theirs := rt.capability(t, k, `{"count": 3}`)
		for _, address := range []string{byCapability, byKey} {
			for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
				rt.do(t, method, address, theirs, at(0), chunk([]byte("abc"))).Is(t, http.StatusNotFound, "%s: %s", who, method)
			}
		}
		for _, path := range []string{"/media/get", "/media/signature/create"} {
			rt.do(t, http.MethodPost, path, theirs).Is(t, http.StatusUnauthorized, "%s: %s", who, path)
		}
	}
	rt.do(t, http.MethodHead, byKey, ours).Is(t, http.StatusNotFound, "an upload of the key")
	// Signatures without restrictions once read, continued and ended it: the item then had the reference of the capability.
	inGroup := rt.capability(t, one.Key, `{"count": 3, "group": "friends"}`)
	grouped := rt.do(t, http.MethodPost, collection, inGroup, length(6)).Header.Get("Location")
	for what, plainSignature := range map[string]option{"a plain signature": rt.capability(t, one.Key, `{}`), "a signature for the group": rt.capability(t, one.Key, `{"group": "friends"}`)} {
		for _, address := range []string{byCapability, grouped} {
			for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
				rt.do(t, method, address, plainSignature, at(0), chunk([]byte("abc"))).Is(t, http.StatusNotFound, "%s: %s", what, method)
			}
		}
		rt.do(t, http.MethodPatch, rt.do(t, http.MethodPost, collection, plainSignature, length(3)).Header.Get("Location"), plainSignature, at(0), chunk([]byte("abc"))).Is(t, http.StatusNoContent, "%s: an upload of its own", what)
	}
	rt.do(t, http.MethodHead, byCapability, key(one.Key)).Is(t, http.StatusOK, "with the key its upload")
	rt.do(t, http.MethodHead, byCapability, ours).Is(t, http.StatusOK, "its own upload")
}

func TestCapability_OutOfBoundsIsRejectedByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.MaxUploadSize = maxUploadSize })
	rt := w.replica(t)
	long, pairs := strings.Repeat("x", 512), ""
	for i := range 24 {
		pairs += fmt.Sprintf(`,"key%d": "%s"`, i, long)
	}
	for body, text := range map[string]string{
		`{"expiresIn": 59}`: "expiresIn must be from 60 to 86400", `{"expiresIn": 86401}`: "expiresIn", `{"expiresIn": 18446744134}`: "expiresIn must be from 60 to 86400", `{"expiresIn": 60.5}`: "expiresIn must be an integer",
		`{"expiresIn": "60"}`: "expiresIn must be an integer", `{"maxBytes": 0}`: "maxBytes must be 1 or more", `{"maxBytes": 1e30}`: "maxBytes must be an integer",
		`{"types": "image/*"}`: "types must be a list of strings", `{"types": ["*/*"]}`: "types must be", `{"types": [""]}`: "types must be",
		`{"count": 0}`: "count must be from 1", `{"count": 1000001}`: "count must be from 1", `{"access": "all"}`: "access must be",
		`{"metadata": {"A": "b"}}`: "metadata key", `{"metadata": []}`: "metadata must be an object of strings", `{"seal": "yes"}`: "seal must be true or false",
		`{"ref": "` + strings.Repeat("r", 256) + `"}`: "ref must be at most 255 bytes", `{"refs": "r"}`: `unknown field`,
		`{"metadata": {` + pairs[1:] + `}}`: "fit into a header",
	} {
		rt.do(t, http.MethodPost, "/media/signature/create", key(one.Key), plain(body)).denied(t, body[:min(len(body), 60)], http.StatusBadRequest, text)
	}
	// 5.0 is an integer; null and "" mean absent.
	rt.capability(t, one.Key, `{"maxBytes": 6e9, "count": 5.0, "ref": "", "types": null, "metadata": {"a": "ü"}}`)
}
