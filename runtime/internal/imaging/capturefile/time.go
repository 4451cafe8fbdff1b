package capturefile

import (
	"strings"
	"time"

	"mediastack.dev/runtime/capture"
)

// exifTime returns a time and an offset of EXIF as Capture.At has it; empty if it is none, such as 0000:00:00 00:00:00 of a camera whose clock
// was never set. Some programs write hyphens.
func exifTime(text, offset string) string {
	for _, layout := range []string{"2006:01:02 15:04:05", "2006-01-02 15:04:05", "2006:01:02T15:04:05", "2006-01-02T15:04:05", "2006:01:02 15:04", "2006:01:02"} {
		at, err := time.Parse(layout, text)
		switch {
		case err != nil:
		case len(layout) == len("2006:01:02"):
			return at.Format("2006-01-02")
		default:
			local := at.Format("2006-01-02T15:04:05")
			if with := local + offset; offset != "" && offset != "Z" && isTime(with) {
				return with
			} else if offset == "Z" {
				return local + offset
			}
			return local
		}
	}
	return ""
}

// isoTime returns a time of ISO 8601 as Capture.At has it: without fractions of a second, and as precise as it is.
func isoTime(text string) string {
	text = strings.TrimSpace(text)
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05-0700", "2006-01-02T15:04:05-07", "2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Truncate(time.Second).Format(time.RFC3339)
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Format("2006-01-02T15:04:05")
		}
	}
	for _, layout := range []string{"2006-01-02", "2006-01", "2006"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Format(layout)
		}
	}
	return exifTime(text, "")
}

func isTime(text string) bool {
	_, ok := capture.ParseTime(text)
	return ok
}
