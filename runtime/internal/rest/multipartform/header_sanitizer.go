package multipartform

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// headerSanitizer removes control characters from the headers of a form's parts. Package
// mime/multipart rejects a form with such a header, but a file name may contain them: browsers
// send all but line breaks unchanged. Every other byte is unchanged. It belongs to one
// goroutine.
//
// It must not take for a header what mime/multipart takes for a file, or it would change the
// file. So it recognizes plain headers only, lines that end in CRLF and are not folded, and
// passes everything from the first other line on.
type headerSanitizer struct {
	from      *bufio.Reader
	delimiter []byte // CRLF, two dashes and the boundary
	state     sanitizerState
	pending   []byte // bytes of a header that are to be returned next
	clear     int    // bytes in the buffer in which no boundary begins
	dropped   int64
	failed    error // error that ended the body within a header's line
}

type sanitizerState int

const (
	atStart   sanitizerState = iota // before the first boundary
	inHeader                        // at the beginning of a header's line
	atContent                       // directly after a header, whose CRLF may begin a boundary
	inContent
	passthrough // everything, unchanged
)

func newHeaderSanitizer(from *bufio.Reader, boundary string) *headerSanitizer {
	return &headerSanitizer{from: from, delimiter: []byte("\r\n--" + boundary)}
}

// Read returns the next bytes.
func (h *headerSanitizer) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(h.pending) == 0 {
		if h.failed != nil {
			return 0, h.failed
		}
		switch h.state {
		case atStart:
			h.boundary(h.delimiter[2:], passthrough)
		case atContent:
			h.boundary(h.delimiter[2:], inContent)
		case inHeader:
			h.header()
		case inContent:
			return h.content(p)
		case passthrough:
			return h.from.Read(p)
		}
	}
	n := copy(p, h.pending)
	h.pending = h.pending[n:]
	return n, nil
}

// boundary consumes a boundary line if one comes next; if none does, the state is otherwise.
func (h *headerSanitizer) boundary(delimiter []byte, otherwise sanitizerState) {
	next, _ := h.from.Peek(len(delimiter) + 2)
	if !bytes.HasPrefix(next, delimiter) {
		h.state = otherwise
		return
	}
	if h.state = passthrough; bytes.HasSuffix(next[len(delimiter):], []byte("\r\n")) {
		h.state = inHeader
		h.emit(next)
	}
}

// header reads a line of a part's header and removes its control characters.
func (h *headerSanitizer) header() {
	raw, err := h.from.ReadSlice('\n')
	line := bytes.Clone(raw)
	h.pending = line
	if err != nil { // too long, or the end: mime/multipart reports it
		h.state = passthrough
		if !errors.Is(err, bufio.ErrBufferFull) {
			h.failed = err
		}
		return
	}
	kept := line[:0]
	for i, b := range line {
		if (b < ' ' && b != '\t' || b == 0x7f) && i < len(line)-2 || b == 0x7f {
			h.dropped++
			continue
		}
		kept = append(kept, b)
	}
	h.pending = kept
	switch {
	case !bytes.HasSuffix(kept, []byte("\r\n")) || kept[0] == ' ' || kept[0] == '\t':
		h.state = passthrough
	case len(kept) == 2:
		h.state = atContent
	}
}

// content returns bytes of a part's content, up to the boundary that ends it.
func (h *headerSanitizer) content(p []byte) (int, error) {
	if h.clear == 0 {
		if err := h.search(); err != nil {
			return 0, err
		}
		if len(h.pending) > 0 {
			return h.Read(p)
		}
	}
	ready, _ := h.from.Peek(min(h.clear, len(p)))
	n := copy(p, ready)
	h.clear -= n
	return h.from.Discard(n)
}

// search looks for a boundary in the buffer. It is followed by the next header, or by bytes that
// pass unchanged.
func (h *headerSanitizer) search() error {
	want := len(h.delimiter) + 2
	_, err := h.from.Peek(want) // waits for as much, or for the end
	ready, _ := h.from.Peek(h.from.Buffered())
	if len(ready) == 0 {
		return err
	}
	at := bytes.Index(ready, h.delimiter)
	switch {
	case len(ready) < want:
		h.clear = len(ready) // the end of the body: no header follows any more
	case at > 0:
		h.clear = at
	case at < 0:
		h.clear = len(ready) - len(h.delimiter) + 1 // the rest may begin a boundary
	case bytes.HasPrefix(ready[len(h.delimiter):], []byte("\r\n")):
		h.state = inHeader
		h.emit(ready[:want])
	default:
		h.state = passthrough
		h.emit(ready[:len(h.delimiter)])
	}
	return nil
}

// emit consumes text, which was peeked, and returns it next.
func (h *headerSanitizer) emit(text []byte) {
	h.pending = bytes.Clone(text)
	_, _ = h.from.Discard(len(text)) // it is in the buffer
}

var _ io.Reader = (*headerSanitizer)(nil)
