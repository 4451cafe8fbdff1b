package bare

import "encoding/binary"

// Markers of JPEG.
const (
	markerStart    = 0xd8
	markerEnd      = 0xd9
	markerScan     = 0xda
	markerTables   = 0xdb // quantization
	markerRestart  = 0xdd // the interval
	markerHuffman  = 0xc4
	markerComment  = 0xfe
	markerApp      = 0xe0 // to 0xef
	markerFirstRST = 0xd0 // to 0xd7, within a scan
)

// jfif is the segment by which decoders know that the samples are YCbCr, or grey. It has no resolution and no thumbnail.
var jfif = []byte{0xff, markerApp, 0, 16, 'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0}

// JPEG returns a JPEG file of 1 or 3 components with its tables, frame and scans only. Application segments and comments are
// dropped. Any other input is rejected, including bytes after the end.
func JPEG(file []byte) (Image, error) {
	if len(file) < 2 || file[0] != 0xff || file[1] != markerStart {
		return Image{}, invalid("no start of a JPEG")
	}
	image := Image{File: make([]byte, 0, len(file)+len(jfif))}
	image.File = append(append(image.File, file[:2]...), jfif...)
	scanned := false
	for rest := file[2:]; ; {
		if len(rest) < 2 || rest[0] != 0xff {
			return Image{}, invalid("no marker with %d bytes remaining", len(rest))
		}
		marker := rest[1]
		if marker == markerEnd {
			if len(rest) > 2 || !scanned {
				return Image{}, invalid("an end with %d bytes remaining", len(rest)-2)
			}
			image.File = append(image.File, rest...)
			return image, nil
		}
		segment, err := jpegSegment(rest)
		if err != nil {
			return Image{}, err
		}
		rest = rest[len(segment):]
		switch {
		case marker == markerComment, marker >= markerApp && marker <= markerApp+15:
			continue
		case marker == markerTables, marker == markerHuffman, marker == markerRestart:
		case marker >= 0xc0 && marker <= 0xc2: // a frame: baseline, extended or progressive
			if image.Width > 0 {
				return Image{}, invalid("two frames")
			}
			if image.Width, image.Height, err = jpegFrame(segment); err != nil {
				return Image{}, err
			}
		case marker == markerScan:
			if image.Width == 0 {
				return Image{}, invalid("a scan before its frame")
			}
			n := jpegScan(rest)
			segment, rest = segment[:len(segment)+n], rest[n:] // they are adjacent
			scanned = true
		default:
			return Image{}, invalid("a marker %#x", marker)
		}
		image.File = append(image.File, segment...)
	}
}

// jpegSegment returns the first segment of b, with its marker.
func jpegSegment(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, invalid("a segment of %d bytes", len(b))
	}
	length := 2 + int(binary.BigEndian.Uint16(b[2:]))
	if length < 4 || length > len(b) {
		return nil, invalid("a segment of %d bytes with %d remaining", length, len(b))
	}
	return b[:length], nil
}

// jpegFrame returns the size in a frame header.
func jpegFrame(segment []byte) (width, height int, err error) {
	const fixed, perComponent = 10, 3
	if len(segment) < fixed || segment[4] != 8 {
		return 0, 0, invalid("a frame header of %d bytes", len(segment))
	}
	height, width = int(binary.BigEndian.Uint16(segment[5:])), int(binary.BigEndian.Uint16(segment[7:]))
	components := int(segment[9])
	if width == 0 || height == 0 || components != 1 && components != 3 || len(segment) != fixed+components*perComponent {
		return 0, 0, invalid("a frame of %d x %d with %d components", width, height, components)
	}
	return width, height, nil
}

// jpegScan returns the length of the data of a scan: up to a marker that is not part of it.
func jpegScan(b []byte) int {
	for i := 0; i+1 < len(b); i++ {
		if b[i] == 0xff && b[i+1] != 0 && (b[i+1] < markerFirstRST || b[i+1] > markerFirstRST+7) {
			return i
		}
	}
	return len(b)
}
