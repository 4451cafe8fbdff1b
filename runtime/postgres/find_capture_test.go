package postgres_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/media"
)

// home is where the items of the model were made, or near it.
var home = capture.Location{Latitude: 48.8584, Longitude: 2.2945}

// randomCapture returns what a file says, with few different times and locations around home, and at the date line.
func randomCapture(random *rand.Rand) (c capture.Capture) {
	if random.IntN(3) > 0 {
		at := began.Add(time.Duration(random.IntN(40)-20) * time.Hour)
		c.At = pick(random, at.Format(time.RFC3339), at.In(time.FixedZone("", 2*60*60)).Format(time.RFC3339), at.Format("2006-01-02T15:04:05"), at.Format("2006-01-02"), "1965-04", "2025")
	}
	if random.IntN(3) > 0 {
		location := capture.Location{Latitude: home.Latitude + (random.Float64()-0.5)/50, Longitude: home.Longitude + (random.Float64()-0.5)/50}
		if random.IntN(5) == 0 {
			location = capture.Location{Latitude: (random.Float64() - 0.5) / 50, Longitude: pick(random, -1.0, 1) * (180 - random.Float64()/50)}
		}
		c.Location = &location
	}
	if random.IntN(4) == 0 {
		c.Camera = "Canon EOS R5"
	}
	return c.Clean(began.Add(24 * time.Hour))
}

// randomCaptured returns what a search says of captures, which is mostly nothing.
func randomCaptured(random *rand.Rand) (s media.CaptureSearch) {
	if random.IntN(4) == 0 {
		s.From = began.Add(time.Duration(random.IntN(20)-20) * time.Hour)
	}
	if random.IntN(4) == 0 {
		s.To = began.Add(time.Duration(random.IntN(20)) * time.Hour).Add(time.Microsecond)
	}
	if random.IntN(4) == 0 {
		s.Near = &capture.Near{Location: pick(random, home, capture.Location{Longitude: 180}, capture.Location{Longitude: -180}, capture.Location{Latitude: 90}), Radius: float64(100 + random.IntN(2000))}
	}
	return s
}

// capturedIn is the model of what a search says of captures.
func capturedIn(s media.CaptureSearch, item media.Item) bool {
	at, known := item.Capture.Time()
	if !s.From.IsZero() && (!known || at.Before(s.From)) || !s.To.IsZero() && (!known || !at.Before(s.To)) {
		return false
	}
	return s.Near == nil || item.Capture.Location != nil && s.Near.Distance(*item.Capture.Location) <= s.Near.Radius
}

// TestMaySayCapture_IsThatOfTheDatabase compares the types of files that the program reads with those for which the database adds tasks.
func TestMaySayCapture_IsThatOfTheDatabase(t *testing.T) {
	t.Parallel()
	_, url := setup(t)
	conn := connect(t, url)
	yes := 0
	for _, mimeType := range []string{"image/jpeg", "image/png", "image/vnd.mozilla.apng", "image/apng", "image/webp", "image/tiff", "image/heic", "image/heif", "image/heic-sequence", "image/heif-sequence",
		"image/avif", "image/gif", "image/svg+xml", "image/bmp", "video/mp4", "video/quicktime", "video/3gpp", "video/3gpp2", "video/x-m4v", "video/webm", "video/x-matroska", "audio/mp4", "audio/x-m4a",
		"audio/mpeg", "audio/wav", "audio/flac", "text/plain", "application/pdf", "application/octet-stream", "x-image/jpeg", ""} {
		var database bool
		must(t, conn.QueryRow(t.Context(), `SELECT item_may_say_capture($1)`, media.Objects{{Variant: media.Original, MimeType: mimeType}}).Scan(&database))
		if program := media.MaySayCapture(mimeType); program != database {
			t.Errorf("%q: the program says %v, the database %v", mimeType, program, database)
		} else if program {
			yes++
		}
	}
	if yes != 19 {
		t.Errorf("%d types", yes)
	}
}
