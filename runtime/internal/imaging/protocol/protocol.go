// Package protocol implements the protocol between the runtime and an image worker, over
// the worker's standard input and output. Package imaging is the runtime's side,
// cmd/mediastack-imaging the worker's.
//
// Everything is a frame: one byte of kind, four bytes of length (big-endian), and the
// payload. The worker sends Handshake once it is sandboxed. Then follows one job at a time:
//
//	runtime   Job, Data..., End       the job, and the file in pieces
//	          Job, Data..., Abort     the file could not be read; no answer
//	worker    DerivativeHeader, Data..., DerivativeHeader, Data..., Done
//	                                  one DerivativeHeader for each derivative, or
//	                                  DerivativeError for one that failed
//	          Rejected                no derivative: the file is corrupt or over a limit
//
// Every answer carries the job's number, so that an answer to another job is detected.
// The runtime closes the worker's standard input to stop it.
//
// The length of a frame is checked before the frame is read into memory: at most MaxData
// for Data, MaxControl for all others. On any other input the runtime kills the worker,
// which it takes for compromised, and the worker exits.
package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Version is the version of the protocol. Both sides come from one build; the version
// detects a mixed installation.
const Version = 3

// Bounds of payloads, in bytes.
const (
	MaxData    = 256 << 10
	MaxControl = 1 << 10
	headerSize = 5
)

// Kind is the type of a frame.
type Kind byte

// The kinds of frame.
const (
	KindHandshake        Kind = 1 // worker: ready for jobs
	KindJob              Kind = 2 // runtime: a job
	KindData             Kind = 3 // both: a piece of the file, or of a derivative
	KindEnd              Kind = 4 // runtime: the file is complete
	KindAbort            Kind = 5 // runtime: the job is canceled
	KindDerivativeHeader Kind = 6 // worker: a derivative follows
	KindDone             Kind = 7 // worker: the job's derivatives are complete
	KindRejected         Kind = 8 // worker: the file is rejected
	KindDerivativeError  Kind = 9 // worker: one derivative failed
)

func (k Kind) String() string {
	if k < KindHandshake || k > KindDerivativeError {
		return fmt.Sprintf("kind %d", byte(k))
	}
	return [...]string{"Handshake", "Job", "Data", "End", "Abort", "DerivativeHeader", "Done", "Rejected", "DerivativeError"}[k-KindHandshake]
}

// ErrProtocol is in the chain of every error for invalid input, and not in that of an
// error of reading or writing.
var ErrProtocol = errors.New("imaging protocol")

func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// Handshake is the first frame of a worker.
type Handshake struct {
	Version uint16
	Sandbox Layers  // the layers of the sandbox that are in effect
	Formats Formats // the formats that the worker has decoders of
}

// Formats is a set of image formats.
type Formats uint16

// The formats.
const (
	FormatJPEG Formats = 1 << iota
	FormatPNG
	FormatGIF
	FormatWebP
	FormatHEIC
	FormatAVIF
)

// FormatNames are the names of all formats, in the order of their bits.
var FormatNames = [...]string{"JPEG", "PNG", "GIF", "WebP", "HEIC", "AVIF"}

