package multipartform

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
)

// boundary is that of the bodies of these tests.
const boundary = "b"

// readParts reads a body part by part, as next returns them.
func readParts(next func() (textproto.MIMEHeader, io.Reader, error)) (all []string, err error) {
	for {
		header, content, err := next()
		if err != nil {
			return all, err
		}
		data, err := io.ReadAll(content)
		if all = append(all, fmt.Sprint(header), string(data)); err != nil {
			return all, err
		}
	}
}

// theirs reads a body with mime/multipart. It would take the end of the body in a header for the end
// of the form, so the end is an error.
func theirs(body []byte) ([]string, error) {
	reader := multipart.NewReader(io.MultiReader(bytes.NewReader(body), iotest.ErrReader(errTruncated)), boundary)
	return readParts(func() (textproto.MIMEHeader, io.Reader, error) {
		part, err := reader.NextRawPart()
		if err != nil {
			return nil, nil, err
		}
		return part.Header, part, nil
	})
}

// pieces reads up to size bytes at a time.
type pieces struct {
	from io.Reader
	size int
}

// Read implements io.Reader.
func (p pieces) Read(to []byte) (int, error) { return p.from.Read(to[:min(len(to), p.size)]) }

// fields returns a reader of the current part that reads it as a field.
func fields(p *parser) io.Reader {
	var data []byte
	for {
		more, err := p.content()
		if err != nil {
			return io.MultiReader(bytes.NewReader(data), iotest.ErrReader(err))
		}
		data = append(data, more...)
	}
}

// ours reads a body with parser, its parts in turn as the file is and as fields are. size is how many
// bytes of the file are read at a time.
func ours(body io.Reader, size int) ([]string, error) {
	p := newParser(body, boundary)
	defer p.close()
	return readParts(func() (textproto.MIMEHeader, io.Reader, error) {
		header, err := p.next()
		if err == nil && (p.parts+size)%2 == 0 {
			return header, fields(p), nil
		}
		return header, pieces{fileReader{p}, size}, err
	})
}

