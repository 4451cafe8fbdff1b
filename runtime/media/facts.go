package media

import (
	"time"

	"mediastack.dev/runtime/capture"
)

// Facts are what is known about the file of an item. A zero value is not known.
type Facts struct {
	// Width and Height of an image in pixels, as it is displayed. An image that is broken or over a limit
	// has none.
	Width, Height int
	// Placeholder is the ThumbHash of an image, and DominantColor the color of the largest group of similar pixels, as
	// #rrggbb in sRGB.
	Placeholder   []byte
	DominantColor string
	// Duration of a recording in whole milliseconds, and Pages of a document, if the first bytes of the
	// file say so.
	Duration time.Duration
	Pages    int
	// Capture is what the file says of how it was made. CaptureRead is set once it was read, whatever it says.
	Capture     capture.Capture
	CaptureRead bool
}

// HasSize reports whether the width and the height are known.
func (f Facts) HasSize() bool { return f.Width > 0 && f.Height > 0 }

// Known reports whether anything is known.
func (f Facts) Known() bool { return f.Width > 0 || f.Duration > 0 || f.Pages > 0 }
