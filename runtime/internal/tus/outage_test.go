package tus_test

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
)

// between opens the store at access through a proxy that answers a request itself where
// answer returns true.
func between(t *testing.T, access testenv.S3Access, answer func(w http.ResponseWriter, r *http.Request) bool) *objectstore.Store {
	t.Helper()
	access = testenv.S3Proxy(t, access, answer)
	objects, err := objectstore.New(runtimetest.ObjectStoreConfig(access))
	must(t, err)
	return objects
}

// cutShort sends the first bytes of an object and closes the connection.
func cutShort(w http.ResponseWriter, size int) {
	w.Header().Set("Content-Length", strconv.Itoa(size))
	w.Header().Set("ETag", `"1"`)
	w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
	_, _ = w.Write(make([]byte, size/2))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// unavailable checks that a response asks the client to retry.
func (a answer) unavailable(t *testing.T, what string) {
	t.Helper()
	if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		t.Errorf("%s: %d %v %s, want 503 with Retry-After", what, a.Status, a.Header, a.Body)
	}
}

// A PATCH was answered 500 when the object store failed while the incomplete part was
// read back. A crash run found it.
func TestPatch_UnavailableWhenTheIncompletePartIsCutShort(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	w := worldAt(t, testenv.Postgres(t), access)
	one := w.tenant(t, "one")
	file := noise(3000)
	var cuts atomic.Bool
	rt := w.replica(t, func(o *options) {
		o.Objects = between(t, access, func(w http.ResponseWriter, r *http.Request) bool {
			if !cuts.Load() || r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/incomplete-") {
				return false
			}
			cutShort(w, 2000)
			return true
		})
	})
	address := rt.created(t, one.Key, len(file))
	rt.sent(t, one.Key, address, 0, file[:2000])
	cuts.Store(true)
	rt.do(t, http.MethodPatch, address, key(one.Key), at(2000), chunk(file[2000:])).unavailable(t, "the incomplete part is cut short")
	cuts.Store(false)
	if n := rt.offset(t, one.Key, address); n != 2000 {
		t.Errorf("the offset is %d", n)
	}
	rt.complete(t, one.Key, address, file)
	w.purged(t, one)
}

// An image once became an item without a thumbnail when the object store failed while the
// image was read back.
func TestPatch_UnavailableWhenTheImageIsCutShort(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	w := worldAt(t, testenv.Postgres(t), access)
	one := w.tenant(t, "one")
	file := jpegOf(t, 600, 400)
	var cuts atomic.Bool
	cuts.Store(true)
	rt := w.replica(t, func(o *options) {
		o.Images = true
		o.Objects = between(t, access, func(w http.ResponseWriter, r *http.Request) bool {
			if !cuts.Load() || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/original") {
				return false
			}
			cutShort(w, len(file))
			return true
		})
	})
	address := rt.created(t, one.Key, len(file))
	rt.do(t, http.MethodPatch, address, key(one.Key), at(0), chunk(file)).unavailable(t, "the image is cut short")
	if n := w.count(t, address); n != 0 {
		t.Errorf("%d drafts were made", n)
	}
	cuts.Store(false)
	if item := rt.complete(t, one.Key, address, file); item.Thumbnail == "" {
		t.Errorf("the item has no thumbnail: %+v", item)
	}
	w.purged(t, one)
}

func jpegOf(t *testing.T, width, height int) []byte {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		picture.SetRGBA(i%width, i/width, color.RGBA{R: uint8(i), G: uint8(i >> 8), A: 255})
	}
	var file bytes.Buffer
	must(t, jpeg.Encode(&file, picture, nil))
	return file.Bytes()
}

// If Ceph RGW has lost the parts of an upload, it answers Complete with an internal error and
// everything else with NoSuchKey: the upload then returned 423 and 503 until it expired.
func TestUpload_StartsOverWhenCephRGWLostItsParts(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	w := worldAt(t, testenv.Postgres(t), access)
	file := noise(sizes["a file in parts"])
	for name, lose := range map[string]struct{ sent, most int }{
		"before Complete":      {sent: len(file) - 10, most: len(file)},
		"before the next part": {sent: 6 << 20, most: 8 << 20},
	} {
		one := w.tenant(t, "one"+uuid.NewString())
		var lost atomic.Bool
		lostID := ""
		rt := w.replica(t, func(o *options) {
			o.Objects = between(t, access, func(w http.ResponseWriter, r *http.Request) bool {
				if !lost.Load() || r.URL.Query().Get("uploadId") != lostID || r.Method == http.MethodDelete {
					return false
				}
				_, _ = io.Copy(io.Discard, r.Body)
				status, code := http.StatusNotFound, "NoSuchKey"
				if r.Method == http.MethodPost {
					status, code = http.StatusInternalServerError, "InternalError"
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
				return true
			})
		})
		address := rt.created(t, one.Key, len(file))
		rt.sent(t, one.Key, address, 0, file[:lose.sent])
		id := uuid.MustParse(idOf(address))
		state, err := w.Store.Uploads.FindResumable(t.Context(), media.Scope{AccountID: one.Account.ID, AppID: one.App.ID}, id)
		must(t, err)
		lostID = state.Progress.MultipartID
		must(t, w.Objects.AbortIncomplete(t.Context(), one.Account.Bucket, media.ObjectKey(id, media.Original)))
		lost.Store(true)
		got := rt.do(t, http.MethodPatch, address, key(one.Key), at(lose.sent), chunk(file[lose.sent:min(len(file), lose.sent+lose.most)]))
		if got.Status != http.StatusConflict {
			t.Errorf("%s: %d %s, want 409", name, got.Status, got.Body)
		}
		if n := rt.offset(t, one.Key, address); n != 0 {
			t.Errorf("%s: the offset is %d", name, n)
		}
		rt.complete(t, one.Key, address, file)
		w.purged(t, one)
	}
}
