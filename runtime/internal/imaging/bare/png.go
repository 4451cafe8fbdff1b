package bare

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	pngSignature = "\x89PNG\r\n\x1a\n"
	pngFrame     = 12 // length, name and checksum of a chunk
	maxSide      = 1<<31 - 1
)

// PNG returns a PNG file with its header, palette, transparency and pixels only (IHDR, PLTE, tRNS, IDAT, IEND). All other
// chunks are dropped. Any other input is rejected, including a wrong checksum and bytes after the end.
func PNG(file []byte) (Image, error) {
	if len(file) < len(pngSignature) || string(file[:len(pngSignature)]) != pngSignature {
		return Image{}, invalid("no start of a PNG")
	}
	image := Image{File: make([]byte, 0, len(file))}
	image.File = append(image.File, pngSignature...)
	pixels := false
	for rest := file[len(pngSignature):]; ; {
		if len(rest) < pngFrame {
			return Image{}, invalid("%d bytes without a chunk", len(rest))
		}
		length := int64(binary.BigEndian.Uint32(rest)) + pngFrame
		if length > int64(len(rest)) {
			return Image{}, invalid("a chunk of %d bytes with %d remaining", length, len(rest))
		}
		chunk := rest[:length]
		rest = rest[length:]
		name, data := string(chunk[4:8]), chunk[8:length-4]
		if (name == "IHDR") != (image.Width == 0) {
			return Image{}, invalid("an unexpected %q", name)
		}
		switch name {
		case "IHDR":
			if len(data) != 13 {
				return Image{}, invalid("a header of %d bytes", len(data))
			}
			width, height := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
			if width == 0 || height == 0 || width > maxSide || height > maxSide {
				return Image{}, invalid("%d x %d pixels", width, height)
			}
			image.Width, image.Height = int(width), int(height)
		case "PLTE", "tRNS":
			if pixels {
				return Image{}, invalid("%s after pixels", name)
			}
		case "IDAT":
			pixels = true
		case "IEND":
			if len(data) > 0 || len(rest) > 0 || !pixels {
				return Image{}, invalid("an end with %d bytes, %d remaining", len(data), len(rest))
			}
		default:
			continue
		}
		if crc32.ChecksumIEEE(chunk[4:length-4]) != binary.BigEndian.Uint32(chunk[length-4:]) {
			return Image{}, invalid("a wrong checksum of %s", name)
		}
		image.File = append(image.File, chunk...)
		if name == "IEND" {
			return image, nil
		}
	}
}
