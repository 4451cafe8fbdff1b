//go:build cgo

package main

import (
	"image"

	"go.n16f.net/thumbhash"

	"mediastack.dev/runtime/internal/imaging/dominant"
	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/internal/imaging/vips"
)

// previewSide is the largest width and height of which a ThumbHash and a dominant color are made.
const previewSide = 100

// preview adds to facts what a page shows before the thumbnail is loaded; nothing if the memory does not suffice.
func preview(thumbnail vips.Output, facts *protocol.Facts) {
	pixels, err := vips.Pixels(thumbnail.Data, previewSide)
	if err != nil {
		return
	}
	defer pixels.Free()
	const channels = 4
	if len(pixels.Data) != channels*pixels.Width*pixels.Height {
		return
	}
	facts.Placeholder = string(thumbhash.EncodeImage(&image.NRGBA{Pix: pixels.Data, Stride: channels * pixels.Width, Rect: image.Rect(0, 0, pixels.Width, pixels.Height)}))
	facts.DominantColor, facts.HasColor = dominant.Color(pixels.Data)
}
