package pages

import "time"

// Moment is a time as a page shows it: in UTC, and in the time zone of the user where the script of local times runs.
type Moment struct {
	ISO, Text string
	// Seconds is set if the seconds are shown.
	Seconds bool
}

// momentOf returns a time to the minute.
func momentOf(at time.Time) Moment {
	return Moment{ISO: at.UTC().Format("2006-01-02T15:04:05Z"), Text: at.UTC().Format("2 Jan 2006, 15:04 UTC")}
}

// secondOf returns a time to the second.
func secondOf(at time.Time) Moment {
	return Moment{ISO: at.UTC().Format("2006-01-02T15:04:05Z"), Text: at.UTC().Format("2 Jan 2006, 15:04:05 UTC"), Seconds: true}
}
