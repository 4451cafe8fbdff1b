package rest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// controls takes control characters out of the headers of a form's parts. Package
// multipart refuses a form for them, and a file's name may hold some: browsers send
// all but line breaks as they are. Every other byte passes as it came. It belongs to
// one goroutine.
//
// What it takes for a header must be one for package multipart too, or it would
// change a file. So it knows only the plain form, lines that end in CRLF and are not
// folded, and from the first thing that is otherwise on it passes everything.
type controls struct {
	from      *bufio.Reader
	delimiter []byte // CRLF, two dashes and the boundary
	state     controlsState
	line      []byte // what is left to give of a header's line
	clear     int    // bytes in the buffer in which no boundary begins
	dropped   int64
	failed    error // what ended the body in the middle of a header's line
}

type controlsState int

const (
	atStart   controlsState = iota // before the first boundary
	inHeader                       // at the beginning of a header's line
	atContent                      // right behind a header, where a boundary needs no CRLF of its own
	inContent
	passing // whatever comes
)

func newControls(from *bufio.Reader, boundary string) *controls {
	return &controls{from: from, delimiter: []byte("\r\n--" + boundary)}
}

// Read returns the next bytes.
func (c *controls) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(c.line) == 0 {
		if c.failed != nil {
			return 0, c.failed
		}
		switch c.state {
		case atStart:
			c.boundary(c.delimiter[2:], passing)
		case atContent:
			c.boundary(c.delimiter[2:], inContent)
		case inHeader:
			c.header()
		case inContent:
			return c.content(p)
		case passing:
			return c.from.Read(p)
		}
	}
	n := copy(p, c.line)
	c.line = c.line[n:]
	return n, nil
}

// boundary looks whether a whole boundary line comes next, and goes on with otherwise
// when none does.
func (c *controls) boundary(delimiter []byte, otherwise controlsState) {
	next, _ := c.from.Peek(len(delimiter) + 2)
	if !bytes.HasPrefix(next, delimiter) {
		c.state = otherwise
		return
	}
	if c.state = passing; bytes.HasSuffix(next[len(delimiter):], []byte("\r\n")) {
		c.state = inHeader
		c.take(next)
	}
}

// header reads a line of a part's header, without the control characters in it.
func (c *controls) header() {
	raw, err := c.from.ReadSlice('\n')
	line := bytes.Clone(raw)
	c.line = line
	if err != nil { // too long, or the end: not for us to judge
		c.state = passing
		if !errors.Is(err, bufio.ErrBufferFull) {
			c.failed = err
		}
		return
	}
	kept := line[:0]
	for i, b := range line {
		if (b < ' ' && b != '\t' || b == 0x7f) && i < len(line)-2 || b == 0x7f {
			c.dropped++
			continue
		}
		kept = append(kept, b)
	}
	c.line = kept
	switch {
	case !bytes.HasSuffix(kept, []byte("\r\n")) || kept[0] == ' ' || kept[0] == '\t':
		c.state = passing
	case len(kept) == 2:
		c.state = atContent
	}
}

// content passes a file on, up to the boundary that ends it.
func (c *controls) content(p []byte) (int, error) {
	if c.clear == 0 {
		if err := c.search(); err != nil {
			return 0, err
		}
		if len(c.line) > 0 {
			return c.Read(p)
		}
	}
	ready, _ := c.from.Peek(min(c.clear, len(p)))
	n := copy(p, ready)
	c.clear -= n
	return c.from.Discard(n)
}

// search looks for a boundary in what has arrived: behind it the next header begins,
// or nothing that concerns us.
func (c *controls) search() error {
	want := len(c.delimiter) + 2
	_, err := c.from.Peek(want) // waits for as much, or for the end
	ready, _ := c.from.Peek(c.from.Buffered())
	if len(ready) == 0 {
		return err
	}
	at := bytes.Index(ready, c.delimiter)
	switch {
	case len(ready) < want:
		c.clear = len(ready) // the end of the body: no header follows any more
	case at > 0:
		c.clear = at
	case at < 0:
		c.clear = len(ready) - len(c.delimiter) + 1 // the rest may begin a boundary
	case bytes.HasPrefix(ready[len(c.delimiter):], []byte("\r\n")):
		c.state = inHeader
		c.take(ready[:want])
	default:
		c.state = passing
		c.take(ready[:len(c.delimiter)])
	}
	return nil
}

// take makes what was looked at the next to give.
func (c *controls) take(text []byte) {
	c.line = bytes.Clone(text)
	_, _ = c.from.Discard(len(text)) // it is in the buffer
}

var _ io.Reader = (*controls)(nil)
