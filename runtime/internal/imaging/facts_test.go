package imaging_test

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"slices"
	"testing"

	"go.n16f.net/thumbhash"

	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
)

// checkFacts compares the facts of an image with its outcome. A placeholder shows the picture upright
// and keeps its transparency.
func checkFacts(t *testing.T, name string, facts media.Facts, want outcome) {
	t.Helper()
	size := cmp.Or(want.displayed, want.converted, image.Pt(600, 400))
	if got := image.Pt(facts.Width, facts.Height); got != size {
		t.Errorf("%s: %v pixels, want %v", name, got, size)
	}
	shown, err := thumbhash.DecodeImage(facts.Placeholder)
	if err != nil {
		t.Errorf("%s: the placeholder: %v", name, err)
		return
	}
	if dominant, ok := parseColor(facts.DominantColor); !ok || want.picture == thePicture && distance(dominant, color.NRGBA(nearest(dominant))) > 60 {
		t.Errorf("%s: the dominant color is %q, want about one of %v", name, facts.DominantColor, imagetest.Corners)
	}
	sides := shown.Bounds().Size()
	if (sides.X > sides.Y) != (size.X > size.Y) && sides.X != sides.Y {
		t.Errorf("%s: the placeholder has %v pixels of %v", name, sides, size)
	}
	for quarter, corner := range imagetest.Corners {
		at := shown.At(sides.X/4+quarter%2*sides.X/2, sides.Y/4+quarter/2*sides.Y/2)
		got := color.NRGBAModel.Convert(at).(color.NRGBA)
		switch {
		case want.picture == thePicture && nearest(got) != corner:
			t.Errorf("%s: quarter %d of the placeholder is %v, want about %v", name, quarter, got, corner)
		case want.picture == cutPicture && (got.A < 128) != (quarter == 0):
			t.Errorf("%s: quarter %d of the placeholder has the alpha %d", name, quarter, got.A)
		}
	}
}

// nearest returns the corner of the picture whose color is the most similar.
func nearest(got color.NRGBA) color.RGBA {
	return slices.MinFunc(imagetest.Corners[:], func(a, b color.RGBA) int {
		return cmp.Compare(distance(got, color.NRGBA(a)), distance(got, color.NRGBA(b)))
	})
}

// parseColor returns the color of a dominant color.
func parseColor(text string) (parsed color.NRGBA, ok bool) {
	const length = len("#rrggbb")
	n, err := fmt.Sscanf(text, "#%02x%02x%02x", &parsed.R, &parsed.G, &parsed.B)
	parsed.A = 255
	return parsed, err == nil && n == 3 && len(text) == length
}
