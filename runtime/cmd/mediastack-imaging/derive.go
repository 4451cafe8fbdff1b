//go:build cgo

package main

import (
	"fmt"
	"strings"

	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/internal/imaging/vips"
)

// maxWebPSide is the maximum width and height of WebP.
const maxWebPSide = 1<<14 - 1

// rejectedError is the error for a file that can't be processed.
type rejectedError struct {
	reason protocol.Reason
	text   string
}

func (r *rejectedError) Error() string { return r.reason.String() + ": " + r.text }

func reject(reason protocol.Reason, format string, args ...any) error {
	return &rejectedError{reason, fmt.Sprintf(format, args...)}
}

// classify returns an error of libvips with its reason: lack of memory, a failed encoder,
// or else a corrupt file.
func classify(err error) *rejectedError {
	reason := protocol.ReasonCorrupt
	switch {
	case strings.Contains(err.Error(), "out of memory"):
		reason = protocol.ReasonMemory
	case strings.Contains(err.Error(), "webpsave"):
		reason = protocol.ReasonEncode
	}
	return &rejectedError{reason, err.Error()}
}

// derivativeSink receives each derivative, or its error, in the order of the variants.
type derivativeSink interface {
	sendDerivative(variant protocol.Variant, output vips.Output) error
	sendError(variant protocol.Variant, cause *rejectedError) error
}

// derive creates the derivatives of a job. Each may fail without the other; the error is a
// *rejectedError if there is none.
func derive(file []byte, job protocol.Job, sink derivativeSink) error {
	file, animated := stripTextChunks(file)
	header, err := vips.ReadHeader(file)
	if err != nil {
		return classify(err)
	}
	if err := checkLimits(header, job); err != nil {
		return err
	}
	wantWebP := job.WebP && isConvertible(header) && !animated
	var decoded *vips.Image
	if wantWebP && header.Format == vips.PNG {
		// libvips can't shrink a PNG while loading it: decode it once for both. With too little
		// memory for that, each of them reads it row by row.
		if decoded, err = vips.Decode(file); err != nil && classify(err).reason == protocol.ReasonCorrupt {
			return classify(err)
		}
		defer decoded.Free()
	}
	thumbnail, thumbnailErr := bounded(job.MaxOutput)(vips.Thumbnail(file, decoded, int(job.Width), int(job.Height)))
	defer thumbnail.Free()
	if thumbnailErr == nil {
		if err := sink.sendDerivative(protocol.Thumbnail, thumbnail); err != nil || !wantWebP {
			return err
		}
	} else if !wantWebP || thumbnailErr.reason == protocol.ReasonCorrupt {
		return thumbnailErr
	}
	conversion, conversionErr := bounded(job.MaxOutput - uint64(len(thumbnail.Data)))(convert(file, decoded, int(job.Quality)))
	defer conversion.Free()
	switch {
	case thumbnailErr != nil && conversionErr != nil:
		return thumbnailErr
	case conversionErr != nil:
		return sink.sendError(protocol.WebP, conversionErr)
	case thumbnailErr != nil:
		if err := sink.sendError(protocol.Thumbnail, thumbnailErr); err != nil {
			return err
		}
	}
	return sink.sendDerivative(protocol.WebP, conversion)
}

// bounded rejects an output of more than remaining bytes.
func bounded(remaining uint64) func(vips.Output, error) (vips.Output, *rejectedError) {
	return func(output vips.Output, err error) (vips.Output, *rejectedError) {
		switch {
		case err != nil:
			return vips.Output{}, classify(err)
		case uint64(len(output.Data)) > remaining:
			output.Free()
			return vips.Output{}, &rejectedError{protocol.ReasonOutput, fmt.Sprintf("more than the remaining %d bytes", remaining)}
		}
		return output, nil
	}
}

// convert converts a file to WebP. A large image with transparency may need more memory than
// there is: convert then frees decoded and tries again with the least memory, lossless and
// without the decoded image.
func convert(file []byte, decoded *vips.Image, quality int) (vips.Output, error) {
	output, err := vips.Convert(file, decoded, quality, false)
	if err == nil || classify(err).reason == protocol.ReasonCorrupt {
		return output, err
	}
	decoded.Free()
	vips.Trim()
	if output, retryErr := vips.Convert(file, nil, quality, true); retryErr == nil {
		return output, nil
	}
	return vips.Output{}, err
}

// checkLimits checks the header against the limits of a job, before anything is decoded.
func checkLimits(header vips.Header, job protocol.Job) error {
	if header.Format == vips.None {
		return reject(protocol.ReasonFormat, "not a supported format")
	}
	width, height, frames := uint64(max(header.Width, 0)), uint64(max(header.Height, 0)), uint64(max(header.Frames, 1))
	switch {
	case width == 0 || height == 0:
		return reject(protocol.ReasonCorrupt, "an image without pixels")
	case width > job.MaxPixels/height:
		return reject(protocol.ReasonPixels, "%d x %d pixels", width, height)
	case frames > uint64(job.MaxFrames):
		return reject(protocol.ReasonFrames, "%d frames", frames)
	}
	return nil
}

// isConvertible reports whether a file is converted to WebP: a JPEG or PNG whose size WebP
// supports.
func isConvertible(header vips.Header) bool {
	return (header.Format == vips.JPEG || header.Format == vips.PNG) && header.Width <= maxWebPSide && header.Height <= maxWebPSide
}
