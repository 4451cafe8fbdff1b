package imageformat_test

import (
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/imageformat"
)

func TestFormats_AreComplete(t *testing.T) {
	t.Parallel()
	encoded := imageformat.Encoded()
	if encoded[0] != imageformat.Auto {
		t.Errorf("the formats of pictures begin with %q", encoded[0].Name())
	}
	names, preferences := map[string]bool{}, map[int]bool{}
	for _, f := range imageformat.Files() {
		if f.Name() == "" || names[f.Name()] || f.String() == "" || !strings.EqualFold(f.Name(), f.String()) {
			t.Errorf("format %d is called %q and %q", f, f.Name(), f)
		}
		names[f.Name()] = true
		if found, ok := imageformat.ByType(f.MIMEType()); !ok || found != f || !strings.HasPrefix(f.MIMEType(), "image/") {
			t.Errorf("files of type %q: %v, %t", f.MIMEType(), found, ok)
		}
		if !strings.HasPrefix(f.Extension(), ".") {
			t.Errorf("the extension of %s is %q", f, f.Extension())
		}
		found, ok := imageformat.ByName(f.Name())
		if isPicture := slices.Contains(encoded, f); ok != isPicture || ok && found != f || f.Valid() != isPicture {
			t.Errorf("pictures called %q: %v, %t", f.Name(), found, ok)
		}
		if rank := f.Preference(); rank != 0 {
			if preferences[rank] || !f.Valid() {
				t.Errorf("%s has rank %d", f, rank)
			}
			preferences[rank] = true
		}
	}
	if imageformat.Format(200).Valid() || imageformat.Format(len(imageformat.Files())+1).Valid() {
		t.Error("a number without a format is valid")
	}
	for _, text := range []string{"", "gif", "heic", "AVIF", "jpg"} {
		if f, ok := imageformat.ByName(text); ok {
			t.Errorf("pictures called %q are %s", text, f)
		}
	}
	if _, ok := imageformat.ByType("image/svg+xml"); ok {
		t.Error("pictures are made of SVG")
	}
}

func TestHolds_IsBoundedBySideAndArea(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format        imageformat.Format
		width, height int
		want          bool
	}{
		{imageformat.WebP, 16383, 16383, true}, {imageformat.WebP, 16384, 1, false}, {imageformat.WebP, 1, 16384, false},
		{imageformat.AVIF, 2048, 2048, true}, {imageformat.AVIF, 2048, 2049, false}, {imageformat.AVIF, 16384, 256, true}, {imageformat.AVIF, 16385, 1, false},
		{imageformat.JPEG, 65500, 1, true}, {imageformat.JPEG, 65501, 1, false},
		{imageformat.Auto, 65500, 1, true}, {imageformat.Auto, 1, 65501, false},
		{imageformat.PNG, 1 << 20, 1 << 20, true},
	} {
		if got := c.format.Holds(c.width, c.height); got != c.want {
			t.Errorf("%s of %d x %d: %t", c.format.Name(), c.width, c.height, got)
		}
	}
}
