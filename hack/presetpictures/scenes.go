package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
)

// photo is a file that the page shows pictures of. All are drawn by this program, so that they have no author but the
// project, and the same bytes in every run.
type photo struct {
	name, mimeType string
	data           []byte
	// focusX and focusY are the focus point of its item, in fractions of the image as it is displayed.
	focusX, focusY float64
}

// photos draws the files.
func photos() ([]photo, error) {
	coast, err := encodeJPEG(render(1600, 800, coastAt), 1)
	if err != nil {
		return nil, err
	}
	// A camera that is held upright stores the pixels as its sensor has them, and how to turn them.
	garden, err := encodeJPEG(turned(render(1000, 1500, gardenAt)), 6)
	if err != nil {
		return nil, err
	}
	var badge bytes.Buffer
	if err := png.Encode(&badge, render(300, 300, badgeAt)); err != nil {
		return nil, fmt.Errorf("encode the badge: %w", err)
	}
	return []photo{
		{name: "coast.jpg", mimeType: "image/jpeg", data: coast, focusX: 0.61, focusY: 0.45},
		{name: "garden.jpg", mimeType: "image/jpeg", data: garden, focusX: 0.62, focusY: 0.25},
		{name: "badge.png", mimeType: "image/png", data: badge.Bytes(), focusX: 0.5, focusY: 0.5},
	}, nil
}

// encodeJPEG encodes a picture with an EXIF segment that has an orientation.
func encodeJPEG(picture image.Image, orientation uint16) ([]byte, error) {
	var file bytes.Buffer
	if err := jpeg.Encode(&file, picture, &jpeg.Options{Quality: 94}); err != nil {
		return nil, fmt.Errorf("encode a photo: %w", err)
	}
	// One directory with one entry: the tag 0x0112 of the type SHORT.
	exif := []byte("Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01")
	exif = binary.BigEndian.AppendUint16(exif, orientation)
	exif = append(exif, 0, 0, 0, 0, 0, 0) // the rest of the value, and no next directory
	segment := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(exif)+2))
	return append(append(append(file.Bytes()[:2:2], segment...), exif...), file.Bytes()[2:]...), nil
}

// turned rotates a picture by 90 degrees against the clock: with the orientation 6 it is upright again.
func turned(picture *image.NRGBA) *image.NRGBA {
	width, height := picture.Rect.Dx(), picture.Rect.Dy()
	stored := image.NewNRGBA(image.Rect(0, 0, height, width))
	for y := range width {
		for x := range height {
			stored.SetNRGBA(x, y, picture.NRGBAAt(width-1-y, x))
		}
	}
	return stored
}

// rgb is a color with channels from 0 to 1, and its opacity.
type rgb struct{ r, g, b, a float64 }

func hex(value uint32) rgb {
	return rgb{float64(value>>16) / 255, float64(value>>8&255) / 255, float64(value&255) / 255, 1}
}

// mix returns the color between two; t is cut to 0 to 1.
func mix(from, to rgb, t float64) rgb {
	t = min(max(t, 0), 1)
	return rgb{from.r + (to.r-from.r)*t, from.g + (to.g-from.g)*t, from.b + (to.b-from.b)*t, from.a + (to.a-from.a)*t}
}

// lit returns the color with another brightness.
func (c rgb) lit(by float64) rgb { return rgb{c.r * by, c.g * by, c.b * by, c.a} }

// step rises smoothly from 0 at low to 1 at high.
func step(low, high, x float64) float64 {
	t := min(max((x-low)/(high-low), 0), 1)
	return t * t * (3 - 2*t)
}

// render draws a scene. at returns the color of a point: x from 0 to width/height, y from 0 to 1. Each pixel is the
// mean of four points.
func render(width, height int, at func(x, y float64) rgb) *image.NRGBA {
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	channel := func(sum float64) uint8 { return uint8(math.Round(min(max(sum, 0), 1) * 255)) }
	for py := range height {
		for px := range width {
			var sum rgb
			for i := range 4 {
				c := at((float64(px)+0.25+0.5*float64(i&1))/float64(height), (float64(py)+0.25+0.5*float64(i>>1))/float64(height))
				sum.r, sum.g, sum.b, sum.a = sum.r+c.r*c.a, sum.g+c.g*c.a, sum.b+c.b*c.a, sum.a+c.a
			}
			if sum.a == 0 {
				continue
			}
			picture.SetNRGBA(px, py, color.NRGBA{channel(sum.r / sum.a), channel(sum.g / sum.a), channel(sum.b / sum.a), channel(sum.a / 4)})
		}
	}
	return picture
}

