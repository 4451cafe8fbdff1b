package oauth

import (
	"time"

	"mediastack.dev/runtime/fault"
)

// rateLimitWindow is the longest window of a RateLimit: older events need not be kept.
const rateLimitWindow = time.Hour

// RateLimit permits Max events of a kind and a subject in a window of time.
type RateLimit struct {
	Kind    string
	Subject []byte // a MAC: e-mail and IP addresses are not stored
	Max     int
	Window  time.Duration
	Now     time.Time
	Reason  Reason // of the error when the limit is exceeded
}

// Exceeded returns the error of an event over the limit.
func (l RateLimit) Exceeded(retryAfter time.Duration) error {
	return &fault.Error{Kind: fault.Busy, Public: l.Reason.text(), Cause: l.Reason, RetryAfter: retryAfter}
}

// rateLimit returns a limit per hour.
func (s *Service) rateLimit(kind, subject string, maxEvents int, reason Reason) RateLimit {
	return RateLimit{Kind: kind, Subject: s.mac("rate_limit", kind, subject), Max: maxEvents, Window: rateLimitWindow, Now: s.Now(), Reason: reason}
}
