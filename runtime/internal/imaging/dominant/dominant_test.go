package dominant_test

import (
	"math/rand/v2"
	"testing"

	"mediastack.dev/runtime/internal/imaging/dominant"
)

// rgba returns n pixels of a color.
func rgba(n int, color ...byte) []byte {
	var pixels []byte
	for range n {
		pixels = append(pixels, color...)
	}
	return pixels
}

func concat(parts ...[]byte) (all []byte) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// noisy returns n opaque pixels around a color.
func noisy(n, noise int, color ...int) (pixels []byte) {
	random := rand.New(rand.NewPCG(1, uint64(color[0])))
	for range n {
		for _, channel := range color {
			pixels = append(pixels, byte(min(max(channel+random.IntN(2*noise+1)-noise, 0), 255)))
		}
		pixels = append(pixels, 255)
	}
	return pixels
}

func TestColor_IsThatOfTheLargestGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pixels    []byte
		want      [3]byte
		tolerance int
	}{
		"black":                                {rgba(100, 0, 0, 0, 255), [3]byte{}, 0},
		"white":                                {rgba(100, 255, 255, 255, 255), [3]byte{255, 255, 255}, 0},
		"blue, which is at the end of an axis": {rgba(100, 0, 0, 255, 255), [3]byte{0, 0, 255}, 0},
		"one pixel":                            {rgba(1, 18, 52, 86, 255), [3]byte{18, 52, 86}, 0},
		"70 of red and 30 of green: not their mean":    {concat(rgba(30, 0, 200, 0, 255), rgba(70, 200, 0, 0, 255)), [3]byte{200, 0, 0}, 0},
		"red on a transparent ground":                  {concat(rgba(90, 0, 0, 255, 0), rgba(10, 200, 0, 0, 255)), [3]byte{200, 0, 0}, 0},
		"60 of translucent green and 40 of opaque red": {concat(rgba(60, 0, 200, 0, 64), rgba(40, 200, 0, 0, 255)), [3]byte{200, 0, 0}, 0},
		"all translucent":                              {rgba(9, 10, 20, 30, 1), [3]byte{10, 20, 30}, 0},
		"55 of a noisy blue, 45 of one yellow":         {concat(rgba(450, 250, 220, 10, 255), noisy(550, 8, 30, 60, 160)), [3]byte{30, 60, 160}, 3},
		"40 of a sky, 60 of all other colors":          {concat(noisy(400, 6, 110, 170, 230), noisy(600, 255, 128, 128, 128)), [3]byte{110, 170, 230}, 6},
	} {
		got, ok := dominant.Color(c.pixels)
		if !ok {
			t.Errorf("%s: no color", name)
			continue
		}
		for i := range got {
			if off := int(got[i]) - int(c.want[i]); off > c.tolerance || off < -c.tolerance {
				t.Errorf("%s: %v, want %v", name, got, c.want)
				break
			}
		}
	}
}

func TestColor_IsExactForOneColor(t *testing.T) {
	t.Parallel()
	for r := 0; r < 256; r += 15 {
		for g := 0; g < 256; g += 15 {
			for b := 0; b < 256; b += 15 {
				want := [3]byte{byte(r), byte(g), byte(b)}
				if got, ok := dominant.Color([]byte{want[0], want[1], want[2], 255}); !ok || got != want {
					t.Fatalf("%v has the dominant color %v", want, got)
				}
			}
		}
	}
}

func TestColor_NeedsAPixelThatIsSeen(t *testing.T) {
	t.Parallel()
	for name, pixels := range map[string][]byte{"nothing": nil, "a part of a pixel": {1, 2, 3}, "transparent": rgba(5, 1, 2, 3, 0)} {
		if color, ok := dominant.Color(pixels); ok {
			t.Errorf("%s has the dominant color %v", name, color)
		}
	}
}

func BenchmarkColor(b *testing.B) {
	pixels := noisy(100*100, 255, 128, 128, 128)
	for b.Loop() {
		dominant.Color(pixels)
	}
}
