package imaging_test

import (
	"os"
	"path/filepath"
	"testing"

	"mediastack.dev/runtime/settings"
)

// The pictures of a HEIC file are those of its image, not of the thumbnail that is embedded in it: cameras compress that strongly.
// Only the pictures of an image of more than 25 megapixels are made of the embedded one, where that is large enough.
// The files are those of `heif-enc -q 30 -t 320` and `heif-enc -q 15 -t 512`.
func TestRender_HEICIsDecodedWholeUpTo25Megapixels(t *testing.T) {
	t.Parallel()
	b := open(t, config(realWorker(t)))
	for name, c := range map[string]struct {
		embedded bool // whether the pictures are those of the embedded one
		boxes    []int
	}{
		"embedded.heic":       {false, []int{80, 160, 240, 319, 320, 640}},
		"large-embedded.heic": {true, []int{160, 320}},
	} {
		file, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		lossless := func(option string) []byte {
			t.Helper()
			out := filepath.Join(t.TempDir(), "out.png")
			tool(t, "vips", "copy", filepath.Join("testdata", name)+option, out)
			content, err := os.ReadFile(out)
			must(t, err)
			return content
		}
		whole, embedded := []byte(nil), lossless("[thumbnail]")
		if !c.embedded {
			whole = lossless("")
		}
		for _, box := range c.boxes {
			r := recipe(box, box, settings.Inside, settings.FormatWebP)
			got := pixels(t, b.rendered("image/heic", file, r))
			if c.embedded {
				if mean, _ := difference(got, pixels(t, b.rendered("image/png", embedded, r))); mean > 0.5 {
					t.Errorf("%s in a box of %d differs from the picture of the embedded one by %.1f", name, box, mean)
				}
				continue
			}
			want := pixels(t, b.rendered("image/png", whole, r))
			if mean, _ := difference(got, want); mean > 0.1 {
				t.Errorf("%s in a box of %d differs from the picture of the whole image by %.1f", name, box, mean)
			}
			if box > 200 && box < 320 { // the test would notice the embedded one
				if mean, _ := difference(pixels(t, b.rendered("image/png", embedded, r)), want); mean < 0.5 {
					t.Errorf("the picture of the embedded one differs by %.1f only", mean)
				}
			}
		}
	}
}
