package mcp

import (
	"time"

	"mediastack.dev/runtime/fault"
)

// lowerBound returns the schema of a time from which on something happened. Models write days where a time is meant, so both are accepted.
func lowerBound(name, what string) property {
	return prop(name, str(), what+" at this time or later, such as 2026-11-01T09:30:00Z; a date such as 2026-11-01 is the start of that day in UTC.")
}

// upperBound returns the schema of a time before which something happened.
func upperBound(name, what string) property {
	return prop(name, str(), what+" before this time; a date such as 2026-11-30 is the end of that day in UTC, so the day is included.")
}

// from returns a time that is a lower bound, as in RFC 3339: a date is the start of its day. It is empty if the argument is absent.
func (a *arguments) from(name string) string { return a.bound(name, 0) }

// until returns a time that is an upper bound and is not included: a date is the start of the next day.
func (a *arguments) until(name string) string { return a.bound(name, 1) }

func (a *arguments) bound(name string, days int) string {
	text := a.text(name)
	if text == "" || a.err != nil {
		return ""
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil && day.Year() > 0 && day.Year() < maxYear {
		return day.AddDate(0, 0, days).Format(time.RFC3339)
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		a.err = fault.New(fault.Invalid, "%s must be a time as in RFC 3339, such as 2026-11-22T18:30:00Z, or a date such as 2026-11-22", name)
	}
	return text
}

// maxYear is the last year that RFC 3339 can write. The day after its last one has none.
const maxYear = 9999
