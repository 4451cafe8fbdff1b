package protocol

import (
	"encoding/binary"
	"errors"
	"io"
)

// Reader reads frames. A frame points into its buffer and is valid until the next call.
type Reader struct {
	from   io.Reader
	buffer []byte
}

// NewReader returns a Reader from from.
func NewReader(from io.Reader) *Reader { return &Reader{from: from, buffer: make([]byte, MaxControl)} }

// Frame is a frame whose length is within the bound of its kind.
type Frame struct {
	Kind    Kind
	payload []byte
}

// Next reads a frame. It returns io.EOF at the end of the input, and io.ErrUnexpectedEOF
// if the input ends within a frame.
func (r *Reader) Next() (Frame, error) {
	header := r.buffer[:headerSize]
	if _, err := io.ReadFull(r.from, header); err != nil {
		return Frame{}, err
	}
	kind, length := Kind(header[0]), binary.BigEndian.Uint32(header[1:])
	switch {
	case kind < KindHandshake || kind > KindDerivativeError:
		return Frame{}, protocolError("a frame of %v", kind)
	case kind == KindData && (length == 0 || length > MaxData), kind != KindData && length > MaxControl:
		return Frame{}, protocolError("a frame of %v with %d bytes", kind, length)
	}
	if int(length) > len(r.buffer) {
		r.buffer = make([]byte, MaxData)
	}
	payload := r.buffer[:length]
	if _, err := io.ReadFull(r.from, payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return Frame{Kind: kind, payload: payload}, nil
}

// Data returns the bytes of a Data frame.
func (f Frame) Data() []byte { return f.payload }

// Handshake parses a handshake.
func (f Frame) Handshake() (Handshake, error) {
	p, err := f.fixed(KindHandshake, 6)
	if err != nil {
		return Handshake{}, err
	}
	return Handshake{Version: binary.BigEndian.Uint16(p), Sandbox: Layers(binary.BigEndian.Uint16(p[2:])), Formats: Formats(binary.BigEndian.Uint16(p[4:]))}, nil
}

// Job parses a job.
func (f Frame) Job() (Job, error) {
	p, err := f.fixed(KindJob, 42)
	if err != nil {
		return Job{}, err
	}
	j := Job{
		Number:    binary.BigEndian.Uint32(p),
		Bytes:     binary.BigEndian.Uint64(p[4:]),
		MaxPixels: binary.BigEndian.Uint64(p[12:]),
		MaxFrames: binary.BigEndian.Uint32(p[20:]),
		MaxOutput: binary.BigEndian.Uint64(p[24:]),
		TimeoutMS: binary.BigEndian.Uint32(p[32:]),
		Width:     binary.BigEndian.Uint16(p[36:]),
		Height:    binary.BigEndian.Uint16(p[38:]),
		WebP:      p[40] == 1,
		Quality:   p[41],
	}
	if p[40] > 1 || j.Quality > 100 || j.Width == 0 || j.Height == 0 || j.Bytes == 0 {
		return Job{}, protocolError("a job with invalid values")
	}
	return j, nil
}

// DerivativeHeader parses the header of a derivative.
func (f Frame) DerivativeHeader() (DerivativeHeader, error) {
	p, err := f.fixed(KindDerivativeHeader, 21)
	if err != nil {
		return DerivativeHeader{}, err
	}
	h := DerivativeHeader{
		Number:  binary.BigEndian.Uint32(p),
		Variant: Variant(p[4]),
		Bytes:   binary.BigEndian.Uint64(p[5:]),
		Width:   binary.BigEndian.Uint32(p[13:]),
		Height:  binary.BigEndian.Uint32(p[17:]),
	}
	if h.Variant != Thumbnail && h.Variant != WebP || h.Bytes == 0 || h.Width == 0 || h.Height == 0 {
		return DerivativeHeader{}, protocolError("a derivative header with invalid values")
	}
	return h, nil
}

// Done parses the end of a job.
func (f Frame) Done() (Done, error) {
	p, err := f.fixed(KindDone, 4)
	if err != nil {
		return Done{}, err
	}
	return Done{Number: binary.BigEndian.Uint32(p)}, nil
}

// Rejected parses a rejection.
func (f Frame) Rejected() (Rejected, error) {
	if f.Kind != KindRejected || len(f.payload) < 5 || len(f.payload) > 5+MaxText {
		return Rejected{}, protocolError("%v with %d bytes instead of Rejected", f.Kind, len(f.payload))
	}
	r := Rejected{Number: binary.BigEndian.Uint32(f.payload), Reason: Reason(f.payload[4]), Text: string(f.payload[5:])}
	if r.Reason < ReasonFormat || r.Reason > ReasonEncode {
		return Rejected{}, protocolError("a rejection for reason %d", r.Reason)
	}
	return r, nil
}

// DerivativeError parses the error of one derivative.
func (f Frame) DerivativeError() (DerivativeError, error) {
	p := f.payload
	if f.Kind != KindDerivativeError || len(p) < 6 || len(p) > 6+MaxText {
		return DerivativeError{}, protocolError("%v with %d bytes instead of DerivativeError", f.Kind, len(p))
	}
	l := DerivativeError{Number: binary.BigEndian.Uint32(p), Variant: Variant(p[4]), Reason: Reason(p[5]), Text: string(p[6:])}
	if l.Variant != Thumbnail && l.Variant != WebP || l.Reason < ReasonFormat || l.Reason > ReasonEncode {
		return DerivativeError{}, protocolError("an error of variant %d for reason %d", l.Variant, l.Reason)
	}
	return l, nil
}

// Empty parses a frame without a payload: End or Abort.
func (f Frame) Empty() error {
	_, err := f.fixed(f.Kind, 0)
	return err
}

func (f Frame) fixed(kind Kind, length int) ([]byte, error) {
	if f.Kind != kind || len(f.payload) != length {
		return nil, protocolError("%v with %d bytes instead of %v with %d", f.Kind, len(f.payload), kind, length)
	}
	return f.payload, nil
}
