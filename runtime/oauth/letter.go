package oauth

import "time"

// Letter is a mail that carries a code to a person. It waits in the outbox until a
// replica hands it to the mail server, or until nobody could use its code any more.
type LoginEmail struct {
	ID int64
	// To is the address that somebody typed; it belongs to an account.
	To string
	// Code is eight digits, in clear: it must be in no log.
	Code string
	// ExpiresAt is when the code ends, and the letter with it.
	ExpiresAt time.Time
	// Attempts is how often a replica claimed the letter, this time included.
	Attempts int
}
