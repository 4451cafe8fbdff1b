package browser_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"testing"
)

// landscape is a picture that a program draws: a sky above a ridge.
type landscape struct {
	name                 string
	above, below, ground uint32 // colors of the sky and the ground, 0xRRGGBB
	wave                 float64
}

// landscapes are those of the forms, and then those of the picture of the library.
var landscapes = []landscape{
	{"Beach at dusk.png", 0x282c5c, 0xf08c5a, 0x1c3c60, 70}, {"Alpine morning.png", 0x78b4e6, 0xebf0f5, 0x3c6e50, 70}, {"Desert road.png", 0x5a96d2, 0xfadcaa, 0xbe8246, 70},
	{"library/Harbour, first light.png", 0x20304f, 0xe7a977, 0x18293b, 110}, {"library/Rapeseed.png", 0x6fb3e8, 0xf4f7fb, 0xd9b52c, 160}, {"library/Fjord.png", 0x3f6f9b, 0xc9dbe6, 0x274a4a, 45},
	{"library/Moor in the rain.png", 0x6b7480, 0xb9bfc4, 0x4e4a3b, 95}, {"library/Vineyard.png", 0x88b9dd, 0xfbf0d2, 0x5d7a2f, 60}, {"library/Red rocks.png", 0x3c7dc4, 0xf3c9a0, 0xa3452b, 38},
	{"library/Lavender.png", 0xa9c6ee, 0xf7e3ee, 0x6c549c, 130}, {"library/Night ferry.png", 0x070b1e, 0x2c3a63, 0x04070f, 180}, {"library/Birch wood.png", 0xdfe8d8, 0xf6f4e4, 0x7d8a55, 28},
	{"library/Glacier.png", 0x4a93cf, 0xe9f4fb, 0xbcd7e6, 52}, {"library/Salt flats.png", 0x7fc4e8, 0xfdf6ea, 0xe7ded2, 300}, {"library/Autumn slope.png", 0x9db8cf, 0xf5dfbf, 0xb0622b, 74},
	{"library/Storm front.png", 0x2b3440, 0x8d9aa6, 0x35463c, 120}, {"library/Tulip fields.png", 0x83bdf0, 0xf9fbfd, 0xc8395a, 210}, {"library/Blue hour.png", 0x142a5e, 0x7a8fc9, 0x0d1a33, 66},
	{"library/Terraces.png", 0x9ad0e6, 0xf2f8ec, 0x3f8f5a, 33}, {"library/Steppe.png", 0x72a7d8, 0xf6ecd0, 0xa99a5a, 240}, {"library/Volcano.png", 0x4b2a3e, 0xf2855a, 0x2a1d22, 48},
}

// rgb returns an opaque color.
func rgb(hex uint32) color.RGBA {
	return color.RGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 255}
}

// draw returns the landscape as a PNG file.
func (l landscape) draw(t *testing.T) []byte {
	t.Helper()
	picture := image.NewRGBA(image.Rect(0, 0, 640, 480))
	above, below := rgb(l.above), rgb(l.below)
	for y := range 480 {
		share := min(1, float64(y)/300)
		blend := func(from, to uint8) uint8 { return uint8(float64(from) + (float64(to)-float64(from))*share) }
		sky := color.RGBA{blend(above.R, below.R), blend(above.G, below.G), blend(above.B, below.B), 255}
		for x := range 640 {
			c := rgb(l.ground)
			if y < 300+int(24*math.Sin(float64(x)/l.wave)) {
				c = sky
			}
			picture.SetRGBA(x, y, c)
		}
	}
	var file bytes.Buffer
	must(t, png.Encode(&file, picture))
	return file.Bytes()
}
