package rest_test

import (
	"net/http"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/imaging/webp"
	"mediastack.dev/runtime/settings"
)

// thumbnailWidth uploads a photo and returns the width of its thumbnail.
func (rt *runtime) thumbnailWidth(t *testing.T, k string) int {
	t.Helper()
	got := rt.do(t, http.MethodGet, rt.upload(t, k, filePart("photo.jpg", photo(t, 400, 200))).Thumbnail)
	picture, err := webp.StripMetadata(got.Body)
	must(t, err)
	return picture.Width
}

// Uploads use cached settings. The notification of a change reaches every replica.
func TestSettings_ChangesReachTheUploadsOfEveryReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	images := func(o *options) { o.Images = true }
	a, b := w.runtime(t, images), w.runtime(t, images)
	for _, rt := range []*runtime{a, b} {
		if width := rt.thumbnailWidth(t, one.Key); width != 320 {
			t.Fatalf("width %d by default", width)
		}
	}
	a.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"thumbnailWidth": 100}`)).MustBe(t, http.StatusOK, "the answer")
	if width := a.thumbnailWidth(t, one.Key); width != 100 {
		t.Errorf("width %d through the replica of the change", width)
	}
	wait.Until(t, "the other replica uses the change", func() bool { return b.thumbnailWidth(t, one.Key) == 100 })
	fifty := 50
	must(t, w.Settings.Pin(t.Context(), one.Account.ID, settings.Layer{ThumbnailWidth: &fifty}, settings.Object{Name: "team/pins", UID: "uid of team/pins"}))
	for _, rt := range []*runtime{a, b} {
		wait.Until(t, "the pin is used", func() bool { return rt.thumbnailWidth(t, one.Key) == 50 })
	}
}
