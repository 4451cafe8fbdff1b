//go:build cgo

package main

import (
	"testing"

	"mediastack.dev/runtime/geometry"
	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/internal/imaging/vips"
)

// A factor of 1.5 is left for the better filter.
func TestLoadShrink_LeavesAFactor(t *testing.T) {
	t.Parallel()
	s := source{header: vips.Header{Format: vips.JPEG, Width: 4800, Height: 3600}}
	for _, c := range []struct {
		output protocol.Output
		want   int
	}{
		{protocol.Output{}, 1}, // the original size
		{protocol.Output{Width: 4800}, 1},
		{protocol.Output{Width: 1601}, 1},
		{protocol.Output{Width: 1600}, 2},
		{protocol.Output{Width: 801}, 2},
		{protocol.Output{Width: 800}, 4},
		{protocol.Output{Width: 401}, 4},
		{protocol.Output{Width: 400}, 8},
		{protocol.Output{Width: 100}, 8},
		{protocol.Output{Width: 4000, Height: 300}, 8},                      // the height decides
		{protocol.Output{Width: 400, Height: 1200, Fit: geometry.Cover}, 2}, // what is cut is shrunk less
	} {
		shrunk, _ := geometry.Layout(c.output.Fit, box(c.output), s.size())
		if got := s.loadShrink(c.output, shrunk); got != c.want {
			t.Errorf("%d x %d: shrunk by %d, want %d", c.output.Width, c.output.Height, got, c.want)
		}
	}
}
