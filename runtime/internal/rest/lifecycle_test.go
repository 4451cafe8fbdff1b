package rest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/api"
)

// randomBytes returns n bytes of no known type, the same for the same seed.
func randomBytes(seed uint64, n int) []byte {
	source := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	data := make([]byte, n)
	_, _ = source.Read(data)
	return data
}

func TestItem_FromUploadToDelete(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	photo := append([]byte("\x89PNG\r\n\x1a\n"), randomBytes(1, 100_000)...)

	// A draft can be read. Lists, counts and totals do not include it.
	got := rt.do(t, http.MethodPost, "/media/create", key(one.Key),
		form(field("caption", "on the beach"), filePart("Ferien über 7\".png", photo), field("group", "summer"), field("access", "public")))
	got.MustBe(t, http.StatusCreated, "upload")
	draft := got.item(t)
	if want := baseURL + "/media/get/" + draft.MediaId.String(); got.Header.Get("Location") != want {
		t.Errorf("Location %q, want %q", got.Header.Get("Location"), want)
	}
	if !draft.Temp || draft.OriginalFileName != "Ferien über 7\".png" || draft.MimeType != "image/png" || draft.Size != int64(len(photo)) ||
		draft.Access != api.Public || draft.Caption != "on the beach" || draft.Group != "summer" || draft.Thumbnail != "" {
		t.Errorf("the draft is wrong: %s", got.Body)
	}
	if order := []string{"mediaId", "originalFileName", "mimeType", "size", "access", "file", "thumbnail", "caption", "group", "temp", "createdAt", "expiresAt", "sha256"}; !inOrder(string(got.Body), order) {
		t.Errorf("the fields are not in the specification's order: %s", got.Body)
	}
	if strings.Contains(string(got.Body), `\u0026`) {
		t.Errorf("an address in the answer can't be copied: %s", got.Body)
	}
	id := draft.MediaId.String()
	sum := sha256.Sum256(photo)
	if draft.Sha256 != hex.EncodeToString(sum[:]) || draft.ExpiresAt == nil || !draft.ExpiresAt.Equal(draft.CreatedAt.Add(24*time.Hour)) || draft.SealedAt != nil {
		t.Errorf("the facts of the draft are wrong: %s", got.Body)
	}
	if read := rt.do(t, http.MethodGet, "/media/get/"+id, key(one.Key)).item(t); !read.Temp || !read.CreatedAt.Equal(draft.CreatedAt) {
		t.Errorf("the draft reads as %+v, was %+v", read, draft)
	}
	rt.expect(t, one, 0, 0)

	// Its file requires the signed URL.
	plain, _, _ := strings.Cut(draft.File, "?")
	rt.do(t, http.MethodGet, plain).rejected(t, http.StatusNotFound, "Not Found")
	if file := rt.do(t, http.MethodGet, draft.File); !bytes.Equal(file.Body, photo) {
		t.Error("the draft's file is not what was sent")
	}

	// The totals include it once it is sealed.
	for range 2 {
		item := rt.do(t, http.MethodPost, "/media/seal/"+id, key(one.Key)).item(t)
		if item.Temp || item.File != plain+"?v="+draft.Sha256[:12] || item.ExpiresAt != nil || item.SealedAt == nil || item.SealedAt.Before(item.CreatedAt) || item.Sha256 != draft.Sha256 {
			t.Errorf("the sealed item is wrong: %+v", item)
		}
		rt.expect(t, one, 1, int64(len(photo)))
	}
	file := rt.do(t, http.MethodGet, plain)
	if !bytes.Equal(file.Body, photo) || file.Header.Get("ETag") != `"`+hex.EncodeToString(sum[:])+`"` {
		t.Error("the sealed file is not what was sent")
	}
	if item := rt.do(t, http.MethodPost, "/media/get/"+id, key(one.Key)).item(t); item.MediaId != draft.MediaId || item.Temp {
		t.Errorf("POST reads another item: %+v", item)
	}

	// A second, larger file, stored as a multipart upload, is the first part of its form.
	film := randomBytes(2, 20<<20)
	second := rt.sealed(t, one.Key, filePart("film.bin", film), field("group", "summer"))
	rt.expect(t, one, 2, int64(len(photo)+len(film)))
	if file := rt.do(t, http.MethodGet, second.File); !bytes.Equal(file.Body, film) {
		t.Error("the large file is not what was sent")
	}

	// After the deletion the totals are as before.
	gone := rt.do(t, http.MethodDelete, "/media/delete/"+id, key(one.Key))
	if want := fmt.Sprintf(`{"deleted":true,"mediaId":"%s"}`, id); strings.TrimSpace(string(gone.Body)) != want {
		t.Errorf("delete answered %s, want %s", gone.Body, want)
	}
	rt.expect(t, one, 1, int64(len(film)))
	rt.do(t, http.MethodGet, "/media/get/"+id, key(one.Key)).rejected(t, http.StatusNotFound, "Not Found")
	rt.do(t, http.MethodGet, plain).rejected(t, http.StatusNotFound, "Not Found")
	rt.do(t, http.MethodDelete, "/media/delete/"+id, key(one.Key)).rejected(t, http.StatusNotFound, "Not Found")

	// A draft can be deleted too.
	other := rt.upload(t, one.Key, filePart("x", []byte("x")))
	rt.do(t, http.MethodDelete, "/media/delete/"+other.MediaId.String(), key(one.Key))
	rt.expect(t, one, 1, int64(len(film)))
}

