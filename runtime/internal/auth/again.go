package auth

import (
	"context"
	"net/http"
	"time"

	"mediastack.dev/runtime/fault"
)

// admission is what a request carries on from the middleware, to be judged again.
type admission struct {
	at        time.Time
	challenge func(sent http.Header) string
}

type admissionKey struct{}

// admit lets a request through with what it may do.
func (a *Authenticator) admit(r *http.Request, grant Grant, challenge func(sent http.Header) string) *http.Request {
	ctx := context.WithValue(r.Context(), admissionKey{}, admission{at: a.now(), challenge: challenge})
	return r.WithContext(context.WithValue(ctx, grantKey{}, grant))
}

// Again checks the credential of a request that was let through once more, by the same
// rules, and gives the request with what it permits now; a refusal's challenge it
// leaves in w. The middleware judges headers, and a client may hold its body back for
// as long as it likes: whoever acts on a body that has arrived asks first, so that a
// key which was revoked meanwhile, an account which was suspended or a leash which was
// shortened counts. The check does not use the cache: a change that is committed when the
// body has arrived takes effect, also before its notification does. That costs one look-up
// by an index. Nothing counts towards the limits: a credential that was good is no guess.
func (a *Authenticator) Again(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	grant, err := a.credential(r)
	if err != nil {
		if before, ok := r.Context().Value(admissionKey{}).(admission); ok && fault.Is(err, fault.Unauthenticated) {
			w.Header().Set("WWW-Authenticate", before.challenge(r.Header))
		}
		return r, err
	}
	if need, ok := r.Context().Value(needKey{}).(Need); ok {
		if err := a.permit(w, grant, need); err != nil {
			return nil, err
		}
	}
	return r.WithContext(context.WithValue(r.Context(), grantKey{}, grant)), nil
}

// asked is when a request was let through, or now when it was not yet. What expires by
// itself is held against it: a permission to upload for an hour is one to begin within
// the hour, and must not fall on the last byte of a large file.
func (a *Authenticator) asked(ctx context.Context) time.Time {
	if before, ok := ctx.Value(admissionKey{}).(admission); ok {
		return before.at
	}
	return a.now()
}

// patience is how long an access token may have expired when the last byte comes. It
// permits more than an upload, and is not to be kept alive by a body without end.
const patience = time.Hour

// askedWithin is asked, but no longer ago than that.
func (a *Authenticator) askedWithin(ctx context.Context, patience time.Duration) time.Time {
	asked, least := a.asked(ctx), a.now().Add(-patience)
	if asked.Before(least) {
		return least
	}
	return asked
}
