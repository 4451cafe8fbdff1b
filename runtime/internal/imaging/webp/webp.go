// Package webp validates WebP files and strips their metadata. Package imaging passes every WebP picture
// through StripMetadata or StripAnimation, so that none has metadata, whatever libvips or a
// compromised worker wrote.
package webp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrInvalid is in the chain of every error: the file is not a valid WebP file, or not of the kind that is wanted.
var ErrInvalid = errors.New("not a valid WebP file")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

const (
	fileHeader  = 12
	chunkHeader = 8
	extension   = chunkHeader + 10 // a VP8X chunk
	flagAlpha   = 1 << 4
	flagFrames  = 1 << 1 // there is an animation
	frameHeader = 16     // of an ANMF chunk
)

// Image is a WebP file without metadata.
type Image struct {
	File          []byte
	Width, Height int
	Frames        int // 1 for a still image
}

// StripMetadata returns a WebP still image with its pixels only: the bitmap (VP8 or VP8L)
// and its alpha plane (ALPH). Colour profile, EXIF, XMP and unknown chunks are dropped.
// Any other input is rejected, including bytes after the end.
func StripMetadata(file []byte) (Image, error) {
	rest, err := chunks(file)
	if err != nil {
		return Image{}, err
	}
	var found still
	for first := true; len(rest) > 0; first = false {
		c, err := next(&rest)
		if err != nil {
			return Image{}, err
		}
		switch c.name {
		case "VP8X":
			if !first {
				return Image{}, invalid("VP8X is not first")
			}
		case "ANIM", "ANMF":
			return Image{}, invalid("animated")
		default:
			if err := found.add(c); err != nil {
				return Image{}, err
			}
		}
	}
	if err := found.check(); err != nil {
		return Image{}, err
	}
	return Image{File: found.assemble(), Width: found.width, Height: found.height, Frames: 1}, nil
}

// StripAnimation returns a WebP animation with its pixels and times only: the canvas (VP8X), the loop (ANIM), and of each
// frame (ANMF) the bitmap and its alpha plane. Everything else is dropped. Any other input is rejected, including
// still images, frames beside the canvas, and bytes after the end.
func StripAnimation(file []byte) (Image, error) {
	rest, err := chunks(file)
	if err != nil {
		return Image{}, err
	}
	canvas, err := next(&rest)
	if err != nil {
		return Image{}, err
	}
	const canvasSize, loopSize = extension - chunkHeader, 6
	if canvas.name != "VP8X" || len(canvas.data) != canvasSize || canvas.data[0]&flagFrames == 0 {
		return Image{}, invalid("not animated")
	}
	image := Image{Width: uint24(canvas.data[4:]) + 1, Height: uint24(canvas.data[7:]) + 1}
	features := make([]byte, canvasSize)
	features[0] = canvas.data[0] & (flagAlpha | flagFrames)
	copy(features[4:], canvas.data[4:])
	out := chunk{"VP8X", features}.appendTo(header())
	looped := false
	for len(rest) > 0 {
		c, err := next(&rest)
		if err != nil {
			return Image{}, err
		}
		switch c.name {
		case "ANIM":
			if looped || len(c.data) != loopSize {
				return Image{}, invalid("an unexpected loop")
			}
			looped = true
			out = c.appendTo(out)
		case "ANMF":
			frame, err := frame(c, image.Width, image.Height)
			if err != nil {
				return Image{}, err
			}
			if !looped {
				return Image{}, invalid("a frame before the loop")
			}
			image.Frames++
			out = frame.appendTo(out)
		case "VP8X", "VP8 ", "VP8L", "ALPH":
			return Image{}, invalid("an unexpected %s", c.name)
		}
	}
	if image.Frames == 0 {
		return Image{}, invalid("no frames")
	}
	image.File = finish(out)
	return image, nil
}

// frame returns a frame of an animation without metadata.
func frame(c chunk, width, height int) (chunk, error) {
	if len(c.data) < frameHeader {
		return chunk{}, invalid("a frame of %d bytes", len(c.data))
	}
	var found still
	for rest := c.data[frameHeader:]; len(rest) > 0; {
		part, err := next(&rest)
		if err != nil {
			return chunk{}, err
		}
		if err := found.add(part); err != nil {
			return chunk{}, err
		}
	}
	if err := found.check(); err != nil {
		return chunk{}, err
	}
	left, top := 2*uint24(c.data), 2*uint24(c.data[3:])
	if uint24(c.data[6:])+1 != found.width || uint24(c.data[9:])+1 != found.height || left+found.width > width || top+found.height > height {
		return chunk{}, invalid("a frame of %d x %d at %d, %d of %d x %d", found.width, found.height, left, top, width, height)
	}
	data := append([]byte(nil), c.data[:frameHeader]...)
	data[frameHeader-1] &= 3 // disposal and blending; the rest is reserved
	if found.alpha.name != "" {
		data = found.alpha.appendTo(data)
	}
	return chunk{"ANMF", found.bitmap.appendTo(data)}, nil
}

