// Package vips makes pictures with libvips. cmd/mediastack-imaging is the only program
// that may link it. bimg initializes libvips; the calls here do what bimg 1.1.9 can't:
// disable loaders by a list, read a header without decoding, fail on a truncated file,
// shrink while loading and rotate upright in one pass, convert to sRGB without a profile
// on disk, make several pictures of one decoded image, keep animations, and cut around a point or by entropy
// (docs/decisions/0006).
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
	"fmt"
	"strings"
	"unsafe"

	"github.com/h2non/bimg"

	"mediastack.dev/runtime/imageformat"
)

// Format is a file format that pictures can be made of.
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
	Width, Height int // of one frame, as displayed
	Frames        int
	Alpha         bool
	CMYK          bool
	// EmbeddedWidth and EmbeddedHeight are the size of the thumbnail in a HEIF file; 0 = none.
	EmbeddedWidth, EmbeddedHeight int
}

// Focus is where Render cuts a picture out of an image.
type Focus int

// The focuses, in the order of vips.h.
const (
	At Focus = iota // at Left and Top
	Attention
	Entropy
)

// Recipe says how a picture is made. Its steps are in the order of the fields.
type Recipe struct {
	// Shrink is by what a JPEG that is not decoded yet is shrunk while it is loaded: 2, 4 or 8; otherwise libvips decides.
	Shrink int
	// BoxWidth and BoxHeight are the box into which the image is shrunk. 0 x 0 keeps the original size, and only
	// the encoding has an effect.
	BoxWidth, BoxHeight int
	// ShrunkWidth and ShrunkHeight are the size that the image then has, which libvips may miss by a pixel unless it
	// is Exact. Width and Height are those of the picture: smaller ones are cut out, larger ones have
	// a margin. They have an effect if Exact is set.
	Exact                     bool
	ShrunkWidth, ShrunkHeight int
	Width, Height             int
	Focus                     Focus
	Left, Top                 int
	Sharpen                   bool
	Background                [3]byte
	Encoding                  imageformat.Format
	Quality                   int
	// Lossless is for WebP: it ignores the quality and needs less memory; its files are small for flat images only.
	Lossless bool
	// MaxBytes bounds a JPEG: it has less quality, and then fewer pixels, until it fits. 0 = no bound.
	MaxBytes int
}

// Output is an encoded picture, or pixels. It is in C memory until Free is called.
type Output struct {
	Data          []byte
	Width, Height int
	Encoding      imageformat.Format // not Auto
}

// Free releases the memory.
func (o *Output) Free() {
	if len(o.Data) > 0 {
		C.g_free(C.gpointer(unsafe.Pointer(unsafe.SliceData(o.Data))))
		o.Data = nil
	}
}

// Start configures libvips for untrusted files: one thread, no cache, only the loaders of
// the formats above. It fails if vips.c has other formats than package imageformat. bimg has initialized libvips before.
func Start() error {
	for _, f := range imageformat.Encoded() {
		if name := C.GoString(C.ms_format(C.int(f))); name != f.Name() {
			return fmt.Errorf("vips.c has the format %q where package imageformat has %q", name, f.Name())
		}
	}
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
	return Header{Format: Format(h.loader), Width: int(h.width), Height: int(h.height), Frames: int(h.frames), Alpha: h.alpha != 0, CMYK: h.cmyk != 0,
		EmbeddedWidth: int(h.embedded_width), EmbeddedHeight: int(h.embedded_height)}, nil
}

// Image is a decoded image.
type Image struct{ image *C.VipsImage }

// Decode decodes an image into memory. A JPEG is shrunk by 2, 4 or 8 while it is loaded, if shrink is more than 1. Of other
// files, frames are decoded.
func Decode(file []byte, shrink, frames int) (*Image, error) {
	var image *C.VipsImage
	if C.ms_decode(pointer(file), C.size_t(len(file)), C.int(shrink), C.int(frames), &image) != 0 {
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

// Render returns the picture of a recipe: a still image, upright and in sRGB, without metadata. decoded is the decoded file,
// perhaps shrunk. It may be nil: libvips then shrinks while it loads the file, if the format allows that.
func Render(file []byte, decoded *Image, recipe Recipe) (Output, error) {
	r := recipe.c()
	var image *C.VipsImage
	if decoded != nil {
		image = decoded.image
	}
	var out C.ms_output
	return output(C.ms_render(pointer(file), C.size_t(len(file)), image, &r, &out), out)
}

// Animate returns the WebP animation of a recipe, of an image of which all frames are decoded.
func Animate(frames *Image, recipe Recipe) (Output, error) {
	r := recipe.c()
	var out C.ms_output
	return output(C.ms_animate(frames.image, &r, &out), out)
}

func (r Recipe) c() C.ms_recipe {
	flag := func(set bool) C.int {
		if set {
			return 1
		}
		return 0
	}
	return C.ms_recipe{
		shrink:    C.int(r.Shrink),
		box_width: C.int(r.BoxWidth), box_height: C.int(r.BoxHeight), exact: flag(r.Exact),
		shrunk_width: C.int(r.ShrunkWidth), shrunk_height: C.int(r.ShrunkHeight), width: C.int(r.Width), height: C.int(r.Height),
		focus: C.int(r.Focus), left: C.int(r.Left), top: C.int(r.Top), sharpen: flag(r.Sharpen),
		background: [3]C.double{C.double(r.Background[0]), C.double(r.Background[1]), C.double(r.Background[2])},
		format:     C.int(r.Encoding), quality: C.int(r.Quality), lossless: flag(r.Lossless), max_bytes: C.size_t(r.MaxBytes),
	}
}

// Pixels returns the pixels of a thumbnail, shrunk to at most side x side: RGBA, of which the alpha is
// not multiplied.
func Pixels(thumbnail []byte, side int) (Output, error) {
	var out C.ms_output
	return output(C.ms_pixels(pointer(thumbnail), C.size_t(len(thumbnail)), C.int(side), &out), out)
}

func output(failed C.int, out C.ms_output) (Output, error) {
	if failed != 0 {
		return Output{}, lastError()
	}
	return Output{Data: unsafe.Slice((*byte)(out.data), int(out.length)), Width: int(out.width), Height: int(out.height), Encoding: imageformat.Format(out.format)}, nil
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
