package delivery

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// Some clients and caches write @ as %40, and were answered 404.
func TestAddress_IsUnescapedOnce(t *testing.T) {
	t.Parallel()
	item := imageItem()
	item.Objects = append(item.Objects, media.Object{Variant: media.Thumbnail, Key: "t", Bytes: 4, MimeType: "image/webp", SHA256: []byte{2}})
	m := &maker{}
	d := newDelivery(t, item, &stored{data: make([]byte, 10)})
	handler := withPictures(d, m, tenant(settings.Preset{Name: "card", Width: 100, Densities: []int{2}}, settings.Preset{Name: "a-b", Width: 10}))
	status := func(path string) int {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code
	}
	plain := ask(handler, http.MethodGet, "card@2x.avif")
	for variant, want := range map[string]int{
		"card@2x.avif": http.StatusOK, "card%402x.avif": http.StatusOK, "card%402x%2Eavif": http.StatusOK, "%63ard": http.StatusOK, "a%2Db": http.StatusOK, "a%2db": http.StatusOK, "thumbnai%6C": http.StatusOK,
		"card%25402x.avif": http.StatusNotFound, "card%2525402x.avif": http.StatusNotFound, "card%2F402x": http.StatusNotFound, "card%252F": http.StatusNotFound, "card%2F": http.StatusNotFound,
		"card%00": http.StatusNotFound, "%00": http.StatusNotFound, "card%20": http.StatusNotFound, "card%0a": http.StatusNotFound, "card%FF": http.StatusNotFound, "card%EF%BC%A02x": http.StatusNotFound,
		"%2e%2e": http.StatusNotFound, "..%2Foriginal": http.StatusNotFound, "card%40": http.StatusNotFound, "card%401x": http.StatusNotFound, "%C3%A4": http.StatusNotFound, "card%3F": http.StatusNotFound,
	} {
		for _, name := range []string{"photo.jpg", "a%2Fb", "%00", "a%252F", "%40", "%C3%A4", "@"} { // whatever it is, it changes nothing
			if got := status("/media/file/" + uuid.UUID{5}.String() + "/" + variant + "/" + name); got != want {
				t.Errorf("%s/%s: %d, want %d", variant, name, got, want)
			}
		}
	}
	if escaped := ask(handler, http.MethodGet, "card%402x.avif"); escaped.Header().Get("ETag") != plain.Header().Get("ETag") || escaped.Body.String() != plain.Body.String() {
		t.Errorf("another picture: %v", escaped.Header())
	}

	item.Access = media.Private
	d.items = one{item}
	signed, err := url.Parse(d.URLs().PictureURL(item, "card", 2, settings.FormatAVIF))
	if err != nil {
		t.Fatal(err)
	}
	address := signed.EscapedPath() + "?" + signed.RawQuery
	for path, want := range map[string]int{
		address:                                                      http.StatusOK,
		strings.Replace(address, "@", "%40", 1):                      http.StatusOK,
		strings.Replace(address, "@", "%2540", 1):                    http.StatusForbidden,
		strings.Replace(address, "@2x.avif", "%402x.webp", 1):        http.StatusForbidden,
		strings.Replace(address, "card@2x.avif", "%6Friginal", 1):    http.StatusForbidden,
		strings.Replace(address, "card@2x.avif", "card@2x.avif/", 1): http.StatusNotFound,
	} {
		if got := status(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// A path names what its segment is when it is unescaped once, whatever the other segments are.
func FuzzVariantOf_IsUnescapedOnce(f *testing.F) {
	for _, seed := range []string{"card@2x", "card%402x", "card%25402x", "%2F", "%", "%zz", "a%00", "?", "ä"} {
		f.Add(seed, "name")
		f.Add(seed, "%40")
	}
	f.Fuzz(func(t *testing.T, variant, name string) {
		if strings.ContainsAny(variant+name, "/?#") || variant == "" || name == "" {
			return
		}
		target, err := url.ParseRequestURI("/media/file/id/" + variant + "/" + name)
		if err != nil {
			return
		}
		var got media.Variant
		var ok bool
		router := chi.NewRouter()
		router.Get(route, func(_ http.ResponseWriter, r *http.Request) { got, ok = variantOf(r) })
		router.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: http.MethodGet, URL: target})
		if want, err := url.PathUnescape(variant); err != nil || !ok || string(got) != want {
			t.Fatalf("%q is %q, %t; want %q, %v", variant, got, ok, want, err)
		}
	})
}

func TestParseAddress_HasOneFormForEachPicture(t *testing.T) {
	t.Parallel()
	for variant, want := range map[string]address{
		"hero": {"hero", 1, ""}, "hero@2x": {"hero", 2, ""}, "hero@3x": {"hero", 3, ""}, "hero.avif": {"hero", 1, "avif"}, "hero@2x.png": {"hero", 2, "png"},
		"a-b.jpeg": {"a-b", 1, "jpeg"}, "2x.webp": {"2x", 1, "webp"},
	} {
		if got, ok := parseAddress(media.Variant(variant)); !ok || got != want || got.variant() != media.Variant(variant) {
			t.Errorf("%s: %+v, %t", variant, got, ok)
		}
	}
	for _, variant := range []string{"", ".avif", "@2x", "hero@1x", "hero@0x", "hero@4x", "hero@02x", "hero@2", "hero@2X", "hero@2x@2x", "hero@@2x", "hero@", "hero.", "hero.jpg", "hero.auto",
		"hero.AVIF", "hero.avif.avif", "hero.avif@2x", "hero@2x.", "original", "webp", "thumbnail", "original@2x", "thumbnail.avif"} {
		if got, ok := parseAddress(media.Variant(variant)); ok {
			t.Errorf("%q is %+v", variant, got)
		}
	}
}

func FuzzParseAddress_IsCanonical(f *testing.F) {
	for _, seed := range []string{"hero", "hero@2x.avif", "a@1x", "a.b.c", "@", "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, variant string) {
		if a, ok := parseAddress(media.Variant(variant)); ok && a.variant() != media.Variant(variant) {
			t.Fatalf("%q is %+v, whose address is %q", variant, a, a.variant())
		}
	})
}
