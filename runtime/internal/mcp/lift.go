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

	"mediastack.dev/runtime/fault"
)

// Bounds of a request's body, in bytes and in messages.
const (
	// bodyLimit is how much is read at all. It is far above what a file may be, so that
	// a model that sends too much is told what to do instead.
	bodyLimit = 64 << 20
	// restLimit is what the body may hold besides the file.
	restLimit = 256 << 10
	// batchLimit bounds the messages of a batch, which the oldest revisions know.
	batchLimit = 50
	// depthLimit is how deep objects and lists may lie in each other.
	depthLimit = 100
)

// fileArgument is the argument whose text is taken out of the body.
const fileArgument = "fileBase64"

// lifter reads the JSON of a request and keeps all of it but the texts of fileArgument:
// those are handed on while they arrive, and a word stands in their place. The SDK would
// copy a file of 10 MB about ten times. What is not JSON it keeps as it came, for
// readMessages to refuse. It belongs to one goroutine.
type lifter struct {
	from     *bufio.Reader
	take     taker
	rest     []byte
	nesting  []byte // '{' and '['
	key      bool   // the next string is a field's name
	file     bool   // the name before the next value is fileArgument
	messages int
	path     [4]string // names of the fields around, of the outermost objects
	method   string    // of the message, as soon as it was read
	tool     string
}

// taker is handed each file's text, and gives the word that stands for it. needed is
// false where no upload_media can use it. An error ends the reading.
type taker func(from *text, needed bool) (word string, err error)

// lift returns the body without its files.
func lift(body io.Reader, take taker) (rest []byte, err error) {
	from, _ := readers.Get().(*bufio.Reader)
	from.Reset(body)
	defer func() {
		from.Reset(nil)
		readers.Put(from)
	}()
	l := &lifter{from: from, take: take, messages: 1}
	for {
		c, err := from.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			if !utf8.Valid(l.rest) { // package json would put other characters in their place
				return nil, notJSON("the body must be UTF-8")
			}
			return l.rest, nil
		case err != nil:
			return nil, unread(err)
		}
		if err := l.next(c); err != nil {
			return nil, err
		}
	}
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 32<<10) }}

// next takes one byte of structure, or the string that it begins.
func (l *lifter) next(c byte) error {
	if c == '"' {
		return l.text()
	}
	switch c {
	case '{', '[':
		if l.nesting = append(l.nesting, c); len(l.nesting) > depthLimit {
			return fault.New(fault.Invalid, "the body must be at most %d objects and lists deep", depthLimit)
		}
		l.key = c == '{'
	case '}', ']':
		if len(l.nesting) > 0 {
			l.nesting = l.nesting[:len(l.nesting)-1]
		}
		l.key = false
	case ',':
		l.key = l.inside('{')
		if len(l.nesting) == 1 && l.inside('[') {
			l.method, l.tool = "", ""
			if l.messages++; l.messages > batchLimit {
				return tooMuch("a batch may have %d messages", batchLimit)
			}
		}
	case ':':
		l.key = false
	}
	return l.keep(c)
}

func (l *lifter) inside(c byte) bool { return len(l.nesting) > 0 && l.nesting[len(l.nesting)-1] == c }

func (l *lifter) keep(b ...byte) error {
	if len(l.rest)+len(b) > restLimit {
		return tooMuch("everything but the file must be at most %d bytes", restLimit)
	}
	l.rest = append(l.rest, b...)
	return nil
}

// text takes a string, whose first quotation mark has been read.
func (l *lifter) text() error {
	if !l.key && l.file && l.inside('{') {
		l.file = false
		content := &text{from: l.from}
		word, err := l.take(content, l.needed())
		if err != nil {
			return err
		}
		if err := content.drain(); err != nil {
			return unread(err)
		}
		return l.keep(strconv.AppendQuote(nil, word)...)
	}
	begin := len(l.rest)
	if err := l.keep('"'); err != nil {
		return err
	}
	for escaped := false; ; {
		c, err := l.from.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil // it is cut short: not for us to judge
		}
		if err != nil {
			return unread(err)
		}
		if err := l.keep(c); err != nil {
			return err
		}
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			l.read(l.rest[begin:])
			return nil
		}
	}
}

