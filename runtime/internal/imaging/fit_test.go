package imaging

import (
	"errors"
	"testing"

	"mediastack.dev/runtime/geometry"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/media"
)

// A picture that must fit a number of bytes may be smaller than its recipe has it, but neither larger nor longer: its worker was
// compromised then.
func TestCheckSize_OfAPictureThatMustFit(t *testing.T) {
	t.Parallel()
	output := protocol.Output{Width: 100, Height: 100, Fit: geometry.Inside, Encoding: imageformat.JPEG, MaxBytes: 5000}
	facts := media.Facts{Width: 400, Height: 200}
	for name, c := range map[string]struct {
		width, height, bytes int
		valid                bool
	}{
		"all pixels":   {100, 50, 5000, true},
		"fewer pixels": {75, 38, 5000, true},
		"too wide":     {101, 50, 10, false},
		"too high":     {100, 51, 10, false},
		"too long":     {100, 50, 5001, false},
	} {
		picture := media.Picture{Width: c.width, Height: c.height, Data: make([]byte, c.bytes)}
		if err := checkSize(picture, output, facts); (err == nil) != c.valid || err != nil && !errors.Is(err, protocol.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
		output := output
		output.MaxBytes = 0
		if err := checkSize(picture, output, facts); (err == nil) != (c.width == 100 && c.height == 50) {
			t.Errorf("%s, without a bound: %v", name, err)
		}
	}
}