func inOrder(body string, names []string) bool {
	for _, name := range names {
		at := strings.Index(body, `"`+name+`":`)
		if at < 0 {
			return false
		}
		body = body[at:]
	}
	return true
}

// expect checks list, count and totals, each by GET and POST.
func (rt *runtime) expect(t *testing.T, of tenant, items, storage int64) {
	t.Helper()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		list := rt.do(t, method, "/media/get", key(of.Key))
		if got := decode[[]api.MediaItem](t, list); int64(len(got)) != items || list.Header.Get("X-Total-Count") != strconv.FormatInt(items, 10) {
			t.Errorf("%s list: %d items, X-Total-Count %s, want %d", method, len(got), list.Header.Get("X-Total-Count"), items)
		}
		if got := decode[api.Count](t, rt.do(t, method, "/media/get/count", key(of.Key))); got.Count != items {
			t.Errorf("%s count %d, want %d", method, got.Count, items)
		}
		want := api.Totals{Storage: storage, MaxStorage: of.Spec.MaxStorage}
		if got := decode[api.Totals](t, rt.do(t, method, "/media/get/size", key(of.Key))); got != want {
			t.Errorf("%s totals %+v, want %+v", method, got, want)
		}
	}
}

func TestUpload_AcceptsPartsInAnyOrder(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	parts := []part{filePart("a.txt", []byte("hello")), field("access", "public"), field("caption", "c"), field("group", "g"), field("other", "ignored")}
	for turn := range parts {
		order := append(append([]part{}, parts[turn:]...), parts[:turn]...)
		item := rt.upload(t, one.Key, order...)
		if item.OriginalFileName != "a.txt" || item.Access != api.Public || item.Caption != "c" || item.Group != "g" || item.Size != 5 {
			t.Errorf("turned by %d: %+v", turn, item)
		}
	}
}

func TestList_PagesAndFilters(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	var newest []string
	for i := range 5 {
		access := []string{"private", "public"}[i%2]
		item := rt.sealed(t, one.Key, filePart(fmt.Sprintf("%d.txt", i), []byte("x")), field("access", access), field("group", "a b&c"))
		newest = append([]string{item.MediaId.String()}, newest...)
	}
	const query = "?limit=2&group=a+b%26c"
	list := func(query string, change ...option) (answer, []string) {
		got := rt.do(t, http.MethodPost, "/media/get"+query, append(change, key(one.Key))...)
		var ids []string
		for _, item := range decode[[]api.MediaItem](t, got) {
			ids = append(ids, item.MediaId.String())
		}
		return got, ids
	}
	got, ids := list(query, text(`{"page": 2}`), header("Content-Type", "application/json"))
	if fmt.Sprint(ids) != fmt.Sprint(newest[2:4]) || got.Header.Get("X-Total-Count") != "5" {
		t.Errorf("page 2 has %v of %s, want %v of 5", ids, got.Header.Get("X-Total-Count"), newest[2:4])
	}
	page := func(n int, rel string) string {
		return fmt.Sprintf(`<%s/media/get?group=a+b%%26c&limit=2&page=%d>; rel="%s"`, baseURL, n, rel)
	}
	if want := strings.Join([]string{page(1, "first"), page(1, "prev"), page(3, "next"), page(3, "last")}, ", "); got.Header.Get("Link") != want {
		t.Errorf("Link %s\nwant %s", got.Header.Get("Link"), want)
	}
	if _, ids := list("?group=a+b%26c", text(`{"access": "public", "limit": 100}`)); fmt.Sprint(ids) != fmt.Sprint([]string{newest[1], newest[3]}) {
		t.Errorf("public items %v", ids)
	}
	if _, ids := list("?limit=2", text(`{"group": "a b"}`)); len(ids) != 0 {
		t.Errorf("a group matched by its beginning: %v", ids)
	}
	if got, ids := list(query, text(`{"page": 9}`)); len(ids) != 0 || !strings.Contains(got.Header.Get("Link"), page(3, "prev")) {
		t.Errorf("a page past the end: %v, %s", ids, got.Header.Get("Link"))
	}
	next := rt.do(t, http.MethodGet, "/media/get?page=2&limit=3&group=", key(one.Key))
	if items := decode[[]api.MediaItem](t, next); len(items) != 2 || strings.Contains(next.Header.Get("Link"), `rel="next"`) {
		t.Errorf("the last page has %d items and Link %s", len(items), next.Header.Get("Link"))
	}
}
