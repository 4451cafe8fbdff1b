package capturefile

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"strings"

	"github.com/bep/imagemeta"

	"mediastack.dev/runtime/capture"
)

func readJPEG(file []byte) capture.Capture {
	c := readTags(file, imagemeta.JPEG).capture()
	c.ContentCredentials = jpegHasManifest(file)
	return c
}

// jpegHasManifest reports whether a JPEG has a segment APP11 with a box of JUMBF that is a manifest store of C2PA.
func jpegHasManifest(file []byte) bool {
	for at := 2; at+4 <= len(file) && file[at] == 0xff; {
		marker, length := file[at+1], int(binary.BigEndian.Uint16(file[at+2:]))
		if marker == 0xff { // a fill byte
			at++
			continue
		}
		if marker == 0xda || length < 2 || at+2+length > len(file) { // the scan begins
			return false
		}
		// "JP", the number of the box, that of the packet, and the box itself.
		if segment := file[at+4 : at+2+length]; marker == 0xeb && len(segment) > 16 && string(segment[:2]) == "JP" && isManifest(segment[8:]) {
			return true
		}
		at += 2 + length
	}
	return false
}

// isManifest reports whether a box of JUMBF is a manifest store: its description has the type and the label of C2PA.
func isManifest(jumbf []byte) bool {
	const description = 8 + 8
	if len(jumbf) < description+16+1+len("c2pa") || string(jumbf[4:8]) != "jumb" || string(jumbf[12:16]) != "jumd" {
		return false
	}
	return string(jumbf[description:description+4]) == "c2pa" && bytes.HasPrefix(jumbf[description+17:], []byte("c2pa"))
}

func readTIFF(file []byte) capture.Capture {
	c := readTags(file, imagemeta.TIFF).capture()
	c.ContentCredentials = tiffHasManifest(file)
	return c
}

// tiffManifest is the tag of a manifest store in the first directory of a TIFF file.
const tiffManifest = 0xcd41

func tiffHasManifest(file []byte) bool {
	if len(file) < 8 {
		return false
	}
	var order binary.ByteOrder = binary.BigEndian
	if file[0] == 'I' {
		order = binary.LittleEndian
	}
	at := uint64(order.Uint32(file[4:]))
	if at+2 > uint64(len(file)) {
		return false
	}
	entries := uint64(order.Uint16(file[at:]))
	for i := range entries {
		entry := at + 2 + 12*i
		if entry+12 > uint64(len(file)) {
			return false
		}
		if order.Uint16(file[entry:]) == tiffManifest {
			return true
		}
	}
	return false
}

func readHEIF(file []byte) capture.Capture {
	format := imagemeta.HEIF
	if brand := string(file[8:12]); brand == "avif" || brand == "avis" {
		format = imagemeta.AVIF
	}
	c := readTags(file, format).capture()
	c.ContentCredentials = boxesHaveManifest(file)
	return c
}

// readWebP reads the chunks of a WebP file. Some programs write a header before EXIF as in a JPEG, which imagemeta does not read.
func readWebP(file []byte) capture.Capture {
	found := tags{exif: map[string]any{}, xmp: map[string]string{}}
	manifest, xmp := false, false
	for at := 12; at+8 <= len(file); {
		length := uint64(binary.LittleEndian.Uint32(file[at+4:]))
		next := uint64(at) + 8 + length + length%2
		if next > uint64(len(file)) {
			break
		}
		body := file[at+8 : uint64(at)+8+length]
		switch string(file[at : at+4]) {
		case "EXIF":
			if len(found.exif) == 0 {
				found.exif = readTags(bytes.TrimPrefix(body, []byte("Exif\x00\x00")), imagemeta.TIFF).exif
			}
		case "XMP ":
			if !xmp && len(body) <= maxText {
				found.addXMP(body)
			}
			xmp = true
		case "C2PA":
			manifest = true
		}
		at = int(next) //nolint:gosec // within the file
	}
	c := found.capture()
	c.ContentCredentials = manifest
	return c
}

// maxText bounds the text of a PNG that is read, in bytes; it is the bound of compressed texts, too.
const maxText = 1 << 20

// maxKeyword bounds the keyword of a text of a PNG, in bytes (PNG, third edition, 11.3.3).
const maxKeyword = 79

// The keywords that are read.
const xmpKeyword, titleKeyword = "XML:com.adobe.xmp", "Title"

func readPNG(file []byte) capture.Capture {
	found := readTags(file, imagemeta.PNG)
	manifest, title := false, ""
	read := map[string]bool{} // keywords of chunks iTXt: the first chunk of each counts, so at most two texts are inflated
	for at := 8; at+12 <= len(file); {
		length := uint64(binary.BigEndian.Uint32(file[at:]))
		end := uint64(at) + 12 + length
		if end > uint64(len(file)) {
			break
		}
		body := file[at+8 : end-4]
		switch string(file[at+4 : at+8]) {
		case "caBX":
			manifest = true
		case "iTXt":
			keyword, _, _ := strings.Cut(string(body[:min(len(body), maxKeyword+1)]), "\x00")
			if keyword != xmpKeyword && keyword != titleKeyword || read[keyword] {
				break
			}
			read[keyword] = true
			if text := internationalText(body[len(keyword):]); keyword == xmpKeyword { // which imagemeta does not read
				found.addXMP(text)
			} else {
				title = first(title, string(text))
			}
		case "tEXt":
			if keyword, text, ok := bytes.Cut(body, []byte{0}); ok && string(keyword) == titleKeyword && len(text) <= maxTagSize {
				title = first(title, latin1(text))
			}
		}
		at = int(end) //nolint:gosec // within the file
	}
	c := found.capture()
	c.ContentCredentials, c.Title = manifest, first(c.Title, title)
	return c
}

// internationalText returns the text of a chunk iTXt, after its keyword: NUL compressed method language NUL translated NUL text.
func internationalText(chunk []byte) []byte {
	if len(chunk) < 3 || chunk[0] != 0 {
		return nil
	}
	compressed := chunk[1] != 0
	_, rest, ok := bytes.Cut(chunk[3:], []byte{0})
	if ok {
		_, rest, ok = bytes.Cut(rest, []byte{0})
	}
	if !ok || len(rest) > maxText {
		return nil
	}
	if !compressed {
		return rest
	}
	reader, err := zlib.NewReader(bytes.NewReader(rest))
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxText+1))
	if err != nil || len(text) > maxText {
		return nil
	}
	return text
}

// addXMP adds the tags of a packet of XMP. imagemeta reads one in a TIFF file, whose only tag it is here.
func (t tags) addXMP(packet []byte) {
	if !strings.Contains(string(packet), "RDF") {
		return
	}
	const head = 26
	tiff := make([]byte, head, head+len(packet))
	copy(tiff, "II*\x00\x08\x00\x00\x00\x01\x00")
	binary.LittleEndian.PutUint16(tiff[10:], 700)                 // the tag of XMP
	binary.LittleEndian.PutUint16(tiff[12:], 1)                   // bytes
	binary.LittleEndian.PutUint32(tiff[14:], uint32(len(packet))) //nolint:gosec // at most maxText
	binary.LittleEndian.PutUint32(tiff[18:], head)
	found := readTags(append(tiff, packet...), imagemeta.TIFF)
	for name, value := range found.xmp {
		if _, there := t.xmp[name]; !there {
			t.xmp[name] = value
		}
	}
}
