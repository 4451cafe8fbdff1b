// Package fault gives every error of the service a kind, a public sentence and a
// private cause. Use cases make faults; the edges (REST, TUS, MCP, reconcilers)
// turn kinds into status codes, tool errors or conditions, each in one place.
package fault

import (
	"errors"
	"fmt"
	"time"

	"mediastack.dev/runtime/redact"
)

// Kind says what a caller can do about an error.
type Kind int

// The kinds of fault. Internal is the zero value on purpose: an error that
// nobody classified shows nothing of itself.
const (
	// Internal is a failure of the service itself; its text stays in the log.
	Internal Kind = iota
	// Invalid is a malformed or out-of-range request; the caller must change it.
	Invalid
	// Unauthenticated means no credential, or one that is not accepted.
	Unauthenticated
	// BadSignature means an upload signature or a signed URL that is not accepted.
	BadSignature
	// Forbidden means a good credential that does not permit this.
	Forbidden
	// NotFound is a thing that does not exist or belongs to somebody else; the
	// two are never told apart (docs/architecture.md, invariant 7).
	NotFound
	// Conflict is a state, a pin or another owner that stands in the way.
	Conflict
	// TooLarge means over maxUploadSize.
	TooLarge
	// OverCap means the account's storage cap does not hold these bytes.
	OverCap
	// Unsupported is a media type or an encoding that the service does not take.
	Unsupported
	// Busy means too many requests or a full queue; RetryAfter says when to come back.
	Busy
	// Unavailable means that PostgreSQL or S3 can't be reached just now.
	Unavailable
)

var names = [...]string{"internal", "invalid", "unauthenticated", "bad signature", "forbidden", "not found", "conflict",
	"too large", "over cap", "unsupported", "busy", "unavailable"}

// String names the kind for logs and metrics.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(names) {
		return "internal"
	}
	return names[k]
}

// Error is a classified error. Public is written for the caller and may be
// empty; Cause is for the log only.
type Error struct {
	Kind       Kind
	Public     string
	Cause      error
	RetryAfter time.Duration // Busy and Unavailable only; 0 = say nothing
}

// Error joins everything for the log; never send it to a caller.
func (e *Error) Error() string {
	switch {
	case e.Cause == nil && e.Public == "":
		return e.Kind.String()
	case e.Cause == nil:
		return e.Kind.String() + ": " + e.Public
	case e.Public == "":
		return e.Kind.String() + ": " + e.Cause.Error()
	}
	return e.Kind.String() + ": " + e.Public + ": " + e.Cause.Error()
}

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.Cause }

// New makes a fault whose public sentence is formatted like fmt.Sprintf. Credentials in
// it are masked: a sentence may quote what a caller sent.
func New(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Public: redact.Text(fmt.Sprintf(format, args...))}
}

// Wrap returns cause a kind and a public sentence, masked as by New. A nil cause stays nil.
func Wrap(cause error, kind Kind, format string, args ...any) error {
	if cause == nil {
		return nil
	}
	return &Error{Kind: kind, Public: redact.Text(fmt.Sprintf(format, args...)), Cause: cause}
}

// Of finds the fault in err's chain. An unclassified error, and nil, give Internal
// with no public sentence.
func Of(err error) *Error {
	var f *Error
	if errors.As(err, &f) {
		return f
	}
	return &Error{Kind: Internal, Cause: err}
}

// Is reports whether err is a fault of this kind.
func Is(err error, kind Kind) bool {
	var f *Error
	return errors.As(err, &f) && f.Kind == kind
}
