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
	hello   = protocol.Hello{Version: 7, Locked: protocol.LayerLimits | protocol.LayerSyscalls}
	job     = protocol.Job{Number: 1, Bytes: 1 << 40, MaxPixels: 1 << 41, MaxFrames: 5, MaxOutput: 1 << 42, TimeoutMS: 9, Width: 320, Height: 240, WebP: true, Quality: 80}
	head    = protocol.Head{Number: 1, Variant: protocol.WebP, Bytes: 1 << 40, Width: 16383, Height: 3}
	done    = protocol.Done{Number: 4294967295}
	refused = protocol.Refused{Number: 3, Reason: protocol.ReasonPixels, Text: "too many"}
	lacks   = protocol.Lacks{Number: 3, Variant: protocol.WebP, Reason: protocol.ReasonEncode, Text: "mux error"}
)

// conversation is one frame of each kind.
func conversation(data []byte) []byte {
	var out bytes.Buffer
	w := protocol.NewWriter(&out)
	if err := errors.Join(w.Hello(hello), w.Job(job), w.Data(data), w.End(), w.Abort(), w.Head(head), w.Done(done), w.Refused(refused), w.Lacks(lacks)); err != nil {
		panic(err) // a buffer takes everything
	}
	return out.Bytes()
}

// text says what a frame holds, read as its own kind.
func read(f protocol.Frame) (any, error) {
	switch f.Kind {
	case protocol.KindHello:
		return f.Hello()
	case protocol.KindJob:
		return f.Job()
	case protocol.KindData:
		return f.Data(), nil
	case protocol.KindHead:
		return f.Head()
	case protocol.KindDone:
		return f.Done()
	case protocol.KindRefused:
		return f.Refused()
	case protocol.KindLacks:
		return f.Lacks()
	}
	return f.Kind, f.Empty()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
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
	for _, want := range []any{hello, job} {
		if got := next(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	var got []byte
	for range 3 {
		got = append(got, next().([]byte)...)
	}
	if !bytes.Equal(got, data) {
		t.Error("the data came out otherwise")
	}
	for _, want := range []any{protocol.KindEnd, protocol.KindAbort, head, done, refused, lacks} {
		if got := next(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestWhatBreaksTheProtocol(t *testing.T) {
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
		"kind 0":                   frame(0),
		"kind 10":                  frame(10),
		"a long control frame":     append([]byte{byte(protocol.KindHello), 0, 0, 4, 1}, make([]byte, 1025)...),
		"long data":                {byte(protocol.KindData), 0, 4, 0, 1},
		"endless data":             {byte(protocol.KindData), 255, 255, 255, 255},
		"empty data":               frame(protocol.KindData),
		"a short greeting":         frame(protocol.KindHello, 1),
		"a short job":              frame(protocol.KindJob, 1, 2, 3),
		"an end with a payload":    frame(protocol.KindEnd, 1),
		"a job without a box":      badJob(func(j *protocol.Job) { j.Width = 0 }),
		"a job without bytes":      badJob(func(j *protocol.Job) { j.Bytes = 0 }),
		"a job of quality 101":     badJob(func(j *protocol.Job) { j.Quality = 101 }),
		"a head without bytes":     frame(protocol.KindHead, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1),
		"a head of variant 3":      frame(protocol.KindHead, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1),
		"a refusal for reason 0":   frame(protocol.KindRefused, 0, 0, 0, 1, 0),
		"a refusal of a few bytes": frame(protocol.KindRefused, 0, 0),
		"a lack of variant 3":      frame(protocol.KindLacks, 0, 0, 0, 1, 3, 1),
		"a lack for reason 8":      frame(protocol.KindLacks, 0, 0, 0, 1, 1, 8),
		"a lack of a few bytes":    frame(protocol.KindLacks, 0, 0, 0, 1, 1),
		"a long refusal":           frame(protocol.KindRefused, append([]byte{0, 0, 0, 1, 1}, make([]byte, 513)...)...),
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
		t.Errorf("a frame that breaks off: %v", err)
	}
}

func TestALongTextIsCut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_ = protocol.NewWriter(&out).Refused(protocol.Refused{Number: 1, Reason: protocol.ReasonBroken, Text: strings.Repeat("x", 5000)})
	frame, err := protocol.NewReader(&out).Next()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := frame.Refused(); err != nil || len(got.Text) != protocol.MaxText {
		t.Errorf("%d bytes, %v", len(got.Text), err)
	}
}

// FuzzReader reads what either side may be sent: a frame within its bounds that comes
// out the same when it is written again, or an error that tells a broken protocol
// from a broken pipe.
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
			case protocol.Hello:
				err = w.Hello(v)
			case protocol.Job:
				err = w.Job(v)
			case []byte:
				err = w.Data(v)
			case protocol.Head:
				err = w.Head(v)
			case protocol.Done:
				err = w.Done(v)
			case protocol.Refused:
				err = w.Refused(v)
			case protocol.Lacks:
				err = w.Lacks(v)
			case protocol.Kind:
				if err = w.End(); v == protocol.KindAbort {
					again.Reset()
					err = w.Abort()
				}
			}
			if err != nil || !bytes.HasPrefix(rest, again.Bytes()) {
				t.Fatalf("%v came out otherwise: %v", frame.Kind, err)
			}
			rest = rest[again.Len():]
		}
	})
}
