// Package protocol implements the protocol between the runtime and an image worker, over
// the worker's standard input and output. Package imaging is the runtime's side,
// cmd/mediastack-imaging the worker's.
//
// Everything is a frame: one byte of kind, four bytes of length (big-endian), and the
// payload. The worker sends Handshake once it is sandboxed. Then follows one job at a time:
//
//	runtime   Job, Data..., End       the job, and the file in pieces
//	          Job, Data..., Abort     the file could not be read; no answer
//	worker    Facts, Capture, PictureHeader, Data..., PictureHeader, Data..., Done
//	                                  what the image is, what the file says of how it was made, if the job
//	                                  has a thumbnail, and for each output of the job, in their
//	                                  order, its PictureHeader and bytes, or PictureError if it failed
//	          Capture, Done           of a job without outputs, whose file need be no image
//	          Rejected                no picture: the file is corrupt or over a limit
//
// Every answer carries the job's number, so that an answer to another job is detected.
// The runtime closes the worker's standard input to stop it.
//
// The length of a frame is checked before the frame is read into memory: at most MaxData
// for Data, MaxCapture for Capture, and MaxControl for all others. On any other input the runtime kills the worker,
// which it takes for compromised, and the worker exits.
package protocol

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/geometry"
	"mediastack.dev/runtime/imageformat"
)

// Version is the version of the protocol. Both sides come from one build; the version
// detects a mixed installation.
const Version = 9

// MaxOutputs is how many outputs a job may have.
const MaxOutputs = 8

// Bounds of payloads, in bytes.
const (
	MaxData    = 256 << 10
	MaxControl = 1 << 10
	MaxCapture = 4 << 10
	headerSize = 5
)

// Kind is the type of a frame.
type Kind byte

// The kinds of frame.
const (
	KindHandshake     Kind = 1  // worker: ready for jobs
	KindJob           Kind = 2  // runtime: a job
	KindData          Kind = 3  // both: a piece of the file, or of a picture
	KindEnd           Kind = 4  // runtime: the file is complete
	KindAbort         Kind = 5  // runtime: the job is canceled
	KindPictureHeader Kind = 6  // worker: a picture follows
	KindDone          Kind = 7  // worker: the job's pictures are complete
	KindRejected      Kind = 8  // worker: the file is rejected
	KindPictureError  Kind = 9  // worker: one picture failed
	KindFacts         Kind = 10 // worker: what the image is; before its pictures
	KindCapture       Kind = 11 // worker: what the file says of how it was made
)

func (k Kind) String() string {
	if k < KindHandshake || k > KindCapture {
		return fmt.Sprintf("kind %d", byte(k))
	}
	return [...]string{"Handshake", "Job", "Data", "End", "Abort", "PictureHeader", "Done", "Rejected", "PictureError", "Facts", "Capture"}[k-KindHandshake]
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
	// Encoders are the formats that the worker has encoders of, of those that an installation may lack.
	Encoders Formats
}

// Formats is a set of image formats, one bit each.
type Formats uint16

// FormatsOf returns a set.
func FormatsOf(formats ...imageformat.Format) (set Formats) {
	for _, f := range formats {
		set |= 1 << f
	}
	return set
}

// Has reports whether a format is in the set.
func (s Formats) Has(f imageformat.Format) bool { return s&FormatsOf(f) != 0 }

// Layers is a set of sandbox layers.
type Layers uint16

// The layers of the sandbox.
const (
	LayerLimits     Layers = 1 << iota // address space, files and core dumps are limited
	LayerPrivileges                    // no new privileges, no core dumps
	LayerSyscalls                      // seccomp denies system calls that decoding does not need
)

// Job requests pictures of one file; without outputs, only what the file says of how it was made. The bytes may be a part of the file then.
type Job struct {
	Number    uint32
	Bytes     uint64 // length of the file
	MaxPixels uint64 // width x height of one frame, and of one picture
	MaxFrames uint32
	// MaxAnimation bounds width x height x frames of an image, and of a picture, that is an animation. Beyond it the
	// picture is one of the first frame.
	MaxAnimation uint64
	MaxBytes     uint64 // total of all pictures
	TimeoutMS    uint32 // after the file is complete
	// Location is set if the place at which the file was made is kept. Otherwise no answer has it.
	Location bool
	Outputs  []Output
}

// Output is one picture that a job requests. All of them are made by the same steps; the thumbnail and the
// conversion of an upload differ in a flag.
type Output struct {
	// Width and Height are the box; 0 = no bound. Without any bound the original size is kept.
	Width, Height uint16
	Fit           geometry.Fit
	Focus         Focus
	// PointX and PointY are the focus, in thousandths of the width and height, if Focus is FocusPoint.
	PointX, PointY uint16
	Encoding       imageformat.Format
	Quality        uint8 // 0 to 100
	Background     [3]byte
	Flags          Flags
	// MaxBytes bounds a JPEG, from MinFitted: it has less quality, and then fewer pixels, until it fits. 0 = no bound.
	MaxBytes uint32
}

// MinFitted is the smallest bound of the bytes of one picture.
const MinFitted = 4 << 10

// Focus says which part of an image geometry.Cover keeps.
type Focus uint8

// The focuses.
const (
	FocusCentre Focus = iota
	FocusAttention
	FocusEntropy
	FocusPoint
)

// Flags are details of an output.
type Flags uint8

// The flags.
const (
	// Sharpen sharpens a picture that was shrunk.
	Sharpen Flags = 1 << iota
	// Animated keeps the frames of a GIF or WebP animation. The encoding is imageformat.WebP.
	Animated
	// Thumbnail is for the first output: the placeholder is made of it. Its size may differ by a pixel from that
	// which geometry.Layout returns: no client is told the size before.
	Thumbnail
	// Conversion is made only of a still JPEG or PNG; of others, the answer is ReasonNotApplicable.
	Conversion
	allFlags = Sharpen | Animated | Thumbnail | Conversion
)

