package tus_test

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
)

func TestImages_GetTheirDerivatives(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, func(o *options) { o.Images = true })
	picture := image.NewNRGBA(image.Rect(0, 0, 1600, 1200))
	for n := range picture.Pix {
		picture.Pix[n] = uint8(rand.IntN(256))
	}
	picture.SetNRGBA(0, 0, color.NRGBA{A: 255})
	var file bytes.Buffer
	must(t, jpeg.Encode(&file, picture, &jpeg.Options{Quality: 99}))
	for _, pieces := range []int{1, 3} {
		address := rt.created(t, one.Key, file.Len(), metadata("filename", "a.jpg"))
		var got answer
		for n := range pieces {
			from, to := n*file.Len()/pieces, (n+1)*file.Len()/pieces
			got = rt.sent(t, one.Key, address, from, file.Bytes()[from:to])
		}
		item := got.document(t)
		rt.holds(t, item, file.Bytes())
		if item.MimeType != "image/jpeg" || item.Thumbnail == "" || item.Width != 1600 || item.Height != 1200 || len(item.Placeholder) < 5 {
			t.Fatalf("the draft is %+v", item)
		}
		small := rt.do(t, http.MethodGet, item.Thumbnail)
		if small.Status != http.StatusOK || small.Header.Get("Content-Type") != "image/webp" || len(small.Body) < 1000 || string(small.Body[8:12]) != "WEBP" {
			t.Errorf("the thumbnail: %d %v, %d bytes", small.Status, small.Header, len(small.Body))
		}
	}
	w.purged(t, one)
}

func TestCreate_CompletesAnEmptyFile(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	for name, more := range map[string][]option{"without a body": nil, "with an empty one": {chunk(nil)}} {
		got := rt.do(t, http.MethodPost, collection, append([]option{key(one.Key), length(0), metadata("filename", "a.txt")}, more...)...)
		got.MustBe(t, http.StatusCreated, "%s", name)
		rt.holds(t, got.document(t), nil)
		if n := rt.offset(t, one.Key, got.Header.Get("Location")); n != 0 {
			t.Errorf("%s: the offset is %d", name, n)
		}
		rt.do(t, http.MethodDelete, got.Header.Get("Location"), key(one.Key)).rejected(t, http.StatusConflict)
	}
	w.purged(t, one)
}

func TestCreate_AcceptsTheFirstBytes(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	file := noise(6 << 20)
	whole := rt.do(t, http.MethodPost, collection+"/", key(one.Key), length(len(file)), chunk(file))
	if whole.Status != http.StatusCreated || whole.Header.Get("Upload-Offset") != "6291456" {
		t.Fatalf("%d %v %s", whole.Status, whole.Header, whole.Body)
	}
	rt.holds(t, whole.document(t), file)
	part := rt.do(t, http.MethodPost, collection, key(one.Key), length(len(file)), chunk(file[:1000]))
	if part.Status != http.StatusCreated || part.Header.Get("Upload-Offset") != "1000" || part.Header.Get("x-service-media-id") != "" || part.Header.Get("Upload-Expires") == "" {
		t.Fatalf("%d %v %s", part.Status, part.Header, part.Body)
	}
	rt.complete(t, one.Key, part.Header.Get("Location"), file)
	// The URL of an upload that was created before its bytes were rejected is returned, so
	// that the upload can be continued.
	rejected := rt.do(t, http.MethodPost, collection, key(one.Key), length(len(file)), chunk(file[:1000]), header("Upload-Checksum", sumOf("sha1", file[:999])))
	rejected.rejected(t, 460)
	rt.complete(t, one.Key, rejected.Header.Get("Location"), file)
	rt.do(t, http.MethodPost, collection, key(one.Key), length(3), chunk(file[:4])).rejected(t, http.StatusRequestEntityTooLarge)
	w.purged(t, one)
}

func TestCreate_ReservesUnderTheCap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.MaxStorage, s.MaxUploadSize = 40<<20, 30<<20 })
	rt := w.replica(t)
	first := rt.created(t, one.Key, 30<<20)
	if detail := rt.do(t, http.MethodPost, collection, key(one.Key), length(11<<20)).rejected(t, http.StatusRequestEntityTooLarge); !strings.Contains(detail, "cap") {
		t.Errorf("over the cap: %s", detail)
	}
	got := rt.do(t, http.MethodPost, collection, key(one.Key), header("Upload-Defer-Length", "1"))
	deferred := got.Header.Get("Location")
	rt.sent(t, one.Key, deferred, 0, noise(6<<20))
	rt.do(t, http.MethodPatch, deferred, key(one.Key), at(6<<20), chunk(noise(6<<20))).rejected(t, http.StatusRequestEntityTooLarge)
	if detail := rt.do(t, http.MethodPatch, deferred, key(one.Key), at(6<<20), chunk(noise(25<<20))).rejected(t, http.StatusRequestEntityTooLarge); !strings.Contains(detail, "cap") && !strings.Contains(detail, "maxUploadSize") {
		t.Errorf("over the limit of files: %s", detail)
	}
	rt.do(t, http.MethodDelete, first, key(one.Key)).Is(t, http.StatusNoContent, "DELETE")
	rt.sent(t, one.Key, deferred, rt.offset(t, one.Key, deferred), noise(6<<20))
	w.purged(t, one)
}
