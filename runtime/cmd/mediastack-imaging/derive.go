//go:build cgo

package main

import (
	"fmt"
	"strings"

	"mediastack.dev/runtime/internal/imaging/vips"
	"mediastack.dev/runtime/internal/imaging/wire"
)

// maxWebPSide is the largest width and height that WebP can hold.
const maxWebPSide = 1<<14 - 1

// refusal is the file's fault, not the worker's.
type refusal struct {
	reason wire.Reason
	text   string
}

func (r *refusal) Error() string { return r.reason.String() + ": " + r.text }

func refuse(reason wire.Reason, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// failed is what libvips could not do: for want of memory, or else because the file is broken.
func failed(err error) error {
	reason := wire.ReasonBroken
	if strings.Contains(err.Error(), "out of memory") {
		reason = wire.ReasonMemory
	}
	return refuse(reason, "%v", err)
}

type derivative struct {
	vips.Output
	variant wire.Variant
}

type derivatives []derivative

func (d derivatives) free() {
	for _, one := range d {
		one.Free()
	}
}

// derive makes what the job asks for. What it gave must be freed, after an error too.
func derive(file []byte, job wire.Job) (made derivatives, err error) {
	file, animated := withoutTexts(file)
	header, err := vips.ReadHeader(file)
	if err != nil {
		return nil, failed(err)
	}
	if err := check(header, job); err != nil {
		return nil, err
	}
	convert := job.WebP && converts(header) && !animated
	var decoded *vips.Image
	if convert && header.Format == vips.PNG {
		// PNG can't be shrunk while it is loaded: decode it once for both.
		if decoded, err = vips.Decode(file); err != nil {
			return nil, failed(err)
		}
		defer decoded.Free()
	}
	var total uint64
	add := func(variant wire.Variant, output vips.Output, err error) error {
		if err != nil {
			return failed(err)
		}
		made = append(made, derivative{output, variant})
		if total += uint64(len(output.Data)); total > job.MaxOutput {
			return refuse(wire.ReasonOutput, "more than %d bytes of derivatives", job.MaxOutput)
		}
		return nil
	}
	output, err := vips.Thumbnail(file, decoded, int(job.Width), int(job.Height))
	if err := add(wire.Thumbnail, output, err); err != nil {
		return made, err
	}
	if convert {
		output, err := vips.Convert(file, decoded, int(job.Quality))
		if err := add(wire.WebP, output, err); err != nil {
			return made, err
		}
	}
	return made, nil
}

// check holds the header against the limits. Nothing was decoded yet.
func check(header vips.Header, job wire.Job) error {
	if header.Format == vips.None {
		return refuse(wire.ReasonFormat, "none of the formats that are handled")
	}
	width, height, frames := uint64(max(header.Width, 0)), uint64(max(header.Height, 0)), uint64(max(header.Frames, 1))
	switch {
	case width == 0 || height == 0:
		return refuse(wire.ReasonBroken, "an image without pixels")
	case width > job.MaxPixels/height:
		return refuse(wire.ReasonPixels, "%d x %d pixels", width, height)
	case frames > uint64(job.MaxFrames):
		return refuse(wire.ReasonFrames, "%d frames", frames)
	}
	return nil
}

// converts tells whether there is a WebP conversion of files like this: of a JPEG or
// PNG of a size that WebP can hold.
func converts(header vips.Header) bool {
	return (header.Format == vips.JPEG || header.Format == vips.PNG) && header.Width <= maxWebPSide && header.Height <= maxWebPSide
}
