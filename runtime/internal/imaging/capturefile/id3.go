package capturefile

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"

	"mediastack.dev/runtime/capture"
)

// id3Names are the frames that are read, by the names of version 2.2 in those of the later ones.
var id3Names = map[string]string{"TT2": "TIT2", "TYE": "TYER", "TDA": "TDAT", "TIT2": "TIT2", "TYER": "TYER", "TDAT": "TDAT", "TDRC": "TDRC", "GEO": "GEOB", "GEOB": "GEOB"}

// maxFrames bounds the frames of a tag.
const maxFrames = 1000

// The flags of a tag and of a frame.
const (
	id3Unsynchronised = 0x80
	id3Extended       = 0x40
	frameLength       = 0x01
	frameUnsync       = 0x02
	frameEncrypted    = 0x04
	frameCompressed   = 0x08
)

func readID3(file []byte) capture.Capture {
	const head = 10
	if len(file) < head {
		return capture.Capture{}
	}
	version, flags, size := file[3], file[5], synchsafe(file[6:])
	tag := file[head:min(head+size, len(file))]
	if version < 2 || version > 4 {
		return capture.Capture{}
	}
	if flags&id3Unsynchronised != 0 && version < 4 {
		tag = synchronise(tag)
	}
	if flags&id3Extended != 0 && version > 2 {
		if len(tag) < 4 {
			return capture.Capture{}
		}
		length := synchsafe(tag) // of the whole header
		if version == 3 {
			length = int(min(binary.BigEndian.Uint32(tag), 1<<20)) + 4 // of what follows
		}
		tag = tag[min(length, len(tag)):]
	}
	texts, manifest := readFrames(tag, version, flags&id3Unsynchronised != 0)
	return capture.Capture{At: id3Time(texts), Title: texts["TIT2"], ContentCredentials: manifest}
}

// id3Time returns when a recording was made: the time of version 2.4, or the year and the day of those before.
func id3Time(texts map[string]string) string {
	if at := isoTime(texts["TDRC"]); at != "" {
		return at
	}
	year, day := texts["TYER"], texts["TDAT"]
	if len(day) == 4 {
		if at := isoTime(year + "-" + day[2:] + "-" + day[:2]); at != "" {
			return at
		}
	}
	return isoTime(year)
}

// readFrames returns the texts of the frames of a tag, and whether one has a manifest store of C2PA.
func readFrames(tag []byte, version byte, unsynchronised bool) (texts map[string]string, manifest bool) {
	texts = map[string]string{}
	idLength, head := 4, 10
	if version == 2 {
		idLength, head = 3, 6
	}
	for range maxFrames {
		if len(tag) < head || tag[0] == 0 { // the padding begins
			break
		}
		name, wanted := id3Names[string(tag[:idLength])]
		var size int
		var flags byte
		switch version {
		case 2:
			size = int(tag[3])<<16 | int(tag[4])<<8 | int(tag[5])
		case 3:
			size = int(min(binary.BigEndian.Uint32(tag[4:]), 1<<28))
			if tag[9]&0xc0 != 0 { // compressed, or encrypted
				flags = frameEncrypted
			}
		default:
			size, flags = synchsafe(tag[4:]), tag[9]
		}
		if size > len(tag)-head {
			break // it is cut off
		}
		body := tag[head : head+size]
		tag = tag[head+size:]
		if !wanted || flags&(frameEncrypted|frameCompressed) != 0 {
			continue
		}
		if version == 4 {
			if flags&frameLength != 0 {
				body = body[min(4, len(body)):]
			}
			if flags&frameUnsync != 0 || unsynchronised {
				body = synchronise(body)
			}
		}
		if name == "GEOB" {
			manifest = manifest || len(body) > 1 && bytes.HasPrefix(body[1:], []byte("application/x-c2pa-manifest-store\x00"))
			continue
		}
		if _, there := texts[name]; !there && len(body) <= maxTagSize {
			texts[name] = id3Text(body)
		}
	}
	return texts, manifest
}

// synchsafe returns a number of four bytes with seven bits each.
func synchsafe(b []byte) int {
	return int(b[0]&0x7f)<<21 | int(b[1]&0x7f)<<14 | int(b[2]&0x7f)<<7 | int(b[3]&0x7f)
}

// synchronise removes the zeros that were added after bytes of 0xff.
func synchronise(data []byte) []byte { return bytes.ReplaceAll(data, []byte{0xff, 0}, []byte{0xff}) }

// id3Text returns the first text of a frame. Its first byte is the encoding.
func id3Text(body []byte) string {
	if len(body) < 2 {
		return ""
	}
	text := body[1:]
	switch body[0] {
	case 0:
		return strings.TrimSpace(latin1(untilNUL(text)))
	case 1, 2:
		return strings.TrimSpace(utf16Text(text))
	case 3:
		return strings.TrimSpace(string(untilNUL(text)))
	}
	return ""
}

// utf16Text returns a text in UTF-16, big-endian without a byte order mark.
func utf16Text(text []byte) string {
	var order binary.ByteOrder = binary.BigEndian
	if len(text) >= 2 && text[0] == 0xff && text[1] == 0xfe {
		order = binary.LittleEndian
	}
	var units []uint16
	for ; len(text) >= 2; text = text[2:] {
		unit := order.Uint16(text)
		if unit == 0 {
			break
		}
		if unit != 0xfeff {
			units = append(units, unit)
		}
	}
	return string(utf16.Decode(units))
}
