package filehead

import (
	"encoding/binary"
	"math"
)

// uncompressed are the formats of AIFF-C files of which each frame has a sample of each channel.
var uncompressed = map[string]bool{"NONE": true, "twos": true, "sowt": true, "raw ": true, "in24": true, "in32": true, "fl32": true, "FL32": true, "fl64": true, "FL64": true}

// readAIFF reads AIFF files, and AIFF-C ones without compression.
func readAIFF(head []byte) Head {
	kind := string(within(head, 8, 12))
	if kind != "AIFF" && kind != "AIFC" {
		return Head{}
	}
	for at := uint64(12); at+8 <= uint64(len(head)); {
		size := uint64(binary.BigEndian.Uint32(head[at+4:]))
		body := within(head, at+8, at+8+size)
		if string(head[at:at+4]) == "COMM" {
			if len(body) < 18 || kind == "AIFC" && !uncompressed[string(within(body, 18, 22))] {
				return Head{}
			}
			channels, frames, bits := uint64(binary.BigEndian.Uint16(body)), uint64(binary.BigEndian.Uint32(body[2:])), uint64(binary.BigEndian.Uint16(body[6:]))
			if channels == 0 || bits == 0 {
				return Head{}
			}
			return Head{Duration: clampMilliseconds(float64(frames) * 1000 / extended(body[8:18])), MinBytes: signed(frames * channels * ((bits + 7) / 8))}
		}
		at += 8 + size + size%2
	}
	return Head{}
}

// extended returns a number of 80 bits (IEEE 754): NaN for a negative one. Infinite ones are very large.
func extended(number []byte) float64 {
	exponent := int(binary.BigEndian.Uint16(number))
	if exponent >= 0x8000 {
		return math.NaN()
	}
	return math.Ldexp(float64(binary.BigEndian.Uint64(number[2:])), exponent-16383-63)
}
