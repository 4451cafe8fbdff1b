// Package multipartform reads the multipart/form-data body of an upload while it arrives: the
// file goes to its sink, the fields are collected. Package mime/multipart parses; this package
// bounds what surrounds the file, reads file names as browsers and older clients write them,
// and accepts control characters in them. Package rest calls it.
package multipartform

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// Bounds of a form.
const (
	// maxOverhead bounds the bytes outside the file: boundaries, part headers, fields, unknown
	// parts and what follows the last boundary together. Up to 4 KiB of it is what the parser
	// reads ahead.
	maxOverhead = 64 << 10
	// maxParts bounds the parts of a form.
	maxParts = 32
	// maxFieldBytes bounds how many bytes of one field are read. The exact limits are those of
	// package media, which are lower.
	maxFieldBytes = 8 << 10
	// readAhead is how much is read from the connection at a time. The parser alone would read
	// 4 KiB.
	readAhead = 64 << 10
)

// FileSink receives the file. media.Upload implements it.
type FileSink interface {
	Receive(ctx context.Context, file io.Reader, declaredType string) error
}

// Form is a multipart body in progress. The parts may come in any order. It belongs to one
// goroutine.
type Form struct {
	overhead *overheadReader
	buffer   *bufio.Reader
	parts    *multipart.Reader

	fields  media.Fields
	seen    map[string]bool
	unknown string // the name of the first unknown part, for the error of a form without a file
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readAhead) }}

// New returns the form in the body of a request. It reads the headers of the request only.
func New(r *http.Request) (*Form, error) {
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
	sanitizer := newHeaderSanitizer(buffer, boundary)
	// Some clients omit the line break after the last boundary, which the parser requires.
	overhead := &overheadReader{from: io.MultiReader(sanitizer, strings.NewReader("\r\n")), sanitizer: sanitizer}
	return &Form{overhead: overhead, buffer: buffer, parts: multipart.NewReader(overhead, boundary), seen: map[string]bool{}}, nil
}

// Close releases the read buffer.
func (f *Form) Close() {
	f.buffer.Reset(nil)
	readers.Put(f.buffer)
}

// MinFileSize returns the minimum size of the file in a body of this length, 0 if the length
// is unknown.
func MinFileSize(contentLength int64) int64 { return max(0, contentLength-maxOverhead) }

// fileField is the form field of the file.
const fileField = "file"

// formFields are the known form fields.
var formFields = []string{fileField, "access", "caption", "group"}

// Read reads the form to the end of the body, sends the file to sink while it arrives and
// returns the fields.
func (f *Form) Read(ctx context.Context, sink FileSink) (media.Fields, error) {
	for count := 0; ; count++ {
		part, err := f.parts.NextRawPart()
		if err == io.EOF { //nolint:errorlint // the parser returns it unwrapped at the last boundary alone
			break
		}
		if err != nil {
			return media.Fields{}, f.overhead.malformed(err)
		}
		if count == maxParts {
			return media.Fields{}, fault.New(fault.Invalid, "the form has more than %d parts", maxParts)
		}
		name, err := f.checkPart(part)
		switch {
		case err != nil:
		case name == fileField:
			err = sink.Receive(ctx, f.overhead.file(part), part.Header.Get("Content-Type"))
		case name != "":
			err = f.readField(name, part)
		}
		if err != nil {
			return media.Fields{}, err
		}
	}
	if !f.seen[fileField] {
		return media.Fields{}, f.missingFile()
	}
	return f.fields, f.drain()
}

// missingFile returns the error of a form without a file. It names an unknown part, which may be the
// file under another name.
func (f *Form) missingFile() error {
	if f.unknown == "" {
		return fault.New(fault.Invalid, "missing form field %q", fileField)
	}
	return fault.New(fault.Invalid, "missing form field %q; %q is none of %s", fileField, httpapi.Truncate(f.unknown), strings.Join(formFields, ", "))
}

// drain reads what follows the last boundary. The end of the body must be read, since the
// credential is checked there a second time.
func (f *Form) drain() error {
	left := maxOverhead - f.overhead.used()
	n, err := io.Copy(io.Discard, io.LimitReader(f.buffer, left+1))
	switch {
	case err != nil:
		return f.overhead.malformed(err)
	case n > left:
		return errOverhead
	}
	return nil
}

// checkPart checks the header of a part and returns the name of its form field: "" for a part
// of no known field, which NextRawPart skips within maxOverhead.
func (f *Form) checkPart(part *multipart.Part) (name string, err error) {
	described, ok := parseDisposition(part.Header.Get("Content-Disposition"))
	if !ok || described.kind != "form-data" {
		return "", fault.New(fault.Invalid, "a part has no Content-Disposition of form-data")
	}
	name = described.name
	if !slices.Contains(formFields, name) {
		f.unknown = cmp.Or(f.unknown, name)
		return "", nil
	}
	if f.seen[name] {
		return "", fault.New(fault.Invalid, "duplicate form field %q", name)
	}
	f.seen[name] = true
	switch strings.ToLower(part.Header.Get("Content-Transfer-Encoding")) {
	case "", "binary", "8bit", "7bit":
	default:
		return "", fault.New(fault.Invalid, "the form field %q must be sent without a transfer encoding", name)
	}
	if name == fileField {
		f.fields.FileName = described.fileName
	}
	return name, nil
}

// readField reads the value of a form field other than the file.
func (f *Form) readField(name string, part *multipart.Part) error {
	value, err := io.ReadAll(io.LimitReader(part, maxFieldBytes+1))
	if err != nil {
		return f.overhead.malformed(err)
	}
	if len(value) > maxFieldBytes {
		return fault.New(fault.Invalid, "%s is too long", name)
	}
	switch name {
	case "access":
		f.fields.Access = media.Access(value)
	case "caption":
		f.fields.Caption = string(value)
	case "group":
		f.fields.Group = string(value)
	}
	return f.fields.Validate() // now, so that a file which follows need not be sent
}
