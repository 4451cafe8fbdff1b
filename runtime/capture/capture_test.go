package capture_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/capture"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func show(t *testing.T, c capture.Capture) string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestClean_KeepsWhatIsShortPrintableAndInRange(t *testing.T) {
	t.Parallel()
	location := func(latitude, longitude float64) *capture.Location {
		return &capture.Location{Latitude: latitude, Longitude: longitude}
	}
	for name, c := range map[string]struct {
		says capture.Capture
		want string
	}{
		"a photo":                      {capture.Capture{At: "2024-05-01T12:30:45+02:00", Camera: "Apple iPhone 15", Lens: "back camera", Title: "Boat", Rating: 5, ContentCredentials: true, Location: location(48.8582224, 2.2945)}, `{"at":"2024-05-01T12:30:45+02:00","camera":"Apple iPhone 15","lens":"back camera","title":"Boat","rating":5,"c2pa":true,"location":{"lat":48.858222,"lon":2.2945}}`},
		"nothing":                      {capture.Capture{}, `{}`},
		"a time without an offset":     {capture.Capture{At: "2024-05-01T12:30:45"}, `{"at":"2024-05-01T12:30:45"}`},
		"an offset of zero":            {capture.Capture{At: "2024-05-01T12:30:45+00:00"}, `{"at":"2024-05-01T12:30:45+00:00"}`},
		"a year":                       {capture.Capture{At: "1997"}, `{"at":"1997"}`},
		"a month":                      {capture.Capture{At: "1997-05"}, `{"at":"1997-05"}`},
		"a day that does not exist":    {capture.Capture{At: "2023-02-29"}, `{}`},
		"a fraction of a second":       {capture.Capture{At: "2024-05-01T12:30:45.5Z"}, `{}`},
		"before photographs":           {capture.Capture{At: "1799-12-31"}, `{}`},
		"the first year":               {capture.Capture{At: "1800"}, `{"at":"1800"}`},
		"a clock that is a little off": {capture.Capture{At: "2026-11-29T11:59:59"}, `{"at":"2026-11-29T11:59:59"}`},
		"the future":                   {capture.Capture{At: "2026-11-29T12:00:01"}, `{}`},
		"the future by its offset":     {capture.Capture{At: "2026-11-29T11:59:59-01:00"}, `{}`},
		"markup is text":               {capture.Capture{Title: "<script>alert(1)</script>"}, `{"title":"\u003cscript\u003ealert(1)\u003c/script\u003e"}`},
		"control characters":           {capture.Capture{Title: "a\x00b\x1bc\td\ne\u0085f"}, `{"title":"a bc d e f"}`},
		"directions":                   {capture.Capture{Title: "photo\u202egnp.exe\u2066\u200f\u061c"}, `{"title":"photognp.exe"}`},
		"invisible characters":         {capture.Capture{Title: "\u200b\ufeffa\u00adb\U000e0041"}, `{"title":"ab"}`},
		"what could not be read":       {capture.Capture{Title: "a\ufffdb"}, `{"title":"ab"}`},
		"another encoding":             {capture.Capture{Title: "Caf\xe9"}, `{}`},
		"spaces":                       {capture.Capture{Camera: "  Canon   EOS  "}, `{"camera":"Canon EOS"}`},
		"spaces only":                  {capture.Capture{Camera: " \t\n"}, `{}`},
		"a long title":                 {capture.Capture{Title: strings.Repeat("ä", 300)}, `{"title":"` + strings.Repeat("ä", 200) + `"}`},
		"a long title with a space":    {capture.Capture{Title: strings.Repeat("ä", 199) + " b"}, `{"title":"` + strings.Repeat("ä", 199) + `"}`},
		"rejected":                     {capture.Capture{Rating: -1}, `{}`},
		"six stars":                    {capture.Capture{Rating: 6}, `{}`},
		"null island":                  {capture.Capture{Location: location(0, 0)}, `{}`},
		"the equator":                  {capture.Capture{Location: location(0, 9.5)}, `{"location":{"lat":0,"lon":9.5}}`},
		"beyond the pole":              {capture.Capture{Location: location(90.1, 0)}, `{}`},
		"beyond the date line":         {capture.Capture{Location: location(1, -180.5)}, `{}`},
		"no number":                    {capture.Capture{Location: location(math.NaN(), 1)}, `{}`},
		"infinite":                     {capture.Capture{Location: location(1, math.Inf(-1))}, `{}`},
	} {
		if got := show(t, c.says.Clean(now)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestParseTime_ALocalTimeIsTakenForUTC(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2024-05-01T12:30:45+02:00": "2024-05-01T10:30:45Z", "2024-05-01T12:30:45": "2024-05-01T12:30:45Z", "2024-05-01": "2024-05-01T00:00:00Z",
		"2024-05": "2024-05-01T00:00:00Z", "2024": "2024-01-01T00:00:00Z",
	} {
		if at, ok := capture.ParseTime(text); !ok || at.Format(time.RFC3339) != want {
			t.Errorf("%s: got %v, %v", text, at, ok)
		}
	}
	for _, text := range []string{"", "24", "2024-5-1", "2024-05-01 12:30:45", "2024-05-01T12:30", "2024-05-01T12:30:45,5", "2024-05-01T12:30:45+0200", "2024-05-01T12:30:45+24:00", "2024-05-01T12:30:45-24:00", "x2024", "2024 "} {
		if at, ok := capture.ParseTime(text); ok {
			t.Errorf("%q: got %v", text, at)
		}
	}
}
