package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"mediastack.dev/runtime/redact"
)

// jsonAppender is a document that encodes itself, without escapes for HTML.
type jsonAppender interface{ AppendJSON(dst []byte) []byte }

// EncodeJSON returns a document as JSON, without a line break at its end. It does not escape
// for HTML: a signed URL keeps its "&", so that it can be copied from a terminal.
func EncodeJSON(document any) ([]byte, error) {
	if appender, ok := document.(jsonAppender); ok {
		return appender.AppendJSON(nil), nil
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("encode the response: %w", err)
	}
	return bytes.TrimSpace(body.Bytes()), nil
}

// WriteJSON answers with a document.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, document any) {
	body, err := EncodeJSON(document)
	if err != nil {
		WriteError(w, r, err)
		return
	}
	body = append(body, '\n')
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("X-Content-Type-Options", "nosniff")
	if header.Get("Cache-Control") == "" {
		header.Set("Cache-Control", "private, no-store")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // if the client is gone, the log line has the number of bytes written
}

// Truncate shortens a name that a client sent, for an error text, and masks credentials in it.
func Truncate(name string) string {
	name = redact.Text(strings.ToValidUTF8(name, "\uFFFD")) // first: a truncated credential is not recognized
	if runes := []rune(name); len(runes) > maxQuoted {
		return string(runes[:maxQuoted]) + "..."
	}
	return name
}

// maxQuoted bounds what an error text quotes, in characters.
const maxQuoted = 40
