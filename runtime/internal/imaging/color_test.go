package imaging_test

import (
	"image"
	"image/color"
	"image/draw"
	"testing"

	"mediastack.dev/runtime/internal/imaging/imagetest"
)

// painted returns a picture of 200 x 100 pixels, of which the left share, in hundredths, has one color, and the rest another.
func painted(share int, left, right color.Color) image.Image {
	picture := image.NewNRGBA(image.Rect(0, 0, 200, 100))
	draw.Draw(picture, picture.Bounds(), image.NewUniform(right), image.Point{}, draw.Src)
	draw.Draw(picture, image.Rect(0, 0, 2*share, 100), image.NewUniform(left), image.Point{}, draw.Src)
	return picture
}

func TestDerive_FindsTheDominantColor(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	orange, blue, nothing := color.NRGBA{240, 120, 20, 255}, color.NRGBA{20, 60, 200, 255}, color.NRGBA{20, 60, 200, 0}
	for name, c := range map[string]struct {
		mimeType string
		file     []byte
		want     color.NRGBA
	}{
		"one color":                   {"image/png", imagetest.PNG(painted(100, orange, orange)), orange},
		"black":                       {"image/png", imagetest.PNG(painted(100, color.Black, color.Black)), color.NRGBA{A: 255}},
		"70 of blue and 30 of orange": {"image/png", imagetest.PNG(painted(70, blue, orange)), blue},
		"the same as JPEG":            {"image/jpeg", imagetest.JPEG(painted(70, blue, orange)), blue},
		"20 of orange, 80 of nothing": {"image/png", imagetest.PNG(painted(20, orange, nothing)), orange},
	} {
		facts, _, err := pool.Derive(t.Context(), request(c.mimeType, c.file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		const tolerance = 6 // the thumbnail is lossy
		got, ok := parseColor(facts.DominantColor)
		if !ok || distance(got, c.want) > tolerance {
			t.Errorf("%s: %q, want about %v", name, facts.DominantColor, c.want)
		}
	}
	facts, _, err := pool.Derive(t.Context(), request("image/png", imagetest.PNG(painted(100, nothing, nothing))))
	if err != nil || facts.Placeholder == nil || facts.DominantColor != "" {
		t.Errorf("a transparent picture has the facts %+v, %v", facts, err)
	}
}
