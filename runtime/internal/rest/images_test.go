package rest_test

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/imaging/webp"
	"mediastack.dev/runtime/settings"
)

// photo returns a JPEG.
func photo(t *testing.T, width, height int) []byte {
	t.Helper()
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			picture.SetNRGBA(x, y, color.NRGBA{R: uint8(x), G: uint8(y), B: uint8(x + y), A: 255})
		}
	}
	var file bytes.Buffer
	must(t, jpeg.Encode(&file, picture, nil))
	return file.Bytes()
}

var dominantColor = regexp.MustCompile(`^#[0-9a-f]{6}$`)

func TestImages_HaveAThumbnailAndAConversion(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t, func(o *options) { o.Images = true })
	file := photo(t, 800, 400)
	before := rt.sealed(t, one.Key, filePart("before.jpg", file), field("access", "public"))
	changed := rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"useWebP": true, "thumbnailWidth": 100}`))
	if changed.Status != http.StatusOK {
		t.Fatalf("settings: %d %s", changed.Status, changed.Body)
	}
	item := rt.sealed(t, one.Key, filePart("after.jpg", file), field("access", "public"))
	private := rt.sealed(t, one.Key, filePart("private.jpg", file))

	for name, tt := range map[string]struct {
		address       string
		path          string
		width, height int
	}{
		"the conversion":                {item.File, "/webp/after.webp", 800, 400},
		"the thumbnail":                 {item.Thumbnail, "/thumbnail/after.webp", 100, 50},
		"the thumbnail of before":       {before.Thumbnail, "/thumbnail/before.webp", 320, 160},
		"the private item's conversion": {private.File, "/webp/private.webp?", 800, 400},
		"the private item's thumbnail":  {private.Thumbnail, "/thumbnail/private.webp?", 100, 50},
	} {
		got := rt.do(t, http.MethodGet, tt.address)
		if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "image/webp" || !strings.Contains(tt.address, tt.path) {
			t.Errorf("%s: %d %s at %s", name, got.Status, got.Header.Get("Content-Type"), tt.address)
			continue
		}
		picture, err := webp.StripMetadata(got.Body)
		if err != nil || picture.Width != tt.width || picture.Height != tt.height {
			t.Errorf("%s: %d x %d, %v", name, picture.Width, picture.Height, err)
		}
		if cached := rt.do(t, http.MethodGet, tt.address, header("If-None-Match", got.Header.Get("ETag"))); cached.Status != http.StatusNotModified {
			t.Errorf("%s, with If-None-Match: %d", name, cached.Status)
		}
	}
	if !strings.Contains(before.File, "/original/before.jpg") || before.MimeType != "image/jpeg" || item.MimeType != "image/webp" {
		t.Errorf("before the change %s of %s, after it %s", before.File, before.MimeType, item.MimeType)
	}
	for _, original := range []string{item.Original, private.Original, before.File} {
		if got := rt.do(t, http.MethodGet, original); !bytes.Equal(got.Body, file) || got.Header.Get("Content-Type") != "image/jpeg" {
			t.Errorf("the original at %s: %d, %d bytes", original, got.Status, len(got.Body))
		}
	}
	for _, image := range []api.MediaItem{before, item, private} {
		if image.Width != 800 || image.Height != 400 || len(image.Placeholder) < 5 || !dominantColor.MatchString(image.DominantColor) {
			t.Errorf("%s has %d x %d pixels, a placeholder of %d bytes and the dominant color %q", image.OriginalFileName, image.Width, image.Height, len(image.Placeholder), image.DominantColor)
		}
	}
	if before.Original != "" {
		t.Errorf("an item that is not converted has another original, %s", before.Original)
	}
	// The public conversion lacks the metadata of the original.
	plain, _, _ := strings.Cut(item.Original, "?")
	rt.do(t, http.MethodGet, plain).rejected(t, http.StatusNotFound, "Not Found")
	// The signature of one variant is invalid for another.
	rt.do(t, http.MethodGet, strings.Replace(private.Thumbnail, "/thumbnail/", "/original/", 1)).rejected(t, http.StatusForbidden, "Invalid signature")

	rt.do(t, http.MethodDelete, "/media/delete/"+item.MediaId.String(), key(one.Key)).MustBe(t, http.StatusOK, "delete")
	for _, address := range []string{item.File, item.Thumbnail, item.Original} {
		rt.do(t, http.MethodGet, address).Is(t, http.StatusNotFound, "%s after the delete", address)
	}
	totals := decode[api.Totals](t, rt.do(t, http.MethodGet, "/media/get/size", key(one.Key)))
	stored := 2 * len(file) // the originals of before and private
	for _, address := range []string{before.Thumbnail, private.File, private.Thumbnail} {
		stored += len(rt.do(t, http.MethodGet, address).Body)
	}
	if totals.Storage != int64(stored) {
		t.Errorf("the account has %d bytes, and says %d", stored, totals.Storage)
	}
}

// The addresses of an image whose derivatives are made later are the same before and afterwards. The request for its thumbnail makes them.
func TestLater_TheAddressesStay(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, func(o *options) { o.Images = true })
	changed := decode[api.Settings](t, rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"useWebP": true, "derivatives": "Later"}`)))
	if !slices.Equal(*changed.Changed, []string{"useWebP", "derivatives"}) || changed.Derivatives != settings.DerivativesLater || changed.Sources["derivatives"] != settings.FromTenant {
		t.Errorf("%+v", changed)
	}
	file := photo(t, 800, 400)
	path := func(address string) string { // a signed URL expires in another second
		before, _, _ := strings.Cut(address, "?")
		return before
	}
	read := func(item api.MediaItem) api.MediaItem {
		return rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key)).item(t)
	}
	public, private := rt.sealed(t, one.Key, filePart("a.jpg", file), field("access", "public")), rt.sealed(t, one.Key, filePart("b.jpg", file))
	broken := rt.sealed(t, one.Key, filePart("c.jpg", file[:len(file)/2]), field("access", "public"))
	for _, item := range []api.MediaItem{public, private} {
		if item.MimeType != "image/jpeg" || item.Thumbnail == "" || item.Width != 0 || !strings.Contains(item.File, "/_file/") || item.Original != "" {
			t.Fatalf("at first: %+v", item)
		}
		if got := rt.do(t, http.MethodGet, item.File); !bytes.Equal(got.Body, file) || got.Header.Get("Content-Type") != "image/jpeg" || !strings.HasSuffix(got.Header.Get("Cache-Control"), "max-age=60") || got.Header.Get("Last-Modified") != "" {
			t.Errorf("the original: %d %v", got.Status, got.Header)
		}
		if item.Access == "public" { // no cache may have it for longer, since it is not public with a conversion
			address := path(strings.Replace(item.File, "/_file/", "/original/", 1))
			if got := rt.do(t, http.MethodGet, address); got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "public, max-age=60" {
				t.Errorf("the original at its other address: %d %v", got.Status, got.Header)
			}
		}
		got := rt.do(t, http.MethodGet, item.Thumbnail)
		if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "image/webp" {
			t.Fatalf("the thumbnail: %d %s", got.Status, got.Body)
		}
		now := read(item)
		if path(now.File) != path(item.File) || path(now.Thumbnail) != path(item.Thumbnail) || now.MimeType != "image/webp" || now.Width != 800 || now.Original == "" || now.Size == item.Size {
			t.Errorf("afterwards: %+v", now)
		}
		if got := rt.do(t, http.MethodGet, item.File); got.Header.Get("Content-Type") != "image/webp" || int64(len(got.Body)) != now.Size || strings.HasSuffix(got.Header.Get("Cache-Control"), "max-age=60") {
			t.Errorf("the conversion: %d %v", got.Status, got.Header)
		}
		if again := rt.do(t, http.MethodGet, item.Thumbnail); !bytes.Equal(again.Body, got.Body) {
			t.Errorf("the thumbnail again: %d", again.Status)
		}
		if got := rt.do(t, http.MethodGet, now.Original); !bytes.Equal(got.Body, file) {
			t.Errorf("the original: %d", got.Status)
		}
	}
	// The original of a conversion is not public, under no address.
	plain, _, _ := strings.Cut(read(public).Original, "?")
	rt.do(t, http.MethodGet, plain).rejected(t, http.StatusNotFound, "Not Found")
	for _, variant := range []string{"_file", "thumbnail"} {
		rt.do(t, http.MethodGet, "/media/file/"+private.MediaId.String()+"/"+variant+"/b.jpg").rejected(t, http.StatusNotFound, "Not Found")
	}
	rt.do(t, http.MethodGet, strings.Replace(private.File, "/_file/", "/original/", 1)).rejected(t, http.StatusForbidden, "Invalid signature")

	rt.do(t, http.MethodGet, broken.Thumbnail).Is(t, http.StatusNotFound, "the thumbnail of a broken image")
	if now := read(broken); now.Thumbnail != "" || path(now.File) != path(broken.File) || now.MimeType != "image/jpeg" {
		t.Errorf("a broken image: %+v", now)
	}
	// With the setting originals, the file needs a signature as long as it is the original.
	w.pin(t, "team-a/site", one, settings.Layer{Pictures: settings.Pictures{Originals: settings.OriginalsSigned, Derivatives: settings.DerivativesLater}})
	detail := rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"derivatives": "AtUpload"}`)).rejected(t, http.StatusConflict, "Conflict")
	if detail != "derivatives: pinned by MediaSettings team-a/site" {
		t.Errorf("detail %s", detail)
	}
	rt.do(t, http.MethodPost, "/settings/media/create", key(one.Key), text(`{"derivatives": "Sometimes"}`)).Is(t, http.StatusBadRequest, "another value")
	signed := rt.sealed(t, one.Key, filePart("d.jpg", file), field("access", "public"))
	plain, _, _ = strings.Cut(signed.File, "?")
	if !strings.Contains(signed.File, "signature=") {
		t.Errorf("the file is at %s", signed.File)
	}
	rt.do(t, http.MethodGet, plain).Is(t, http.StatusNotFound, "the original without a signature")
	rt.do(t, http.MethodGet, signed.Thumbnail).Is(t, http.StatusOK, "the thumbnail")
	rt.do(t, http.MethodGet, plain).Is(t, http.StatusOK, "the conversion without a signature")
}
