package filehead

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
)

// The elements of Matroska and WebM files (RFC 9559) that are read.
const (
	elementHeader        = 0x1a45dfa3
	elementSegment       = 0x18538067
	elementInfo          = 0x1549a966
	elementTimestampUnit = 0x2ad7b1
	elementDuration      = 0x4489
	elementCluster       = 0x1f43b675
)

// element is a part of an EBML file (RFC 8794), by offsets in the data that it was read from.
type element struct {
	id        uint64
	body, end uint64 // end is openEnd for an element of unknown size
}

// readElement reads the element at an offset. It returns false for a header that is cut off, or not valid.
func readElement(data []byte, at uint64) (element, bool) {
	idLength, ok := numberLength(data, at)
	if !ok || idLength > 4 {
		return element{}, false
	}
	e := element{id: bigEndian(data[at : at+idLength])}
	at += idLength
	sizeLength, ok := numberLength(data, at)
	if !ok {
		return element{}, false
	}
	e.body = at + sizeLength
	size, unknown := bigEndian(data[at:e.body])&(1<<(7*sizeLength)-1), uint64(1<<(7*sizeLength)-1)
	if e.end = e.body + size; size == unknown {
		e.end = openEnd
	}
	return e, true
}

// numberLength returns how many bytes a number of variable length has, if all of them are there.
func numberLength(data []byte, at uint64) (uint64, bool) {
	if at >= uint64(len(data)) || data[at] == 0 {
		return 0, false
	}
	length := uint64(bits.LeadingZeros8(data[at])) + 1 //nolint:gosec // 0 to 7
	return length, at+length <= uint64(len(data))
}

// bigEndian returns a number of up to 8 bytes.
func bigEndian(number []byte) (value uint64) {
	for _, b := range number {
		value = value<<8 | uint64(b)
	}
	return value
}

// readMatroska reads the element Info of Matroska and WebM files. Recordings of browsers do not have their
// duration there.
func readMatroska(head []byte) Head {
	header, ok := readElement(head, 0)
	if !ok || header.id != elementHeader || header.end >= uint64(len(head)) {
		return Head{}
	}
	segment, ok := readElement(head, header.end)
	if !ok || segment.id != elementSegment {
		return Head{}
	}
	for at := segment.body; at < min(segment.end, uint64(len(head))); {
		e, ok := readElement(head, at)
		if !ok || e.end > segment.end || e.end == openEnd || e.id == elementCluster {
			break
		}
		if e.id == elementInfo {
			if e.end > uint64(len(head)) {
				break
			}
			h := Head{Duration: infoDuration(head[e.body:e.end])}
			if segment.end != openEnd {
				h.MinBytes = signed(segment.end)
			}
			return h
		}
		at = e.end
	}
	return Head{}
}

// infoDuration returns the duration that an element Info has; 0 = none.
func infoDuration(info []byte) time.Duration {
	unit, units, durations := uint64(1_000_000), 0.0, 0 // nanoseconds of a unit
	for at := uint64(0); at < uint64(len(info)); {
		e, ok := readElement(info, at)
		if !ok || e.end > uint64(len(info)) {
			return 0
		}
		switch body := info[e.body:e.end]; e.id {
		case elementTimestampUnit:
			if len(body) > 8 {
				return 0
			}
			if len(body) > 0 { // else the default
				unit = bigEndian(body)
			}
		case elementDuration:
			switch durations++; len(body) {
			case 4:
				units = float64(math.Float32frombits(binary.BigEndian.Uint32(body)))
			case 8:
				units = math.Float64frombits(binary.BigEndian.Uint64(body))
			}
		}
		at = e.end
	}
	if durations > 1 {
		return 0
	}
	return clampMilliseconds(units * float64(unit) / 1e6)
}
