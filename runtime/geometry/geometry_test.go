package geometry_test

import (
	"fmt"
	"testing"

	"mediastack.dev/runtime/geometry"
)

func TestLayout_FitsTheBox(t *testing.T) {
	t.Parallel()
	type size = geometry.Size
	for _, c := range []struct {
		fit                         geometry.Fit
		box, image, shrunk, picture size
	}{
		{geometry.Inside, size{200, 200}, size{600, 400}, size{200, 133}, size{200, 133}},
		{geometry.Inside, size{200, 200}, size{400, 600}, size{133, 200}, size{133, 200}},
		{geometry.Inside, size{300, 0}, size{600, 400}, size{300, 200}, size{300, 200}},
		{geometry.Inside, size{0, 100}, size{600, 400}, size{150, 100}, size{150, 100}},
		{geometry.Inside, size{0, 0}, size{600, 400}, size{600, 400}, size{600, 400}},
		{geometry.Inside, size{4096, 4096}, size{600, 400}, size{600, 400}, size{600, 400}},
		{geometry.Inside, size{4096, 100}, size{600, 400}, size{150, 100}, size{150, 100}},
		{geometry.Inside, size{200, 200}, size{5000, 1}, size{200, 1}, size{200, 1}},
		{geometry.Cover, size{200, 200}, size{600, 400}, size{300, 200}, size{200, 200}},
		{geometry.Cover, size{300, 100}, size{600, 400}, size{300, 200}, size{300, 100}},
		{geometry.Cover, size{1200, 1200}, size{600, 400}, size{600, 400}, size{400, 400}},
		{geometry.Cover, size{1200, 200}, size{600, 400}, size{600, 400}, size{600, 100}},
		{geometry.Cover, size{200, 1200}, size{600, 400}, size{600, 400}, size{67, 400}},
		{geometry.Cover, size{300, 0}, size{600, 400}, size{300, 200}, size{300, 200}},
		{geometry.Cover, size{600, 400}, size{600, 400}, size{600, 400}, size{600, 400}},
		{geometry.Pad, size{200, 200}, size{600, 400}, size{200, 133}, size{200, 200}},
		{geometry.Pad, size{1200, 1200}, size{600, 400}, size{600, 400}, size{1200, 1200}},
		{geometry.Pad, size{0, 200}, size{600, 400}, size{300, 200}, size{300, 200}},
	} {
		shrunk, picture := geometry.Layout(c.fit, c.box, c.image)
		if shrunk != c.shrunk || picture != c.picture {
			t.Errorf("fit %d, box %v, image %v: %v and %v, want %v and %v", c.fit, c.box, c.image, shrunk, picture, c.shrunk, c.picture)
		}
	}
}

// FuzzLayout: nothing is enlarged, and a picture is within its bounds, has the aspect ratio it should have, and
// fills the box where it should.
func FuzzLayout(f *testing.F) {
	f.Add(uint8(0), uint16(640), uint16(480), uint16(4000), uint16(3000))
	f.Add(uint8(1), uint16(640), uint16(0), uint16(1), uint16(3000))
	f.Add(uint8(2), uint16(640), uint16(1), uint16(4000), uint16(3))
	f.Fuzz(func(t *testing.T, fit uint8, boxWidth, boxHeight, width, height uint16) {
		if width == 0 || height == 0 || fit > 2 {
			return
		}
		box, image := geometry.Size{Width: int(boxWidth), Height: int(boxHeight)}, geometry.Size{Width: int(width), Height: int(height)}
		shrunk, picture := geometry.Layout(geometry.Fit(fit), box, image)
		said := fmt.Sprintf("fit %d, box %v, image %v: %v and %v", fit, box, image, shrunk, picture)
		if shrunk.Width < 1 || shrunk.Height < 1 || shrunk.Width > image.Width || shrunk.Height > image.Height {
			t.Fatal(said)
		}
		// A side is within half a pixel of what the other one says.
		exact := float64(shrunk.Width) * float64(image.Height) / float64(image.Width)
		other := float64(shrunk.Height) * float64(image.Width) / float64(image.Height)
		if d, e := exact-float64(shrunk.Height), other-float64(shrunk.Width); (d > 0.5 || d < -1) && (e > 0.5 || e < -1) && shrunk.Width > 1 && shrunk.Height > 1 {
			t.Fatal(said)
		}
		bounded := boxWidth > 0 && boxHeight > 0
		switch {
		case !bounded || fit == uint8(geometry.Inside):
			if picture != shrunk || boxWidth > 0 && picture.Width > int(boxWidth) || boxHeight > 0 && picture.Height > int(boxHeight) {
				t.Fatal(said)
			}
		case fit == uint8(geometry.Pad):
			if picture != box || shrunk.Width > box.Width || shrunk.Height > box.Height {
				t.Fatal(said)
			}
		case picture.Width > shrunk.Width || picture.Height > shrunk.Height || picture.Width > box.Width || picture.Height > box.Height,
			box.Width <= image.Width && box.Height <= image.Height && picture != box,
			picture.Width != shrunk.Width && picture.Height != shrunk.Height:
			t.Fatal(said)
		}
	})
}

func TestOffset_KeepsThePointInThePicture(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ image, picture, point, want int }{
		{100, 50, 500, 25}, {100, 50, 0, 0}, {100, 50, 1000, 50}, {100, 50, 300, 5}, {100, 50, 750, 50}, {100, 100, 900, 0}, {3, 1, 500, 1}, {10, 4, 499, 2},
	} {
		if got := geometry.Offset(c.image, c.picture, c.point); got != c.want {
			t.Errorf("Offset(%d, %d, %d) = %d, want %d", c.image, c.picture, c.point, got, c.want)
		}
	}
}
