package multipartform

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/textproto"
	"os"
	"sync"

	"mediastack.dev/runtime/fault"
)

const (
	// readAhead is how much is read at a time outside of the file. What follows a part's header in
	// the same read is copied once more, so this is little.
	readAhead = 4 << 10
	// maxEmptyReads is how many reads in a row may return nothing.
	maxEmptyReads = 100
)

var (
	errOverhead  = fault.New(fault.Invalid, "form fields and part headers exceed %d bytes", maxOverhead)
	errTruncated = fault.New(fault.Invalid, "unexpected end of multipart body")
	errSyntax    = errors.New("a boundary is followed by other text")
)

// parser splits a multipart body into parts in one pass. The bytes of the file go from the
// connection directly into the memory of their reader, which is searched for the boundary once.
//
// It accepts what package mime/multipart accepts: text before the first boundary, lines that end
// in LF alone if the first boundary does, folded headers, white space after a boundary. In
// addition it removes control characters from headers, since a file name may contain them:
// browsers send all but line breaks unchanged. It rejects a body without its last boundary.
//
// A parser belongs to one goroutine.
type parser struct {
	body io.Reader
	// ahead is what was read from the body and not consumed, a slice of memory.buffer.
	ahead []byte
	end   error // that ended the body; nil before it has ended
	// delimiter is a line break, two dashes and the boundary.
	delimiter []byte
	shifts    [256]uint8 // see search
	lineBreak int        // length of the line break
	parts     int
	atStart   bool  // nothing of the part's content has been consumed
	overhead  int64 // bytes consumed, except those of the file
	memory    *memory
}

// memory is what a parser needs while it runs.
type memory struct {
	buffer []byte // at least twice readAhead
	header []byte // of one part
	lines  *bufio.Reader
}

var memories = sync.Pool{New: func() any {
	return &memory{buffer: make([]byte, 2*readAhead), lines: bufio.NewReaderSize(nil, 1<<10)}
}}

func newParser(body io.Reader, boundary string) *parser {
	m, _ := memories.Get().(*memory)
	p := &parser{body: body, ahead: m.buffer[:0], lineBreak: 2, memory: m}
	p.setDelimiter([]byte("\r\n--" + boundary))
	return p
}

// close releases the memory. A long header or a long part may have made it larger than it should stay.
func (p *parser) close() {
	if p.memory != nil && len(p.memory.buffer)+cap(p.memory.header) <= 8*readAhead {
		p.memory.lines.Reset(nil)
		memories.Put(p.memory)
	}
	p.memory, p.ahead = nil, nil
}

// next reads up to the content of the next part, and returns the part's header; io.EOF after the
// last part.
func (p *parser) next() (textproto.MIMEHeader, error) {
	if err := p.skipContent(); err != nil {
		return nil, err
	}
	for separated := false; ; {
		line, err := p.line()
		if err != nil {
			if errors.Is(p.end, io.EOF) && p.isLastBoundary(p.ahead) { // some clients omit the line break after it
				return nil, io.EOF
			}
			return nil, err
		}
		switch {
		case p.isBoundary(line):
			p.parts++
			return p.header()
		case p.isLastBoundary(line):
			return nil, io.EOF
		case p.parts == 0: // text before the first boundary
		case !separated && bytes.Equal(line, p.delimiter[:p.lineBreak]): // between the content and the boundary
			separated = true
		default:
			return nil, malformed(errSyntax)
		}
	}
}

// isBoundary reports whether a line is a boundary. The first one decides how lines end.
func (p *parser) isBoundary(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, p.delimiter[p.lineBreak:])
	if !ok {
		return false
	}
	rest = bytes.TrimLeft(rest, " \t")
	if p.parts == 0 && string(rest) == "\n" {
		p.setDelimiter(p.delimiter[p.lineBreak-1:])
		p.lineBreak = 1
	}
	return bytes.Equal(rest, p.delimiter[:p.lineBreak])
}

