package imaging_test

import (
	"bytes"
	"testing"

	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/settings"
)

// A JPEG is shrunk by 2, 4 or 8 while it is loaded. The reference is shrunk by the better filter alone.
func TestRender_ShrinksAJPEGWhileItIsLoadedWithoutAVisibleDifference(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	const width, height = 1152, 864 // multiples of 8, as photos of cameras have: else the last row is one of less pixels
	photo := imagetest.Photo(width, height)
	file, reference := imagetest.JPEG(photo), imagetest.PNG(photo)
	for _, wide := range []int{384, 383, 192, 191, 96, 95, 72} { // factors from 3 to 16
		r := recipe(wide, 0, settings.Inside, settings.FormatPNG)
		alone := pool.rendered("image/jpeg", file, r)
		mean, most := difference(pixels(t, alone), pixels(t, pool.rendered("image/png", reference, r)))
		if mean > 1.25 || most > 12 {
			t.Errorf("%d pixels: the picture differs by %.2f, at most %.0f, of 255", wide, mean, most)
		}
		// Two pictures are made of one decoded image.
		larger := r
		larger.Width++
		pictures, err := pool.Render(t.Context(), renderJob("image/jpeg", file, r, larger))
		must(t, err)
		if !bytes.Equal(pictures[0].Data, alone.Data) {
			t.Errorf("%d pixels: another picture is made if it is made alone", wide)
		}
	}
}
