//go:build cgo

package main

import (
	"fmt"
	"strings"

	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/internal/imaging/vips"
)

// maxWebPSide is the largest width and height that WebP can hold.
const maxWebPSide = 1<<14 - 1

// refusal is the file's fault, not the worker's.
type refusal struct {
	reason protocol.Reason
	text   string
}

func (r *refusal) Error() string { return r.reason.String() + ": " + r.text }

func refuse(reason protocol.Reason, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// failed is what libvips could not do: for want of memory, because its encoder failed, or
// else because the file is broken.
func failed(err error) *refusal {
	reason := protocol.ReasonBroken
	switch {
	case strings.Contains(err.Error(), "out of memory"):
		reason = protocol.ReasonMemory
	case strings.Contains(err.Error(), "webpsave"):
		reason = protocol.ReasonEncode
	}
	return &refusal{reason, err.Error()}
}

// answer takes what becomes of each derivative, in their order.
type answer interface {
	made(variant protocol.Variant, output vips.Output) error
	lacks(variant protocol.Variant, why *refusal) error
}

// derive makes what the job asks for. Each derivative is made, or fails, alone; the error is
// a *refusal if none was made.
func derive(file []byte, job protocol.Job, to answer) error {
	file, animated := withoutTexts(file)
	header, err := vips.ReadHeader(file)
	if err != nil {
		return failed(err)
	}
	if err := check(header, job); err != nil {
		return err
	}
	convert := job.WebP && converts(header) && !animated
	var decoded *vips.Image
	if convert && header.Format == vips.PNG {
		// PNG can't be shrunk while it is loaded: decode it once for both. Where there is no
		// memory for that, each of them reads it row by row.
		if decoded, err = vips.Decode(file); err != nil && failed(err).reason == protocol.ReasonBroken {
			return failed(err)
		}
		defer decoded.Free()
	}
	thumbnail, noThumbnail := bounded(job.MaxOutput)(vips.Thumbnail(file, decoded, int(job.Width), int(job.Height)))
	defer thumbnail.Free()
	if noThumbnail == nil {
		if err := to.made(protocol.Thumbnail, thumbnail); err != nil || !convert {
			return err
		}
	} else if !convert || noThumbnail.reason == protocol.ReasonBroken {
		return noThumbnail
	}
	conversion, noConversion := bounded(job.MaxOutput - uint64(len(thumbnail.Data)))(conversionOf(file, decoded, int(job.Quality)))
	defer conversion.Free()
	switch {
	case noThumbnail != nil && noConversion != nil:
		return noThumbnail
	case noConversion != nil:
		return to.lacks(protocol.WebP, noConversion)
	case noThumbnail != nil:
		if err := to.lacks(protocol.Thumbnail, noThumbnail); err != nil {
			return err
		}
	}
	return to.made(protocol.WebP, conversion)
}

// bounded refuses an output of more than room bytes.
func bounded(room uint64) func(vips.Output, error) (vips.Output, *refusal) {
	return func(output vips.Output, err error) (vips.Output, *refusal) {
		switch {
		case err != nil:
			return vips.Output{}, failed(err)
		case uint64(len(output.Data)) > room:
			output.Free()
			return vips.Output{}, &refusal{protocol.ReasonOutput, fmt.Sprintf("more than %d bytes of derivatives are left for it", room)}
		}
		return output, nil
	}
}

// conversionOf makes a conversion. A large image with transparency may need more memory than
// there is: then another try is made in the way that needs least, without the decoded image
// and lossless. It frees decoded for that.
func conversionOf(file []byte, decoded *vips.Image, quality int) (vips.Output, error) {
	output, err := vips.Convert(file, decoded, quality, false)
	if err == nil || failed(err).reason == protocol.ReasonBroken {
		return output, err
	}
	decoded.Free()
	vips.Trim()
	if output, again := vips.Convert(file, nil, quality, true); again == nil {
		return output, nil
	}
	return vips.Output{}, err
}

// check holds the header against the limits. Nothing was decoded yet.
func check(header vips.Header, job protocol.Job) error {
	if header.Format == vips.None {
		return refuse(protocol.ReasonFormat, "none of the formats that are handled")
	}
	width, height, frames := uint64(max(header.Width, 0)), uint64(max(header.Height, 0)), uint64(max(header.Frames, 1))
	switch {
	case width == 0 || height == 0:
		return refuse(protocol.ReasonBroken, "an image without pixels")
	case width > job.MaxPixels/height:
		return refuse(protocol.ReasonPixels, "%d x %d pixels", width, height)
	case frames > uint64(job.MaxFrames):
		return refuse(protocol.ReasonFrames, "%d frames", frames)
	}
	return nil
}

// converts reports whether there is a WebP conversion of files like this: of a JPEG or
// PNG of a size that WebP can hold.
func converts(header vips.Header) bool {
	return (header.Format == vips.JPEG || header.Format == vips.PNG) && header.Width <= maxWebPSide && header.Height <= maxWebPSide
}
