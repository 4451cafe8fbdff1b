package auth

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

// authContext is the state of an authenticated request. The context holds a pointer to it,
// so that a later check of the credential updates what handlers see.
type authContext struct {
	authenticatedAt time.Time
	challenge       Challenge

	mu        sync.Mutex
	identity  Identity
	operation *account.Operation // nil until RequireOperation has checked it
	// leftToCommit is set if an upload checks the credential in the place of the end of the body.
	leftToCommit bool
}

func (c *authContext) isLeftToCommit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leftToCommit
}

type authContextKey struct{}

func fromContext(ctx context.Context) *authContext {
	state, _ := ctx.Value(authContextKey{}).(*authContext)
	return state
}

// FromContext returns the caller of a request that passed the middleware, as the last check
// of its credential found it.
func FromContext(ctx context.Context) Identity {
	state := fromContext(ctx)
	if state == nil {
		return Identity{}
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	return state.identity
}

// Middleware returns the middleware that authenticates requests and counts them towards the
// limit of their key. At the end of a request's body it checks the credential again: the
// read that would return io.EOF returns the fault instead (see Reauthenticate). Mount it
// behind the router: the route decides which credentials are accepted.
func (a *Authenticator) Middleware(challenge Challenge) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			identity, err := a.Authenticate(r)
			if fault.Is(err, fault.Unauthenticated) {
				w.Header().Set("WWW-Authenticate", a.challenge(challenge, r.Header))
			}
			if err == nil {
				decision := a.limits.AllowKey(identity.Key.ID)
				decision.AddHeaders(w.Header())
				err = decision.Err()
			}
			if err == nil {
				err = a.checkOrigin(r, identity.Account.Origins)
			}
			if err == nil {
				err = httpapi.AdmitBody(r.Context(), identity.Account.ID)
			}
			if err != nil {
				httpapi.WriteError(w, r, err)
				return
			}
			a.keyUses.record(identity.Key.ID, a.now())
			if identity.GrantID != uuid.Nil {
				a.grantUses.record(identity.GrantID, a.now())
			}
			next.ServeHTTP(w, a.attach(w, r, identity, challenge))
		})
	}
}

// attach returns the request with its caller, and with a body that checks the credential
// again at its end.
func (a *Authenticator) attach(w http.ResponseWriter, r *http.Request, identity Identity, challenge Challenge) *http.Request {
	state := &authContext{authenticatedAt: a.now(), challenge: challenge, identity: identity}
	r = r.WithContext(context.WithValue(r.Context(), authContextKey{}, state))
	if r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0 {
		r.Body = &checkedBody{ReadCloser: r.Body, check: func() error {
			if state.isLeftToCommit() {
				return nil
			}
			return a.Reauthenticate(w, r)
		}}
	}
	return r
}
