package filehead

import (
	"encoding/binary"
	"math"
)

// The formats of WAV files whose samples have all the same size.
const (
	waveExtensible = 0xfffe
	wavePCM        = 1
	waveFloat      = 3
	waveALaw       = 6
	waveMuLaw      = 7
)

// readWave reads WAV files without compression, and those of more than 4 GiB: RF64 (EBU Tech 3306) and BW64.
func readWave(head []byte) Head {
	if len(head) < 12 || string(head[8:12]) != "WAVE" {
		return Head{}
	}
	var bytesPerSecond, longData uint64
	for at := uint64(12); at+8 <= uint64(len(head)); {
		kind, size := string(head[at:at+4]), uint64(binary.LittleEndian.Uint32(head[at+4:]))
		at += 8
		body := within(head, at, at+size)
		switch {
		case kind == "ds64" && len(body) >= 16:
			longData = binary.LittleEndian.Uint64(body[8:])
		case kind == "fmt ":
			if bytesPerSecond > 0 {
				return Head{}
			}
			bytesPerSecond = waveRate(body)
		case kind == "data":
			if size == math.MaxUint32 {
				size = longData // 0: the length was not known when the header was written
			}
			if size > math.MaxInt64/2 {
				return Head{}
			}
			return Head{Duration: duration(size, bytesPerSecond), MinBytes: signed(at + size)}
		}
		at += size + size%2
	}
	return Head{}
}

// waveRate returns the bytes per second of the format that a chunk describes; 0 = not known.
func waveRate(body []byte) uint64 {
	if len(body) < 16 {
		return 0
	}
	format, channels := binary.LittleEndian.Uint16(body), uint64(binary.LittleEndian.Uint16(body[2:]))
	samples, rate := uint64(binary.LittleEndian.Uint32(body[4:])), uint64(binary.LittleEndian.Uint32(body[8:]))
	block, sampleBits := uint64(binary.LittleEndian.Uint16(body[12:])), uint64(binary.LittleEndian.Uint16(body[14:]))
	if format == waveExtensible && len(body) >= 26 {
		format = binary.LittleEndian.Uint16(body[24:]) // the first bytes of the identifier of the format
	}
	switch format {
	case wavePCM, waveFloat, waveALaw, waveMuLaw:
	default:
		return 0
	}
	if block != channels*((sampleBits+7)/8) || rate != samples*block {
		return 0
	}
	return rate
}
