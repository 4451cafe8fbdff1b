//go:build cgo

package main

import (
	"time"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/internal/imaging/capturefile"
	"mediastack.dev/runtime/internal/imaging/protocol"
)

// readCapture returns what a file says of how it was made, without the location unless the job asks for it. A file on which a reader fails says
// nothing: its pictures can be made nevertheless.
func readCapture(file []byte, job protocol.Job) (c capture.Capture) {
	defer func() {
		if recover() != nil {
			c = capture.Capture{}
		}
	}()
	c = capturefile.Read(file).Clean(time.Now())
	if !job.Location {
		c = c.WithoutLocation()
	}
	return c
}