// random returns a number from 0 to 1 for a point of a lattice.
func random(x, y int) float64 {
	h := uint64(x)*0x9e3779b97f4a7c15 ^ uint64(y)*0xc2b2ae3d27d4eb4f
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	return float64(h>>11) / (1 << 53)
}

// noise is smooth between the points of the lattice.
func noise(x, y float64) float64 {
	ix, iy := math.Floor(x), math.Floor(y)
	fx, fy := x-ix, y-iy
	fx, fy = fx*fx*(3-2*fx), fy*fy*(3-2*fy)
	i, j := int(ix), int(iy)
	top := random(i, j)*(1-fx) + random(i+1, j)*fx
	bottom := random(i, j+1)*(1-fx) + random(i+1, j+1)*fx
	return top*(1-fy) + bottom*fy
}

// clouds is noise of several sizes, from 0 to 1.
func clouds(x, y float64, octaves int) float64 {
	sum, weight, total := 0.0, 1.0, 0.0
	for range octaves {
		sum, total = sum+weight*noise(x, y), total+weight
		x, y, weight = 2.03*x+17, 2.03*y+31, weight/2
	}
	return sum / total
}

// disc reports how much of a point an ellipse covers.
func disc(x, y, cx, cy, rx, ry float64) float64 {
	return 1 - step(0.97, 1.03, math.Hypot((x-cx)/rx, (y-cy)/ry))
}

// limb reports how much of a point a line with round ends covers.
func limb(x, y, x1, y1, x2, y2, radius float64) float64 {
	dx, dy := x2-x1, y2-y1
	t := min(max(((x-x1)*dx+(y-y1)*dy)/(dx*dx+dy*dy), 0), 1)
	return 1 - step(radius*0.95, radius*1.05, math.Hypot(x-x1-t*dx, y-y1-t*dy))
}

// coastAt is a coast: a hiker at the left, a calm sea with a boat, and a wood at the right. It is twice as wide as high.
func coastAt(x, y float64) rgb {
	const horizon = 0.47
	c := mix(hex(0x4f86c0), hex(0xf3d3a6), step(0, horizon, y))
	c = mix(c, hex(0xfff4e2), 0.75*step(0.5, 0.78, clouds(2.2*x, 7*y, 5))*step(0.5, 0.05, y))
	if ridge := 0.40 - 0.09*clouds(3*x+4, 1, 4); y > ridge {
		c = mix(hex(0x8fa3b8), hex(0xb9bfc2), step(ridge, horizon, y))
	}
	if y > horizon {
		depth := (y - horizon) / (1 - horizon)
		waves := clouds(9*x/(0.2+depth), 60*math.Sqrt(depth), 4)
		c = mix(hex(0xa9c3c9), hex(0x23566f), step(0, 0.7, depth)).lit(0.86 + 0.28*waves)
		c = mix(c, hex(0xffe2b0), 0.5*step(0.55, 0.75, waves)*step(0.25, 0, math.Abs(x-1.05)))
	}
	c = boatOn(c, x, y)
	c = woodOn(c, x, y)
	return hikerOn(c, x, y)
}

// boatOn draws a sailing boat at the focus point.
func boatOn(c rgb, x, y float64) rgb {
	x, y = 1.4*(x-1.22), 1.4*(y-0.45)
	if y > -0.13 && y < 0.03 { // two sails
		reach := (y + 0.13) / 0.16
		if x > 0.004 && x < 0.004+0.075*reach {
			c = hex(0xe4e0d6).lit(1 - 0.9*x)
		}
		if x < -0.004 && x > -0.004-0.05*reach {
			c = hex(0xd5c8b4).lit(0.95 + 1.5*x)
		}
	}
	if y > 0.035 && y < 0.062 && math.Abs(x) < 0.075-(y-0.035) {
		c = hex(0x6b5a52)
	}
	if math.Abs(x) < 0.0022 && y > -0.14 && y < 0.04 {
		c = hex(0x6b5a52)
	}
	return c
}

