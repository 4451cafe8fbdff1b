package pages

import (
	"encoding/hex"
	"fmt"
	"math"
)

// colour is one in sRGB.
type colour struct{ r, g, b uint8 }

var (
	black = colour{}
	white = colour{255, 255, 255}
)

func parseColour(text string) (colour, error) {
	var c [3]byte
	if len(text) == 7 && text[0] == '#' {
		if _, err := hex.Decode(c[:], []byte(text[1:])); err == nil {
			return colour{c[0], c[1], c[2]}, nil
		}
	}
	return colour{}, fmt.Errorf("must look like #2456d6, not %q", text)
}

func (c colour) String() string { return fmt.Sprintf("#%02x%02x%02x", c.r, c.g, c.b) }

// luminance is the relative luminance of WCAG 2.
func (c colour) luminance() float64 {
	linear := func(v uint8) float64 {
		s := float64(v) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.r) + 0.7152*linear(c.g) + 0.0722*linear(c.b)
}

// contrast is the contrast ratio of WCAG 2, from 1 to 21.
func contrast(a, b colour) float64 {
	high, low := a.luminance(), b.luminance()
	if low > high {
		high, low = low, high
	}
	return (high + 0.05) / (low + 0.05)
}

// mix moves a colour towards another: 0 leaves it, 1 arrives.
func (c colour) mix(to colour, share float64) colour {
	part := func(from, to uint8) uint8 {
		return uint8(math.Round(float64(from) + (float64(to)-float64(from))*share))
	}
	return colour{part(c.r, to.r), part(c.g, to.g), part(c.b, to.b)}
}

// readable moves a colour towards another, as little as possible, until it has this
// contrast to every ground.
func (c colour) readable(towards colour, ratio float64, grounds ...colour) colour {
	const steps = 100
	for step := range steps {
		moved, enough := c.mix(towards, float64(step)/steps), true
		for _, ground := range grounds {
			enough = enough && contrast(moved, ground) >= ratio
		}
		if enough {
			return moved
		}
	}
	return towards
}

// ink is black or white, whichever is read better on a ground. One of them always
// has a contrast of 4.58 or more.
func ink(ground colour) colour {
	if contrast(ground, white) >= contrast(ground, black) {
		return white
	}
	return black
}
