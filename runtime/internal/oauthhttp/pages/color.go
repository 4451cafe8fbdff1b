package pages

import (
	"encoding/hex"
	"fmt"
	"math"
)

// rgbColor is a color in sRGB.
type rgbColor struct{ r, g, b uint8 }

var (
	black = rgbColor{}
	white = rgbColor{255, 255, 255}
)

func parseColor(text string) (rgbColor, error) {
	var c [3]byte
	if len(text) == 7 && text[0] == '#' {
		if _, err := hex.Decode(c[:], []byte(text[1:])); err == nil {
			return rgbColor{c[0], c[1], c[2]}, nil
		}
	}
	return rgbColor{}, fmt.Errorf("must look like #2456d6, not %q", text)
}

func (c rgbColor) String() string { return fmt.Sprintf("#%02x%02x%02x", c.r, c.g, c.b) }

// luminance returns the relative luminance (WCAG 2).
func (c rgbColor) luminance() float64 {
	linear := func(v uint8) float64 {
		s := float64(v) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.r) + 0.7152*linear(c.g) + 0.0722*linear(c.b)
}

// contrast returns the contrast ratio (WCAG 2), from 1 to 21.
func contrast(a, b rgbColor) float64 {
	high, low := a.luminance(), b.luminance()
	if low > high {
		high, low = low, high
	}
	return (high + 0.05) / (low + 0.05)
}

// mix interpolates linearly between two colors: 0 returns c, 1 returns to.
func (c rgbColor) mix(to rgbColor, weight float64) rgbColor {
	channel := func(from, to uint8) uint8 {
		return uint8(math.Round(float64(from) + (float64(to)-float64(from))*weight))
	}
	return rgbColor{channel(c.r, to.r), channel(c.g, to.g), channel(c.b, to.b)}
}

// readable mixes c with as little as possible of another color, so that its contrast to
// every background is at least ratio.
func (c rgbColor) readable(towards rgbColor, ratio float64, backgrounds ...rgbColor) rgbColor {
	const steps = 100
	for step := range steps {
		moved, enough := c.mix(towards, float64(step)/steps), true
		for _, background := range backgrounds {
			enough = enough && contrast(moved, background) >= ratio
		}
		if enough {
			return moved
		}
	}
	return towards
}

// readableOn returns black or white, the one with the higher contrast to the background. It
// is always at least 4.58.
func readableOn(background rgbColor) rgbColor {
	if contrast(background, white) >= contrast(background, black) {
		return white
	}
	return black
}
