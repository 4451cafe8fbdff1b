//go:build cgo

package main

import "encoding/binary"

const (
	pngSignature   = "\x89PNG\r\n\x1a\n"
	chunkHeader    = 8 // length and name
	chunkChecksum  = 4
	minimalPNGSize = len(pngSignature) + chunkHeader + chunkChecksum
)

// texts are the chunks that libpng would inflate, to megabytes each, and that no
// derivative keeps.
var texts = map[string]bool{"tEXt": true, "zTXt": true, "iTXt": true}

// withoutTexts takes the text chunks out of a PNG, in its own memory: a few megabytes
// of them keep libpng busy for minutes. Any other file, and what follows a chunk that
// does not fit, is left as it is. animated tells whether the file is an animation:
// libpng, and so libvips, sees its first frame only.
func withoutTexts(file []byte) (png []byte, animated bool) {
	if len(file) < minimalPNGSize || string(file[:len(pngSignature)]) != pngSignature {
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
		if !texts[name] {
			kept += copy(file[kept:], file[at:next])
		}
		at = next
	}
	kept += copy(file[kept:], file[at:])
	return file[:kept], animated
}
