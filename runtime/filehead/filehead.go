// Package filehead reads what the first bytes of a file say about the whole of it: how long a recording is,
// and how many pages a document has. Package upload reads it of every file.
//
// Files come from anyone. Nothing is allocated by the sizes that they declare, and what is contradictory
// or absurd is not known.
package filehead

import (
	"bytes"
	"math"
	"math/bits"
	"strings"
	"time"
)

// Length is how many bytes at the start of a file are read at most: enough for the cover picture that most
// MP3 files begin with. The header of the other formats is in the first kilobytes.
const Length = 256 << 10

// The largest facts that are not absurd.
const (
	MaxDuration = 1_000_000 * time.Hour
	MaxPages    = 10_000_000
)

// Head is what the first bytes of a file say. It is stored with uploads that have not ended.
type Head struct {
	// Duration of a recording, in whole milliseconds; 0 = not known.
	Duration time.Duration `json:"duration,omitzero"`
	// Pages of a document; 0 = not known.
	Pages int `json:"pages,omitzero"`
	// MinBytes and MaxBytes are the sizes of a file of which the rest is true; a MaxBytes of 0 = any.
	MinBytes int64 `json:"minBytes,omitzero"`
	MaxBytes int64 `json:"maxBytes,omitzero"`
}

// Read reads the first bytes of a file, Length of them or all if it has less. What they do not say is zero.
func Read(head []byte) Head {
	h := read(head[:min(len(head), Length)])
	if h.Duration < 0 || h.Duration > MaxDuration || h.Pages < 0 || h.Pages > MaxPages || h.MinBytes < 0 || h.Duration == 0 && h.Pages == 0 {
		return Head{}
	}
	return h
}

// Of returns the head of a file of so many bytes: zero if that is not the file which the head describes, but
// a part of it, or a later revision.
func (h Head) Of(size int64) Head {
	if size < h.MinBytes || h.MaxBytes > 0 && size > h.MaxBytes {
		return Head{}
	}
	return h
}

// MayKnow reports whether Read knows a format of a content type.
func MayKnow(mimeType string) bool {
	return strings.HasPrefix(mimeType, "audio/") || strings.HasPrefix(mimeType, "video/") || mimeType == "application/pdf"
}

func read(head []byte) Head {
	switch prefix := string(head[:min(len(head), 4)]); {
	case prefix == "RIFF" || prefix == "RF64" || prefix == "BW64":
		return readWave(head)
	case prefix == "FORM":
		return readAIFF(head)
	case prefix == "fLaC":
		return readFLAC(head)
	case prefix == "\x1a\x45\xdf\xa3":
		return readMatroska(head)
	case bytes.HasPrefix(head, []byte("%PDF-")):
		return readPDF(head)
	case strings.HasPrefix(prefix, "ID3") || strings.HasPrefix(prefix, "\xff"):
		return readMP3(head)
	}
	return readMP4(head)
}

// duration returns how long n units last, of which there are so many in a second; 0 if that is not known
// or absurd.
func duration(n, perSecond uint64) time.Duration {
	if perSecond == 0 || n/perSecond > uint64(MaxDuration/time.Second) {
		return 0
	}
	high, low := bits.Mul64(n, 1000)
	low, carry := bits.Add64(low, perSecond/2, 0)
	milliseconds, _ := bits.Div64(high+carry, low, perSecond) // no overflow: n/perSecond is small
	return clampMilliseconds(float64(milliseconds))
}

// clampMilliseconds returns a number of milliseconds as a duration; 0 if it is not a number, or absurd.
func clampMilliseconds(milliseconds float64) time.Duration {
	if !(milliseconds > 0 && milliseconds <= float64(MaxDuration/time.Millisecond)) {
		return 0
	}
	return time.Duration(math.Round(milliseconds)) * time.Millisecond
}

// signed returns a size that a file declares: the largest one if it does not fit.
func signed(size uint64) int64 { return int64(min(size, math.MaxInt64)) }

// within returns data[from:end] as far as there is any.
func within(data []byte, from, end uint64) []byte {
	size := uint64(len(data))
	end = min(end, size)
	return data[min(from, end):end]
}