// woodOn draws conifers on a slope: most details of the picture.
func woodOn(c rgb, x, y float64) rgb {
	slope := 0.62 - 0.42*step(1.30, 1.95, x)
	if y > slope+0.03*clouds(8*x, 0, 3) {
		c = mix(hex(0x33502c), hex(0x6d7a3a), clouds(40*x, 40*y, 3))
	}
	for row := range 9 {
		base := float64(row) * 0.085
		for _, tree := range []int{int(math.Floor(x*22)) - 1, int(math.Floor(x * 22)), int(math.Floor(x*22)) + 1} {
			cx := (float64(tree) + random(tree, row)) / 22
			foot := 0.63 - 0.42*step(1.30, 1.95, cx) + base
			high := 0.14 + 0.10*random(tree+90, row)
			up := (foot - y) / high // 0 at the foot, 1 at the top
			if cx < 1.36 || up < 0 || up > 1 {
				continue
			}
			branches := 0.35 + 0.65*math.Mod(up*7, 1)
			reach := 0.052 * (1.05 - up) * (1.25 - 0.5*branches) * (0.8 + 0.5*noise(180*x, 180*y))
			if math.Abs(x-cx) < reach {
				needles := clouds(150*x, 110*y, 2)
				c = mix(hex(0x0a1f15), hex(0xc3cc84), 0.18+1.5*(needles-0.42)+0.42*(x-cx)/0.05).lit(0.75 + 0.05*float64(row))
			}
		}
	}
	return c
}

// hikerOn draws a meadow with a person in a red jacket.
func hikerOn(c rgb, x, y float64) rgb {
	if edge := 0.80 + 0.22*step(0.25, 1.25, x) - 0.03*clouds(5*x, 3, 3); y > edge {
		c = mix(hex(0x5d7a35), hex(0xa7a052), clouds(26*x, 60*y, 3)).lit(1.05 - 0.5*step(edge, 1.1, y))
	}
	x, y = x-0.34, y-0.50
	part := func(color uint32, cover, light float64) { c = mix(c, hex(color).lit(light), cover) }
	shade := 0.85 + 0.25*step(-0.05, 0.06, x) + 0.12*(clouds(60*x, 60*y, 3)-0.5)
	part(0x2f3440, limb(x, y, -0.022, 0.22, -0.034, 0.385, 0.021), shade) // legs
	part(0x3a4150, limb(x, y, 0.022, 0.22, 0.030, 0.385, 0.021), shade)
	part(0x4a2e1c, max(disc(x, y, -0.040, 0.398, 0.032, 0.014), disc(x, y, 0.038, 0.398, 0.032, 0.014)), shade)
	part(0xe8b020, limb(x, y, -0.052, 0.085, -0.052, 0.165, 0.034), shade) // backpack
	part(0xd0281e, limb(x, y, 0, 0.075, 0, 0.185, 0.056), shade)           // jacket
	part(0xb82018, limb(x, y, 0.045, 0.07, 0.085, 0.15, 0.020), shade)
	part(0xb82018, limb(x, y, 0.085, 0.15, 0.125, 0.11, 0.017), shade)
	part(0xe3ac87, disc(x, y, 0.134, 0.103, 0.017, 0.017), shade) // hand
	part(0xe3ac87, limb(x, y, 0.004, 0.005, 0.004, 0.03, 0.016), shade*0.85)
	part(0xe8b48f, disc(x, y, 0.006, -0.028, 0.034, 0.042), shade) // head
	part(0x2b5fa8, max(disc(x, y, 0.002, -0.052, 0.037, 0.026), disc(x, y, 0.030, -0.040, 0.028, 0.006)), shade)
	part(0x40281c, max(disc(x, y, 0.020, -0.028, 0.004, 0.005), disc(x, y, 0.034, -0.028, 0.003, 0.005)), 1)
	return c
}

