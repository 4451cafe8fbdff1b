// Package multipartform reads the multipart/form-data body of an upload while it arrives: the
// file goes to its sink, the fields are collected. It bounds what surrounds the file, reads file
// names as browsers and older clients write them, and accepts control characters in them. It does
// what package mime/multipart does, which copies and searches each byte twice. Packages rest
// and webfiles call it.
package multipartform

import (
	"cmp"
	"context"
	"io"
	"mime"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// Bounds of a form.
const (
	// maxOverhead bounds the bytes outside the file: boundaries, part headers, fields, unknown
	// parts and what follows the last boundary together.
	maxOverhead = 64 << 10
	// maxParts bounds the parts of a form.
	maxParts = 32
	// maxFieldBytes bounds how many bytes of one field are read. The exact limits are those of
	// package media, which are lower.
	maxFieldBytes = 8 << 10
	// maxMetadataBytes bounds how many bytes of the metadata are read: all pairs of the longest values.
	maxMetadataBytes = 56 << 10
)

// FileSink receives the file. upload.Single implements it.
type FileSink interface {
	Receive(ctx context.Context, file io.Reader, declaredType string) error
}

// Form is a multipart body in progress. The parts may come in any order. It belongs to one
// goroutine.
type Form struct {
	parser  *parser
	fields  media.Fields
	seen    map[string]bool
	unknown string // the name of the first unknown part, for the error of a form without a file
}

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
	if strings.ContainsAny(boundary, "\r\n") { // in the encoded form of the parameter (RFC 2231)
		return nil, fault.New(fault.Invalid, "the multipart boundary must have no line break")
	}
	return &Form{parser: newParser(r.Body, boundary), seen: map[string]bool{}}, nil
}

// Close releases the read buffer.
func (f *Form) Close() { f.parser.close() }

// MinFileSize returns the minimum size of the file in a body of this length, 0 if the length
// is unknown.
func MinFileSize(contentLength int64) int64 { return max(0, contentLength-maxOverhead) }

// fileField is the form field of the file.
const fileField = "file"

// formFields are the known form fields.
var formFields = []string{fileField, "access", "caption", "group", "metadata"}

// Read reads the form to the end of the body, sends the file to sink while it arrives and
// returns the fields.
func (f *Form) Read(ctx context.Context, sink FileSink) (media.Fields, error) {
	for count := 0; ; count++ {
		name, header, err := f.nextPart(count)
		if err == io.EOF { //nolint:errorlint // the parser returns it unwrapped
			break
		}
		switch {
		case err != nil:
		case name == fileField:
			err = sink.Receive(ctx, fileReader{f.parser}, header.Get("Content-Type"))
		case name != "":
			err = f.readField(name)
		}
		if err != nil {
			return media.Fields{}, err
		}
	}
	if !f.seen[fileField] {
		return media.Fields{}, f.missingFile()
	}
	return f.fields, f.parser.drain()
}

// nextPart reads the header of the next part, of which count came before, and returns the name of its
// form field; io.EOF after the last part.
func (f *Form) nextPart(count int) (string, textproto.MIMEHeader, error) {
	header, err := f.parser.next()
	if err != nil {
		return "", nil, err
	}
	if count == maxParts {
		return "", nil, fault.New(fault.Invalid, "the form has more than %d parts", maxParts)
	}
	name, err := f.checkPart(header)
	return name, header, err
}

// readBeforeFile reads the fields before the file, within the bounds of the form. What is wrong with them
// does not matter: the upload is rejected already.
func (f *Form) readBeforeFile() {
	for count := 0; ; count++ {
		name, _, err := f.nextPart(count)
		if err != nil || name == fileField {
			return
		}
		if name != "" && f.readField(name) != nil {
			return
		}
	}
}

// missingFile returns the error of a form without a file. It names an unknown part, which may be the
// file under another name.
func (f *Form) missingFile() error {
	if f.unknown == "" {
		return fault.New(fault.Invalid, "missing form field %q", fileField)
	}
	return fault.New(fault.Invalid, "missing form field %q; %q is none of %s", fileField, httpapi.Truncate(f.unknown), strings.Join(formFields, ", "))
}

// checkPart checks the header of a part and returns the name of its form field: "" for a part
// of no known field, which the parser skips within maxOverhead.
func (f *Form) checkPart(header textproto.MIMEHeader) (name string, err error) {
	described, ok := parseDisposition(header.Get("Content-Disposition"))
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
	switch strings.ToLower(header.Get("Content-Transfer-Encoding")) {
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
func (f *Form) readField(name string) error {
	var value []byte
	limit := maxFieldBytes
	if name == "metadata" {
		limit = maxMetadataBytes
	}
	for {
		data, err := f.parser.content()
		if err == io.EOF { //nolint:errorlint // the parser returns it unwrapped
			break
		}
		if err != nil {
			return err
		}
		if value = append(value, data...); len(value) > limit {
			return fault.New(fault.Invalid, "%s is too long", name)
		}
	}
	switch name {
	case "access":
		f.fields.Access = media.Access(value)
	case "caption":
		f.fields.Caption = string(value)
	case "group":
		f.fields.Group = string(value)
	case "metadata":
		var err error
		if f.fields.Metadata, err = httpapi.ReadMetadata(string(value)); err != nil {
			return err
		}
	}
	return f.fields.Validate() // now, so that a file which follows need not be sent
}
