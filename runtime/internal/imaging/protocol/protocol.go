// Package protocol is the protocol between the runtime and one image worker, over the
// worker's standard input and output. internal/imaging speaks it on the runtime's
// side and cmd/mediastack-imaging on the worker's.
//
// Everything is a frame: one byte of kind, four bytes of length (big-endian), the
// payload. The worker begins with Hello, once it has locked itself in. Then, one job
// at a time:
//
//	runtime   Job, Data..., End       the job, and the file in pieces
//	          Job, Data..., Abort     the file could not be read; no answer
//	worker    Head, Data..., Head, Data..., Done    one Head for each derivative, or
//	                                  Lacks instead of one that could not be made
//	          Refused                 nothing is made: the file is broken or over a limit
//
// Every answer carries the job's number, so that what belongs to another job is
// noticed. The runtime closes the worker's standard input to end it.
//
// A frame is read into memory only after its length was checked: no kind but Data
// may be longer than MaxControl, and Data no longer than MaxData. The runtime takes
// anything that is not in this list for the word of a worker that has been taken
// over, and kills it; the worker takes it for the end of the runtime, and leaves.
package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Version is the version of the protocol. Both sides come from one build; the
// version catches an installation that is mixed.
const Version = 2

// Bounds of payloads, in bytes.
const (
	MaxData    = 256 << 10
	MaxControl = 1 << 10
	headerSize = 5
)

// Kind says what a frame is.
type Kind byte

// The kinds of frame.
const (
	KindHello   Kind = 1 // worker: ready for jobs
	KindJob     Kind = 2 // runtime: a job
	KindData    Kind = 3 // both: a piece of the file, or of a derivative
	KindEnd     Kind = 4 // runtime: the file is complete
	KindAbort   Kind = 5 // runtime: forget the job
	KindHead    Kind = 6 // worker: a derivative begins
	KindDone    Kind = 7 // worker: the job's derivatives are complete
	KindRefused Kind = 8 // worker: the job's file is refused
	KindLacks   Kind = 9 // worker: one derivative could not be made
)

func (k Kind) String() string {
	if k < KindHello || k > KindLacks {
		return fmt.Sprintf("kind %d", byte(k))
	}
	return [...]string{"Hello", "Job", "Data", "End", "Abort", "Head", "Done", "Refused", "Lacks"}[k-KindHello]
}

// ErrProtocol is in the chain of every error that says the other side broke the
// protocol, in contrast to one of reading or writing.
var ErrProtocol = errors.New("imaging protocol")

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// Hello is the worker's first frame.
type Hello struct {
	Version uint16
	Locked  Layers // the layers of the sandbox that hold
}

// Layers is a set of sandbox layers.
type Layers uint16

// The layers of the sandbox.
const (
	LayerLimits     Layers = 1 << iota // address space, files and core dumps are limited
	LayerPrivileges                    // no new privileges, no dumps
	LayerSyscalls                      // seccomp refuses what an image never needs
)

// Job asks for derivatives of one file.
type Job struct {
	Number    uint32
	Bytes     uint64 // length of the file
	MaxPixels uint64 // width x height of one frame
	MaxFrames uint32
	MaxOutput uint64 // bytes of all derivatives together
	TimeoutMS uint32 // after the file is complete
	Width     uint16 // the thumbnail's box
	Height    uint16
	WebP      bool // make a WebP conversion too, of a still JPEG or PNG
	Quality   uint8
}

// Variant is what a derivative is.
type Variant uint8

// The derivatives.
const (
	Thumbnail Variant = 1
	WebP      Variant = 2
)

// Head begins a derivative; Data frames follow until Bytes are complete.
type Head struct {
	Number  uint32
	Variant Variant
	Bytes   uint64
	Width   uint32
	Height  uint32
}

// Done ends a job.
type Done struct{ Number uint32 }

// Lacks says why one derivative could not be made. Others of the job may be.
type Lacks struct {
	Number  uint32
	Variant Variant
	Reason  Reason
	Text    string // for the log, at most MaxText bytes
}

// Refused ends a job of which nothing can be made.
type Refused struct {
	Number uint32
	Reason Reason
	Text   string // for the log, at most MaxText bytes
}

// MaxText bounds the text of Refused and Lacks.
const MaxText = 512

// Reason is a kind of refusal.
type Reason uint8

// The reasons.
const (
	ReasonFormat Reason = 1 // no format that is handled
	ReasonBroken Reason = 2 // truncated or damaged
	ReasonPixels Reason = 3 // over the limit of pixels
	ReasonFrames Reason = 4 // over the limit of frames
	ReasonOutput Reason = 5 // the derivatives are too large
	ReasonMemory Reason = 6 // not enough memory for this image
	ReasonEncode Reason = 7 // the encoder failed, for want of memory as a rule
)

func (r Reason) String() string {
	if r < ReasonFormat || r > ReasonEncode {
		return "unknown"
	}
	return [...]string{"unsupported_format", "corrupt", "pixel_limit", "frame_limit", "output_limit", "out_of_memory", "encoder_error"}[r-ReasonFormat]
}

// Writer writes frames. Each is one call of Write.
type Writer struct {
	to     io.Writer
	buffer []byte
}

// NewWriter makes a writer of frames.
func NewWriter(to io.Writer) *Writer {
	return &Writer{to: to, buffer: make([]byte, headerSize, headerSize+4<<10)}
}

// Data sends bytes in as many frames as they need.
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

// Hello sends the greeting.
func (w *Writer) Hello(h Hello) error {
	return w.send(KindHello, func(b []byte) []byte {
		return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, h.Version), uint16(h.Locked))
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

// End says that the file is complete.
func (w *Writer) End() error { return w.send(KindEnd, nil) }

// Abort says that the file will not be completed.
func (w *Writer) Abort() error { return w.send(KindAbort, nil) }

// Head begins a derivative.
func (w *Writer) Head(h Head) error {
	return w.send(KindHead, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, h.Number)
		b = append(b, byte(h.Variant))
		b = binary.BigEndian.AppendUint64(b, h.Bytes)
		b = binary.BigEndian.AppendUint32(b, h.Width)
		return binary.BigEndian.AppendUint32(b, h.Height)
	})
}

// Done ends a job.
func (w *Writer) Done(d Done) error {
	return w.send(KindDone, func(b []byte) []byte { return binary.BigEndian.AppendUint32(b, d.Number) })
}

// Refused ends a job of which nothing can be made. The text is cut to MaxText.
func (w *Writer) Refused(r Refused) error {
	return w.send(KindRefused, func(b []byte) []byte {
		b = append(binary.BigEndian.AppendUint32(b, r.Number), byte(r.Reason))
		return append(b, r.Text[:min(len(r.Text), MaxText)]...)
	})
}

// Lacks tells of a derivative that could not be made. The text is cut to MaxText.
func (w *Writer) Lacks(l Lacks) error {
	return w.send(KindLacks, func(b []byte) []byte {
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
