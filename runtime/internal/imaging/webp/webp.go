// Package webp validates WebP still images and strips their metadata. Package imaging
// passes every derivative through StripMetadata, so that none has metadata, whatever
// libvips or a compromised worker wrote.
package webp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrInvalid is in the chain of every error: the file is not a valid WebP still image.
var ErrInvalid = errors.New("not a valid WebP still image")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

const (
	fileHeader  = 12
	chunkHeader = 8
	extension   = chunkHeader + 10 // a VP8X chunk
	flagAlpha   = 1 << 4
)

// Image is a WebP still image without metadata.
type Image struct {
	File          []byte
	Width, Height int
}

// StripMetadata returns a WebP still image with its pixels only: the bitmap (VP8 or VP8L)
// and its alpha plane (ALPH). Colour profile, EXIF, XMP and unknown chunks are dropped.
// Any other input is rejected, including bytes after the end.
func StripMetadata(file []byte) (Image, error) {
	if len(file) < fileHeader || string(file[:4]) != "RIFF" || string(file[8:12]) != "WEBP" ||
		int64(binary.LittleEndian.Uint32(file[4:])) != int64(len(file)-chunkHeader) {
		return Image{}, invalid("no RIFF header of %d bytes", len(file))
	}
	var image Image
	var bitmap, alpha chunk
	rest := file[fileHeader:]
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
		case "VP8 ", "VP8L":
			if bitmap.name != "" {
				return Image{}, invalid("two bitmaps")
			}
			if image.Width, image.Height, err = c.size(); err != nil {
				return Image{}, err
			}
			bitmap = c
		case "ALPH":
			if alpha.name != "" || bitmap.name != "" || len(c.data) == 0 {
				return Image{}, invalid("an unexpected alpha plane")
			}
			alpha = c
		case "ANIM", "ANMF":
			return Image{}, invalid("animated")
		}
	}
	switch {
	case bitmap.name == "":
		return Image{}, invalid("no bitmap")
	case alpha.name != "" && bitmap.name == "VP8L":
		return Image{}, invalid("two alpha planes")
	}
	image.File = assemble(bitmap, alpha, image.Width, image.Height)
	return image, nil
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
func assemble(bitmap, alpha chunk, width, height int) []byte {
	file := make([]byte, fileHeader, fileHeader+extension+2*chunkHeader+len(alpha.data)+len(bitmap.data)+2)
	copy(file, "RIFF")
	copy(file[8:], "WEBP")
	if alpha.name != "" {
		features := make([]byte, extension-chunkHeader)
		features[0] = flagAlpha
		putUint24(features[4:], width-1)
		putUint24(features[7:], height-1)
		file = chunk{"VP8X", features}.appendTo(file)
		file = alpha.appendTo(file)
	}
	file = bitmap.appendTo(file)
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
