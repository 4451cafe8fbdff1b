package multipartform

import (
	"errors"
	"io"
	"os"

	"mediastack.dev/runtime/fault"
)

var errOverhead = fault.New(fault.Invalid, "form fields and part headers exceed %d bytes", maxOverhead)

// overheadReader bounds the bytes of a body outside its file. The parser takes the end of a
// body where the header of a part is expected for the end of the form, so this reader returns
// an error for that end: a form without its last boundary is incomplete. It belongs to one
// goroutine.
type overheadReader struct {
	from      io.Reader
	sanitizer *headerSanitizer
	total     int64 // bytes read from the body
	inFile    int64 // of these, bytes of the file
	failed    error // of the first read that failed, except for the end of the body
}

// used returns how many bytes outside the file were read.
func (o *overheadReader) used() int64 { return o.total + o.sanitizer.dropped - o.inFile }

// Read reads the next bytes of the body.
func (o *overheadReader) Read(p []byte) (int, error) {
	n, err := o.from.Read(p)
	if o.total += int64(n); o.used() > maxOverhead {
		return 0, errOverhead
	}
	if err == io.EOF { //nolint:errorlint // readers end with the bare one
		err = fault.New(fault.Invalid, "unexpected end of multipart body")
	} else if err != nil && o.failed == nil {
		o.failed = err
	}
	return n, err
}

// malformed returns the fault for an error of reading the body. Faults stay as they are. The
// parser takes the bytes before a failed read for the whole body, so the error of the failed
// read counts.
func (o *overheadReader) malformed(err error) error {
	if o.failed != nil {
		err = o.failed
	}
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, io.EOF): // callers take a bare io.EOF for success
		err = io.ErrUnexpectedEOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(err, fault.Invalid, "the upload made no progress for too long")
	}
	return fault.Wrap(err, fault.Invalid, "the multipart body is malformed or incomplete")
}

// file returns the reader of the file's part, whose bytes are no overhead.
func (o *overheadReader) file(part io.Reader) io.Reader { return fileReader{part: part, overhead: o} }

type fileReader struct {
	part     io.Reader
	overhead *overheadReader
}

// Read reads the file. Its errors are faults, which distinguishes them from errors of the
// stores that the file is sent to.
func (f fileReader) Read(p []byte) (int, error) {
	n, err := f.part.Read(p)
	f.overhead.inFile += int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // only the bare one ends a part
		err = f.overhead.malformed(err)
	}
	return n, err
}
