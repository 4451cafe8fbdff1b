package auth

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/upload"
)

// IssueRequest returns the request for a file that an assistant makes, under the limits of an upload signature that it could create itself, and
// the token of the page on which a person hands the file over. ttl is how long an upload may begin, unless a pin says less.
func (a *Authenticator) IssueRequest(ctx context.Context, identity Identity, wanted upload.Capability, ttl time.Duration) (handover.Request, handover.Token, error) {
	wanted.Count, wanted.Requested = 1, true
	if err := wanted.Validate(); err != nil {
		return handover.Request{}, handover.Token{}, err
	}
	if err := checkSeal(identity, wanted); err != nil {
		return handover.Request{}, handover.Token{}, err
	}
	pins, err := a.pins(ctx, identity)
	if err != nil {
		return handover.Request{}, handover.Token{}, err
	}
	if ttl, err = underLifetimeCeiling(pins, ttl, false); err != nil {
		return handover.Request{}, handover.Token{}, err
	}
	if wanted.MaxBytes, err = underSizeCeiling(pins, wanted.MaxBytes); err != nil {
		return handover.Request{}, handover.Token{}, err
	}
	id, err := a.store.Cell().NewID()
	if err != nil {
		return handover.Request{}, handover.Token{}, err
	}
	token, err := handover.NewToken(a.store.Cell())
	if err != nil {
		return handover.Request{}, handover.Token{}, err
	}
	now := a.now().Truncate(time.Second)
	wanted.ID, wanted.ExpiresAt = token.Capability(), now.Add(ttl)
	request := handover.Request{ID: id, AccountID: identity.Account.ID, AppID: identity.App.ID, KeyID: identity.Key.ID, GrantID: identity.GrantID, Capability: wanted, CreatedAt: now}
	_, err = a.SignatureOf(request, token) // it must fit into a header
	return request, token, err
}

// SignatureOf returns the upload signature of a request and its token. It is checked as any other one when it is used: whether the key or the login
// that has requested the file is valid, too.
func (a *Authenticator) SignatureOf(request handover.Request, token handover.Token) (string, error) {
	text, err := encodeCapabilityWith(token.Nonce(), request.Capability)
	if err != nil {
		return "", err
	}
	return encodeSignature(a.store.Cell(), a.signer, claims{accountID: request.AccountID, appID: request.AppID, keyID: request.KeyID, grantID: request.GrantID,
		expires: request.Capability.ExpiresAt, capabilityJSON: text, assistant: request.GrantID == uuid.Nil}), nil
}

// AllowToken rejects a client that has sent too many wrong credentials, before a token is looked up; the zero token is one without the form of
// any. A token that was found at its last look-up is exempt, as in lookupGuessable: guesses, and programs with an old key, do not lock out others
// behind the same IP address, whose upload may be on its way.
func (a *Authenticator) AllowToken(ctx context.Context, token handover.Token) error {
	if a.sessions.wasValid(keyOfToken(token)) {
		return nil
	}
	return a.limits.AllowAttempt(httpapi.FromContext(ctx).ClientIP).Err()
}

// RecordToken records whether a token was found. One that was not counts as any other wrong credential.
func (a *Authenticator) RecordToken(ctx context.Context, token handover.Token, found bool) {
	a.sessions.setValid(keyOfToken(token), found)
	if !found {
		a.failures.WithLabelValues(failedInvalidSignature.reason).Inc()
		a.limits.RecordFailure(httpapi.FromContext(ctx).ClientIP)
	}
}

// keyOfToken returns what stands for a token among the credentials that were valid. Nothing has a session by it.
func keyOfToken(token handover.Token) cacheKey {
	return cacheKey{hash: account.Hash(token.Capability())}
}

// CheckRequest returns why the signature of a request is not valid: the connection that has requested the file has ended, or may not
// anymore. It uses no cache: a page is opened seldom, and must not invite to an upload that would be rejected.
func (a *Authenticator) CheckRequest(ctx context.Context, signature string) (Identity, error) {
	return a.authenticateSignature(context.WithValue(ctx, authContextKey{}, &authContext{authenticatedAt: a.now()}), signature, true)
}

// mayHandOver reports whether the account lets the connection of a session have files handed over. A login needs the permission to change media.
func mayHandOver(session oauth.Session) bool {
	policy := session.Account.ToolPolicy
	return policy.Offers(account.RequestUpload) && policy.Allows(account.RequestUpload) && (session.GrantID == uuid.Nil || slices.Contains(session.Scopes, ScopeWrite))
}

// CheckConnection returns why the caller of a request that has waited is not connected anymore. It uses no cache.
func (a *Authenticator) CheckConnection(ctx context.Context, identity Identity) error {
	const public = "the connection has ended"
	key := cacheKey{id: identity.Key.ID}
	if identity.GrantID != uuid.Nil {
		key = cacheKey{id: identity.GrantID, login: true}
	}
	session, err := a.sessions.reload(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return failedRevoked.fault(fault.Unauthenticated, public)
	}
	if err != nil {
		return err
	}
	return a.validateSession(session, public)
}
