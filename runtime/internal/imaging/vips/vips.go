// Package vips makes derivatives with libvips. cmd/mediastack-imaging is the only
// program that may link it. bimg starts libvips; the few calls here are our own, for
// what bimg 1.1.9 can't do: take loaders off by list, read a header without decoding,
// fail on a truncated file, shrink while loading and turn upright in one pass, and
// convert to sRGB without a profile on disk (docs/decisions/0006).
//
// It keeps process-wide state in libvips and is not safe for concurrent use.
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

// Format is a format of which derivatives can be made.
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

// Version is the version of libvips that this was compiled with.
const Version = bimg.VipsVersion

// Header is what a file says of itself.
type Header struct {
	Format        Format
	Width, Height int // of one frame, as stored
	Frames        int
}

// Output is an encoded derivative. It lies in C memory until it is freed.
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

// Start readies libvips for untrusted files: one thread, no cache, only the loaders
// of the formats above. bimg has initialised libvips when this is called.
func Start() error {
	bimg.VipsCacheSetMax(0)
	bimg.VipsCacheSetMaxMem(0)
	if C.ms_start() != 0 {
		return failure()
	}
	return nil
}

// Trim returns memory that libvips and its decoders have freed to the system.
func Trim() { C.malloc_trim(0) }

// ReadHeader reads a file's header. A file of no allowed format has the format None.
func ReadHeader(file []byte) (Header, error) {
	var h C.ms_header
	if C.ms_read_header(pointer(file), C.size_t(len(file)), &h) != 0 {
		return Header{}, failure()
	}
	return Header{Format: Format(h.loader), Width: int(h.width), Height: int(h.height), Frames: int(h.frames)}, nil
}

// Image is a decoded image.
type Image struct{ image *C.VipsImage }

// Decode decodes a whole image into memory.
func Decode(file []byte) (*Image, error) {
	var image *C.VipsImage
	if C.ms_decode(pointer(file), C.size_t(len(file)), &image) != 0 {
		return nil, failure()
	}
	return &Image{image}, nil
}

// Free releases the memory. It may be called again, and for nil.
func (i *Image) Free() {
	if i != nil && i.image != nil {
		C.g_object_unref(C.gpointer(unsafe.Pointer(i.image)))
		i.image = nil
	}
}

// Thumbnail makes a WebP still image, upright and in sRGB, that fits in a box and is
// never larger than the original. A decoded image of the same file saves decoding it;
// nil is fine, and better for formats that can be shrunk while they are loaded.
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

// Convert makes a WebP image of full size, upright and in sRGB. Lossless ignores quality;
// it needs less memory, and makes files that are small for flat images only.
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
		return Output{}, failure()
	}
	return Output{Data: unsafe.Slice((*byte)(out.data), int(out.length)), Width: int(out.width), Height: int(out.height)}, nil
}

// failure takes what libvips says went wrong.
func failure() error {
	text := strings.Join(strings.Fields(C.GoString(C.vips_error_buffer())), " ")
	C.vips_error_clear()
	if text == "" {
		text = "libvips failed without a reason"
	}
	return errors.New(text)
}

func pointer(file []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(file)) }
