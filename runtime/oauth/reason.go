package oauth

import (
	"maps"
	"slices"

	"mediastack.dev/runtime/fault"
)

// Reason is the machine-readable cause of an error that a user can meet during a login. It
// is the cause of a fault; package pages has the sentence that the user reads.
type Reason string

// The reasons.
const (
	ReasonInvalidEmail      Reason = "invalid_email"
	ReasonNotLoggedIn       Reason = "not_logged_in"
	ReasonAlreadyLoggedIn   Reason = "already_logged_in"
	ReasonSessionExpired    Reason = "session_expired" // also: ended, or another browser's
	ReasonNoCodeSent        Reason = "no_code_sent"
	ReasonMalformedCode     Reason = "malformed_code"
	ReasonIncorrectCode     Reason = "incorrect_code"
	ReasonCodeExpired       Reason = "code_expired"
	ReasonTooManyAttempts   Reason = "too_many_attempts" // in one session, which is of no use any more
	ReasonAccountNotAllowed Reason = "account_not_allowed"
	ReasonNotOwner          Reason = "not_owner" // of an account whose files the user wants to see

	ReasonResendTooSoon           Reason = "resend_too_soon"
	ReasonTooManyCodesForEmail    Reason = "too_many_codes_for_email"
	ReasonTooManyCodesForNetwork  Reason = "too_many_codes_for_network"
	ReasonTooManyAttemptsForEmail Reason = "too_many_attempts_for_email"
	ReasonTooManyRegistrations    Reason = "too_many_registrations"
)

// reasons holds the kind of the fault and a technical text for each reason.
var reasons = map[Reason]struct {
	kind fault.Kind
	text string
}{
	ReasonInvalidEmail:      {fault.Invalid, "invalid e-mail address"},
	ReasonNotLoggedIn:       {fault.Unauthenticated, "not logged in"},
	ReasonAlreadyLoggedIn:   {fault.Conflict, "already logged in"},
	ReasonSessionExpired:    {fault.NotFound, "no such login session"},
	ReasonNoCodeSent:        {fault.Invalid, "no login code was sent"},
	ReasonMalformedCode:     {fault.Invalid, "malformed login code"},
	ReasonIncorrectCode:     {fault.Invalid, "incorrect login code"},
	ReasonCodeExpired:       {fault.Invalid, "login code expired"},
	ReasonTooManyAttempts:   {fault.NotFound, "too many incorrect login codes"},
	ReasonAccountNotAllowed: {fault.Conflict, "not an owner of the account"},
	ReasonNotOwner:          {fault.Forbidden, "not an owner of the account"},

	ReasonResendTooSoon:           {fault.Busy, "a login code was sent recently"},
	ReasonTooManyCodesForEmail:    {fault.Busy, "too many login codes for this e-mail address"},
	ReasonTooManyCodesForNetwork:  {fault.Busy, "too many login codes for this network"},
	ReasonTooManyAttemptsForEmail: {fault.Busy, "too many code attempts for this e-mail address"},
	ReasonTooManyRegistrations:    {fault.Busy, "too many client registrations from this network"},
}

// Reasons returns all reasons.
func Reasons() []Reason { return slices.Sorted(maps.Keys(reasons)) }

// Error returns the code of the reason.
func (r Reason) Error() string { return string(r) }

// Fault returns the fault that a reason causes.
func (r Reason) Fault() error { return fault.Wrap(r, reasons[r].kind, "%s", r.text()) }

func (r Reason) text() string { return reasons[r].text }

// sessionExpired replaces NotFound, the error of a store that has no such session.
func sessionExpired(err error) error {
	if fault.Is(err, fault.NotFound) {
		return ReasonSessionExpired.Fault()
	}
	return err
}
