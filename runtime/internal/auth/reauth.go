package auth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// Reauthenticate repeats the checks of the credential, and of the operation if there is
// one, so that a revoked key, a suspended account or a restricted tool policy takes effect
// on a request that is in progress. The middleware calls it at the end of the body, since a
// client may hold its body back for as long as it likes; a handler that waited for
// something else, such as a lock, calls it itself. FromContext then returns the caller as
// it is now. On failure the challenge is set in the headers of w.
//
// The check does not use the cache: a committed change takes effect even before its
// notification arrives. That costs one look-up by an index, which requests with the same
// credential share if it begins after they asked. A failure does not count towards the limits: a
// credential that was valid is not a guess.
func (a *Authenticator) Reauthenticate(w http.ResponseWriter, r *http.Request) error {
	state := fromContext(r.Context())
	identity, err := a.authenticate(r)
	if err != nil {
		if state != nil && fault.Is(err, fault.Unauthenticated) {
			w.Header().Set("WWW-Authenticate", a.challenge(state.challenge, r.Header))
		}
		return err
	}
	if state == nil {
		return nil
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.operation != nil {
		if err := a.checkOperation(w, identity, *state.operation); err != nil {
			return err
		}
	}
	state.identity = identity
	return nil
}

// LeaveToCommit leaves the check at the end of the body to an upload, whose commit looks at the key of the caller. It reports whether it
// does: the key must be all that the check looks at. check is what the middleware would call; the caller uses it where no commit looks.
func (a *Authenticator) LeaveToCommit(w http.ResponseWriter, r *http.Request) (keyID uuid.UUID, check func() error, left bool) {
	state := fromContext(r.Context())
	if state == nil {
		return uuid.Nil, nil, false
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.identity.underToolPolicy() {
		return uuid.Nil, nil, false
	}
	state.leftToCommit = true
	return state.identity.Key.ID, func() error { return a.Reauthenticate(w, r) }, true
}

// checkedBody checks the credential once, at the end of a request's body. If the check
// fails, the last read returns the fault instead of io.EOF, with the bytes that it read. It
// belongs to one goroutine at a time.
type checkedBody struct {
	io.ReadCloser
	check func() error
	end   error // of every read after the last one; nil before it
}

// Read reads the next bytes.
func (b *checkedBody) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.ReadCloser.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	b.end = io.EOF
	if err := b.check(); err != nil {
		b.end = err
	}
	return n, b.end
}

// authenticatedAt returns the time of the request's first check, or now during it. Expiry
// counts from that time: a signature that is valid for an hour permits an upload that
// begins within the hour, however long it takes.
func (a *Authenticator) authenticatedAt(ctx context.Context) time.Time {
	if state := fromContext(ctx); state != nil {
		return state.authenticatedAt
	}
	return a.now()
}

// expiryGrace is how long an access token may have expired when its request's body ends. A
// token permits more than an upload, and an endless body must not extend it.
const expiryGrace = time.Hour

// authenticatedAtWithin returns authenticatedAt, but no time that is longer ago than grace.
func (a *Authenticator) authenticatedAtWithin(ctx context.Context, grace time.Duration) time.Time {
	at, earliest := a.authenticatedAt(ctx), a.now().Add(-grace)
	if at.Before(earliest) {
		return earliest
	}
	return at
}
