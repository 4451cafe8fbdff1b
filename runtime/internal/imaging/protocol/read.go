package protocol

import (
	"encoding/binary"
	"errors"
	"io"
)

// Reader reads frames. What it gives points into its buffer and holds until the next call.
type Reader struct {
	from   io.Reader
	buffer []byte
}

// NewReader makes a reader of frames.
func NewReader(from io.Reader) *Reader { return &Reader{from: from, buffer: make([]byte, MaxControl)} }

// Frame is a frame whose length is within the bounds of its kind.
type Frame struct {
	Kind    Kind
	payload []byte
}

// Next reads a frame. At the end of the input between two frames it gives io.EOF, in
// the middle of one io.ErrUnexpectedEOF.
func (r *Reader) Next() (Frame, error) {
	header := r.buffer[:headerSize]
	if _, err := io.ReadFull(r.from, header); err != nil {
		return Frame{}, err
	}
	kind, length := Kind(header[0]), binary.BigEndian.Uint32(header[1:])
	switch {
	case kind < KindHello || kind > KindLacks:
		return Frame{}, violation("a frame of %v", kind)
	case kind == KindData && (length == 0 || length > MaxData), kind != KindData && length > MaxControl:
		return Frame{}, violation("a frame of %v with %d bytes", kind, length)
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

// Hello reads a greeting.
func (f Frame) Hello() (Hello, error) {
	p, err := f.fixed(KindHello, 4)
	if err != nil {
		return Hello{}, err
	}
	return Hello{Version: binary.BigEndian.Uint16(p), Locked: Layers(binary.BigEndian.Uint16(p[2:]))}, nil
}

// Job reads a job.
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
		return Job{}, violation("a job with values that make no sense")
	}
	return j, nil
}

// Head reads the beginning of a derivative.
func (f Frame) Head() (Head, error) {
	p, err := f.fixed(KindHead, 21)
	if err != nil {
		return Head{}, err
	}
	h := Head{
		Number:  binary.BigEndian.Uint32(p),
		Variant: Variant(p[4]),
		Bytes:   binary.BigEndian.Uint64(p[5:]),
		Width:   binary.BigEndian.Uint32(p[13:]),
		Height:  binary.BigEndian.Uint32(p[17:]),
	}
	if h.Variant != Thumbnail && h.Variant != WebP || h.Bytes == 0 || h.Width == 0 || h.Height == 0 {
		return Head{}, violation("a derivative with values that make no sense")
	}
	return h, nil
}

// Done reads the end of a job.
func (f Frame) Done() (Done, error) {
	p, err := f.fixed(KindDone, 4)
	if err != nil {
		return Done{}, err
	}
	return Done{Number: binary.BigEndian.Uint32(p)}, nil
}

// Refused reads a refusal.
func (f Frame) Refused() (Refused, error) {
	if f.Kind != KindRefused || len(f.payload) < 5 || len(f.payload) > 5+MaxText {
		return Refused{}, violation("%v with %d bytes instead of Refused", f.Kind, len(f.payload))
	}
	r := Refused{Number: binary.BigEndian.Uint32(f.payload), Reason: Reason(f.payload[4]), Text: string(f.payload[5:])}
	if r.Reason < ReasonFormat || r.Reason > ReasonEncode {
		return Refused{}, violation("a refusal for reason %d", r.Reason)
	}
	return r, nil
}

// Lacks reads why a derivative could not be made.
func (f Frame) Lacks() (Lacks, error) {
	p := f.payload
	if f.Kind != KindLacks || len(p) < 6 || len(p) > 6+MaxText {
		return Lacks{}, violation("%v with %d bytes instead of Lacks", f.Kind, len(p))
	}
	l := Lacks{Number: binary.BigEndian.Uint32(p), Variant: Variant(p[4]), Reason: Reason(p[5]), Text: string(p[6:])}
	if l.Variant != Thumbnail && l.Variant != WebP || l.Reason < ReasonFormat || l.Reason > ReasonEncode {
		return Lacks{}, violation("a lack of variant %d for reason %d", l.Variant, l.Reason)
	}
	return l, nil
}

// Empty reads a frame that has no payload: End or Abort.
func (f Frame) Empty() error {
	_, err := f.fixed(f.Kind, 0)
	return err
}

func (f Frame) fixed(kind Kind, length int) ([]byte, error) {
	if f.Kind != kind || len(f.payload) != length {
		return nil, violation("%v with %d bytes instead of %v with %d", f.Kind, len(f.payload), kind, length)
	}
	return f.payload, nil
}
