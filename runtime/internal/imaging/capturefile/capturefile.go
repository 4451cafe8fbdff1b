// Package capturefile reads what a file says of how it was made: EXIF and XMP of images, the keys of QuickTime and MP4, and ID3. The image
// worker calls it in its sandbox: files are hostile. Each reader bounds its steps and what it allocates, and what it returns is checked again
// by package capture, in the service.
package capturefile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"strings"

	"mediastack.dev/runtime/capture"
)

// Read returns what a file says, of which these are the first bytes, or all. It recognizes the format by its first bytes.
func Read(file []byte) capture.Capture {
	format := detect(file)
	if format == nil {
		return capture.Capture{}
	}
	return format(file)
}

// detect returns the reader of a format; nil for one that says nothing.
func detect(file []byte) func([]byte) capture.Capture {
	has := func(at int, text string) bool {
		return len(file) >= at+len(text) && string(file[at:at+len(text)]) == text
	}
	switch {
	case has(0, "\xff\xd8\xff"):
		return readJPEG
	case has(0, "\x89PNG\r\n\x1a\n"):
		return readPNG
	case has(0, "RIFF") && has(8, "WEBP"):
		return readWebP
	case has(0, "II*\x00"), has(0, "MM\x00*"):
		return readTIFF
	case has(0, "ID3"):
		return readID3
	case has(4, "ftyp") && isImageBrand(file):
		return readHEIF
	case has(4, "ftyp"), has(4, "moov"), has(4, "mdat"), has(4, "wide"), has(4, "free"), has(4, "skip"):
		return readMovie
	}
	return nil
}

// isImageBrand reports whether the box ftyp at the beginning names an image.
func isImageBrand(file []byte) bool {
	if len(file) < 16 {
		return false
	}
	end := min(int(min(binary.BigEndian.Uint32(file), 256)), len(file))
	for at := 8; at+4 <= end; at += 4 {
		switch string(file[at : at+4]) {
		case "heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1", "avif", "avis":
			return true
		}
		if at == 8 {
			at += 4 // the minor version
		}
	}
	return false
}

// camera returns the name of a camera. Many models begin with their make.
func camera(brand, model string) string {
	brand, model = strings.TrimSpace(brand), strings.TrimSpace(model)
	if len(model) >= len(brand) && strings.EqualFold(model[:len(brand)], brand) {
		return model
	}
	return strings.TrimSpace(brand + " " + model)
}

// first returns the first text that is not empty.
func first(texts ...string) string { return cmp.Or(texts...) }

// latin1 returns a text in ISO 8859-1.
func latin1(text []byte) string {
	runes := make([]rune, len(text))
	for i, c := range text {
		runes[i] = rune(c)
	}
	return string(runes)
}

// untilNUL returns what is before the first NUL.
func untilNUL(text []byte) []byte {
	before, _, _ := bytes.Cut(text, []byte{0})
	return before
}
