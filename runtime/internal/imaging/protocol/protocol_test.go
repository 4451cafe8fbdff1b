package protocol_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/geometry"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/imaging/protocol"
)

var must = check.NoError

var (
	handshake = protocol.Handshake{Version: 7, Sandbox: protocol.LayerLimits | protocol.LayerSyscalls, Formats: protocol.FormatsOf(imageformat.JPEG, imageformat.HEIC), Encoders: protocol.FormatsOf(imageformat.AVIF)}
	job       = protocol.Job{Number: 1, Bytes: 1 << 40, MaxPixels: 1 << 41, MaxFrames: 5, MaxAnimation: 1 << 43, MaxBytes: 1 << 42, TimeoutMS: 9, Location: true, Outputs: []protocol.Output{
		{Width: 320, Height: 240, Encoding: imageformat.WebP, Quality: 80, Flags: protocol.Thumbnail},
		{Encoding: imageformat.WebP, Quality: 100, Flags: protocol.Conversion},
		{Width: 4096, Fit: geometry.Cover, Focus: protocol.FocusPoint, PointX: 1000, PointY: 999, Quality: 1, Background: [3]byte{1, 2, 3}, Flags: protocol.Sharpen},
		{Height: 7, Fit: geometry.Pad, Focus: protocol.FocusEntropy, Encoding: imageformat.WebP, Flags: protocol.Animated},
		{Encoding: imageformat.PNG}, {Encoding: imageformat.AVIF}, {Encoding: imageformat.JPEG, MaxBytes: protocol.MinFitted}, {},
	}}
	header       = protocol.PictureHeader{Number: 1, Index: 7, Encoding: imageformat.PNG, Bytes: 1 << 40, Width: 16383, Height: 3}
	done         = protocol.Done{Number: 4294967295}
	rejected     = protocol.Rejected{Number: 3, Reason: protocol.ReasonPixels, Text: "too many"}
	pictureError = protocol.PictureError{Number: 3, Index: 1, Reason: protocol.ReasonNotApplicable, Text: "mux error"}
	facts        = protocol.Facts{Number: 3, Width: 4000, Height: 3000, Placeholder: "a placeholder", HasColor: true, DominantColor: [3]byte{1, 2, 255}}
	captured     = protocol.Capture{Number: 3, Capture: capture.Capture{At: "2024-05-01T12:30:45+02:00", Camera: "Canon EOS <R5> ä", Lens: "RF", Title: "a title", Rating: 5, ContentCredentials: true, Location: &capture.Location{Latitude: -48.5, Longitude: 2.123456}}}
)

