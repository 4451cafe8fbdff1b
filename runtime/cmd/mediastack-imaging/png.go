//go:build cgo

package main

import "encoding/binary"

const (
	pngSignature  = "\x89PNG\r\n\x1a\n"
	chunkHeader   = 8 // length and name
	chunkChecksum = 4
	minPNGSize    = len(pngSignature) + chunkHeader + chunkChecksum
)

// textChunks are the chunks that libpng would inflate, to megabytes each, and that no
// derivative has.
var textChunks = map[string]bool{"tEXt": true, "zTXt": true, "iTXt": true}

// stripTextChunks removes the text chunks of a PNG, in place: libpng takes minutes for a
// few megabytes of them. Any other file, and everything after an invalid chunk, stays as it
// is. animated reports whether the file is an APNG, of which libpng, and thus libvips, reads
// the first frame only.
func stripTextChunks(file []byte) (png []byte, animated bool) {
	if len(file) < minPNGSize || string(file[:len(pngSignature)]) != pngSignature {
		return file, false
	}
	kept, at, pixels := len(pngSignature), len(pngSignature), false
	for len(file)-at >= chunkHeader+chunkChecksum {
		length := int64(binary.BigEndian.Uint32(file[at:])) + chunkHeader + chunkChecksum
		if length > int64(len(file)-at) {
			break
		}
		name, next := string(file[at+4:at+chunkHeader]), at+int(length)
		switch {
		case name == "IDAT":
			pixels = true
		case name == "acTL" && !pixels:
			animated = true
		}
		if !textChunks[name] {
			kept += copy(file[kept:], file[at:next])
		}
		at = next
	}
	kept += copy(file[kept:], file[at:])
	return file[:kept], animated
}
