package filehead

import (
	"bytes"
	"strconv"
)

// linearizedLength is where the dictionary of a linearized PDF file ends at the latest (ISO 32000, annex F).
const linearizedLength = 1024

// readPDF reads the dictionary of linearized PDF files. It is about the file of the length L: a later
// revision of it is longer, and may have other pages.
func readPDF(head []byte) Head {
	t := tokens{head[:min(len(head), linearizedLength)]}
	number, generation := t.next(), t.next()
	if !isNumber(number) || !isNumber(generation) || t.next() != "obj" || t.next() != "<<" {
		return Head{}
	}
	values := map[string]string{"/Linearized": "", "/L": "", "/N": ""}
	for {
		key := t.next()
		if key == ">>" {
			break
		}
		value := t.next()
		if value == "[" {
			for isNumber(value) || value == "[" {
				value = t.next()
			}
			if value != "]" {
				return Head{}
			}
		} else if !isNumber(value) || key == "" || key[0] != '/' {
			return Head{}
		}
		if before, known := values[key]; known {
			if before != "" {
				return Head{}
			}
			values[key] = value
		}
	}
	length, err := strconv.ParseInt(values["/L"], 10, 64)
	pages, pagesErr := strconv.Atoi(values["/N"])
	if values["/Linearized"] == "" || err != nil || pagesErr != nil || length <= 0 {
		return Head{}
	}
	return Head{Pages: pages, MinBytes: length, MaxBytes: length}
}

// tokens are the rest of a text of PDF, as far as a dictionary of names, numbers and arrays needs them.
type tokens struct{ rest []byte }

const (
	pdfSpace     = "\x00\t\n\f\r "
	pdfDelimiter = pdfSpace + "()<>[]{}/%"
)

// next returns the next token; "" at the end, and for what is not known.
func (t *tokens) next() string {
	for {
		t.rest = bytes.TrimLeft(t.rest, pdfSpace)
		if len(t.rest) == 0 || t.rest[0] != '%' {
			break
		}
		t.rest = t.rest[max(0, bytes.IndexAny(t.rest, "\r\n")):]
		if t.rest[0] == '%' { // a comment without an end
			t.rest = nil
		}
	}
	n := 0
	switch {
	case len(t.rest) == 0:
	case bytes.HasPrefix(t.rest, []byte("<<")), bytes.HasPrefix(t.rest, []byte(">>")):
		n = 2
	case t.rest[0] == '[' || t.rest[0] == ']':
		n = 1
	default:
		from := 0
		if t.rest[0] == '/' {
			from = 1
		}
		if n = bytes.IndexAny(t.rest[from:], pdfDelimiter); n < 0 {
			n = 0 // it is cut off
		} else {
			n += from
		}
	}
	token := string(t.rest[:n])
	if t.rest = t.rest[n:]; n == 0 {
		t.rest = nil
	}
	return token
}

// isNumber reports whether a token is a number without a sign.
func isNumber(token string) bool {
	for _, c := range []byte(token) {
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return token != ""
}
