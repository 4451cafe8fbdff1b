// Package vips creates derivatives with libvips. cmd/mediastack-imaging is the only program
// that may link it. bimg initializes libvips; the calls here do what bimg 1.1.9 can't:
// disable loaders by a list, read a header without decoding, fail on a truncated file,
// shrink while loading and rotate upright in one pass, and convert to sRGB without a profile
// on disk (docs/decisions/0006).
//
// libvips has process-wide state: the package is not safe for concurrent use.
package vips

/*
#cgo pkg-config: vips
#include <malloc.h>
#include "vips.h"
*/
import "C"

import (
	"errors"
	"strings"
	"unsafe"

	"github.com/h2non/bimg"
)

// Format is a file format that derivatives can be created of.
type Format int

// The formats, in the order of the loaders in vips.c.
const (
	None Format = iota - 1
	JPEG
	PNG
	WebP
	GIF
	HEIF // HEIC and AVIF
)

// Version is the version of libvips at compile time.
const Version = bimg.VipsVersion

// Header is the header of an image file.
type Header struct {
	Format        Format
	Width, Height int // of one frame, as stored
	Frames        int
}

// Output is an encoded derivative. It is in C memory until Free is called.
type Output struct {
	Data          []byte
	Width, Height int
}

// Free releases the memory.
func (o *Output) Free() {
	if len(o.Data) > 0 {
		C.g_free(C.gpointer(unsafe.Pointer(unsafe.SliceData(o.Data))))
		o.Data = nil
	}
}

// Start configures libvips for untrusted files: one thread, no cache, only the loaders of
// the formats above. bimg has initialized libvips before.
func Start() error {
	bimg.VipsCacheSetMax(0)
	bimg.VipsCacheSetMaxMem(0)
	if C.ms_start() != 0 {
		return lastError()
	}
	return nil
}

// Trim returns freed memory of libvips and its decoders to the system.
func Trim() { C.malloc_trim(0) }

// ReadHeader reads the header of a file. Its format is None if it is not supported.
func ReadHeader(file []byte) (Header, error) {
	var h C.ms_header
	if C.ms_read_header(pointer(file), C.size_t(len(file)), &h) != 0 {
		return Header{}, lastError()
	}
	return Header{Format: Format(h.loader), Width: int(h.width), Height: int(h.height), Frames: int(h.frames)}, nil
}

// Image is a decoded image.
type Image struct{ image *C.VipsImage }

// Decode decodes an image into memory.
func Decode(file []byte) (*Image, error) {
	var image *C.VipsImage
	if C.ms_decode(pointer(file), C.size_t(len(file)), &image) != 0 {
		return nil, lastError()
	}
	return &Image{image}, nil
}

// Free releases the memory. It may be called twice, and on nil.
func (i *Image) Free() {
	if i != nil && i.image != nil {
		C.g_object_unref(C.gpointer(unsafe.Pointer(i.image)))
		i.image = nil
	}
}

// Thumbnail returns a WebP still image, upright and in sRGB, that fits into width x height
// and is not larger than the original. decoded is the decoded file; it may be nil, which is
// faster for formats that can be shrunk while loading.
func Thumbnail(file []byte, decoded *Image, width, height int) (Output, error) {
	var out C.ms_output
	var failed C.int
	if decoded != nil {
		failed = C.ms_thumbnail_image(decoded.image, C.int(width), C.int(height), &out)
	} else {
		failed = C.ms_thumbnail_buffer(pointer(file), C.size_t(len(file)), C.int(width), C.int(height), &out)
	}
	return output(failed, out)
}

// Convert returns a WebP image of the original size, upright and in sRGB. lossless ignores
// quality, and needs less memory; its files are small for flat images only.
func Convert(file []byte, decoded *Image, quality int, lossless bool) (Output, error) {
	var image *C.VipsImage
	if decoded != nil {
		image = decoded.image
	}
	var exact C.int
	if lossless {
		exact = 1
	}
	var out C.ms_output
	return output(C.ms_convert(pointer(file), C.size_t(len(file)), image, C.int(quality), exact, &out), out)
}

func output(failed C.int, out C.ms_output) (Output, error) {
	if failed != 0 {
		return Output{}, lastError()
	}
	return Output{Data: unsafe.Slice((*byte)(out.data), int(out.length)), Width: int(out.width), Height: int(out.height)}, nil
}

// lastError returns the error of libvips, and clears it.
func lastError() error {
	text := strings.Join(strings.Fields(C.GoString(C.vips_error_buffer())), " ")
	C.vips_error_clear()
	if text == "" {
		text = "libvips failed without a message"
	}
	return errors.New(text)
}

func pointer(file []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(file)) }