// chunks returns what follows the header of a file.
func chunks(file []byte) ([]byte, error) {
	if len(file) < fileHeader || string(file[:4]) != "RIFF" || string(file[8:12]) != "WEBP" ||
		int64(binary.LittleEndian.Uint32(file[4:])) != int64(len(file)-chunkHeader) {
		return nil, invalid("no RIFF header of %d bytes", len(file))
	}
	return file[fileHeader:], nil
}

// still is a bitmap with its alpha plane, if it has one.
type still struct {
	bitmap, alpha chunk
	width, height int
}

// add adds a chunk; one that has no pixels is dropped.
func (s *still) add(c chunk) (err error) {
	switch c.name {
	case "VP8 ", "VP8L":
		if s.bitmap.name != "" {
			return invalid("two bitmaps")
		}
		s.bitmap = c
		s.width, s.height, err = c.size()
	case "ALPH":
		if s.alpha.name != "" || s.bitmap.name != "" || len(c.data) == 0 {
			return invalid("an unexpected alpha plane")
		}
		s.alpha = c
	}
	return err
}

func (s *still) check() error {
	switch {
	case s.bitmap.name == "":
		return invalid("no bitmap")
	case s.alpha.name != "" && s.bitmap.name == "VP8L":
		return invalid("two alpha planes")
	}
	return nil
}

type chunk struct {
	name string
	data []byte
}

// next removes the first chunk from rest.
func next(rest *[]byte) (chunk, error) {
	b := *rest
	if len(b) < chunkHeader {
		return chunk{}, invalid("%d bytes after the last chunk", len(b))
	}
	size := uint64(binary.LittleEndian.Uint32(b[4:]))
	padded := chunkHeader + size + size&1
	if padded > uint64(len(b)) {
		return chunk{}, invalid("a chunk of %d bytes with %d remaining", size, len(b)-chunkHeader)
	}
	*rest = b[padded:]
	return chunk{name: string(b[:4]), data: b[chunkHeader : chunkHeader+size]}, nil
}

// size returns the dimensions in the header of a bitmap.
func (c chunk) size() (width, height int, err error) {
	switch {
	case c.name == "VP8 " && len(c.data) >= 10 && c.data[0]&1 == 0 && string(c.data[3:6]) == "\x9d\x01\x2a":
		// A key frame: 3 bytes of tag, 3 of start code, twice 14 bits of size and 2 of scale.
		width = int(binary.LittleEndian.Uint16(c.data[6:]) & 0x3fff)
		height = int(binary.LittleEndian.Uint16(c.data[8:]) & 0x3fff)
	case c.name == "VP8L" && len(c.data) >= 5 && c.data[0] == 0x2f && c.data[4]>>5 == 0:
		bits := binary.LittleEndian.Uint32(c.data[1:])
		width, height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
	default:
		return 0, 0, invalid("no bitmap header")
	}
	if width == 0 || height == 0 {
		return 0, 0, invalid("a bitmap without pixels")
	}
	return width, height, nil
}

// assemble returns a file of the simple format, or of the extended one if there is an
// alpha plane.
func (s *still) assemble() []byte {
	file := header()
	if s.alpha.name != "" {
		features := make([]byte, extension-chunkHeader)
		features[0] = flagAlpha
		putUint24(features[4:], s.width-1)
		putUint24(features[7:], s.height-1)
		file = chunk{"VP8X", features}.appendTo(file)
		file = s.alpha.appendTo(file)
	}
	return finish(s.bitmap.appendTo(file))
}

// header returns the header of a file, without its length.
func header() []byte {
	file := make([]byte, fileHeader)
	copy(file, "RIFF")
	copy(file[8:], "WEBP")
	return file
}

// finish sets the length of a file.
func finish(file []byte) []byte {
	binary.LittleEndian.PutUint32(file[4:], uint32(len(file)-chunkHeader)) //nolint:gosec // at most a few bytes longer than the input, whose length has 32 bits
	return file
}

func (c chunk) appendTo(file []byte) []byte {
	file = append(file, c.name...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(c.data))) //nolint:gosec // it was read from 32 bits
	file = append(file, c.data...)
	if len(c.data)&1 == 1 {
		file = append(file, 0)
	}
	return file
}

func putUint24(b []byte, value int) {
	b[0], b[1], b[2] = byte(value), byte(value>>8), byte(value>>16) //nolint:gosec // 24 bits, as WebP stores a canvas
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }
