// Package dominant finds the dominant color of a picture: that of the largest group of similar pixels. The
// image worker (cmd/mediastack-imaging) calls it with the pixels of a thumbnail.
package dominant

import "math"

// Pixels are grouped in OKLab, where a distance is about the difference that a person sees.
const (
	// step is the side of a cell of the histogram. The axes a and b are from -span to span in sRGB.
	step = 0.04
	span = 0.4
	// One cell around all colors is empty, so that each cell has neighbors.
	lightnesses = 1/step + 3
	hues        = 2*span/step + 3
	// radius is how far from the middle of its group a pixel may be.
	radius = 0.06
	// rounds is how often the middle is moved to the mean of its group: two groups on the border of a cell
	// need more than one.
	rounds = 4
)

// lab is a color in OKLab (https://bottosson.github.io/posts/oklab).
type lab struct{ l, a, b float64 }

// pixel is a color with its weight.
type pixel struct {
	lab
	weight float64
}

// Color returns the dominant color of a picture in sRGB. pixels has red, green, blue and alpha of each pixel, of
// which the alpha is not multiplied: transparent ones do not count, and translucent ones count less. ok is false if
// there is no pixel that counts. The time is linear in the pixels.
func Color(pixels []byte) (color [3]byte, ok bool) {
	const channels = 4
	colors := make([]pixel, 0, len(pixels)/channels)
	histogram := make([]float64, lightnesses*hues*hues)
	for ; len(pixels) >= channels; pixels = pixels[channels:] {
		if pixels[3] == 0 {
			continue
		}
		p := pixel{fromSRGB(pixels[0], pixels[1], pixels[2]), float64(pixels[3])}
		colors = append(colors, p)
		histogram[cell(p.lab)] += p.weight
	}
	if len(colors) == 0 {
		return color, false
	}
	middle := peak(colors, histogram)
	for range rounds {
		middle = mean(colors, middle)
	}
	return middle.toSRGB(), true
}

// peak returns a color in the cell that has, with its neighbors, the most pixels: noise spreads a group over several cells.
func peak(colors []pixel, histogram []float64) (best lab) {
	most := 0.0
	for _, p := range colors {
		at := cell(p.lab)
		if histogram[at] <= 0 { // done
			continue
		}
		weight := 0.0
		for l := -1; l <= 1; l++ {
			for a := -1; a <= 1; a++ {
				for b := -1; b <= 1; b++ {
					weight += math.Abs(histogram[at+(l*hues+a)*hues+b])
				}
			}
		}
		if weight > most {
			most, best = weight, p.lab
		}
		histogram[at] = -histogram[at]
	}
	return best
}

// mean returns the mean of the pixels around a color, or the color if there are none.
func mean(colors []pixel, around lab) lab {
	var sum lab
	total := 0.0
	for _, p := range colors {
		l, a, b := p.l-around.l, p.a-around.a, p.b-around.b
		if l*l+a*a+b*b > radius*radius {
			continue
		}
		sum.l, sum.a, sum.b, total = sum.l+p.weight*p.l, sum.a+p.weight*p.a, sum.b+p.weight*p.b, total+p.weight
	}
	if total == 0 {
		return around
	}
	return lab{sum.l / total, sum.a / total, sum.b / total}
}

// cell returns the index of the cell of a color.
func cell(c lab) int {
	axis := func(value float64, cells int) int { return 1 + min(max(int(value/step), 0), cells-3) }
	return (axis(c.l, lightnesses)*hues+axis(c.a+span, hues))*hues + axis(c.b+span, hues)
}

// linear are the linear intensities of the values of sRGB.
var linear = func() (table [256]float64) {
	for i := range table {
		if v := float64(i) / 255; v <= 0.04045 {
			table[i] = v / 12.92
		} else {
			table[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return table
}()

func fromSRGB(red, green, blue byte) lab {
	r, g, b := linear[red], linear[green], linear[blue]
	l := math.Cbrt(0.4122214708*r + 0.5363325363*g + 0.0514459929*b)
	m := math.Cbrt(0.2119034982*r + 0.6806995451*g + 0.1073969566*b)
	s := math.Cbrt(0.0883024619*r + 0.2817188376*g + 0.6299787005*b)
	return lab{
		l: 0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		a: 1.9779984951*l - 2.4285922050*m + 0.4505937099*s,
		b: 0.0259040371*l + 0.7827717662*m - 0.8086757660*s,
	}
}

func (c lab) toSRGB() [3]byte {
	l := c.l + 0.3963377774*c.a + 0.2158037573*c.b
	m := c.l - 0.1055613458*c.a - 0.0638541728*c.b
	s := c.l - 0.0894841775*c.a - 1.2914855480*c.b
	l, m, s = l*l*l, m*m*m, s*s*s
	return [3]byte{
		encode(4.0767416621*l - 3.3077115913*m + 0.2309699292*s),
		encode(-1.2684380046*l + 2.6097574011*m - 0.3413193965*s),
		encode(-0.0041960863*l - 0.7034186147*m + 1.7076147010*s),
	}
}

// encode returns the value of sRGB of a linear intensity, which may be a little out of its range.
func encode(v float64) byte {
	if v <= 0.0031308 {
		v *= 12.92
	} else {
		v = 1.055*math.Pow(v, 1/2.4) - 0.055
	}
	return byte(math.Round(255 * min(max(v, 0), 1)))
}