// Facts is what an image is.
type Facts struct {
	Number uint32
	// Width and Height in pixels, as the image is displayed.
	Width  uint32
	Height uint32
	// Placeholder is a ThumbHash, and DominantColor the color in sRGB if HasColor is set. Both are made of the thumbnail:
	// without one, they are empty.
	Placeholder   string
	HasColor      bool
	DominantColor [3]byte
}

// Capture is what a file says of how it was made, as capture.Capture.Clean returns it.
type Capture struct {
	Number uint32
	capture.Capture
}

// Bounds of a placeholder, in bytes. All others are invalid.
const (
	MinPlaceholder = 5
	MaxPlaceholder = 25
)

// PictureHeader precedes the Data frames of a picture, which have Bytes in total.
type PictureHeader struct {
	Number   uint32
	Index    uint8 // of the output
	Encoding imageformat.Format
	Bytes    uint64
	Width    uint32 // of a frame
	Height   uint32
}

// Done ends a job.
type Done struct{ Number uint32 }

// PictureError is the reason why one picture failed. Others of the job may not.
type PictureError struct {
	Number uint32
	Index  uint8 // of the output
	Reason Reason
	Text   string // for the log, at most MaxText bytes
}

// Rejected ends a job without pictures.
type Rejected struct {
	Number uint32
	Reason Reason
	Text   string // for the log, at most MaxText bytes
}

// MaxText is the maximum length of the text of Rejected and PictureError, in bytes.
const MaxText = 512

// Reason is why a file is rejected, or a picture failed.
type Reason uint8

// The reasons.
const (
	ReasonFormat  Reason = 1 // not a supported format
	ReasonCorrupt Reason = 2 // truncated or damaged
	ReasonPixels  Reason = 3 // over the pixel limit
	ReasonFrames  Reason = 4 // over the frame limit
	ReasonOutput  Reason = 5 // the pictures have too many bytes
	ReasonMemory  Reason = 6 // not enough memory for this image
	ReasonEncode  Reason = 7 // the encoder failed, usually for lack of memory
	// ReasonTooLarge: the picture has more pixels than its encoding may have.
	ReasonTooLarge Reason = 8
	// ReasonNotApplicable: there is no such picture of this file, by the flag Conversion.
	ReasonNotApplicable Reason = 9
)

func (r Reason) String() string {
	if r < ReasonFormat || r > ReasonNotApplicable {
		return "unknown"
	}
	return [...]string{"unsupported_format", "corrupt", "pixel_limit", "frame_limit", "output_limit", "out_of_memory", "encoder_error", "too_large", "not_applicable"}[r-ReasonFormat]
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
		return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, uint16(h.Formats)), uint16(h.Encoders))
	})
}

// Job sends a job.
func (w *Writer) Job(j Job) error {
	return w.send(KindJob, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, j.Number)
		b = binary.BigEndian.AppendUint64(b, j.Bytes)
		b = binary.BigEndian.AppendUint64(b, j.MaxPixels)
		b = binary.BigEndian.AppendUint32(b, j.MaxFrames)
		b = binary.BigEndian.AppendUint64(b, j.MaxAnimation)
		b = binary.BigEndian.AppendUint64(b, j.MaxBytes)
		b = append(binary.BigEndian.AppendUint32(b, j.TimeoutMS), flag(j.Location))
		for _, o := range j.Outputs {
			b = o.appendTo(b)
		}
		return b
	})
}

func (o Output) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, o.Width)
	b = binary.BigEndian.AppendUint16(b, o.Height)
	b = binary.BigEndian.AppendUint16(b, o.PointX)
	b = binary.BigEndian.AppendUint16(b, o.PointY)
	b = append(b, byte(o.Fit), byte(o.Focus), byte(o.Encoding), o.Quality, o.Background[0], o.Background[1], o.Background[2], byte(o.Flags))
	return binary.BigEndian.AppendUint32(b, o.MaxBytes)
}

// End sends the end of the file.
func (w *Writer) End() error { return w.send(KindEnd, nil) }

// Abort cancels the job, whose file could not be read.
func (w *Writer) Abort() error { return w.send(KindAbort, nil) }

// Facts sends what an image is.
func (w *Writer) Facts(f Facts) error {
	return w.send(KindFacts, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, f.Number)
		b = binary.BigEndian.AppendUint32(b, f.Width)
		b = binary.BigEndian.AppendUint32(b, f.Height)
		b = append(b, flag(f.HasColor), f.DominantColor[0], f.DominantColor[1], f.DominantColor[2])
		return append(b, f.Placeholder...)
	})
}

// Capture sends what a file says of how it was made.
func (w *Writer) Capture(c Capture) error {
	text, err := json.Marshal(c.Capture)
	if err != nil {
		return fmt.Errorf("encode what a file says: %w", err)
	}
	return w.send(KindCapture, func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(b, c.Number), text...) })
}

// PictureHeader sends the header of a picture.
func (w *Writer) PictureHeader(h PictureHeader) error {
	return w.send(KindPictureHeader, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, h.Number)
		b = append(b, h.Index, byte(h.Encoding))
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

// PictureError sends the error of one picture. The text is truncated to MaxText.
func (w *Writer) PictureError(e PictureError) error {
	return w.send(KindPictureError, func(b []byte) []byte {
		b = append(binary.BigEndian.AppendUint32(b, e.Number), e.Index, byte(e.Reason))
		return append(b, e.Text[:min(len(e.Text), MaxText)]...)
	})
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
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
