package protocol

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"

	"mediastack.dev/runtime/geometry"
	"mediastack.dev/runtime/imageformat"
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
	case kind < KindHandshake || kind > KindCapture:
		return Frame{}, protocolError("a frame of %v", kind)
	case kind == KindData && (length == 0 || length > MaxData), kind == KindCapture && length > MaxCapture,
		kind != KindData && kind != KindCapture && length > MaxControl:
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
	p, err := f.fixed(KindHandshake, 8)
	if err != nil {
		return Handshake{}, err
	}
	return Handshake{Version: binary.BigEndian.Uint16(p), Sandbox: Layers(binary.BigEndian.Uint16(p[2:])), Formats: Formats(binary.BigEndian.Uint16(p[4:])),
		Encoders: Formats(binary.BigEndian.Uint16(p[6:]))}, nil
}

// Sizes of a job, in bytes.
const (
	jobSize    = 45
	outputSize = 20
)

// Job parses a job.
func (f Frame) Job() (Job, error) {
	p := f.payload
	outputs := (len(p) - jobSize) / outputSize
	if f.Kind != KindJob || len(p) < jobSize || len(p) != jobSize+outputs*outputSize || outputs > MaxOutputs || p[jobSize-1] > 1 {
		return Job{}, protocolError("%v with %d bytes instead of Job", f.Kind, len(p))
	}
	j := Job{
		Number:       binary.BigEndian.Uint32(p),
		Bytes:        binary.BigEndian.Uint64(p[4:]),
		MaxPixels:    binary.BigEndian.Uint64(p[12:]),
		MaxFrames:    binary.BigEndian.Uint32(p[20:]),
		MaxAnimation: binary.BigEndian.Uint64(p[24:]),
		MaxBytes:     binary.BigEndian.Uint64(p[32:]),
		TimeoutMS:    binary.BigEndian.Uint32(p[40:]),
		Location:     p[44] == 1,
	}
	if j.Bytes == 0 {
		return Job{}, protocolError("a job without bytes")
	}
	for n := range outputs {
		output, err := readOutput(p[jobSize+n*outputSize:], n == 0)
		if err != nil {
			return Job{}, err
		}
		j.Outputs = append(j.Outputs, output)
	}
	return j, nil
}

// readOutput parses an output of a job.
func readOutput(p []byte, first bool) (Output, error) {
	const thousand = 1000
	o := Output{
		Width:      binary.BigEndian.Uint16(p),
		Height:     binary.BigEndian.Uint16(p[2:]),
		PointX:     binary.BigEndian.Uint16(p[4:]),
		PointY:     binary.BigEndian.Uint16(p[6:]),
		Fit:        geometry.Fit(p[8]),
		Focus:      Focus(p[9]),
		Encoding:   imageformat.Format(p[10]),
		Quality:    p[11],
		Background: [3]byte(p[12:15]),
		Flags:      Flags(p[15]),
		MaxBytes:   binary.BigEndian.Uint32(p[16:]),
	}
	switch {
	case o.PointX > thousand, o.PointY > thousand, o.Fit > geometry.Pad, o.Focus > FocusPoint, !o.Encoding.Valid(), o.Quality > 100, o.Flags&^allFlags != 0,
		o.Flags&Animated != 0 && !o.Encoding.Animated(), o.Flags&Thumbnail != 0 && !first,
		o.MaxBytes != 0 && (o.MaxBytes < MinFitted || o.Encoding != imageformat.JPEG || o.Flags&(Thumbnail|Conversion) != 0):
		return Output{}, protocolError("an output with invalid values")
	}
	return o, nil
}

// factsSize is the size of facts without the placeholder, in bytes.
const factsSize = 16

// Facts parses what an image is.
func (f Frame) Facts() (Facts, error) {
	p := f.payload
	if f.Kind != KindFacts || len(p) < factsSize {
		return Facts{}, protocolError("%v with %d bytes instead of Facts", f.Kind, len(p))
	}
	facts := Facts{Number: binary.BigEndian.Uint32(p), Width: binary.BigEndian.Uint32(p[4:]), Height: binary.BigEndian.Uint32(p[8:]),
		HasColor: p[12] == 1, DominantColor: [3]byte(p[13:16]), Placeholder: string(p[factsSize:])}
	placeholder := len(facts.Placeholder)
	if facts.Width == 0 || facts.Height == 0 || p[12] > 1 || !facts.HasColor && facts.DominantColor != [3]byte{} || placeholder > 0 && placeholder < MinPlaceholder || placeholder > MaxPlaceholder {
		return Facts{}, protocolError("facts with invalid values")
	}
	return facts, nil
}

// Capture parses what a file says of how it was made. It is not checked: the reader cleans it.
func (f Frame) Capture() (Capture, error) {
	p := f.payload
	if f.Kind != KindCapture || len(p) < 4 {
		return Capture{}, protocolError("%v with %d bytes instead of Capture", f.Kind, len(p))
	}
	c := Capture{Number: binary.BigEndian.Uint32(p)}
	if err := json.Unmarshal(p[4:], &c.Capture); err != nil {
		return Capture{}, protocolError("a capture with invalid values")
	}
	if text, err := json.Marshal(c.Capture); err != nil || !bytes.Equal(text, p[4:]) {
		return Capture{}, protocolError("a capture in another form")
	}
	return c, nil
}

// PictureHeader parses the header of a picture.
func (f Frame) PictureHeader() (PictureHeader, error) {
	p, err := f.fixed(KindPictureHeader, 22)
	if err != nil {
		return PictureHeader{}, err
	}
	h := PictureHeader{
		Number:   binary.BigEndian.Uint32(p),
		Index:    p[4],
		Encoding: imageformat.Format(p[5]),
		Bytes:    binary.BigEndian.Uint64(p[6:]),
		Width:    binary.BigEndian.Uint32(p[14:]),
		Height:   binary.BigEndian.Uint32(p[18:]),
	}
	if h.Index >= MaxOutputs || h.Encoding == imageformat.Auto || !h.Encoding.Valid() || h.Bytes == 0 || h.Width == 0 || h.Height == 0 {
		return PictureHeader{}, protocolError("a picture header with invalid values")
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
	if r.Reason < ReasonFormat || r.Reason > ReasonNotApplicable {
		return Rejected{}, protocolError("a rejection for reason %d", r.Reason)
	}
	return r, nil
}

// PictureError parses the error of one picture.
func (f Frame) PictureError() (PictureError, error) {
	p := f.payload
	if f.Kind != KindPictureError || len(p) < 6 || len(p) > 6+MaxText {
		return PictureError{}, protocolError("%v with %d bytes instead of PictureError", f.Kind, len(p))
	}
	e := PictureError{Number: binary.BigEndian.Uint32(p), Index: p[4], Reason: Reason(p[5]), Text: string(p[6:])}
	if e.Index >= MaxOutputs || e.Reason < ReasonFormat || e.Reason > ReasonNotApplicable {
		return PictureError{}, protocolError("an error of output %d for reason %d", e.Index, e.Reason)
	}
	return e, nil
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
