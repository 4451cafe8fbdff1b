package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// Bounds of a request's body, in bytes and in messages.
const (
	// maxBody bounds what is read. It is far above maxFile, so that a model which sends a larger
	// file gets an error that names the alternative.
	maxBody = 64 << 20
	// maxEnvelope bounds the body without its file.
	maxEnvelope = 256 << 10
	// maxBatch bounds the messages of a batch, which the oldest revisions have.
	maxBatch = 50
	// maxDepth bounds the nesting of objects and arrays.
	maxDepth = 100
)

// fileArgument is the argument that is extracted from the body.
const fileArgument = "fileBase64"

// bodyScanner scans the JSON of a request. It passes the strings of fileArgument on while they
// arrive and replaces them by placeholders, since the SDK would copy a file of 10 MB about ten
// times. Everything else is the envelope, unchanged; readMessages rejects what is not JSON. It
// belongs to one goroutine.
type bodyScanner struct {
	from     *bufio.Reader
	onFile   fileHandler
	envelope []byte
	nesting  []byte // '{' and '['
	key      bool   // the next string is a field's name
	file     bool   // the name before the next value is fileArgument
	messages int
	path     [4]string // names of the enclosing fields, from the message down
	method   string    // of the message, once it is scanned
	tool     string
}

// fileHandler receives the content of a file and returns its placeholder. isUpload is false if
// the file is not an argument of upload_media. An error ends the scan.
type fileHandler func(from *stringReader, isUpload bool) (placeholder string, err error)

// extractFiles returns the body with a placeholder for each file.
func extractFiles(body io.Reader, onFile fileHandler) (envelope []byte, err error) {
	from, _ := readers.Get().(*bufio.Reader)
	from.Reset(body)
	defer func() {
		from.Reset(nil)
		readers.Put(from)
	}()
	s := &bodyScanner{from: from, onFile: onFile, messages: 1}
	for {
		c, err := from.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			if !utf8.Valid(s.envelope) { // encoding/json would replace the invalid bytes
				return nil, parseError("the body must be UTF-8")
			}
			return s.envelope, nil
		case err != nil:
			return nil, readError(err)
		}
		if err := s.scan(c); err != nil {
			return nil, err
		}
	}
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 32<<10) }}

// scan processes one byte outside of strings, or the string that it begins.
func (s *bodyScanner) scan(c byte) error {
	if c == '"' {
		return s.scanString()
	}
	switch c {
	case '{', '[':
		if s.nesting = append(s.nesting, c); len(s.nesting) > maxDepth {
			return fault.New(fault.Invalid, "the body must be nested at most %d levels deep", maxDepth)
		}
		s.key = c == '{'
	case '}', ']':
		if len(s.nesting) > 0 {
			s.nesting = s.nesting[:len(s.nesting)-1]
		}
		s.key = false
	case ',':
		s.key = s.inside('{')
		if len(s.nesting) == 1 && s.inside('[') {
			s.method, s.tool = "", ""
			if s.messages++; s.messages > maxBatch {
				return bodyTooLarge("a batch may have at most %d messages", maxBatch)
			}
		}
	case ':':
		s.key = false
	}
	return s.emit(c)
}

func (s *bodyScanner) inside(c byte) bool {
	return len(s.nesting) > 0 && s.nesting[len(s.nesting)-1] == c
}

func (s *bodyScanner) emit(b ...byte) error {
	if len(s.envelope)+len(b) > maxEnvelope {
		return bodyTooLarge("the body without the file exceeds %d bytes", maxEnvelope)
	}
	s.envelope = append(s.envelope, b...)
	return nil
}

// scanString processes a string whose opening quotation mark has been read.
func (s *bodyScanner) scanString() error {
	if !s.key && s.file && s.inside('{') {
		s.file = false
		content := &stringReader{from: s.from}
		placeholder, err := s.onFile(content, s.isUpload())
		if err != nil {
			return err
		}
		if err := content.drain(); err != nil {
			return readError(err)
		}
		return s.emit(strconv.AppendQuote(nil, placeholder)...)
	}
	begin := len(s.envelope)
	if err := s.emit('"'); err != nil {
		return err
	}
	for escaped := false; ; {
		c, err := s.from.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil // readMessages rejects the incomplete JSON
		}
		if err != nil {
			return readError(err)
		}
		if err := s.emit(c); err != nil {
			return err
		}
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			s.recordString(s.envelope[begin:])
			return nil
		}
	}
}

// recordString records a string of the envelope: the name of a field, the method of the message
// or the name of the tool.
func (s *bodyScanner) recordString(quoted []byte) {
	depth := s.depth()
	switch {
	case s.key:
		name := unquote(quoted)
		s.file = name == fileArgument
		if depth <= len(s.path) {
			s.path[depth-1] = name
		}
	case !s.inside('{'):
	case depth == 1 && s.path[0] == "method":
		s.method = unquote(quoted)
	case depth == 2 && s.path[0] == "params" && s.path[1] == "name":
		s.tool = unquote(quoted)
	}
}

