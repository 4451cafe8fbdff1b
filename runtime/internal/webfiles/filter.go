package webfiles

import (
	"net/url"
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

// queryText returns the query of a list. Dates are days in UTC.
func (a *API) queryText(query url.Values) (media.QueryText, error) {
	text := media.QueryText{State: query.Get("state"), Words: query.Get("q"), Name: query.Get("name"), Type: query.Get("type"), Sort: query.Get("sort"), After: query.Get("after"), Limit: &a.cfg.PerPage}
	size, ok := sizes[query.Get("size")]
	if !ok {
		return text, fault.New(fault.Invalid, "size must be small, medium or large")
	}
	text.Traits.MinBytes, text.Traits.MaxBytes = size.min, size.max
	var err error
	if text.From, err = day(query.Get("from"), 0); err != nil {
		return text, err
	}
	if text.To, err = day(query.Get("to"), 24*time.Hour); err != nil {
		return text, err
	}
	if text.CapturedFrom, err = day(query.Get("capturedFrom"), 0); err != nil {
		return text, err
	}
	text.CapturedTo, err = day(query.Get("capturedTo"), 24*time.Hour)
	return text, err
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
