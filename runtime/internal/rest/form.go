package rest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"sync"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// Bounds of an upload's form, whatever is sent.
const (
	// outsideLimit is how many bytes may surround the file: boundaries, part headers,
	// fields and unknown parts together. Up to 4 KiB of it is what the parser reads ahead.
	outsideLimit = 64 << 10
	// partsLimit is how many parts a form may have.
	partsLimit = 32
	// fieldLimit is how many bytes of one field are read. Package media has the exact
	// limits, which are lower.
	fieldLimit = 8 << 10
	// readAhead is how much is read from the connection at a time. The parser alone
	// would read 4 KiB.
	readAhead = 64 << 10
)

// receiver takes the file. media.Upload implements it.
type receiver interface {
	Receive(ctx context.Context, file io.Reader, claim string) error
}

// form is a multipart body on its way in. The parts may come in any order.
type form struct {
	meter  *meter
	buffer *bufio.Reader
	parts  *multipart.Reader

	fields media.Fields
	seen   map[string]bool
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readAhead) }}

// newForm looks at the headers only.
func newForm(r *http.Request) (*form, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return nil, fault.New(fault.UnsupportedType, "the body must be multipart/form-data")
	}
	boundary := params["boundary"]
	if boundary == "" || len(boundary) > 70 { // RFC 2046
		return nil, fault.New(fault.Invalid, "the multipart boundary must have 1 to 70 characters")
	}
	buffer, _ := readers.Get().(*bufio.Reader)
	buffer.Reset(r.Body)
	// The last boundary may lack its line's end, which the parser wants to see.
	clean := newControls(buffer, boundary)
	m := &meter{from: io.MultiReader(clean, strings.NewReader("\r\n")), clean: clean}
	return &form{meter: m, buffer: buffer, parts: multipart.NewReader(m, boundary), seen: map[string]bool{}}, nil
}

// close releases the read buffer.
func (f *form) close() {
	f.buffer.Reset(nil)
	readers.Put(f.buffer)
}

// fileAtLeast says how large the file must be for a body of this length, 0 when the
// length is not known: all that may surround it is taken off.
func (f *form) fileAtLeast(contentLength int64) int64 { return max(0, contentLength-outsideLimit) }

// read takes the form apart to its end, and hands the file over while it arrives.
func (f *form) read(ctx context.Context, upload receiver) error {
	for count := 0; ; count++ {
		part, err := f.parts.NextRawPart()
		if err == io.EOF { // the parser's own, bare: the last boundary
			break
		}
		if err != nil {
			return f.meter.malformed(err)
		}
		if count == partsLimit {
			return fault.New(fault.Invalid, "the form has more than %d parts", partsLimit)
		}
		if err := f.take(ctx, part, upload); err != nil {
			return err
		}
	}
	if !f.seen["file"] {
		return fault.New(fault.Invalid, "the part file is missing")
	}
	return f.drain()
}

// drain reads what follows the last boundary, so that the end of the body is read: the
// middleware checks the credential again there.
func (f *form) drain() error {
	n, err := io.Copy(io.Discard, io.LimitReader(f.buffer, outsideLimit+1))
	switch {
	case err != nil:
		return f.meter.malformed(err)
	case n > outsideLimit:
		return fault.New(fault.Invalid, "everything but the file must be at most %d bytes", outsideLimit)
	}
	return nil
}

// take reads one part.
func (f *form) take(ctx context.Context, part *multipart.Part, upload receiver) error {
	described, ok := readDisposition(part.Header.Get("Content-Disposition"))
	if !ok || described.kind != "form-data" {
		return fault.New(fault.Invalid, "a part has no Content-Disposition of form-data")
	}
	var field *string
	var access string
	name := described.name
	switch name {
	case "access":
		field = &access
	case "caption":
		field = &f.fields.Caption
	case "group":
		field = &f.fields.Group
	case "file":
	default:
		return nil // NextRawPart passes over it, within outsideLimit
	}
	if f.seen[name] {
		return fault.New(fault.Invalid, "the part %s was sent twice", name)
	}
	f.seen[name] = true
	switch strings.ToLower(part.Header.Get("Content-Transfer-Encoding")) {
	case "", "binary", "8bit", "7bit":
	default:
		return fault.New(fault.Invalid, "the part %s must be sent without a transfer encoding", name)
	}
	if field == nil {
		f.fields.FileName = described.fileName
		return upload.Receive(ctx, f.meter.file(part), part.Header.Get("Content-Type"))
	}
	text, err := io.ReadAll(io.LimitReader(part, fieldLimit+1))
	if err != nil {
		return f.meter.malformed(err)
	}
	if len(text) > fieldLimit {
		return fault.New(fault.Invalid, "%s is too long", name)
	}
	if *field = string(text); name == "access" {
		f.fields.Access = media.Access(access)
	}
	return f.fields.Validate() // now, so that a file which comes later need not be sent
}

// malformed makes an error of reading the body the client's; faults pass. The parser
// takes what came before a failed read for all there is, so the failed read counts.
func (m *meter) malformed(err error) error {
	if m.failed != nil {
		err = m.failed
	}
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, io.EOF): // an end in the wrong place must not look like the right one
		err = io.ErrUnexpectedEOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(err, fault.Invalid, "the upload made no progress for too long")
	}
	return fault.Wrap(err, fault.Invalid, "the multipart body is malformed or was cut short")
}

// meter counts what the parser reads, and ends a body that carries too much besides
// its file. The parser takes the end of a body where a part's header should stand for
// the end of the form, so the meter makes that end an error: whoever reads as far did
// not find the last boundary. It belongs to one goroutine.
type meter struct {
	from   io.Reader
	clean  *controls
	total  int64 // read from the body
	inFile int64 // of these, given to the reader of the file
	failed error // of the first read that failed, other than by the body's end
}

// Read passes bytes of the body on.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if m.total += int64(n); m.total+m.clean.dropped-m.inFile > outsideLimit {
		return 0, fault.New(fault.Invalid, "everything but the file must be at most %d bytes", outsideLimit)
	}
	if err == io.EOF { //nolint:errorlint // readers end with the bare one
		err = fault.New(fault.Invalid, "the multipart body was cut short")
	} else if err != nil && m.failed == nil {
		m.failed = err
	}
	return n, err
}

// file reads the file's part, which counts for itself.
func (m *meter) file(part io.Reader) io.Reader { return fileReader{part: part, meter: m} }

type fileReader struct {
	part  io.Reader
	meter *meter
}

// Read reads the file. Its errors are faults, so that they can be told from those of
// the stores that the file goes to.
func (f fileReader) Read(p []byte) (int, error) {
	n, err := f.part.Read(p)
	f.meter.inFile += int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // only the bare one ends a part
		err = f.meter.malformed(err)
	}
	return n, err
}
