package mcp

import (
	"errors"
	"io"

	"mediastack.dev/runtime/fault"
)

// maxFile bounds the file of upload_media, in bytes (specification,
// "Limits": 10 MB).
const maxFile = 10 << 20

// The class of a character: its bits if below 64, otherwise one of these.
const (
	padding = 64 + iota
	space
	notBase64
)

// alphabet maps the characters of both alphabets, the standard and the URL-safe one.
var alphabet = func() (table [256]byte) {
	for i := range table {
		table[i] = notBase64
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		table[c] = byte(i)
	}
	table['-'], table['_'] = table['+'], table['/']
	table['='] = padding
	for _, c := range []byte(" \t\r\n") {
		table[c] = space
	}
	return table
}()

// decoder decodes base64 while it arrives, in either alphabet, with or without padding. It belongs
// to one goroutine.
type decoder struct {
	from  io.Reader
	raw   [16 << 10]byte
	ready []byte
	out   [12<<10 + 3]byte
	err   error

	bits           uint32
	digits, pads   int
	standard, urls bool // characters that only one alphabet has
	at, size       int64
	unpadded       bool // the text has ended where padding belongs, and has none
}

// Read returns the next bytes of the file. Its errors are faults, except for errors of the body.
func (d *decoder) Read(p []byte) (int, error) {
	for len(d.ready) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		n, err := d.from.Read(d.raw[:])
		d.ready = d.out[:0]
		if d.err = d.decode(d.raw[:n]); d.err == nil && err != nil {
			if d.err = err; errors.Is(err, io.EOF) {
				d.err = d.finish()
			}
		}
		if d.size += int64(len(d.ready)); d.size > maxFile {
			d.ready, d.err = nil, errFileTooLarge
		}
	}
	n := copy(p, d.ready)
	d.ready = d.ready[n:]
	return n, nil
}

// errFileTooLarge is replaced by describeUploadError.
var errFileTooLarge = bodyTooLarge("the file is larger than %d bytes", maxFile)

func (d *decoder) decode(text []byte) error {
	for _, c := range text {
		d.at++
		value := alphabet[c]
		switch {
		case value == space:
			continue
		case value == padding:
			d.pads++
			continue
		case value == notBase64:
			return fault.New(fault.Invalid, "%s is not base64: character %d is invalid; send only the bytes of the file as base64, without a data: prefix", fileArgument, d.at)
		case d.pads > 0:
			return fault.New(fault.Invalid, "%s is not base64: something follows the padding at character %d", fileArgument, d.at)
		case value >= 62:
			urls := c == '-' || c == '_'
			d.urls, d.standard = d.urls || urls, d.standard || !urls
		}
		d.bits = d.bits<<6 | uint32(value)
		if d.digits++; d.digits == 4 {
			d.ready = append(d.ready, byte(d.bits>>16), byte(d.bits>>8), byte(d.bits)) //nolint:gosec // eight bits of them, on purpose
			d.digits = 0
		}
	}
	return nil
}

// finish checks the end, and decodes the remaining bytes.
func (d *decoder) finish() error {
	d.unpadded = d.digits > 0 && d.pads == 0
	switch {
	case d.size == 0 && len(d.ready) == 0 && d.digits == 0 && d.pads == 0:
		return fault.New(fault.Invalid, "%s is empty: send the bytes of the file as base64", fileArgument)
	case d.digits == 1 || d.pads > 2 || d.pads > 0 && d.digits+d.pads != 4:
		return fault.New(fault.Invalid, "%s is not base64: it is incomplete, or its padding is wrong", fileArgument)
	case d.urls && d.standard:
		return fault.New(fault.Invalid, "%s is not base64: it mixes the standard alphabet (+ and /) with the one for URLs (- and _)", fileArgument)
	case d.digits == 2:
		d.ready = append(d.ready, byte(d.bits>>4)) //nolint:gosec // eight bits of them, on purpose
	case d.digits == 3:
		d.ready = append(d.ready, byte(d.bits>>10), byte(d.bits>>2)) //nolint:gosec // eight bits of them, on purpose
	}
	return io.EOF
}