// depth returns the nesting depth within the message.
func (s *bodyScanner) depth() int {
	if len(s.nesting) > 0 && s.nesting[0] == '[' { // a batch
		return len(s.nesting) - 1
	}
	return len(s.nesting)
}

// isUpload reports whether the file is an argument of upload_media, as far as is known: the
// method and the tool may follow the arguments.
func (s *bodyScanner) isUpload() bool {
	around := s.nesting[len(s.nesting)-s.depth():]
	return string(around) == "{{{" && s.path[0] == "params" && s.path[1] == "arguments" &&
		(s.method == "" || s.method == "tools/call") && (s.tool == "" || s.tool == string(account.UploadMedia))
}

// unquote decodes a JSON string, whose characters may be escaped.
func unquote(quoted []byte) (text string) {
	if !bytes.Contains(quoted, []byte{'\\'}) {
		return string(quoted[1 : len(quoted)-1])
	}
	_ = json.Unmarshal(quoted, &text) // a malformed string matches no name
	return text
}

// readError returns the error for a body that could not be read to its end.
func readError(err error) error {
	var tooLong *http.MaxBytesError
	var syntax rpcError
	var known *fault.Error
	switch {
	case errors.As(err, &syntax):
		return syntax
	case errors.As(err, &known): // the credential was revoked while the body arrived
		return known
	case errors.As(err, &tooLong):
		return bodyTooLarge("the body must be at most %d bytes", tooLong.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(err, fault.Invalid, "the request made no progress for too long")
	}
	return rpcError{error: fault.Wrap(err, fault.Invalid, "unexpected end of request body"), code: jsonrpc.CodeParseError}
}

// stringReader reads the content of a JSON string behind its opening quotation mark, with
// escapes decoded. It consumes the closing quotation mark.
type stringReader struct {
	from  *bufio.Reader
	err   error // of every further read
	ended bool  // the closing quotation mark was read
}

// Read returns the next characters.
func (t *stringReader) Read(p []byte) (int, error) {
	if t.err != nil || len(p) == 0 {
		return 0, t.err
	}
	if _, err := t.from.Peek(1); err != nil {
		t.err = err
		if errors.Is(err, io.EOF) {
			t.err = io.ErrUnexpectedEOF
		}
		return 0, t.err
	}
	ready, _ := t.from.Peek(min(t.from.Buffered(), len(p)))
	plain := 0
	for plain < len(ready) && !special[ready[plain]] {
		plain++
	}
	if plain > 0 {
		n := copy(p, ready[:plain])
		_, _ = t.from.Discard(n) // it is in the buffer
		return n, nil
	}
	switch ready[0] {
	case '"':
		_, _ = t.from.Discard(1)
		t.ended, t.err = true, io.EOF
	case '\\':
		p[0], t.err = t.escape()
		if t.err == nil {
			return 1, nil
		}
	default:
		t.err = errControlCharacter
	}
	return 0, t.err
}

// special marks the characters that do not stand for themselves in a JSON string: its
// delimiter, the escape character, and the control characters, which RFC 8259
// (section 7) requires to be escaped.
var special = func() (table [256]bool) {
	for c := range 0x20 {
		table[c] = true
	}
	table['"'], table['\\'] = true, true
	return table
}()

// escapes maps the second character of a two-character escape to the character that it stands for.
var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// Syntax errors of a JSON string that is not kept, with the same code as those that
// readMessages finds in the rest of the body.
var (
	errControlCharacter = parseError(fileArgument + " is not a JSON string: control characters must be escaped, a line break as \\n")
	errEscape           = parseError(fileArgument + " is not a JSON string: it has an escape that JSON does not define")
)

// escape reads an escape sequence. It returns '?', which is not base64 either, for a
// character of more than one byte.
func (t *stringReader) escape() (byte, error) {
	prefix, err := t.from.Peek(2)
	if err != nil {
		return 0, unexpectedEOF(err)
	}
	if short := prefix[1]; short != 'u' {
		c, known := escapes[short]
		if !known {
			return 0, errEscape
		}
		_, _ = t.from.Discard(2)
		return c, nil
	}
	whole, err := t.from.Peek(6)
	if err != nil {
		return 0, unexpectedEOF(err)
	}
	code, err := strconv.ParseUint(string(whole[2:]), 16, 16)
	if err != nil {
		return 0, errEscape
	}
	_, _ = t.from.Discard(6)
	if code > 0x7e {
		return '?', nil
	}
	return byte(code), nil
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// drain reads and drops the rest of the string.
func (t *stringReader) drain() error {
	var dropped [4 << 10]byte
	for t.err == nil {
		_, _ = t.Read(dropped[:])
	}
	if t.ended {
		return nil
	}
	return t.err
}
