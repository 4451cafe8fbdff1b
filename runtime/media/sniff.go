package media

import (
	"mime"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// sniffLength is how many bytes at the front of a file tell its type.
const sniffLength = 3072

const (
	octetStream = "application/octet-stream"
	plainText   = "text/plain"
)

// markup are types that a browser runs or renders: taken only when the bytes say so.
var markup = map[string]bool{
	"text/html": true, "application/xhtml+xml": true, "image/svg+xml": true, "text/xml": true, "application/xml": true,
	"text/javascript": true, "application/javascript": true, "application/ecmascript": true, "text/ecmascript": true,
}

// sniff tells the type of a file from its first bytes. The client's claim counts
// only where the bytes say nothing: binary data of no known form, or plain text
// that the claim narrows down.
func sniff(head []byte, claim string) string {
	found, _, _ := mime.ParseMediaType(mimetype.Detect(head).String())
	claimed, _, err := mime.ParseMediaType(claim)
	if err != nil || len(claimed) > 127 || markup[claimed] {
		claimed = ""
	}
	switch kind, _, ok := strings.Cut(claimed, "/"); {
	case !ok:
		return found
	case found == octetStream && kind != "image" && kind != "text":
		return claimed
	case found == plainText && kind == "text":
		return claimed
	}
	return found
}
