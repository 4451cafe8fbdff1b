package postgres

import (
	"encoding/json"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/media"
)

// captureJSON is the column capture: what the file says, and by what it is found.
type captureJSON struct {
	capture.Capture
	// Milliseconds since 1970 of when the file was made, and Cell of where.
	Milliseconds *int64 `json:"ms,omitempty"`
	Cell         *int64 `json:"cell,omitempty"`
}

// captureColumn returns the column of what was read; empty for null.
func captureColumn(facts media.Facts) string {
	if !facts.CaptureRead {
		return ""
	}
	return captureText(facts.Capture)
}

func captureText(c capture.Capture) string {
	column := captureJSON{Capture: c}
	if at, ok := c.Time(); ok {
		column.Milliseconds = new(at.UnixMilli())
	}
	if c.Location != nil {
		column.Cell = new(c.Location.Cell())
	}
	text, err := json.Marshal(column)
	if err != nil { // a number that Clean leaves out
		return "{}"
	}
	return string(text)
}

// captureFields returns the members of a document that have what a file says.
func captureFields(c capture.Capture) []string {
	fields := []string{}
	if c.At != "" {
		fields = append(fields, "capturedAt")
	}
	if c.At = ""; c.Known() {
		fields = append(fields, "capture")
	}
	return fields
}

// captureOf returns what a column says; nothing for null.
func captureOf(column []byte) capture.Capture {
	if len(column) <= len("{}") {
		return capture.Capture{}
	}
	var c captureJSON
	if json.Unmarshal(column, &c) != nil {
		return capture.Capture{}
	}
	return c.Capture
}
