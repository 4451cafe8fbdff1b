package browser_test

import (
	"image"
	"image/png"
	"math"
	"os"
	"testing"
)

// Bounds of how far a picture of the documentation may be from the one that was taken now. They are about what is seen: a date or another version of the browser
// changes the edges of letters, a page that looks different changes whole cells.
const (
	cellSize    = 20   // pixels of a side
	maxMean     = 0.02 // of all cells, from 0 (the same) to 1 (black instead of white)
	farCell     = 0.15 // a cell that looks different
	maxFar      = 0.03 // of the cells
	staleAdvice = "make screenshots takes the pictures of the documentation again"
)

// compare requires a picture of the documentation that shows the page as it is now.
func compare(t *testing.T, documented, now string) {
	t.Helper()
	was, is := readPicture(t, documented), readPicture(t, now)
	if was.Bounds() != is.Bounds() {
		t.Errorf("%s has %v, and the page now %v: %s", documented, was.Bounds().Max, is.Bounds().Max, staleAdvice)
		return
	}
	if mean, far := difference(was, is); mean > maxMean || far > maxFar {
		t.Errorf("%s is stale: it differs by %.3f on average, and %.1f %% of it look different: %s", documented, mean, 100*far, staleAdvice)
	}
}

// difference returns how far two pictures of the same size are from each other, from 0 to 1, and the share of cells that look different.
func difference(a, b image.Image) (mean, far float64) {
	bounds := a.Bounds()
	cells := 0.0
	for y := bounds.Min.Y; y < bounds.Max.Y; y += cellSize {
		for x := bounds.Min.X; x < bounds.Max.X; x += cellSize {
			cell := image.Rect(x, y, x+cellSize, y+cellSize).Intersect(bounds)
			one, two := meanColor(a, cell), meanColor(b, cell)
			apart := 0.0
			for n := range one {
				apart = max(apart, math.Abs(one[n]-two[n]))
			}
			cells++
			mean += apart
			if apart > farCell {
				far++
			}
		}
	}
	return mean / cells, far / cells
}

// meanColor returns the mean of the channels of a cell, each from 0 to 1.
func meanColor(of image.Image, cell image.Rectangle) (mean [3]float64) {
	for y := cell.Min.Y; y < cell.Max.Y; y++ {
		for x := cell.Min.X; x < cell.Max.X; x++ {
			r, g, b, _ := of.At(x, y).RGBA()
			for n, v := range [3]uint32{r, g, b} {
				mean[n] += float64(v) / math.MaxUint16 / float64(cell.Dx()*cell.Dy())
			}
		}
	}
	return mean
}

func readPicture(t *testing.T, path string) image.Image {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer func() { _ = file.Close() }()
	picture, err := png.Decode(file)
	must(t, err)
	return picture
}

func TestDifference_IsSmallForOtherEdgesAndLargeForAnotherPage(t *testing.T) {
	t.Parallel()
	draw := func(change func(x, y int) bool) image.Image {
		picture := image.NewGray(image.Rect(0, 0, 400, 300))
		for n := range picture.Pix {
			picture.Pix[n] = 240
			if change(n%400, n/400) {
				picture.Pix[n] = 20
			}
		}
		return picture
	}
	text := func(x, y int) bool { return x > 40 && x < 360 && y%20 > 8 && y%20 < 14 && x%7 < 2 }
	page := draw(text)
	for name, tt := range map[string]struct {
		other image.Image
		stale bool
	}{
		"the same":                  {page, false},
		"letters with other edges":  {draw(func(x, y int) bool { return text(x+1, y) }), false},
		"another date":              {draw(func(x, y int) bool { return text(x, y) != (x > 100 && x < 150 && y > 60 && y < 74 && x%5 == 0) }), false},
		"a panel that was not here": {draw(func(x, y int) bool { return text(x, y) || x > 100 && x < 300 && y > 100 && y < 200 }), true},
		"an empty page":             {draw(func(int, int) bool { return false }), true},
		"dark":                      {draw(func(x, y int) bool { return !text(x, y) }), true},
	} {
		if mean, far := difference(page, tt.other); (mean > maxMean || far > maxFar) != tt.stale {
			t.Errorf("%s: %.4f, %.4f", name, mean, far)
		}
	}
}
