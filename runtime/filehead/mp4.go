package filehead

import (
	"encoding/binary"
	"math"
	"time"
)

// box is a part of an ISO base media file (ISO/IEC 14496-12), by offsets in the data that it was read from.
type box struct {
	kind      uint32
	body, end uint64 // end is openEnd for a box that extends to the end of the file
}

const openEnd = math.MaxUint64

// The boxes that are read, and those with which files of before there was ftyp begin.
const (
	boxFtyp = 'f'<<24 | 't'<<16 | 'y'<<8 | 'p'
	boxMoov = 'm'<<24 | 'o'<<16 | 'o'<<8 | 'v'
	boxMvhd = 'm'<<24 | 'v'<<16 | 'h'<<8 | 'd'
	boxMvex = 'm'<<24 | 'v'<<16 | 'e'<<8 | 'x'
	boxMehd = 'm'<<24 | 'e'<<16 | 'h'<<8 | 'd'
	boxMdat = 'm'<<24 | 'd'<<16 | 'a'<<8 | 't'
	boxFree = 'f'<<24 | 'r'<<16 | 'e'<<8 | 'e'
	boxSkip = 's'<<24 | 'k'<<16 | 'i'<<8 | 'p'
	boxWide = 'w'<<24 | 'i'<<16 | 'd'<<8 | 'e'
	boxPnot = 'p'<<24 | 'n'<<16 | 'o'<<8 | 't'
)

// maxBoxHeader is the size of the longest header of a box. What is less is cut off, or of no interest.
const maxBoxHeader = 16

// readBox reads the box at an offset, at which there is a header. It returns false for one that is not valid.
func readBox(data []byte, at uint64) (box, bool) {
	header := data[at : at+maxBoxHeader]
	b := box{kind: binary.BigEndian.Uint32(header[4:]), body: at + 8}
	size := uint64(binary.BigEndian.Uint32(header))
	switch size {
	case 0:
		b.end = openEnd
		return b, true
	case 1:
		b.body, size = at+16, binary.BigEndian.Uint64(header[8:])
	}
	b.end = at + size
	return b, b.end >= b.body && size <= math.MaxInt64
}

// mayBeFirst reports whether files begin with a box of a kind.
func mayBeFirst(kind uint32) bool {
	switch kind {
	case boxFtyp, boxMoov, boxMdat, boxFree, boxSkip, boxWide, boxPnot:
		return true
	}
	return false
}

// readMP4 reads MP4, M4A and QuickTime files whose box moov is before the media.
func readMP4(head []byte) (h Head) {
	found := false
	for at := uint64(0); at+maxBoxHeader <= uint64(len(head)); {
		b, ok := readBox(head, at)
		if !ok || at == 0 && !mayBeFirst(b.kind) || b.kind == boxMoov && found {
			return Head{}
		}
		if b.kind == boxMoov {
			if b.end > uint64(len(head)) && len(head) < Length { // it is cut off
				return Head{}
			}
			found = true
			h.Duration = movieDuration(within(head, b.body, b.end), b.end-b.body)
		}
		if b.end == openEnd {
			break
		}
		at = b.end
		h.MinBytes = signed(at)
	}
	return h
}

// movieDuration returns the duration of a box moov of so many bytes, of which the first ones are known. With
// movie fragments, mvhd has the duration of the first one only. mvex, which says so, may be after the tables of
// samples; a movie in fragments has short ones, so that its moov is in the head as a whole.
func movieDuration(moov []byte, size uint64) time.Duration {
	var header, extends []byte
	for at := uint64(0); at+maxBoxHeader <= uint64(len(moov)); {
		child, ok := readBox(moov, at)
		if !ok || child.end > size || child.kind == boxMvhd && header != nil {
			return 0
		}
		switch child.kind {
		case boxMvhd:
			header = within(moov, child.body, child.end)
		case boxMvex:
			extends = within(moov, child.body, child.end)
		}
		at = child.end
	}
	timescale, ticks := movieHeader(header)
	if extends != nil {
		ticks = fragmentsDuration(extends)
	}
	return duration(ticks, timescale)
}

// movieHeader returns the units per second and the duration of a box mvhd; 0 = not known.
func movieHeader(body []byte) (timescale, ticks uint64) {
	switch {
	case len(body) >= 32 && body[0] == 1:
		timescale, ticks = uint64(binary.BigEndian.Uint32(body[20:])), binary.BigEndian.Uint64(body[24:])
		if ticks == math.MaxUint64 {
			ticks = 0
		}
	case len(body) >= 20 && body[0] == 0:
		timescale, ticks = uint64(binary.BigEndian.Uint32(body[12:])), uint64(binary.BigEndian.Uint32(body[16:]))
		if ticks == math.MaxUint32 {
			ticks = 0
		}
	}
	return timescale, ticks
}

// fragmentsDuration returns the duration of a box mvex, in the units of mvhd: 0 if it does not have it, as
// that of a recording that was not finished.
func fragmentsDuration(mvex []byte) uint64 {
	for at := uint64(0); at+maxBoxHeader <= uint64(len(mvex)); {
		child, ok := readBox(mvex, at)
		if !ok || child.end > uint64(len(mvex)) {
			return 0
		}
		if body := within(mvex, child.body, child.end); child.kind == boxMehd {
			switch {
			case len(body) >= 12 && body[0] == 1:
				return binary.BigEndian.Uint64(body[4:])
			case len(body) >= 8 && body[0] == 0:
				return uint64(binary.BigEndian.Uint32(body[4:]))
			}
		}
		at = child.end
	}
	return 0
}
