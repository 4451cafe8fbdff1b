package oauth

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/cell"
)

// Store persists clients, login sessions, grants and tokens.
// Package postgres implements it. All times are those of the caller's clock.
type Store interface {
	// Cell returns the number of the installation, which ids, codes and tokens contain.
	Cell() cell.Number

	// AddClient stores a client and returns it, or the stored one with the same ID. Only a new
	// client counts against the limit.
	AddClient(ctx context.Context, client Client, limit RateLimit) (Client, error)
	// FindClient returns a registered client; NotFound.
	FindClient(ctx context.Context, id string) (Client, error)

	// AddLoginSession stores a session and records that its client is in use.
	AddLoginSession(ctx context.Context, session LoginSession, now time.Time) error
	// FindLoginSession returns a session that has neither ended nor expired; NotFound, also if
	// the cookie is another one.
	FindLoginSession(ctx context.Context, id uuid.UUID, cookieHash account.Hash, now time.Time) (LoginSession, error)
	// SetLoginCode replaces the code of a session and adds the task (EmailWork) to send it, unless one of the
	// limits is exceeded (Busy).
	SetLoginCode(ctx context.Context, id uuid.UUID, cookieHash account.Hash, code LoginCode, limits []RateLimit) error
	// ConsumeAttempt counts a code attempt against the session, as the session that it passes to limitsOf has it, and against
	// those limits. It returns the session with the code to compare. NotFound if the session has no attempt left, Busy if a
	// limit is exceeded.
	ConsumeAttempt(ctx context.Context, id uuid.UUID, cookieHash account.Hash, maxAttempts int, now time.Time, limitsOf func(LoginSession) []RateLimit) (LoginSession, error)
	// CompleteLogin marks a session as logged in, once, and replaces its cookie. It forgets the events of
	// the limit pause. NotFound if its code is no longer codeMAC.
	CompleteLogin(ctx context.Context, id uuid.UUID, codeMAC []byte, cookieHash account.Hash, now, expires time.Time, pause RateLimit) error
	// ContinueLogin ends the session newer and gives its authorization request to pending, in one
	// transaction. NotFound if either has ended, or if pending is logged in.
	ContinueLogin(ctx context.Context, pending, newer LoginSession, now time.Time) error
	// ExtendLoginSession sets when a session of a logged-in user without an authorization request expires,
	// if that is later than before. validAt is when it was found. NotFound if nothing was changed.
	ExtendLoginSession(ctx context.Context, id uuid.UUID, cookieHash account.Hash, validAt, until time.Time) error
	// EndLoginSession ends a session; NotFound if it has ended.
	EndLoginSession(ctx context.Context, id uuid.UUID, cookieHash account.Hash, now time.Time) error

	// AccountsOfOwner returns the accounts of an owner that are neither suspended nor closed.
	AccountsOfOwner(ctx context.Context, email string, limit int) ([]account.Account, error)
	// IsOwner reports whether an e-mail address owns such an account.
	IsOwner(ctx context.Context, email string) (bool, error)
	// FindPrincipalOfOwner returns the principal that the login of an owner stands for: the Default
	// App of such an account, with its newest valid key. NotFound.
	FindPrincipalOfOwner(ctx context.Context, email string, accountID uuid.UUID, app string, now time.Time) (account.Principal, error)
	// AppsOfOwner returns the names of the open apps of such an account that have a valid key, in their order.
	AppsOfOwner(ctx context.Context, email string, accountID uuid.UUID, now time.Time, limit int) ([]string, error)
	// AddGrant ends the session and stores the grant and its authorization code in one
	// transaction. NotFound if the session has ended, Conflict if the user does not own the
	// account (any more).
	AddGrant(ctx context.Context, session LoginSession, grant Grant, code AuthorizationCode) error

	// ExchangeCode locks an authorization code and its grant, marks the code as used, and commits
	// what decide returns. NotFound if the code or its grant does not exist.
	ExchangeCode(ctx context.Context, code account.Hash, now time.Time, decide func(Grant, AuthorizationCode) Outcome) (Outcome, error)
	// RotateRefreshToken locks a refresh token and its grant, and commits what decide returns. If
	// that issues tokens, the grant moves to the newest key of the account. NotFound.
	RotateRefreshToken(ctx context.Context, token account.Hash, now time.Time, decide func(Grant, Token) Outcome) (Outcome, error)
	// RevokeToken revokes the grant of a token if it belongs to the client.
	RevokeToken(ctx context.Context, token account.Hash, clientID string, now time.Time) error

	// AuthorizedApps returns the usable grants of a user, newest first.
	AuthorizedApps(ctx context.Context, email string, now time.Time, limit int) ([]AuthorizedApp, error)
	// RevokeGrants revokes one grant of a user, or all of them for the zero ID, and returns how
	// many.
	RevokeGrants(ctx context.Context, email string, id uuid.UUID, now time.Time) (int, error)
}

// Outcome is the decision about a token request. The store commits it in the transaction in
// which it locked the code or refresh token.
type Outcome struct {
	// Issued are the tokens for the client, and Stored the rows to store for them.
	Issued Tokens
	Stored []Token
	// Err rejects the request. Nothing is changed unless RevokeReason is set as well.
	Err error
	// RevokeReason, if not empty, revokes the grant and all its tokens.
	RevokeReason string
}
