// Package geometry computes the sizes of pictures. The runtime (package media) tells clients a size before the picture
// is made, the image worker makes it, and package imaging checks it: all three call this package.
package geometry

// Size is a size in pixels.
type Size struct{ Width, Height int }

// Pixels returns width times height.
func (s Size) Pixels() int64 { return int64(s.Width) * int64(s.Height) }

// Fit says how an image gets the size of a box.
type Fit uint8

// The fits. None enlarges the image.
const (
	Inside Fit = iota // the whole image, as large as fits into the box
	Cover             // the box is filled, what exceeds it is cut off
	Pad               // Inside, in the middle of the box
)

// Layout returns the size to which an image is shrunk, and that of the picture, which is cut out of it or has a margin
// around it. Both are at least 1 x 1. A side of the box may be 0, which is no bound; a box with such a side is never cut
// or padded.
func Layout(fit Fit, box, image Size) (shrunk, picture Size) {
	image = Size{max(image.Width, 1), max(image.Height, 1)}
	bounded := box.Width > 0 && box.Height > 0
	switch {
	case fit == Cover && bounded:
		return cover(box, image)
	case fit == Pad && bounded:
		return inside(box, image), box
	}
	shrunk = inside(box, image)
	return shrunk, shrunk
}

// inside returns the size of the whole image in a box.
func inside(box, image Size) Size {
	if box.Width <= 0 || box.Width > image.Width {
		box.Width = image.Width
	}
	if box.Height <= 0 || box.Height > image.Height {
		box.Height = image.Height
	}
	if wider(image, box) {
		return Size{box.Width, scale(image.Height, box.Width, image.Width)}
	}
	return Size{scale(image.Width, box.Height, image.Height), box.Height}
}

// cover returns the size of an image that fills a box. A box that is larger than the image shrinks, with its aspect
// ratio, until the image fills it.
func cover(box, image Size) (shrunk, picture Size) {
	box = inside(image, box)
	if wider(image, box) {
		return Size{max(scale(image.Width, box.Height, image.Height), box.Width), box.Height}, box
	}
	return Size{box.Width, max(scale(image.Height, box.Width, image.Width), box.Height)}, box
}

// wider reports whether a is at least as wide as b for its height.
func wider(a, b Size) bool { return int64(a.Width)*int64(b.Height) >= int64(b.Width)*int64(a.Height) }

// scale returns length x to / from, rounded, and at least 1.
func scale(length, to, from int) int {
	product := 2*int64(length)*int64(to) + int64(from)
	return max(int(product/(2*int64(from))), 1)
}

// Offset returns where a picture of some length begins in a longer image, so that the point, in thousandths of the
// image, is in its middle, or as near to it as the image allows.
func Offset(image, picture, point int) int {
	middle := int64(image) * int64(point) / 1000
	return int(min(max(middle-int64(picture)/2, 0), max(int64(image)-int64(picture), 0)))
}