// read takes note of a string that was kept: a field's name, or what says whom the
// message is for.
func (l *lifter) read(quoted []byte) {
	depth := l.depth()
	switch {
	case l.key:
		word := unquoted(quoted)
		l.file = word == fileArgument
		if depth <= len(l.path) {
			l.path[depth-1] = word
		}
	case !l.inside('{'):
	case depth == 1 && l.path[0] == "method":
		l.method = unquoted(quoted)
	case depth == 2 && l.path[0] == "params" && l.path[1] == "name":
		l.tool = unquoted(quoted)
	}
}

// depth is how deep in the message we are.
func (l *lifter) depth() int {
	if len(l.nesting) > 0 && l.nesting[0] == '[' { // a batch
		return len(l.nesting) - 1
	}
	return len(l.nesting)
}

// needed reports whether a file stands where upload_media has it. Names that come behind
// it are not known yet: who writes them in that order is believed.
func (l *lifter) needed() bool {
	around := l.nesting[len(l.nesting)-l.depth():]
	return string(around) == "{{{" && l.path[0] == "params" && l.path[1] == "arguments" &&
		(l.method == "" || l.method == "tools/call") && (l.tool == "" || l.tool == uploadName)
}

// unquoted is a string as package json would read it: some write letters as escapes.
func unquoted(quoted []byte) (word string) {
	if !bytes.Contains(quoted, []byte{'\\'}) {
		return string(quoted[1 : len(quoted)-1])
	}
	_ = json.Unmarshal(quoted, &word) // what can't be read is no name that is known
	return word
}

// unread says why a body could not be read to its end.
func unread(err error) error {
	var tooLong *http.MaxBytesError
	var syntax invalid
	var known *fault.Error
	switch {
	case errors.As(err, &syntax):
		return syntax
	case errors.As(err, &known): // the credential ended while the body came
		return known
	case errors.As(err, &tooLong):
		return tooMuch("the body must be at most %d bytes", tooLong.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(err, fault.Invalid, "the request made no progress for too long")
	}
	return invalid{error: fault.Wrap(err, fault.Invalid, "the body was cut short"), code: jsonrpc.CodeParseError}
}

// text is a JSON string behind its first quotation mark. Reading gives what is written
// in it, with escapes undone, and ends before the last mark's successor.
type text struct {
	from  *bufio.Reader
	err   error // the end, or what kept us from it
	ended bool  // the last mark was read
}

// Read returns the next characters.
func (t *text) Read(p []byte) (int, error) {
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

// escapes maps the letter of a two-character escape to the character that it stands for.
var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// Syntax errors of a JSON string that is not kept, with the same code as those that
// readMessages finds in the rest of the body.
var (
	errControlCharacter = notJSON(fileArgument + " is not a JSON string: control characters must be escaped, a line break as \\n")
	errEscape           = notJSON(fileArgument + " is not a JSON string: it has an escape that JSON does not define")
)

// escape reads an escape sequence. It returns '?', which is not base64 either, for a
// character of more than one byte.
func (t *text) escape() (byte, error) {
	begun, err := t.from.Peek(2)
	if err != nil {
		return 0, cut(err)
	}
	if short := begun[1]; short != 'u' {
		c, known := escapes[short]
		if !known {
			return 0, errEscape
		}
		_, _ = t.from.Discard(2)
		return c, nil
	}
	whole, err := t.from.Peek(6)
	if err != nil {
		return 0, cut(err)
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

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// drain reads to the end of the string; what nobody wants is dropped.
func (t *text) drain() error {
	var dropped [4 << 10]byte
	for t.err == nil {
		_, _ = t.Read(dropped[:])
	}
	if t.ended {
		return nil
	}
	return t.err
}
