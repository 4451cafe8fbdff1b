package media

import (
	"encoding/binary"
	"strconv"
	"time"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/fault"
)

// CaptureSearch restricts lists, counts and totals by what files say of how they were made. Items of which that is not known do not match.
type CaptureSearch struct {
	// From and To bound when the file was made: not before From, and before To. Zero = no bound.
	From, To time.Time
	// Near is where; nil = anywhere.
	Near *capture.Near
}

func (s CaptureSearch) narrows() bool { return s.HasTime() || s.Near != nil }

// HasTime reports whether the search has a bound of time.
func (s CaptureSearch) HasTime() bool { return !s.From.IsZero() || !s.To.IsZero() }

// Milliseconds returns the bounds of time since 1970: the first one, and the first one that is too late.
func (s CaptureSearch) Milliseconds() (first, end int64) {
	first, end = minCapture, maxCapture
	if !s.From.IsZero() {
		first = ceilMilliseconds(s.From)
	}
	if !s.To.IsZero() {
		end = ceilMilliseconds(s.To)
	}
	return first, end
}

// minCapture and maxCapture are beyond the times of all items, in milliseconds since 1970.
const (
	minCapture = -1 << 53
	maxCapture = 1 << 53
)

func ceilMilliseconds(at time.Time) int64 {
	milliseconds := at.UnixMilli()
	if at.Nanosecond()%int(time.Millisecond) != 0 {
		milliseconds++
	}
	return min(max(milliseconds, minCapture), maxCapture)
}

func (s CaptureSearch) validate() error {
	if !s.From.IsZero() && !s.To.IsZero() && !s.From.Before(s.To) {
		return fault.New(fault.Invalid, "capturedFrom must be before capturedTo")
	}
	return nil
}

// binding returns what cursors depend on; nothing without a restriction, so that cursors of before stay valid.
func (s CaptureSearch) binding() []string {
	if !s.narrows() {
		return nil
	}
	first, end := s.Milliseconds()
	fields := []string{"captured", strconv.FormatInt(first, 10), strconv.FormatInt(end, 10)}
	if s.Near != nil {
		fields = append(fields, s.Near.String())
	}
	return fields
}

// parseCaptureSearch reads the parameters of a search; empty ones were not sent.
func parseCaptureSearch(from, to, near string) (s CaptureSearch, err error) {
	if s.From, err = parseFrom("capturedFrom", from); err != nil {
		return s, err
	}
	if s.To, err = parseUntil("capturedTo", to); err != nil || near == "" {
		return s, err
	}
	circle, err := capture.ParseNear(near)
	if err != nil {
		return s, fault.New(fault.Invalid, "%s", err)
	}
	s.Near = &circle
	return s, nil
}

// captureOrder returns the time of the order by capture, in milliseconds since 1970, as the function item_capture_order of the database: when
// the file was made, or, if that is not known, when its upload began.
func captureOrder(item Item) int64 {
	if at, ok := item.Capture.Time(); ok {
		return at.UnixMilli()
	}
	return int64(binary.BigEndian.Uint64(item.ID[:]) >> 16)
}
