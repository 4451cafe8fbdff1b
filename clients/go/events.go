package mediastack

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"mediastack.dev/clients/go/api"
)

// EventsNow is EventOptions.After for only what comes from now on.
const EventsNow = "now"

// EventOptions select events of the journal.
type EventOptions struct {
	// After is Next of the page before, or EventsNow; empty = the oldest event that can be read is the first.
	After string
	// Types are those of the events; none = all.
	Types []api.EventType
	// Limit is how many events a page has at most, 100 by default and at most 1000.
	Limit int
	// WaitSeconds is how long the service waits for an event if there is none, at most 60. ListEvents does not wait by default,
	// and Events 30 seconds.
	WaitSeconds int
}

// EventPage is a page of events.
type EventPage struct {
	Events []Event
	// Next is After of the next page. Store it when the events are handled.
	Next string
	// More reports whether there may be more events already.
	More bool
}

// EventsGoneError reports that events after a cursor have expired, or may be missing since the database of the service was
// restored. Read a new cursor with After EventsNow, list the media again, then follow from the cursor.
type EventsGoneError struct {
	// Err is the answer of the service.
	Err *Error
}

// Error returns the text of the service.
func (e *EventsGoneError) Error() string { return e.Err.Error() }

// Unwrap returns the answer of the service.
func (e *EventsGoneError) Unwrap() error { return e.Err }

// ListEvents reads one page of the events of the app, in their order. The error is *EventsGoneError if events are missing after
// the cursor.
func (c *Client) ListEvents(ctx context.Context, options EventOptions) (*EventPage, error) {
	types := make([]string, len(options.Types))
	for i, kind := range options.Types {
		types[i] = string(kind)
	}
	page, err := decode[api.EventPage](c.API.ListEvents(ctx, &api.ListEventsParams{After: optional(options.After), Types: optional(strings.Join(types, ",")),
		Limit: optional(options.Limit), Wait: optional(options.WaitSeconds)}))
	var answered *Error
	if errors.As(err, &answered) && answered.Status == http.StatusGone {
		return nil, &EventsGoneError{answered}
	}
	if err != nil {
		return nil, err
	}
	return &EventPage{Events: page.Events, Next: page.Next, More: page.More}, nil
}

// defaultWaitSeconds is how long a request of Events waits.
const defaultWaitSeconds = 30

// Events returns an iterator over the pages of events, which waits for the next ones and ends with ctx, or with the first error that
// does not pass: *EventsGoneError if events are missing. While the service is away, or answers 429 or 503, it tries again without
// end. A page can have no events: its Next is newer, and a cursor that is not stored for as long as the journal keeps events expires.
//
// Store Next of a page when its events are handled, and begin with it after a restart: each event is handled at least once.
func (c *Client) Events(ctx context.Context, options EventOptions) iter.Seq2[*EventPage, error] {
	return func(yield func(*EventPage, error) bool) {
		at, wait := options, cmp.Or(options.WaitSeconds, defaultWaitSeconds)
		for failures := 0; ; {
			at.WaitSeconds = wait
			if at.After == EventsNow { // its cursor is answered at once, so the caller can store it
				at.WaitSeconds = 0
			}
			page, err := c.ListEvents(ctx, at)
			if err != nil && ctx.Err() == nil {
				failures++
				if delay, passes := c.transport.delayOfAbsence(err, failures); passes {
					if err = c.transport.retry.Wait(ctx, delay); err == nil {
						continue
					}
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			failures = 0
			if !yield(page, nil) {
				return
			}
			at.After = page.Next
		}
	}
}

// delayOfAbsence returns the time before a request whose attempts have all failed begins again, and whether it does: while the service
// is away, or a proxy in front of it finds none, or a limit is reached.
func (t *transport) delayOfAbsence(err error, failures int) (time.Duration, bool) {
	var answered *Error
	var failure *connectionFailure
	switch {
	case errors.As(err, &answered):
		switch answered.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return cmp.Or(answered.RetryAfter, t.backoff(failures)), true
		}
		return 0, false
	case errors.As(err, &failure):
		return t.backoff(failures), true
	}
	return 0, false
}
