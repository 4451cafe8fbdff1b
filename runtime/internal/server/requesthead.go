package server

import (
	"bytes"
	"strings"
)

// requestHead looks at the head of a request as it arrives, because net/http calls most malformed ones "400 Bad Request". It
// keeps the beginning of one line, whatever is sent.
type requestHead struct {
	line   []byte // the beginning of the current line
	tail   []byte // the end of it, if it is the first one
	long   bool   // line has no room for the whole of it
	lines  int
	ended  bool
	isHTTP bool   // the first line ends as that of HTTP/1 does
	length string // the first Content-Length
	wrong  string // the first problem
}

const (
	// maxHeadLine is how much of a line is kept: a name and a number.
	maxHeadLine = 80
	httpVersion = " HTTP/1."
)

// scan reads a part of the head. What follows the head is ignored.
func (h *requestHead) scan(b []byte) {
	for len(b) > 0 && !h.ended {
		part, rest, complete := bytes.Cut(b, []byte{'\n'})
		h.add(part)
		if complete {
			h.endLine()
		}
		b = rest
	}
}

func (h *requestHead) add(part []byte) {
	room := min(len(part), maxHeadLine-len(h.line))
	h.line, h.long = append(h.line, part[:room]...), h.long || room < len(part)
	if h.lines == 0 {
		h.tail = append(h.tail, part[max(0, len(part)-len(httpVersion)-2):]...)
		h.tail = append([]byte(nil), h.tail[max(0, len(h.tail)-len(httpVersion)-2):]...)
	}
}

func (h *requestHead) endLine() {
	line := strings.TrimSuffix(string(h.line), "\r")
	switch {
	case h.lines == 0:
		version := strings.TrimSuffix(string(h.tail), "\r")
		h.isHTTP = len(version) == len(httpVersion)+1 && strings.HasPrefix(version, httpVersion)
		if i := len(version) - len(httpVersion) - 1; i > 0 {
			h.isHTTP = strings.HasPrefix(version[i:], httpVersion)
		}
	case line == "" && !h.long:
		h.ended = true
	default:
		h.checkHeader(line)
	}
	h.lines++
	h.line, h.long = h.line[:0], false
}

func (h *requestHead) checkHeader(line string) {
	name, value, colon := strings.Cut(line, ":")
	wrong := ""
	switch {
	case line[:1] == " " || line[:1] == "\t":
		if h.lines == 1 {
			wrong = "the first header begins with a space"
		}
	case !colon && !h.long:
		wrong = "a header has no colon"
	case colon && name == "":
		wrong = "a header has no name"
	case colon && strings.EqualFold(name, "Content-Length"):
		value = strings.Trim(value, " \t")
		switch {
		case value == "" || strings.Trim(value, "0123456789") != "" || h.long:
			wrong = "Content-Length must be a number"
		case h.length != "" && h.length != value:
			wrong = "Content-Length is there twice, with different values"
		}
		h.length = value
	}
	if h.wrong == "" {
		h.wrong = wrong
	}
}

// problem says what is wrong with a request that net/http has rejected.
func (h *requestHead) problem() string {
	switch {
	case h.wrong != "":
		return h.wrong
	case h.isHTTP && h.lines > 0:
		return "the request line or a header is malformed"
	}
	return "the request is not HTTP/1.1"
}