// Names returns the names of the formats in the set.
func (f Formats) Names() []string {
	var names []string
	for bit, name := range FormatNames {
		if f&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Layers is a set of sandbox layers.
type Layers uint16

// The layers of the sandbox.
const (
	LayerLimits     Layers = 1 << iota // address space, files and core dumps are limited
	LayerPrivileges                    // no new privileges, no core dumps
	LayerSyscalls                      // seccomp denies system calls that decoding does not need
)

// Job requests the derivatives of one file.
type Job struct {
	Number    uint32
	Bytes     uint64 // length of the file
	MaxPixels uint64 // width x height of one frame
	MaxFrames uint32
	MaxOutput uint64 // total bytes of all derivatives
	TimeoutMS uint32 // after the file is complete
	Width     uint16 // maximum size of the thumbnail
	Height    uint16
	WebP      bool // convert a still JPEG or PNG to WebP too
	Quality   uint8
}

// Variant is the type of a derivative.
type Variant uint8

// The derivatives.
const (
	Thumbnail Variant = 1
	WebP      Variant = 2
)

// DerivativeHeader precedes the Data frames of a derivative, which have Bytes in total.
type DerivativeHeader struct {
	Number  uint32
	Variant Variant
	Bytes   uint64
	Width   uint32
	Height  uint32
}

// Done ends a job.
type Done struct{ Number uint32 }

// DerivativeError is the reason why one derivative failed. Others of the job may not.
type DerivativeError struct {
	Number  uint32
	Variant Variant
	Reason  Reason
	Text    string // for the log, at most MaxText bytes
}

// Rejected ends a job without derivatives.
type Rejected struct {
	Number uint32
	Reason Reason
	Text   string // for the log, at most MaxText bytes
}

// MaxText is the maximum length of the text of Rejected and DerivativeError, in bytes.
const MaxText = 512

// Reason is why a file is rejected, or a derivative failed.
type Reason uint8

// The reasons.
const (
	ReasonFormat  Reason = 1 // not a supported format
	ReasonCorrupt Reason = 2 // truncated or damaged
	ReasonPixels  Reason = 3 // over the pixel limit
	ReasonFrames  Reason = 4 // over the frame limit
	ReasonOutput  Reason = 5 // the derivatives are too large
	ReasonMemory  Reason = 6 // not enough memory for this image
	ReasonEncode  Reason = 7 // the encoder failed, usually for lack of memory
)

func (r Reason) String() string {
	if r < ReasonFormat || r > ReasonEncode {
		return "unknown"
	}
	return [...]string{"unsupported_format", "corrupt", "pixel_limit", "frame_limit", "output_limit", "out_of_memory", "encoder_error"}[r-ReasonFormat]
}

// Writer writes frames, each with one call of Write.
type Writer struct {
	to     io.Writer
	buffer []byte
}

// NewWriter returns a Writer to to.
func NewWriter(to io.Writer) *Writer {
	return &Writer{to: to, buffer: make([]byte, headerSize, headerSize+4<<10)}
}

// Data sends data in as many frames as it needs.
func (w *Writer) Data(data []byte) error {
	for len(data) > 0 {
		n := min(len(data), MaxData)
		if err := w.send(KindData, func(b []byte) []byte { return append(b, data[:n]...) }); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Handshake sends the handshake.
func (w *Writer) Handshake(h Handshake) error {
	return w.send(KindHandshake, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, h.Version), uint16(h.Sandbox))
		return binary.BigEndian.AppendUint16(b, uint16(h.Formats))
	})
}

// Job sends a job.
func (w *Writer) Job(j Job) error {
	return w.send(KindJob, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, j.Number)
		b = binary.BigEndian.AppendUint64(b, j.Bytes)
		b = binary.BigEndian.AppendUint64(b, j.MaxPixels)
		b = binary.BigEndian.AppendUint32(b, j.MaxFrames)
		b = binary.BigEndian.AppendUint64(b, j.MaxOutput)
		b = binary.BigEndian.AppendUint32(b, j.TimeoutMS)
		b = binary.BigEndian.AppendUint16(b, j.Width)
		b = binary.BigEndian.AppendUint16(b, j.Height)
		webp := byte(0)
		if j.WebP {
			webp = 1
		}
		return append(b, webp, j.Quality)
	})
}

// End sends the end of the file.
func (w *Writer) End() error { return w.send(KindEnd, nil) }

// Abort cancels the job, whose file could not be read.
func (w *Writer) Abort() error { return w.send(KindAbort, nil) }

// DerivativeHeader sends the header of a derivative.
func (w *Writer) DerivativeHeader(h DerivativeHeader) error {
	return w.send(KindDerivativeHeader, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, h.Number)
		b = append(b, byte(h.Variant))
		b = binary.BigEndian.AppendUint64(b, h.Bytes)
		b = binary.BigEndian.AppendUint32(b, h.Width)
		return binary.BigEndian.AppendUint32(b, h.Height)
	})
}

// Done sends the end of a job.
func (w *Writer) Done(d Done) error {
	return w.send(KindDone, func(b []byte) []byte { return binary.BigEndian.AppendUint32(b, d.Number) })
}

// Rejected sends a rejection. The text is truncated to MaxText.
func (w *Writer) Rejected(r Rejected) error {
	return w.send(KindRejected, func(b []byte) []byte {
		b = append(binary.BigEndian.AppendUint32(b, r.Number), byte(r.Reason))
		return append(b, r.Text[:min(len(r.Text), MaxText)]...)
	})
}

// DerivativeError sends the error of one derivative. The text is truncated to MaxText.
func (w *Writer) DerivativeError(l DerivativeError) error {
	return w.send(KindDerivativeError, func(b []byte) []byte {
		b = append(binary.BigEndian.AppendUint32(b, l.Number), byte(l.Variant), byte(l.Reason))
		return append(b, l.Text[:min(len(l.Text), MaxText)]...)
	})
}

func (w *Writer) send(kind Kind, payload func([]byte) []byte) error {
	frame := w.buffer[:headerSize]
	if payload != nil {
		frame = payload(frame)
	}
	frame[0] = byte(kind)
	binary.BigEndian.PutUint32(frame[1:headerSize], uint32(len(frame)-headerSize)) //nolint:gosec // at most MaxData
	w.buffer = frame
	_, err := w.to.Write(frame)
	return err
}