// conversation returns one frame of each kind.
func conversation(data []byte) []byte {
	var out bytes.Buffer
	w := protocol.NewWriter(&out)
	if err := errors.Join(w.Handshake(handshake), w.Job(job), w.Data(data), w.End(), w.Abort(), w.PictureHeader(header), w.Done(done), w.Rejected(rejected), w.PictureError(pictureError), w.Facts(facts), w.Capture(captured)); err != nil {
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
	case protocol.KindPictureHeader:
		return f.PictureHeader()
	case protocol.KindDone:
		return f.Done()
	case protocol.KindRejected:
		return f.Rejected()
	case protocol.KindPictureError:
		return f.PictureError()
	case protocol.KindFacts:
		return f.Facts()
	case protocol.KindCapture:
		return f.Capture()
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
		must(t, err)
		value, err := read(frame)
		must(t, err)
		return value
	}
	for _, want := range []any{handshake, job} {
		if got := next(); !reflect.DeepEqual(got, want) {
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
	for _, want := range []any{protocol.KindEnd, protocol.KindAbort, header, done, rejected, pictureError, facts, captured} {
		if got := next(); !reflect.DeepEqual(got, want) {
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
		bad.Outputs = slices.Clone(job.Outputs)
		change(&bad)
		var out bytes.Buffer
		_ = protocol.NewWriter(&out).Job(bad)
		return out.Bytes()
	}
	badOutput := func(change func(*protocol.Output)) []byte {
		return badJob(func(j *protocol.Job) { change(&j.Outputs[2]) })
	}
	for name, in := range map[string][]byte{
		"kind 0":                    frame(0),
		"kind 12":                   frame(12),
		"a long control frame":      append([]byte{byte(protocol.KindHandshake), 0, 0, 4, 1}, make([]byte, 1025)...),
		"long data":                 {byte(protocol.KindData), 0, 4, 0, 1},
		"endless data":              {byte(protocol.KindData), 255, 255, 255, 255},
		"empty data":                frame(protocol.KindData),
		"a short handshake":         frame(protocol.KindHandshake, 1),
		"a short job":               frame(protocol.KindJob, 1, 2, 3),
		"an end with a payload":     frame(protocol.KindEnd, 1),
		"a job without bytes":       badJob(func(j *protocol.Job) { j.Bytes = 0 }),
		"a job of nine outputs":     badJob(func(j *protocol.Job) { j.Outputs = append(j.Outputs, protocol.Output{}) }),
		"a job and half an output":  append([]byte{byte(protocol.KindJob), 0, 0, 0, 45 + 24}, bytes.Repeat([]byte{1}, 45+24)...),
		"a job with a place of 2":   append(append([]byte{byte(protocol.KindJob), 0, 0, 0, 45}, bytes.Repeat([]byte{1}, 44)...), 2),
		"a short capture":           frame(protocol.KindCapture, 1, 2),
		"a capture that is none":    frame(protocol.KindCapture, []byte("\x00\x00\x00\x01[]")...),
		"a capture with more":       frame(protocol.KindCapture, []byte("\x00\x00\x00\x01{}{}")...),
		"a capture with a member":   frame(protocol.KindCapture, []byte(`    {"camera":"a","secret":"b"}`)...),
		"a long capture":            frame(protocol.KindCapture, bytes.Repeat([]byte{' '}, 4097)...),
		"an output of quality 101":  badOutput(func(o *protocol.Output) { o.Quality = 101 }),
		"an output of fit 3":        badOutput(func(o *protocol.Output) { o.Fit = 3 }),
		"an output of focus 4":      badOutput(func(o *protocol.Output) { o.Focus = 4 }),
		"an output of encoding 5":   badOutput(func(o *protocol.Output) { o.Encoding = 5 }),
		"an output with flag 16":    badOutput(func(o *protocol.Output) { o.Flags = 16 }),
		"a point beside the image":  badOutput(func(o *protocol.Output) { o.PointX = 1001 }),
		"a point below the image":   badOutput(func(o *protocol.Output) { o.PointY = 1001 }),
		"an animation that is JPEG": badOutput(func(o *protocol.Output) { o.Encoding, o.Flags = imageformat.JPEG, protocol.Animated }),
		"a second thumbnail":        badOutput(func(o *protocol.Output) { o.Flags = protocol.Thumbnail }),
		"a PNG that must fit":       badOutput(func(o *protocol.Output) { o.Encoding, o.Flags, o.MaxBytes = imageformat.PNG, 0, protocol.MinFitted }),
		"a JPEG of a few bytes":     badOutput(func(o *protocol.Output) { o.Encoding, o.Flags, o.MaxBytes = imageformat.JPEG, 0, protocol.MinFitted-1 }),
		"a conversion that must fit": badOutput(func(o *protocol.Output) {
			o.Encoding, o.Flags, o.MaxBytes = imageformat.JPEG, protocol.Conversion, protocol.MinFitted
		}),
		"a header without bytes":     frame(protocol.KindPictureHeader, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1),
		"a header of output 8":       frame(protocol.KindPictureHeader, 0, 0, 0, 1, 8, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1),
		"a header of format auto":    frame(protocol.KindPictureHeader, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1),
		"a header of encoding 5":     frame(protocol.KindPictureHeader, 0, 0, 0, 1, 1, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1),
		"a rejection for reason 0":   frame(protocol.KindRejected, 0, 0, 0, 1, 0),
		"a rejection of a few bytes": frame(protocol.KindRejected, 0, 0),
		"an error of output 8":       frame(protocol.KindPictureError, 0, 0, 0, 1, 8, 1),
		"an error for reason 10":     frame(protocol.KindPictureError, 0, 0, 0, 1, 1, 10),
		"an error of a few bytes":    frame(protocol.KindPictureError, 0, 0, 0, 1, 1),
		"short facts":                frame(protocol.KindFacts, 0, 0, 0, 1),
		"facts without a width":      frame(protocol.KindFacts, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0),
		"a short placeholder":        frame(protocol.KindFacts, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4),
		"a long placeholder":         frame(protocol.KindFacts, append([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}, make([]byte, 26)...)...),
		"facts with a flag of 2":     frame(protocol.KindFacts, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 0, 0, 0),
		"a color that is not known":  frame(protocol.KindFacts, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9),
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
	must(t, err)
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
			case protocol.PictureHeader:
				err = w.PictureHeader(v)
			case protocol.Done:
				err = w.Done(v)
			case protocol.Rejected:
				err = w.Rejected(v)
			case protocol.PictureError:
				err = w.PictureError(v)
			case protocol.Facts:
				err = w.Facts(v)
			case protocol.Capture:
				err = w.Capture(v)
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
