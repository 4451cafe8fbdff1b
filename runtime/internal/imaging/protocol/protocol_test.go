package protocol_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"mediastack.dev/runtime/internal/imaging/protocol"
)

var (
	handshake       = protocol.Handshake{Version: 7, Sandbox: protocol.LayerLimits | protocol.LayerSyscalls, Formats: protocol.FormatJPEG | protocol.FormatHEIC}
	job             = protocol.Job{Number: 1, Bytes: 1 << 40, MaxPixels: 1 << 41, MaxFrames: 5, MaxOutput: 1 << 42, TimeoutMS: 9, Width: 320, Height: 240, WebP: true, Quality: 80}
	header          = protocol.DerivativeHeader{Number: 1, Variant: protocol.WebP, Bytes: 1 << 40, Width: 16383, Height: 3}
	done            = protocol.Done{Number: 4294967295}
	rejected        = protocol.Rejected{Number: 3, Reason: protocol.ReasonPixels, Text: "too many"}
	derivativeError = protocol.DerivativeError{Number: 3, Variant: protocol.WebP, Reason: protocol.ReasonEncode, Text: "mux error"}
)

// conversation returns one frame of each kind.
func conversation(data []byte) []byte {
	var out bytes.Buffer
	w := protocol.NewWriter(&out)
	if err := errors.Join(w.Handshake(handshake), w.Job(job), w.Data(data), w.End(), w.Abort(), w.DerivativeHeader(header), w.Done(done), w.Rejected(rejected), w.DerivativeError(derivativeError)); err != nil {
		panic(err) // writes to a buffer never fail
	}
	return out.Bytes()
}

// read parses a frame as its own kind.
func read(f protocol.Frame) (any, error) {
	switch f.Kind {
	case protocol.KindHandshake:
		return f.Handshake()
	case protocol.KindJob:
		return f.Job()
	case protocol.KindData:
		return f.Data(), nil
	case protocol.KindDerivativeHeader:
		return f.DerivativeHeader()
	case protocol.KindDone:
		return f.Done()
	case protocol.KindRejected:
		return f.Rejected()
	case protocol.KindDerivativeError:
		return f.DerivativeError()
	}
	return f.Kind, f.Empty()
}

func TestReader_ReadsWhatWriterWrites(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789"), 60_000) // three frames
	r := protocol.NewReader(iotest.HalfReader(bytes.NewReader(conversation(data))))
	next := func() any {
		t.Helper()
		frame, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		value, err := read(frame)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	for _, want := range []any{handshake, job} {
		if got := next(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	var got []byte
	for range 3 {
		got = append(got, next().([]byte)...)
	}
	if !bytes.Equal(got, data) {
		t.Error("the data differs")
	}
	for _, want := range []any{protocol.KindEnd, protocol.KindAbort, header, done, rejected, derivativeError} {
		if got := next(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestReader_RejectsInvalidFrames(t *testing.T) {
	t.Parallel()
	frame := func(kind protocol.Kind, payload ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{byte(kind)}, uint32(len(payload))), payload...)
	}
	badJob := func(change func(*protocol.Job)) []byte {
		bad := job
		change(&bad)
		var out bytes.Buffer
		_ = protocol.NewWriter(&out).Job(bad)
		return out.Bytes()
	}
	for name, in := range map[string][]byte{
		"kind 0":                     frame(0),
		"kind 10":                    frame(10),
		"a long control frame":       append([]byte{byte(protocol.KindHandshake), 0, 0, 4, 1}, make([]byte, 1025)...),
		"long data":                  {byte(protocol.KindData), 0, 4, 0, 1},
		"endless data":               {byte(protocol.KindData), 255, 255, 255, 255},
		"empty data":                 frame(protocol.KindData),
		"a short handshake":          frame(protocol.KindHandshake, 1),
		"a short job":                frame(protocol.KindJob, 1, 2, 3),
		"an end with a payload":      frame(protocol.KindEnd, 1),
		"a job without a box":        badJob(func(j *protocol.Job) { j.Width = 0 }),
		"a job without bytes":        badJob(func(j *protocol.Job) { j.Bytes = 0 }),
		"a job of quality 101":       badJob(func(j *protocol.Job) { j.Quality = 101 }),
		"a header without bytes":     frame(protocol.KindDerivativeHeader, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1),
		"a header of variant 3":      frame(protocol.KindDerivativeHeader, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1),
		"a rejection for reason 0":   frame(protocol.KindRejected, 0, 0, 0, 1, 0),
		"a rejection of a few bytes": frame(protocol.KindRejected, 0, 0),
		"an error of variant 3":      frame(protocol.KindDerivativeError, 0, 0, 0, 1, 3, 1),
		"an error for reason 8":      frame(protocol.KindDerivativeError, 0, 0, 0, 1, 1, 8),
		"an error of a few bytes":    frame(protocol.KindDerivativeError, 0, 0, 0, 1, 1),
		"a long rejection":           frame(protocol.KindRejected, append([]byte{0, 0, 0, 1, 1}, make([]byte, 513)...)...),
	} {
		f, err := protocol.NewReader(bytes.NewReader(in)).Next()
		if err == nil {
			_, err = read(f)
		}
		if !errors.Is(err, protocol.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := protocol.NewReader(strings.NewReader("\x01\x00\x00\x00\x04\x00")).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a truncated frame: %v", err)
	}
}

func TestWriter_TruncatesLongTexts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_ = protocol.NewWriter(&out).Rejected(protocol.Rejected{Number: 1, Reason: protocol.ReasonCorrupt, Text: strings.Repeat("x", 5000)})
	frame, err := protocol.NewReader(&out).Next()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := frame.Rejected(); err != nil || len(got.Text) != protocol.MaxText {
		t.Errorf("%d bytes, %v", len(got.Text), err)
	}
}

// FuzzReader reads arbitrary input: each frame is within its bounds and is the same when it
// is written again, or the error distinguishes invalid input from a failed read.
func FuzzReader(f *testing.F) {
	f.Add(conversation([]byte("pixels")))
	f.Add(conversation(bytes.Repeat([]byte{1}, 5000))[9:])
	f.Add([]byte{byte(protocol.KindData), 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := protocol.NewReader(bytes.NewReader(in))
		for rest := in; ; {
			frame, err := r.Next()
			if err != nil {
				if !errors.Is(err, protocol.ErrProtocol) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%v", err)
				}
				if errors.Is(err, io.EOF) && len(rest) > 0 {
					t.Fatalf("%d bytes were dropped", len(rest))
				}
				return
			}
			value, err := read(frame)
			if err != nil {
				if !errors.Is(err, protocol.ErrProtocol) {
					t.Fatalf("%v", err)
				}
				return
			}
			var again bytes.Buffer
			w := protocol.NewWriter(&again)
			switch v := value.(type) {
			case protocol.Handshake:
				err = w.Handshake(v)
			case protocol.Job:
				err = w.Job(v)
			case []byte:
				err = w.Data(v)
			case protocol.DerivativeHeader:
				err = w.DerivativeHeader(v)
			case protocol.Done:
				err = w.Done(v)
			case protocol.Rejected:
				err = w.Rejected(v)
			case protocol.DerivativeError:
				err = w.DerivativeError(v)
			case protocol.Kind:
				if err = w.End(); v == protocol.KindAbort {
					again.Reset()
					err = w.Abort()
				}
			}
			if err != nil || !bytes.HasPrefix(rest, again.Bytes()) {
				t.Fatalf("%v differs: %v", frame.Kind, err)
			}
			rest = rest[again.Len():]
		}
	})
}