// isPlain reports whether a body has no control character besides tabs and line breaks, so that
// nothing of its headers is removed.
func isPlain(body []byte) bool {
	rest := strings.NewReplacer("\r\n", "", "\n", "", "\t", "").Replace(string(body))
	return !strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// FuzzParser_ReadsWhatMimeMultipartReads compares the parts of any body, however its bytes arrive and
// in whatever pieces they are read.
func FuzzParser_ReadsWhatMimeMultipartReads(f *testing.F) {
	for _, seed := range []string{"", "--b\r\nA: b\r\n\r\nx\x00\r\n--b\r\nC: d\r\n\r\n\x01--b\r\n--b--", "--b\r\nA: b\r\n c\r\n\r\n\x00\r\n--b--\r\n",
		"--b\nA: b\n\n\x00\n--b--\n", "--b\r\nA: \x00b\r\n\r\n--b\r\n\r\n\r\n\r\n--b \r\n\r\n\x7f\r\n--b--", "--b\r\n \r\n\x00\r\n--b--", "--b\r\nA: b\r\n \r\n\r\n\x00\r\n--b--", "--b\r\nA: b\n\n\x00c: d\r\n\r\nx\r\n--b--", "\r\n--b\r\n\r\n\x00\r\n--b--",
		"--b\r\nA: b\x00\r\n\r\n" + strings.Repeat("\x00\r\n--", 50) + "\r\n--b--", "before\r\n--b\r\n\r\n--bc\r\n--b-\r\n--b-c\r\n--b--  \r\nafter", "--b\r\n\r\nx\r\n--b\ty\r\n", "--b\r\n\r\n\r\n--b\r\r\n", "--b\t \r\n\r\n--b--"} {
		f.Add([]byte(seed), uint16(1))
		f.Add([]byte(seed), uint16(9000))
	}
	f.Fuzz(func(t *testing.T, body []byte, size uint16) {
		if len(body) > 4000 {
			return // mime/multipart bounds its lines
		}
		want, theirErr := theirs(slices.Concat(body, []byte("\r\n"))) // the last line break, which may be missing
		for name, from := range map[string]io.Reader{"at once": bytes.NewReader(body), "byte by byte": iotest.OneByteReader(bytes.NewReader(body)),
			"in halves": iotest.HalfReader(bytes.NewReader(body)), "with the end": iotest.DataErrReader(bytes.NewReader(body))} {
			got, err := ours(from, int(size)+1)
			if err != io.EOF && !fault.Is(err, fault.Invalid) { //nolint:errorlint // the bare one is the end
				t.Fatalf("%s: %v", name, err)
			}
			accepted := err == io.EOF                                          //nolint:errorlint // as above
			if theirErr == io.EOF && (!accepted || !slices.Equal(got, want)) { //nolint:errorlint // as above
				t.Fatalf("%s: got %q, %v; want %q", name, got, err, want)
			}
			if accepted && theirErr != io.EOF && isPlain(body) && bytes.HasSuffix(body, []byte("\n")) { //nolint:errorlint // as above
				t.Fatalf("%s: got %q; mime/multipart rejects it: %v", name, got, theirErr)
			}
		}
	})
}

// newBody returns a body with a file between two fields.
func newBody(t *testing.T, boundary string, file []byte) []byte {
	t.Helper()
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	must(t, writer.SetBoundary(boundary))
	must(t, writer.WriteField("caption", "before"))
	part, err := writer.CreateFormFile("file", "a.bin")
	must(t, err)
	_, err = part.Write(file)
	must(t, err)
	must(t, writer.WriteField("group", "after"))
	must(t, writer.Close())
	return body.Bytes()
}

var must = check.NoError

// sizedSink reads a file by reads of random sizes.
type sizedSink struct {
	sizes *rand.Rand
	most  int
	file  []byte
}

// Receive implements FileSink.
func (s *sizedSink) Receive(_ context.Context, file io.Reader, _ string) error {
	for {
		to := make([]byte, 1+s.sizes.IntN(s.most))
		n, err := file.Read(to)
		s.file = append(s.file, to[:n]...)
		if err == io.EOF { // the bare one is the end
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A boundary may begin anywhere in what one read returns, and so may bytes that begin like one.
func TestForm_ReturnsFilesFullOfBoundaries(t *testing.T) {
	t.Parallel()
	const boundary = "abc-abcabc"
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		file := make([]byte, random.IntN(40_000))
		for i := range file {
			file[i] = "\r\n--abc"[random.IntN(7)]
		}
		if bytes.Contains(file, []byte("\r\n--"+boundary)) {
			continue
		}
		var body io.Reader = bytes.NewReader(newBody(t, boundary, file))
		switch seed % 4 {
		case 0:
			body = iotest.HalfReader(body)
		case 1:
			body = iotest.OneByteReader(body)
		case 2:
			body = iotest.DataErrReader(body)
		}
		sink := &sizedSink{sizes: random, most: 1 + random.IntN(3*readAhead)}
		fields, err := read(t, body, "multipart/form-data; boundary="+boundary, sink)
		if err != nil || !bytes.Equal(sink.file, file) || fields.Caption != "before" || fields.Group != "after" {
			t.Fatalf("seed %d: %d of %d bytes, %+v, %v", seed, len(sink.file), len(file), fields, err)
		}
	}
}

// chunkSink reads a file into chunks, as upload.Single does.
type chunkSink struct{ chunks [][]byte }

const chunkSize = 256 << 10

// Receive implements FileSink.
func (s *chunkSink) Receive(_ context.Context, file io.Reader, _ string) error {
	for {
		chunk := make([]byte, chunkSize)
		s.chunks = append(s.chunks, chunk)
		if _, err := io.ReadFull(file, chunk); err != nil {
			return nil //nolint:nilerr // the end
		}
	}
}

// watchedBody counts the bytes that are in the sink's memory as soon as they were read, and how often
// the body is read.
type watchedBody struct {
	from            io.Reader
	sink            *chunkSink
	directly, reads int
}

// Read implements io.Reader. It reads as much as a connection often has.
func (w *watchedBody) Read(to []byte) (int, error) {
	w.reads++
	n, err := w.from.Read(to[:min(len(to), 48<<10)])
	if last := len(w.sink.chunks) - 1; last >= 0 && n > 0 && bytes.Contains(w.sink.chunks[last], to[:n]) {
		w.directly += n
	}
	return n, err
}

func TestForm_CopiesTheFileOnce(t *testing.T) {
	t.Parallel()
	file := make([]byte, 10*chunkSize)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(file)
	sink := &chunkSink{}
	body := &watchedBody{from: bytes.NewReader(newBody(t, boundary, file)), sink: sink}
	_, err := read(t, body, "multipart/form-data; boundary="+boundary, sink)
	must(t, err)
	if got := bytes.Join(sink.chunks, nil); !bytes.Equal(got[:len(file)], file) {
		t.Fatal("the file is not what was sent")
	}
	// What is read with a header, or for the end of a chunk, is copied once more.
	if most := (len(sink.chunks) + 1) * readAhead; len(file)-body.directly > most {
		t.Errorf("%d bytes of the file were not read into the memory of the sink, of %d; want at most %d", len(file)-body.directly, len(file), most)
	}
	if most := 8 * len(sink.chunks); body.reads > most {
		t.Errorf("the body was read %d times, want at most %d", body.reads, most)
	}
}

func TestForm_AllocatesTheSameForAnyFile(t *testing.T) {
	allocations := func(size int) float64 {
		body, sink := newBody(t, boundary, make([]byte, size)), discarding(make([]byte, chunkSize))
		return testing.AllocsPerRun(20, func() {
			if _, err := read(t, bytes.NewReader(body), "multipart/form-data; boundary="+boundary, sink); err != nil {
				t.Error(err)
			}
		})
	}
	const chunks = 10
	small, large := allocations(100), allocations(chunks*chunkSize)
	// A pool that is emptied meanwhile, as the race detector does at random, costs a few.
	if large > small+chunks/2 || large > 80 {
		t.Errorf("%.0f allocations for a large file, %.0f for a small one", large, small)
	}
}

// discarding reads a file into the same memory again and again.
type discarding []byte

// Receive implements FileSink.
func (d discarding) Receive(_ context.Context, file io.Reader, _ string) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, file, d)
	return err
}
