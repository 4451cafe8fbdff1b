package filehead

import "encoding/binary"

// A frame has at most maxFLACBlock samples, and at least minFLACFrame bytes: header, one subframe and checksums.
const (
	maxFLACBlock = 65535
	minFLACFrame = 8
)

// readFLAC reads the block STREAMINFO (RFC 9639), which is the first one.
func readFLAC(head []byte) Head {
	if len(head) < 4+4+34 || head[4]&0x7f != 0 || binary.BigEndian.Uint32(head[4:])&0xffffff != 34 {
		return Head{}
	}
	// 20 bits of the sample rate, 3 of the channels, 5 of the sample size, 36 of the number of samples.
	fields := binary.BigEndian.Uint64(head[18:])
	samples := fields & (1<<36 - 1)
	return Head{Duration: duration(samples, fields>>44), MinBytes: signed(samples / maxFLACBlock * minFLACFrame)}
}
