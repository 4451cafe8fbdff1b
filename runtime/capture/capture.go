// Package capture holds what a file says of how it was made: when, where, and with which camera. An image worker reads it from the file
// (internal/imaging/capturefile), and package media stores it with the item. What comes out of a file is hostile: Clean decides what of it
// is kept.
package capture

import (
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Capture is what a file says of how it was made. A zero value is not known.
type Capture struct {
	// At is when it was made, as in RFC 3339. It has an offset only if the file has one, and is as precise as the file is: 2024, 2024-05,
	// 2024-05-01, 2024-05-01T12:30:00 or 2024-05-01T12:30:00+02:00.
	At string `json:"at,omitempty"`
	// Camera is the make and the model, and Lens the model of the lens.
	Camera string `json:"camera,omitempty"`
	Lens   string `json:"lens,omitempty"`
	Title  string `json:"title,omitempty"`
	// Rating is from 1 to 5.
	Rating int `json:"rating,omitempty"`
	// ContentCredentials is set if the file has a C2PA manifest. Nobody has verified it.
	ContentCredentials bool      `json:"c2pa,omitempty"`
	Location           *Location `json:"location,omitempty"`
}

// Known reports whether anything is known.
func (c Capture) Known() bool { return c != Capture{} }

// Bounds of texts, in characters.
const (
	MaxCamera = 100
	MaxLens   = 100
	MaxTitle  = 200
)

// MaxRating is the best rating.
const MaxRating = 5

// Earliest is the first time that a file may have been made at: there were no photographs before.
var earliest = time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC)

// future is by how much the clock of a camera may be ahead.
const future = 24 * time.Hour

// Clean returns what may be kept of what a file says: short, printable texts, numbers in their range, and a time from 1800 to a day from now.
// What is out of bounds is left out; texts are cut off.
func (c Capture) Clean(now time.Time) Capture {
	clean := Capture{Camera: cleanText(c.Camera, MaxCamera), Lens: cleanText(c.Lens, MaxLens), Title: cleanText(c.Title, MaxTitle), ContentCredentials: c.ContentCredentials}
	if at, ok := ParseTime(c.At); ok && !at.Before(earliest) && !at.After(now.Add(future)) {
		clean.At = c.At
	}
	if c.Rating >= 1 && c.Rating <= MaxRating {
		clean.Rating = c.Rating
	}
	if c.Location != nil && c.Location.valid() {
		location := c.Location.rounded()
		clean.Location = &location
	}
	return clean
}

// WithoutLocation returns what is kept in an account that keeps no locations.
func (c Capture) WithoutLocation() Capture {
	c.Location = nil
	return c
}

// layouts are the forms of Capture.At.
var layouts = [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02", "2006-01", "2006"}

// ParseTime returns the time of a text of Capture.At. A time without an offset is taken for UTC, and one that is not precise for the first
// moment that it may be.
func ParseTime(text string) (time.Time, bool) {
	for _, layout := range layouts {
		// time.Parse accepts fractions of a second after every layout with seconds.
		if at, err := time.Parse(layout, text); err == nil && at.Format(layout) == strings.Replace(text, "+00:00", "Z", 1) {
			if _, offset := at.Zone(); offset <= -24*60*60 || offset >= 24*60*60 { // which time.Parse accepts
				return time.Time{}, false
			}
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// Time returns when the file was made, as ParseTime does; false if that is not known.
func (c Capture) Time() (time.Time, bool) { return ParseTime(c.At) }

// cleanText returns a text without what is not printable or changes the direction of text, with single spaces, cut off after so many characters.
func cleanText(text string, most int) string {
	if !utf8.ValidString(text) {
		return "" // it is in another encoding, or no text
	}
	clean := make([]rune, 0, most)
	space := false
	for _, r := range text {
		if len(clean) >= most {
			break
		}
		switch {
		case unicode.IsSpace(r) || r == 0:
			space = len(clean) > 0
		case !unicode.IsGraphic(r) || r == utf8.RuneError:
			// Format characters are those that change the direction of text, and invisible ones. U+FFFD stands for what could not be read.
		case space && len(clean)+1 == most:
			return string(clean)
		default:
			if space {
				clean, space = append(clean, ' '), false
			}
			clean = append(clean, r)
		}
	}
	return string(clean)
}

// Location is a point on the earth, in degrees (WGS 84).
type Location struct {
	Latitude  float64 `json:"lat"`
	Longitude float64 `json:"lon"`
}

// valid reports whether there is such a point. Devices without a fix write 0, 0.
func (p Location) valid() bool {
	return math.Abs(p.Latitude) <= 90 && math.Abs(p.Longitude) <= 180 && (p.Latitude != 0 || p.Longitude != 0)
}

// precision is that of locations: six decimals of a degree are 11 cm at most.
const precision = 1e6

func (p Location) rounded() Location {
	return Location{Latitude: math.Round(p.Latitude*precision) / precision, Longitude: math.Round(p.Longitude*precision) / precision}
}