// gardenAt is a portrait in front of a dark wood, with many flowers at the bottom. It is half as high again as wide.
func gardenAt(x, y float64) rgb {
	x, y = x*1.5, y*1.5 // x to 1, y to 1.5
	c := mix(hex(0x16261f), hex(0x2f4a3a), clouds(3*x, 3*y, 4))
	for i := range 26 { // lights that are out of focus
		cx, cy, r := random(i, 1), 0.75*random(i, 2), 0.02+0.05*random(i, 3)
		c = mix(c, hex(0x9fb08a), 0.20*(1-step(0.85, 1.1, math.Hypot(x-cx, y-cy)/r)))
	}
	if ground := 0.98 + 0.05*noise(7*x, 0); y > ground {
		c = mix(hex(0x2c4a22), hex(0x5f7d34), clouds(30*x, 12*y, 4))
	}
	c = personOn(c, x-0.62, y-0.36)
	for row := range 13 { // flowers, the nearer the larger
		depth := float64(row) / 12
		cy, size := 1.03+0.47*depth, 0.011+0.017*depth
		spacing := 2.3 * size
		for n := -1; n <= 1; n++ {
			column := int(math.Floor(x/spacing)) + n
			px := (float64(column) + 0.5 + 0.7*(random(column, row+40)-0.5)) * spacing
			py := cy + 1.6*size*(random(column, row+60)-0.5)
			angle, distance := math.Atan2(y-py, x-px), math.Hypot(x-px, y-py)
			if distance > size*(0.72+0.28*math.Cos(5*angle+6*random(column, row))) {
				continue
			}
			petal := []uint32{0x9fa58f, 0x6f7a8c, 0x8e8a6c, 0x7d7488}[int(4*random(column, row+80))]
			c = mix(hex(petal).lit(0.72+0.4*noise(220*x, 220*y)), hex(0x4c4a30), 1-step(0.28*size, 0.34*size, distance))
		}
	}
	return c
}

// personOn draws a person whose head is at the origin.
func personOn(c rgb, x, y float64) rgb {
	part := func(color uint32, cover, light float64) { c = mix(c, hex(color).lit(light), cover) }
	cloth := 0.9 + 0.35*step(-0.2, 0.2, x) + 0.10*(clouds(70*x, 70*y, 2)-0.5)
	skin := 0.88 + 0.20*step(-0.08, 0.08, x)
	part(0x3a2a22, limb(x, y, 0, -0.02, 0.005, 0.10, 0.118), 0.9+0.3*noise(160*x, 14*y)) // hair
	part(0x39424f, limb(x, y, -0.135, 0.30, -0.185, 0.80, 0.062), cloth*0.85)
	part(0x39424f, limb(x, y, 0.135, 0.30, 0.185, 0.80, 0.062), cloth*1.05)
	part(0x434d5c, limb(x, y, 0, 0.34, 0, 0.95, 0.175), cloth)
	part(0xd79d7c, limb(x, y, 0, 0.09, 0, 0.17, 0.045), skin*0.86)
	part(0xe06a1c, max(limb(x, y, -0.075, 0.165, 0.075, 0.165, 0.048), limb(x, y, 0.05, 0.18, 0.075, 0.34, 0.034)), cloth) // scarf
	part(0xe9b795, disc(x, y, 0, 0.01, 0.082, 0.108), skin)
	part(0x3a2a22, min(disc(x, y, 0, -0.075, 0.10, 0.062), 1-step(-0.052, -0.044, y-0.25*math.Abs(x))), 0.95+0.3*noise(160*x, 14*y))
	for _, side := range []float64{-1, 1} {
		part(0xfaf6f0, disc(x, y, 0.032*side, -0.005, 0.015, 0.008), 1)
		part(0x3b2f2a, disc(x, y, 0.032*side, -0.005, 0.007, 0.008), 1)
		part(0x5a4030, limb(x, y, 0.018*side, -0.027, 0.047*side, -0.028, 0.0035), 1)
	}
	part(0xc98f70, limb(x, y, 0.003, 0.01, 0.006, 0.032, 0.005), 1)
	part(0xb04a4a, disc(x, y, 0, 0.062, 0.027, 0.009), 1)
	return c
}

// badgeAt is a round mark on a transparent ground.
func badgeAt(x, y float64) rgb {
	x, y = x-0.5, y-0.5
	none := rgb{}
	radius := math.Hypot(x, y)
	switch angle := math.Atan2(y, x); {
	case radius > 0.44+0.03*math.Cos(16*angle):
		return none
	case radius > 0.38:
		return hex(0x17495c)
	case radius > 0.355:
		return none
	}
	c := mix(hex(0x2b8aa0), hex(0x1b5f78), step(-0.35, 0.35, y))
	if y > 0.08 {
		c = hex(0xf2e6cf)
	}
	if peak := 0.14 - 0.30*math.Max(0, 1-math.Abs(x+0.06)/0.22); y > peak && y < 0.14 {
		c = hex(0x17495c)
		if y < peak+0.10 && y < -0.04 {
			c = hex(0xfdfbf5)
		}
	}
	if math.Hypot(x-0.16, y+0.17) < 0.06 {
		c = hex(0xf0b429)
	}
	return c
}
