package fetch

import (
	"errors"
	"fmt"

	"mediastack.dev/runtime/fault"
)

// Code is the stable name of the reason why a job failed. The set is closed: no code and no text says
// anything about a name or an address that is not public.
type Code string

// The codes. StatusCode returns those of statuses.
const (
	// AddressNotAllowed: the host has no public address. It is the same for a name that does not
	// exist, so that nobody learns which names exist in the cluster.
	AddressNotAllowed   Code = "address_not_allowed"
	Unreachable         Code = "unreachable"
	TLSFailed           Code = "tls_failed"
	RedirectNotAllowed  Code = "redirect_not_allowed"
	Timeout             Code = "timeout"
	InvalidResponse     Code = "invalid_response"
	UnsupportedEncoding Code = "unsupported_encoding"
	Incomplete          Code = "incomplete"
	TooLarge            Code = "too_large"
	StorageCapExceeded  Code = "storage_cap_exceeded"
	NotPermitted        Code = "not_permitted"
	Interrupted         Code = "interrupted"
	Unavailable         Code = "unavailable"
	Rejected            Code = "rejected"
	InternalError       Code = "internal_error"
)

// StatusCode returns the code for a status of HTTP other than 200.
func StatusCode(status int) Code { return Code(fmt.Sprintf("%s%d", statusPrefix, status)) }

// statusPrefix is that of the codes of statuses.
const statusPrefix = "status_"

// Failure is the reason why a job failed, for the tenant.
type Failure struct {
	Code Code
	Text string
	// Cause is for the administrator's log only: it may name an internal address. Optional.
	Cause error
}

// Error returns the code and the text.
func (f *Failure) Error() string { return string(f.Code) + ": " + f.Text }

// Fail returns a Failure with a text that is formatted as by fmt.Sprintf.
func Fail(code Code, format string, args ...any) error {
	return &Failure{Code: code, Text: fmt.Sprintf(format, args...)}
}

// failureOf returns what the tenant is told of an error, and whether a later attempt may succeed.
// The failures of the other server are not repeated: the caller knows better if it makes sense. One that is
// too slow only while others wait is tried again, when they may not.
func failureOf(err error) (failure Failure, retry bool) {
	if errors.Is(err, errContended) {
		return Failure{Code: Timeout, Text: "the server sends too slowly while uploads of other accounts wait"}, true
	}
	var known *Failure
	if errors.As(err, &known) {
		return *known, false
	}
	switch f := fault.From(err); f.Kind {
	case fault.TooLarge:
		return Failure{Code: TooLarge, Text: f.Public}, false
	case fault.QuotaExceeded:
		return Failure{Code: StorageCapExceeded, Text: f.Public}, false
	case fault.Unauthenticated, fault.Forbidden, fault.NotFound:
		return Failure{Code: NotPermitted, Text: "the credential that requested the upload has ended, or no longer permits it"}, false
	case fault.Rejected:
		return Failure{Code: Rejected, Text: f.Public}, false
	case fault.Busy, fault.Unavailable:
		return Failure{Code: Unavailable, Text: "the service could not store the file for too long: try again"}, true
	case fault.Invalid, fault.UnsupportedType, fault.Conflict, fault.InvalidSignature:
		return Failure{Code: InvalidResponse, Text: f.Public}, false
	case fault.Internal:
	}
	return Failure{Code: InternalError, Text: "the service failed"}, false
}
