package tus

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// The headers of a request are checked here, before tusd sees them, so that every error is
// a fault with a text of this package.

// chunkType is the Content-Type of bytes of an upload.
const chunkType = "application/offset+octet-stream"

// creation is what the headers of a POST say, besides the length, which tusd parses.
type creation struct {
	fields   media.Fields
	metadata string // the text that fields were read from
	hasChunk bool   // the body holds the first bytes
}

// chunk is what the headers of a PATCH say.
type chunk struct {
	offset int64
	length int64 // the length of the upload that it declares, or upload.UnknownLength
}

// readCreation reads the headers of a POST.
func (s *requestState) readCreation() error {
	if s.header.Get("Upload-Concat") != "" {
		return fault.New(fault.Invalid, "concatenation is not supported")
	}
	_, hasLength, err := integer(s.header, "Upload-Length")
	if err != nil {
		return err
	}
	switch deferred := s.header.Get("Upload-Defer-Length"); {
	case deferred != "" && deferred != "1":
		return fault.New(fault.Invalid, "Upload-Defer-Length must be 1")
	case hasLength == (deferred != ""):
		return fault.New(fault.Invalid, "send either Upload-Length or Upload-Defer-Length")
	}
	fields, err := readMetadata(s.header.Values("Upload-Metadata"))
	if err != nil {
		return err
	}
	s.creation = creation{fields: fields.BindGroup(s.identity.Group), metadata: s.header.Get("Upload-Metadata"), hasChunk: s.header.Get("Content-Type") == chunkType}
	s.checksum, err = readChecksum(s.header.Values("Upload-Checksum"))
	return err
}

// readExisting reads the headers of a request for the upload with this id.
func (s *requestState) readExisting(id string) error {
	var err error
	if s.id, err = uuid.Parse(id); err != nil || s.id.String() != id {
		return errUploadNotFound
	}
	if s.method != http.MethodPatch {
		return nil
	}
	if s.header.Get("Content-Type") != chunkType {
		return fault.New(fault.UnsupportedType, "the body must be %s", chunkType)
	}
	length, hasLength, err := integer(s.header, "Upload-Length")
	if err != nil {
		return err
	}
	if !hasLength {
		length = upload.UnknownLength
	}
	offset, hasOffset, err := integer(s.header, "Upload-Offset")
	if err != nil {
		return err
	}
	if !hasOffset {
		return fault.New(fault.Invalid, "Upload-Offset is missing")
	}
	s.chunk = &chunk{offset: offset, length: length}
	s.checksum, err = readChecksum(s.header.Values("Upload-Checksum"))
	return err
}

// checkChunk checks the headers of a PATCH against the upload, which is locked.
func (s *requestState) checkChunk(state upload.ResumableState) error {
	if s.chunk == nil {
		return nil
	}
	if s.chunk.offset != state.Progress.Received {
		return fault.New(fault.Conflict, "Upload-Offset does not match the current offset")
	}
	if state.Phase() == upload.Committed { // a client may repeat a last request without bytes
		return s.checkNoBytes()
	}
	length := state.Length
	switch declared := s.chunk.length; {
	case declared == upload.UnknownLength:
	case length == upload.UnknownLength && declared >= s.chunk.offset:
		length = declared
	case length != declared:
		return fault.New(fault.Invalid, "Upload-Length is not the length of the upload")
	default:
		// The client may not know that its last request declared the length. tusd rejects a
		// length that is declared twice.
		s.header.Del("Upload-Length")
	}
	return s.checkBodyLength(length, s.chunk.offset)
}

// checkNoBytes rejects a body for an upload that is complete.
func (s *requestState) checkNoBytes() error {
	if s.length < 0 { // it is not known before a byte arrives
		n, _ := io.ReadFull(s.body, make([]byte, 1)) // without one, the end of the body shows nothing wrong
		s.length = int64(n)
	}
	if s.length > 0 {
		return fault.New(fault.TooLarge, "the upload is complete: the body is longer than what is left of it")
	}
	return nil
}

// checkBodyLength rejects a body at offset that does not fit into an upload of this length.
func (s *requestState) checkBodyLength(length, offset int64) error {
	if length != upload.UnknownLength && s.length > length-offset {
		return fault.New(fault.TooLarge, "the body is longer than what is left of the upload")
	}
	return nil
}

// integer returns the value of a header that must be sent at most once, in decimal digits:
// a sign, for example, is rejected.
func integer(header http.Header, name string) (n int64, present bool, err error) {
	values := header.Values(name)
	if len(values) == 0 {
		return 0, false, nil
	}
	n, err = strconv.ParseInt(values[0], 10, 64)
	if err != nil || len(values) > 1 || strings.Trim(values[0], "0123456789") != "" {
		return 0, true, fault.New(fault.Invalid, "%s must be a number, sent once", name)
	}
	return n, true, nil
}
