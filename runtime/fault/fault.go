// Package fault classifies errors: a fault has a kind, a public message and a private
// cause. Use cases return faults; the edges (REST, TUS, MCP, reconcilers) map kinds to
// status codes, tool errors or conditions, each in one place.
package fault

import (
	"errors"
	"fmt"
	"time"

	"mediastack.dev/runtime/redact"
)

// Kind is the class of an error: what the caller can do about it.
type Kind int

// The kinds of fault. Internal is the zero value on purpose: the text of an error that
// was not classified is never shown.
const (
	// Internal is a failure of the service itself; its text stays in the log.
	Internal Kind = iota
	// Invalid is a malformed or out-of-range request; the caller must change it.
	Invalid
	// Unauthenticated is a missing or invalid credential.
	Unauthenticated
	// InvalidSignature is an invalid or expired upload signature or signed URL.
	InvalidSignature
	// Forbidden is a valid credential that does not permit the operation.
	Forbidden
	// NotFound is an object that does not exist or belongs to another tenant; callers
	// can't distinguish the two (docs/architecture.md, invariant 7).
	NotFound
	// Conflict is a state, a pin or another owner that prevents the operation.
	Conflict
	// PreconditionFailed is a condition of the request, on the version of an object, that does not hold.
	PreconditionFailed
	// Gone is what was there and is not anymore: the caller must begin again.
	Gone
	// TooLarge is a file over maxUploadSize.
	TooLarge
	// QuotaExceeded is a file that does not fit into the account's storage cap.
	QuotaExceeded
	// UnsupportedType is a media type or a content encoding that is not supported.
	UnsupportedType
	// Busy is a rate or concurrency limit that is reached; RetryAfter says when to retry.
	Busy
	// Unavailable is a temporary failure of PostgreSQL or S3.
	Unavailable
	// FileLost is an item whose file S3 does not have any more: no retry helps, and the item is
	// there. Only a restore, or the item's deletion, ends it.
	FileLost
	// Rejected is a file that must not be sealed: something was found in it, or it cannot be checked.
	Rejected
)

var names = [...]string{"internal", "invalid", "unauthenticated", "invalid signature", "forbidden", "not found", "conflict",
	"precondition failed", "gone", "too large", "quota exceeded", "unsupported type", "busy", "unavailable", "file lost", "rejected"}

// String returns the name of the kind, for logs and metrics.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(names) {
		return "internal"
	}
	return names[k]
}

// Reason refines a kind for the administrators of a cluster: a condition or a log line says
// what to correct. It never decides what a tenant is told.
type Reason string

// The reasons.
const (
	// Credentials: a store rejects the credentials, or denies the operation.
	Credentials Reason = "credentials"
	// Region: the object store expects requests for another region.
	Region Reason = "region"
	// Clock: the clock of this machine differs too much from that of the object store.
	Clock Reason = "clock"
	// ReadOnly: the database accepts no changes.
	ReadOnly Reason = "read only"
	// StoreFull: a store has no space left, or allows no more buckets.
	StoreFull Reason = "store full"
	// DatabaseMissing: the database does not exist.
	DatabaseMissing Reason = "database missing"
	// Schema: the schema of the database is not that of this version.
	Schema Reason = "schema"
	// BucketName: the object store does not accept the name of the bucket.
	BucketName Reason = "bucket name"
	// Unsupported: the object store lacks a function that the service needs.
	Unsupported Reason = "unsupported"
	// OtherInstallation: the database or a bucket belongs to another installation or cluster.
	OtherInstallation Reason = "other installation"
	// Held: the database was restored or cloned, and nobody has confirmed it yet.
	Held Reason = "held"
	// MediaLost: the bucket of an account with items is missing or empty.
	MediaLost Reason = "media lost"
	// DeletionBlocked: the object store denies the removal of objects of an account that is deleted.
	DeletionBlocked Reason = "deletion blocked"
	// Retained: a retained account has the namespace and the name.
	Retained Reason = "retained"
	// Starting: the process does not know yet whether it may do this. It ends by itself, within seconds.
	Starting Reason = "starting"
	// IncompleteBody: the client did not send the whole body, or too slowly.
	IncompleteBody Reason = "incomplete body"
)

// Error is a classified error.
type Error struct {
	Kind       Kind
	Reason     Reason        // empty if the kind says it all
	Public     string        // message for the caller; may be empty
	Detail     string        // what a store answered, for administrators: an error code, never input
	Cause      error         // for the log only
	RetryAfter time.Duration // of Busy and Unavailable; 0 = not known
}

// Error returns the kind, the message and the cause, for the log; never send it to a caller.
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

// New returns a fault whose public message is formatted as by fmt.Sprintf. Credentials in
// the message are masked, since it may quote input.
func New(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Public: redact.Text(fmt.Sprintf(format, args...))}
}

// Wrap returns a fault with this cause, and a public message as of New. It returns nil if
// cause is nil.
func Wrap(cause error, kind Kind, format string, args ...any) error {
	if cause == nil {
		return nil
	}
	return &Error{Kind: kind, Public: redact.Text(fmt.Sprintf(format, args...)), Cause: cause}
}

// WithReason returns a copy of the fault in err's chain with this reason. An error without a
// fault becomes an Internal one; nil stays nil.
func WithReason(err error, reason Reason) error {
	if err == nil {
		return nil
	}
	f := *From(err)
	f.Reason = reason
	return &f
}

// Explain is WithReason that also sets the detail for administrators.
func Explain(err error, reason Reason, detail string) error {
	if err == nil {
		return nil
	}
	f := *From(err)
	f.Reason, f.Detail = reason, detail
	return &f
}

// ReasonOf returns the reason of the fault in err's chain; empty without one.
func ReasonOf(err error) Reason {
	var f *Error
	if errors.As(err, &f) {
		return f.Reason
	}
	return ""
}

// From returns the fault in err's chain. For an error without one, and for nil, it returns
// an Internal fault without a public message.
func From(err error) *Error {
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
