package auth

import (
	"net/http"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/oauth"
)

// RequireOperation returns the middleware that rejects requests whose credential does not
// permit their operation. Mount it behind Middleware.
func (a *Authenticator) RequireOperation(operationOf func(r *http.Request) account.Operation) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			operation := operationOf(r)
			if err := a.checkOperation(w, FromContext(r.Context()), operation); err != nil {
				httpapi.WriteError(w, r, err)
				return
			}
			if state := fromContext(r.Context()); state != nil {
				state.mu.Lock()
				state.operation = &operation
				state.mu.Unlock()
			}
			next.ServeHTTP(w, r)
		})
	}
}

// ScopeOf returns the scope that an operation requires.
func ScopeOf(operation account.Operation) Scope {
	return oauth.ScopeOf(operation)
}

// startingRetryAfter is when a client may repeat a change that a process which starts has rejected.
const startingRetryAfter = time.Second

// CheckWritable rejects operations that change something while nothing may be changed. The cause
// names buckets and servers, so it is for the log only.
func (a *Authenticator) CheckWritable(operation account.Operation) error {
	if operation.Reads() || a.writable == nil {
		return nil
	}
	err := a.writable()
	if fault.ReasonOf(err) == fault.Starting {
		return &fault.Error{Kind: fault.Unavailable, Reason: fault.Starting, Public: "the service is starting, and accepts changes in a moment", Cause: err, RetryAfter: startingRetryAfter}
	}
	return fault.Wrap(err, fault.Unavailable, "the service accepts no changes until an administrator has confirmed its database")
}

// checkOperation rejects a credential that lacks the operation's scope, and a login whose
// account does not allow connected applications the operation; then operations that cannot be
// carried out now. It sets the challenge in the headers of w.
func (a *Authenticator) checkOperation(w http.ResponseWriter, identity Identity, operation account.Operation) error {
	if err := a.RequireScope(w, identity, ScopeOf(operation)); err != nil {
		return err
	}
	if identity.underToolPolicy() && !identity.Account.ToolPolicy.Allows(operation) {
		return NotAllowed(operation)
	}
	return a.CheckWritable(operation)
}

// Authorize rejects a request whose credential does not permit an operation that the request's body
// names, as RequireOperation does. It sets the challenge in the headers of w.
func (a *Authenticator) Authorize(w http.ResponseWriter, r *http.Request, operation account.Operation) error {
	return a.checkOperation(w, FromContext(r.Context()), operation)
}

// RequireScope rejects a credential that lacks a scope, and sets the challenge in the
// headers of w (RFC 6750, section 3.1). An upload signature passes: it has no scopes, and is
// accepted on the upload routes only.
func (a *Authenticator) RequireScope(w http.ResponseWriter, identity Identity, scope Scope) error {
	if identity.Signed || identity.HasScope(scope) {
		return nil
	}
	w.Header().Set("WWW-Authenticate", a.scopeChallenge())
	return InsufficientScope(scope)
}

// InsufficientScope returns the fault of a credential that lacks a scope.
func InsufficientScope(scope Scope) error {
	return fault.New(fault.Forbidden, "insufficient scope: %s required", scope)
}

// NotAllowed returns the fault of an operation that the tool policy of the account does not allow.
func NotAllowed(operation account.Operation) error {
	return fault.New(fault.Forbidden, "%s is not allowed for assistants and connected applications in this account", operation)
}
