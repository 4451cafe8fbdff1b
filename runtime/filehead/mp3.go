package filehead

import (
	"bytes"
	"encoding/binary"
)

// readMP3 reads MP3 files whose first frame has a header of Xing, LAME or Fraunhofer: others do not say how
// many frames follow.
func readMP3(head []byte) Head {
	frame, ok := skipID3(head)
	if !ok || len(frame) < 4 {
		return Head{}
	}
	if string(frame[:4]) == "fLaC" {
		return readFLAC(frame)
	}
	header := binary.BigEndian.Uint32(frame)
	rate, samples, sideInfo := frameFormat(header)
	if rate == 0 {
		return Head{}
	}
	offset := 4 + sideInfo
	if header>>16&1 == 0 && !isXing(frame, offset) {
		offset += 2 // after the checksum, which some encoders do not count
	}
	switch {
	case isXing(frame, offset):
		return readXing(within(frame, offset, uint64(len(frame))), rate, samples)
	case string(within(frame, 36, 40)) == "VBRI":
		if fields := within(frame, 36, 36+18); len(fields) == 18 {
			return Head{Duration: duration(uint64(binary.BigEndian.Uint32(fields[14:]))*samples, rate), MinBytes: minMP3Size(binary.BigEndian.Uint32(fields[14:]), binary.BigEndian.Uint32(fields[10:]))}
		}
	}
	return Head{}
}

// skipID3 returns what follows the tags at the start of a file, if they end in the head.
func skipID3(head []byte) ([]byte, bool) {
	for bytes.HasPrefix(head, []byte("ID3")) {
		if len(head) < 10 {
			return nil, false
		}
		size := uint64(10)
		for i, b := range head[6:10] {
			if b >= 0x80 {
				return nil, false
			}
			size += uint64(b) << (7 * (3 - i))
		}
		if head[5]&0x10 != 0 { // a footer
			size += 10
		}
		if size > uint64(len(head)) {
			return nil, false
		}
		head = head[size:]
	}
	return head, true
}

// frameFormat returns the samples per second, the samples of a frame, and the size of what follows its
// header; zero if it is not one of MPEG audio, layer III.
func frameFormat(header uint32) (rate, samples, sideInfo uint64) {
	version, layer, bitrate, rateIndex, mono := header>>19&3, header>>17&3, header>>12&15, header>>10&3, header>>6&3 == 3
	if header>>21 != 0x7ff || version == 1 || layer != 1 || bitrate == 15 || rateIndex == 3 {
		return 0, 0, 0
	}
	rate, samples, sideInfo = [...]uint64{44100, 48000, 32000}[rateIndex], 1152, 32
	if mono {
		sideInfo = 17
	}
	if version != 3 { // MPEG-2 and 2.5
		rate, samples, sideInfo = rate/2, 576, (sideInfo+2)/2 // 17 or 9
		if version == 0 {
			rate /= 2
		}
	}
	return rate, samples, sideInfo
}

func isXing(frame []byte, offset uint64) bool {
	name := string(within(frame, offset, offset+4))
	return name == "Xing" || name == "Info"
}

// minMP3Size returns the least size of a file with these frames, of which the header says size bytes: a frame
// of 8 kbit/s at 24 kHz has 24.
func minMP3Size(frames, size uint32) int64 {
	const minFrame = 24
	return max(int64(frames)*minFrame, int64(size))
}

// readXing reads a header of Xing, and the samples that LAME has added at both ends.
func readXing(tag []byte, rate, samplesPerFrame uint64) (h Head) {
	if len(tag) < 8 {
		return Head{}
	}
	flags, at := binary.BigEndian.Uint32(tag[4:]), uint64(8)
	field := func(flag uint32, size uint64) []byte {
		if flags&flag == 0 {
			return nil
		}
		at += size
		return within(tag, at-size, at)
	}
	frames, size := field(1, 4), field(2, 4)
	field(4, 100) // a table to seek by
	field(8, 4)   // the quality
	encoder := within(tag, at, at+24)
	if len(frames) < 4 || len(encoder) < 24 { // the frame is cut off
		return Head{}
	}
	h.MinBytes = minMP3Size(binary.BigEndian.Uint32(frames), uint32(bigEndian(size))) //nolint:gosec // at most 4 bytes
	samples := uint64(binary.BigEndian.Uint32(frames)) * samplesPerFrame
	if string(encoder[:4]) == "LAME" || string(encoder[:3]) == "Lav" {
		if added := bigEndian(encoder[21:24]); added>>12+added&0xfff < samples {
			samples -= added>>12 + added&0xfff
		}
	}
	h.Duration = duration(samples, rate)
	return h
}