// isLastBoundary reports whether a line, with its line break or without, is the last boundary.
func (p *parser) isLastBoundary(line []byte) bool {
	rest, boundary := bytes.CutPrefix(line, p.delimiter[p.lineBreak:])
	rest, last := bytes.CutPrefix(rest, []byte("--"))
	if !boundary || !last {
		return false
	}
	rest = bytes.TrimLeft(rest, " \t")
	return len(rest) == 0 || bytes.Equal(rest, p.delimiter[:p.lineBreak])
}

// header reads the header of a part, without its control characters.
func (p *parser) header() (textproto.MIMEHeader, error) {
	text := p.memory.header[:0]
	for ended := false; !ended; {
		line, err := p.line()
		if err != nil {
			return nil, err
		}
		before := len(text)
		text = appendPrintable(text, bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")))
		ended = len(text) == before
		text = append(text, "\r\n"...)
	}
	p.memory.header = text
	p.atStart = true
	p.memory.lines.Reset(bytes.NewReader(text))
	header, err := textproto.NewReader(p.memory.lines).ReadMIMEHeader()
	if err != nil {
		return nil, malformed(err)
	}
	return header, nil
}

// appendPrintable appends text without its control characters, tabs excepted.
func appendPrintable(to, text []byte) []byte {
	for _, b := range text {
		if b >= ' ' && b != 0x7f || b == '\t' {
			to = append(to, b)
		}
	}
	return to
}

// line returns the next line with its line break. It is valid until the next call.
func (p *parser) line() ([]byte, error) {
	for searched := 0; ; {
		if at := bytes.IndexByte(p.ahead[searched:], '\n'); at >= 0 {
			return p.consume(searched + at + 1)
		}
		if searched = len(p.ahead); p.overhead+int64(searched) > maxOverhead {
			return nil, errOverhead
		}
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
}

// consume returns the first n bytes of ahead. They count as overhead.
func (p *parser) consume(n int) ([]byte, error) {
	if p.overhead += int64(n); p.overhead > maxOverhead {
		return nil, errOverhead
	}
	text := p.ahead[:n]
	p.ahead = p.ahead[n:]
	return text, nil
}

// skipContent consumes the rest of the current part.
func (p *parser) skipContent() error {
	if p.parts == 0 {
		return nil
	}
	for {
		if _, err := p.content(); err != nil {
			if err == io.EOF { //nolint:errorlint // content returns it unwrapped
				return nil
			}
			return err
		}
	}
}

// content returns the next bytes of a part that is not the file; io.EOF at its end. They are valid
// until the next call.
func (p *parser) content() ([]byte, error) {
	for {
		n, found := p.scan(p.ahead)
		switch {
		case n > 0:
			p.atStart = false
			return p.consume(n)
		case found:
			return nil, io.EOF
		}
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
}

// scan returns how many bytes at the start of data are content, and whether a boundary follows
// them. If none does, more of the body decides about the rest of data.
func (p *parser) scan(data []byte) (n int, found bool) {
	if p.atStart { // the boundary may follow the header directly
		delimiter := p.delimiter[p.lineBreak:]
		if bytes.HasPrefix(data, delimiter) {
			return decide(0, data, delimiter)
		}
		if bytes.HasPrefix(delimiter, data) {
			return 0, false
		}
	}
	if at := p.search(data); at >= 0 {
		return decide(at, data, p.delimiter)
	}
	first := max(0, len(data)-len(p.delimiter)+1)
	if at := bytes.LastIndexByte(data[first:], p.delimiter[0]); at >= 0 && bytes.HasPrefix(p.delimiter, data[first+at:]) {
		return first + at, false
	}
	return len(data), false
}

// search returns where in data the delimiter begins, -1 if it is not there. It is the algorithm of
// Boyer, Moore and Horspool, which looks at one byte in as many as the delimiter has: bytes.Index
// looks at each.
func (p *parser) search(data []byte) int {
	last := len(p.delimiter) - 1
	for at := last; at < len(data); at += int(p.shifts[data[at]]) {
		if data[at] == p.delimiter[last] && bytes.Equal(data[at-last:at+1], p.delimiter) {
			return at - last
		}
	}
	return -1
}

// setDelimiter sets the delimiter, and how far search may move after each byte: as far as the byte is
// from the end of the delimiter.
func (p *parser) setDelimiter(delimiter []byte) {
	p.delimiter = delimiter
	last := len(delimiter) - 1
	for b := range p.shifts {
		p.shifts[b] = uint8(len(delimiter)) //nolint:gosec // a boundary has at most 70 bytes
	}
	for i, b := range delimiter[:last] {
		p.shifts[b] = uint8(last - i) //nolint:gosec // as above
	}
}

// decide is scan for data with a delimiter, which is a boundary only if white space or two dashes
// follow it.
func decide(at int, data, delimiter []byte) (n int, found bool) {
	rest := data[at+len(delimiter):]
	switch {
	case len(rest) == 0 || len(rest) == 1 && rest[0] == '-':
		return at, false
	case bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0 || rest[0] == '-' && rest[1] == '-':
		return at, true
	}
	return at + len(delimiter), false
}

// fill reads more of the body into ahead.
func (p *parser) fill() error {
	if len(p.ahead)+readAhead > len(p.memory.buffer) {
		p.memory.buffer = make([]byte, 2*len(p.ahead)+readAhead)
	}
	// The unconsumed bytes move to the start of the buffer, which is their own or a larger one.
	buffer := p.memory.buffer
	n := copy(buffer, p.ahead)
	p.ahead = buffer[:n]
	for range maxEmptyReads {
		read, err := p.read(buffer[n : n+readAhead])
		p.ahead = buffer[:n+read]
		if read > 0 || err != nil {
			return err
		}
	}
	return malformed(io.ErrNoProgress)
}

// read reads from the body. It returns the fault for the end of the body only if there are no bytes
// before it.
func (p *parser) read(to []byte) (int, error) {
	if p.end == nil {
		var n int
		if n, p.end = p.body.Read(to); n > 0 || p.end == nil {
			return n, nil
		}
	}
	if errors.Is(p.end, io.EOF) {
		return 0, errTruncated
	}
	return 0, malformed(p.end)
}

// drain reads what follows the last boundary. The end of the body must be read, since the
// credential is checked there a second time.
func (p *parser) drain() error {
	for {
		if _, err := p.consume(len(p.ahead)); err != nil {
			return err
		}
		switch err := p.fill(); {
		case err == nil:
		case errors.Is(p.end, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// malformed returns the fault for an error of reading the body. Faults stay as they are.
func malformed(err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.Wrap(err, fault.Invalid, "the upload made no progress for too long")
	}
	return fault.Wrap(err, fault.Invalid, "the multipart body is malformed or incomplete")
}

// fileReader reads the content of the current part. Its errors are faults, which distinguishes them
// from errors of the stores that the file is sent to.
type fileReader struct{ *parser }

// Read implements io.Reader.
func (f fileReader) Read(to []byte) (int, error) {
	if len(to) == 0 {
		return 0, nil
	}
	for {
		n, found := f.scan(f.ahead)
		if n > 0 {
			n = copy(to, f.ahead[:n])
			f.ahead, f.atStart = f.ahead[n:], false
			return n, nil
		}
		if found {
			return 0, io.EOF
		}
		if len(to) >= readAhead {
			if n, err := f.readDirectly(to); n > 0 || err != nil {
				return n, err
			}
		} else if err := f.fill(); err != nil {
			return 0, err
		}
	}
}

// readDirectly reads from the body into to, which is longer than ahead. It returns nothing if all
// bytes may belong to a boundary.
func (f fileReader) readDirectly(to []byte) (int, error) {
	held := copy(to, f.ahead)
	read, err := f.read(to[held:])
	if err != nil {
		return 0, err
	}
	data := to[:held+read]
	n, found := f.scan(data)
	if found {
		err = io.EOF
		if f.overhead+int64(len(data)-n) > maxOverhead {
			return 0, errOverhead
		}
	}
	f.atStart = f.atStart && n == 0
	f.memory.buffer = append(f.memory.buffer[:0], data[n:]...)
	f.ahead = f.memory.buffer
	f.memory.buffer = f.memory.buffer[:cap(f.memory.buffer)]
	return n, err
}
