package protocol_test

import (
	"bytes"
	"image"
	"testing"

	"go.n16f.net/thumbhash"

	"mediastack.dev/runtime/internal/imaging/protocol"
)

// FuzzPlaceholder makes the ThumbHash of arbitrary pixels, as the worker does: the runtime accepts it, and
// pages can decode it.
func FuzzPlaceholder(f *testing.F) {
	f.Add(uint8(1), uint8(1), []byte{0})
	f.Add(uint8(100), uint8(1), []byte{255, 0, 0, 255})
	f.Add(uint8(1), uint8(100), []byte{1, 2, 3, 0, 255, 254, 253, 128})
	f.Add(uint8(100), uint8(75), bytes.Repeat([]byte{0, 0, 0, 255, 255, 255, 255, 255}, 50))
	f.Fuzz(func(t *testing.T, width, height uint8, pixels []byte) {
		w, h := 1+int(width)%100, 1+int(height)%100
		picture := image.NewNRGBA(image.Rect(0, 0, w, h))
		for at := 0; len(pixels) > 0 && at < len(picture.Pix); {
			at += copy(picture.Pix[at:], pixels)
		}
		hash := thumbhash.EncodeImage(picture)
		var out bytes.Buffer
		sent := protocol.Facts{Number: 1, Width: uint32(w), Height: uint32(h), Placeholder: string(hash)}
		must(t, protocol.NewWriter(&out).Facts(sent))
		frame, err := protocol.NewReader(&out).Next()
		must(t, err)
		if got, err := frame.Facts(); err != nil || got != sent {
			t.Fatalf("%d x %d pixels have the placeholder %x: %+v, %v", w, h, hash, got, err)
		}
		if decoded, err := thumbhash.DecodeImage(hash); err != nil || decoded.Bounds().Empty() {
			t.Fatalf("%x cannot be decoded: %v", hash, err)
		}
	})
}
