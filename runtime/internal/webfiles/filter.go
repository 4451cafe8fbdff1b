package webfiles

import (
	"net/url"
	"strings"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

const mebibyte = 1 << 20

// sizes are the ranges of sizes that the filter has, in bytes.
var sizes = map[string]struct{ min, max *int64 }{
	"":       {},
	"small":  {nil, new(int64(mebibyte - 1))},
	"medium": {new(int64(mebibyte)), new(int64(10*mebibyte - 1))},
	"large":  {new(int64(10 * mebibyte)), nil},
}

// captions are the choices of the filter by captions, as the parameters has and lacks of a query.
var captions = map[string]struct{ has, lacks string }{"": {}, "with": {has: "caption"}, "without": {lacks: "caption"}}

// queryText returns the query of a list. Dates are days in UTC, unless the script of the page says when a day begins where the reader is. Files are
// found by their camera's clock in any case.
func (a *API) queryText(query url.Values) (media.QueryText, error) {
	text := media.QueryText{Filter: media.Filter{Access: media.Access(query.Get("access")), Group: query.Get("group")}, State: query.Get("state"), Words: closed(query.Get("q")), Name: query.Get("name"), Type: query.Get("type"), Sort: query.Get("sort"), After: query.Get("after"), Before: query.Get("before"), Limit: &a.cfg.PerPage}
	size, ok := sizes[query.Get("size")]
	if !ok {
		return text, fault.New(fault.Invalid, "size must be small, medium or large")
	}
	text.Traits.MinBytes, text.Traits.MaxBytes = size.min, size.max
	caption, ok := captions[query.Get("caption")]
	if !ok {
		return text, fault.New(fault.Invalid, "caption must be with or without")
	}
	text.Traits.Has, text.Traits.Lacks, text.Traits.Orientation = caption.has, caption.lacks, query.Get("orientation")
	var err error
	if text.From, err = localDay(query, "from", 0); err != nil {
		return text, err
	}
	if text.To, err = localDay(query, "to", 24*time.Hour); err != nil {
		return text, err
	}
	if text.CapturedFrom, err = day(query.Get("capturedFrom"), 0); err != nil {
		return text, err
	}
	text.CapturedTo, err = day(query.Get("capturedTo"), 24*time.Hour)
	return text, err
}

// closed returns the text of a search without a quotation mark that is alone, as in 6" nails.
func closed(words string) string {
	if strings.Count(words, `"`)%2 == 0 {
		return words
	}
	last := strings.LastIndex(words, `"`)
	return strings.TrimSpace(words[:last] + " " + words[last+1:])
}

// farthestZone is how far the days of a time zone are from those of UTC at most.
const farthestZone = 14 * time.Hour

// localDay is day for a day whose beginning or end the query may have as a time.
func localDay(query url.Values, name string, after time.Duration) (string, error) {
	text, err := day(query.Get(name), after)
	if text == "" || err != nil {
		return text, err
	}
	utc, _ := time.Parse(time.RFC3339, text)
	if local, err := time.Parse(time.RFC3339, query.Get(name+"At")); err == nil && local.Sub(utc).Abs() <= farthestZone {
		return local.Format(time.RFC3339), nil
	}
	return text, nil
}

// day returns a time after the beginning of a day as a query has it.
func day(text string, after time.Duration) (string, error) {
	if text == "" {
		return "", nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil || at.Year() < 1 {
		return "", fault.New(fault.Invalid, "a date must look like 2026-03-01")
	}
	return at.Add(after).Format(time.RFC3339), nil
}
