package webfiles

import (
	"fmt"
	"strconv"
	"time"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

// captureFacts returns what a file says of how it was made, in the order of the page.
func captureFacts(c capture.Capture) (facts []pages.Fact) {
	add := func(name, text string) {
		if text != "" {
			facts = append(facts, pages.Fact{Name: name, Text: text})
		}
	}
	add("Taken", takenText(c.At))
	add("Camera", c.Camera)
	add("Lens", c.Lens)
	if c.Location != nil {
		add("Place", fmt.Sprintf("%s, %s", degrees(c.Location.Latitude, "N", "S"), degrees(c.Location.Longitude, "E", "W")))
	}
	add("Title", c.Title)
	if c.Rating > 0 {
		add("Rating", fmt.Sprintf("%d of %d", c.Rating, capture.MaxRating))
	}
	if c.ContentCredentials {
		add("Content credentials", "Present, not verified")
	}
	return facts
}

// takenForms are how a time of capture is shown, by the form that it has.
var takenForms = [...]struct{ layout, shown string }{
	{time.RFC3339, "2 Jan 2006, 15:04 (UTC-07:00)"}, {"2006-01-02T15:04:05", "2 Jan 2006, 15:04"}, {time.DateOnly, "2 Jan 2006"}, {"2006-01", "Jan 2006"}, {"2006", "2006"},
}

// takenText returns a time of capture as its clock showed it where the file was made, as precisely as it is known: a user looks for a picture of an evening, wherever the user is
// now.
func takenText(at string) string {
	for _, form := range takenForms {
		if parsed, err := time.Parse(form.layout, at); err == nil {
			return parsed.Format(form.shown)
		}
	}
	return ""
}

// degrees returns an angle with the half of the earth that it is on.
func degrees(angle float64, positive, negative string) string {
	if angle < 0 {
		angle, positive = -angle, negative
	}
	return strconv.FormatFloat(angle, 'f', -1, 64) + "° " + positive
}
