package delivery

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// A signature is for one picture: for another one, which may show more, the client has none. Nor has it one of a thumbnail.
func TestSubstitute_OfPublicItemsOnly(t *testing.T) {
	t.Parallel()
	presets := tenant(settings.Preset{Name: "hero", Width: 100, Format: settings.FormatPNG})
	for kind, want := range map[fault.Kind]map[media.Access]int{
		fault.Busy:        {media.Public: http.StatusOK, media.Private: http.StatusTooManyRequests},
		fault.Unavailable: {media.Public: http.StatusServiceUnavailable, media.Private: http.StatusServiceUnavailable},
	} {
		for access, status := range want {
			item := imageItem()
			item.Access = access
			item.Objects = append(item.Objects, media.Object{Variant: media.Thumbnail, Key: "thumbnail", Bytes: 4, MimeType: "image/webp", SHA256: item.Objects[0].SHA256})
			d := newDelivery(t, item, &stored{data: []byte("tiny")})
			handler := withPictures(d, &maker{fail: map[settings.Format]error{settings.FormatPNG: fault.New(kind, "no")}}, presets)
			request := httptest.NewRequest(http.MethodGet, strings.TrimPrefix(d.URLs().PictureURL(item, "hero", 1, ""), "http://media.test"), nil)
			request.Header.Set("Sec-Fetch-Dest", "image")
			got := httptest.NewRecorder()
			handler.ServeHTTP(got, request)
			substitute := ""
			if status == http.StatusOK {
				substitute = "thumbnail"
			}
			if got.Code != status || got.Header().Get(substituteHeader) != substitute {
				t.Errorf("%v, %s: %d %v", kind, access, got.Code, got.Header())
			}
		}
	}
}

func TestShowsImage_IsTrueForBrowsersAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		destination, accept string
		want                bool
	}{
		{"image", "", true},
		{"image", "*/*", true},
		{"empty", "image/avif,image/*", false},
		{"document", "image/*,*/*;q=0.8", false},
		{"", "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8", true},
		{"", "image/webp,image/png,image/svg+xml,image/*;q=0.8,video/*;q=0.8,*/*;q=0.5", true},
		{"", "image/*;q=0", false},
		{"", "image/avif,image/webp,*/*", false},
		{"", "*/*", false},
		{"", "", false},
	} {
		r, _ := http.NewRequest(http.MethodGet, "/", nil)
		for name, value := range map[string]string{"Sec-Fetch-Dest": c.destination, "Accept": c.accept} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if got := showsImage(r); got != c.want {
			t.Errorf("%q, %q: %t", c.destination, c.accept, got)
		}
	}
}

func TestSameShape_Tolerates2Percent(t *testing.T) {
	t.Parallel()
	for sizes, want := range map[[4]int]bool{
		{400, 300, 800, 600}: true, {400, 300, 805, 600}: true, {400, 300, 840, 600}: false, {300, 400, 400, 300}: false,
		{400, 300, 400, 0}: false, {0, 0, 0, 0}: true,
	} {
		if got := sameShape(sizes[0], sizes[1], sizes[2], sizes[3]); got != want {
			t.Errorf("%v: %t", sizes, got)
		}
	}
}
