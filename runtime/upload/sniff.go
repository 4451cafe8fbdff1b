package upload

import (
	"bytes"
	"mime"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// sniffLength is how many bytes at the start of a file are used to detect its type.
const sniffLength = 3072

const (
	octetStream = "application/octet-stream"
	plainText   = "text/plain"
)

// isActiveContent reports whether a browser would run or render a file of this type. Such a
// type is accepted only if the bytes have it, not if the client declares it.
func isActiveContent(declared string) bool {
	if declared == "text/html" || strings.HasSuffix(declared, "xml") || declared == "text/xsl" {
		return true
	}
	for _, script := range []string{"javascript", "ecmascript", "jscript", "livescript", "vbscript"} {
		if strings.Contains(declared, script) {
			return true
		}
	}
	return false
}

// sniff detects the type of a file from its first bytes. The declared type is used only for
// binary data of no known type, and to refine plain text. An empty file may be either: it is text only if that was declared.
func sniff(head []byte, declaredType string) string {
	return refine(head, detect(head), declaredType)
}

// detect returns what the bytes alone show. Of an empty file that is nothing: refine decides.
func detect(head []byte) string {
	found, _, _ := mime.ParseMediaType(mimetype.Detect(head).String())
	if found == plainText || found == octetStream || strings.HasPrefix(found, "text/") && isActiveContent(found) {
		if markup := sniffMarkup(head); markup != "" {
			found = markup
		}
	}
	return found
}

// refine returns the type of a file, of which detect has found one.
func refine(head []byte, found, declaredType string) string {
	declared, _, err := mime.ParseMediaType(declaredType)
	if err != nil || len(declared) > 127 || isActiveContent(declared) || strings.Contains(declared, "*") { // */* is what filters say
		declared = ""
	}
	kind, _, ok := strings.Cut(declared, "/")
	if len(head) == 0 && kind != "text" {
		found = octetStream
	}
	switch {
	case !ok:
		return found
	case found == octetStream && kind != "image" && kind != "text":
		return declared
	case found == plainText && kind == "text":
		return declared
	}
	return found
}

// elements are the HTML elements that an HTML document may begin with. A file that begins with
// another tag is plain text.
var elements = map[string]bool{
	"html": true, "head": true, "title": true, "base": true, "link": true, "meta": true, "style": true, "script": true, "body": true,
	"a": true, "audio": true, "b": true, "br": true, "center": true, "div": true, "embed": true, "font": true, "form": true, "frameset": true,
	"h1": true, "h2": true, "h3": true, "h4": true, "h5": true, "h6": true, "iframe": true, "img": true, "input": true, "object": true,
	"p": true, "span": true, "table": true, "template": true, "video": true,
}

// beforeMarkup are the bytes of byte order marks and of white space, in UTF-8 and in UTF-16.
const beforeMarkup = "\xef\xbb\xbf\xff\xfe\x00 \t\r\n\f"

// mayBeMarkup reports whether the first character of a head may be that of a tag. Most binary data
// need not be looked at further.
func mayBeMarkup(head []byte) bool {
	for _, b := range head {
		if strings.IndexByte(beforeMarkup, b) < 0 {
			return b == '<'
		}
	}
	return false
}

// sniffMarkup detects markup that package mimetype misses: after a byte order mark, white
// space, comments, declarations or a namespace prefix, and in UTF-16. It returns "" for
// everything else.
func sniffMarkup(head []byte) string {
	if !mayBeMarkup(head) {
		return ""
	}
	text := strings.ToLower(ascii(head))
	xml := false
	for {
		text = strings.TrimLeft(text, " \t\r\n\f")
		switch {
		case strings.HasPrefix(text, "<!--"):
			_, text, _ = strings.Cut(text, "-->")
			continue
		case strings.HasPrefix(text, "<?"):
			xml = xml || strings.HasPrefix(text, "<?xml")
			_, text, _ = strings.Cut(text, "?>")
			continue
		case strings.HasPrefix(text, "<!doctype"):
			name, rest, _ := strings.Cut(strings.TrimPrefix(text, "<!doctype"), ">")
			if kind := kindOf(name, true); kind != "" {
				return kind
			}
			xml, text = true, rest
			continue
		case strings.HasPrefix(text, "<"):
			if kind := kindOf(text[1:], xml); kind != "" {
				return kind
			}
		}
		if xml {
			return "text/xml"
		}
		return ""
	}
}

// kindOf returns the type of a document whose outermost element has the name that text begins
// with. In XML only the element html makes an HTML document.
func kindOf(text string, xml bool) string {
	text = strings.TrimLeft(text, " \t\r\n\f")
	name := text
	if end := strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != ':' && r != '-' && r != '_'
	}); end >= 0 {
		name = text[:end]
	}
	_, local, prefixed := strings.Cut(name, ":")
	switch {
	case name == "svg" || prefixed && local == "svg":
		return "image/svg+xml"
	case name == "html" || prefixed && local == "html" || !xml && elements[name]:
		return "text/html"
	}
	return ""
}

// ascii returns the text of a head in UTF-8 or UTF-16 with a question mark in place of every
// character that is not ASCII.
func ascii(head []byte) string {
	step, first := 1, 0
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		first = 3
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		step, first = 2, 2
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		step, first = 2, 3
	case bytes.HasPrefix(head, []byte("<\x00")):
		step = 2
	case bytes.HasPrefix(head, []byte("\x00<")):
		step, first = 2, 1
	}
	text := make([]byte, 0, len(head)/step+1)
	for ; first < len(head); first += step {
		c := head[first]
		if c >= 0x80 || step == 2 && first^1 < len(head) && head[first^1] != 0 {
			c = '?'
		}
		text = append(text, c)
	}
	return string(text)
}
