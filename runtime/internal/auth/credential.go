package auth

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/accountmetrics"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
)

// AcceptsSignature reports whether a route, a pattern of the router, accepts upload
// signatures.
func AcceptsSignature(route string) bool {
	return route == api.UploadRoute || route == api.ResumableRoute || strings.HasPrefix(route, api.ResumableRoute+"/") || route == api.ListUploadsRoute || route == api.EndUploadRoute
}

// continues reports whether a route is of uploads that exist, which a capability reaches after its expiry.
func continues(route string) bool {
	return route == api.ResumableUploadRoute || route == api.ListUploadsRoute || route == api.EndUploadRoute
}

// Authenticate returns the caller of a request, and records it in the request info. Wrong
// credentials count towards the limit of the client that sent them.
func (a *Authenticator) Authenticate(r *http.Request) (Identity, error) {
	info := httpapi.FromContext(r.Context())
	identity, err := a.authenticate(r)
	if failed, ok := failureOf(err); ok {
		a.failures.WithLabelValues(failed.reason).Inc()
		if failed.guess {
			a.limits.RecordFailure(info.ClientIP)
		}
	}
	if err != nil {
		return Identity{}, err
	}
	info.AccountID, info.AppID, info.KeyID = identity.Account.ID, identity.App.ID, identity.Key.ID
	info.Account = accountmetrics.Account{ID: identity.Account.ID, Namespace: identity.Account.Namespace, Name: identity.Account.Name}
	return identity, nil
}

// authenticate checks the credential, by the schemes that the route accepts.
func (a *Authenticator) authenticate(r *http.Request) (Identity, error) {
	if route := chi.RouteContext(r.Context()).RoutePattern(); AcceptsSignature(route) {
		return a.authenticateUpload(r.Context(), r.Header, continues(route))
	}
	return a.authenticateOwner(r.Context(), r.Header)
}

// hasBearer reports whether the request carries an access token.
func hasBearer(header http.Header) bool {
	return slices.ContainsFunc(header.Values("Authorization"), func(value string) bool {
		scheme, _, _ := strings.Cut(value, " ")
		return strings.EqualFold(scheme, "Bearer")
	})
}

// authenticateUpload accepts an upload signature, or the credential of an owner. continues is set for a
// route of an upload that exists.
func (a *Authenticator) authenticateUpload(ctx context.Context, header http.Header, continues bool) (Identity, error) {
	signatures := header.Values(a.SignatureHeader)
	switch {
	case len(signatures) == 0 || len(signatures) == 1 && signatures[0] == "":
		return a.authenticateOwner(ctx, header)
	case len(signatures) > 1 || header.Get(a.KeyHeader) != "" || hasBearer(header):
		return Identity{}, failedSeveral.fault(fault.Invalid, "send exactly one credential: %s or %s", a.KeyHeader, a.SignatureHeader)
	}
	return a.authenticateSignature(ctx, signatures[0], continues)
}

// authenticateOwner accepts the credentials of an account's owner: an API key or an access
// token. An upload signature beside one is rejected, also where none is accepted: the caller confuses who it acts for.
func (a *Authenticator) authenticateOwner(ctx context.Context, header http.Header) (Identity, error) {
	keys, tokens := header.Values(a.KeyHeader), header.Values("Authorization")
	signed := slices.ContainsFunc(header.Values(a.SignatureHeader), func(value string) bool { return value != "" })
	switch {
	case signed && (header.Get(a.KeyHeader) != "" || hasBearer(header)):
		return Identity{}, failedSeveral.fault(fault.Invalid, "send exactly one credential: %s is for uploads, without another one", a.SignatureHeader)
	case len(keys) > 1 || hasBearer(header) && (len(tokens) > 1 || len(keys) == 1 && keys[0] != ""):
		return Identity{}, failedSeveral.fault(fault.Invalid, "send exactly one credential")
	case hasBearer(header):
		return a.authenticateBearer(ctx, tokens[0])
	case (len(keys) == 0 || keys[0] == "") && a.cfg.MetadataURL != "":
		return Identity{}, failedMissing.fault(fault.Unauthenticated, "send an API key in %s, or an access token: WWW-Authenticate names the login", a.KeyHeader)
	case len(keys) == 0 || keys[0] == "":
		return Identity{}, failedMissing.fault(fault.Unauthenticated, "send an API key in %s", a.KeyHeader)
	}
	return a.authenticateAPIKey(ctx, keys[0])
}

func (a *Authenticator) authenticateAPIKey(ctx context.Context, received string) (Identity, error) {
	const public = "invalid API key"
	token, ok := account.ParseKeySecret(received)
	if !ok {
		return Identity{}, failedInvalidKey.fault(fault.Unauthenticated, public)
	}
	hash := token.Hash()
	session, err := a.lookupGuessable(ctx, cacheKey{hash: hash})
	if fault.Is(err, fault.NotFound) || err == nil && !session.Key.Hash.Equal(hash) {
		return Identity{}, failedInvalidKey.fault(fault.Unauthenticated, public)
	}
	if err != nil {
		return Identity{}, err
	}
	return Identity{Principal: session.Principal, Scopes: oauth.Scopes()}, a.validateSession(session, public)
}

// authenticateBearer accepts an access token that was issued for this resource.
func (a *Authenticator) authenticateBearer(ctx context.Context, received string) (Identity, error) {
	const public = "invalid or expired access token"
	rejected := failedInvalidToken.fault(fault.Unauthenticated, public)
	_, token, _ := strings.Cut(received, " ")
	token = strings.TrimLeft(token, " ")
	if strings.HasPrefix(token, account.KeyPrefix) {
		return Identity{}, failedKeyAsToken.fault(fault.Unauthenticated, "an API key is not an access token: send it in %s", a.KeyHeader)
	}
	if a.cfg.Resource == "" {
		return Identity{}, failedTokenDisabled.fault(fault.Unauthenticated, "bearer tokens are not accepted: send an API key in %s", a.KeyHeader)
	}
	hash, ok := oauth.AccessTokenHash(a.tokens, token)
	if !ok {
		return Identity{}, rejected
	}
	session, err := a.lookup(ctx, cacheKey{hash: hash, login: true}) // the MAC is valid, so it is not a guess
	if fault.Is(err, fault.NotFound) || err == nil && session.Resource != a.cfg.Resource {
		return Identity{}, rejected
	}
	if err != nil {
		return Identity{}, err
	}
	// A body that began while the token was valid may outlast it.
	if !a.authenticatedAtWithin(ctx, expiryGrace).Before(session.ExpiresAt) {
		return Identity{}, failedExpiredToken.fault(fault.Unauthenticated, public)
	}
	return Identity{Principal: session.Principal, Scopes: session.Scopes, GrantID: session.GrantID}.Guarded(), a.validateSession(session, public)
}

// authenticateSignature accepts an upload signature while it is valid and the credential
// that created it is: the key, or the login with its permission to upload. A capability that has expired
// still continues what began with it, until that expires.
func (a *Authenticator) authenticateSignature(ctx context.Context, signature string, continues bool) (Identity, error) {
	public, expired := "invalid upload signature", "the upload signature has expired"
	claims, ok := decodeSignature(a.store.Cell(), a.signer, signature)
	if ok && claims.capability != nil && claims.capability.Requested { // its holder has the address of a request, and no signature
		public, expired = "this address is not valid anymore: the application that asked for the file has lost its access", "this address has expired: ask for a new one"
	}
	rejected := failedInvalidSignature.fault(fault.InvalidSignature, "%s", public)
	if !ok {
		return Identity{}, rejected
	}
	if !a.authenticatedAt(ctx).Before(claims.expires) && (claims.capability == nil || !continues) {
		return Identity{}, failedExpiredSignature.fault(fault.InvalidSignature, "%s", expired)
	}
	key := cacheKey{id: claims.keyID}
	if claims.grantID != uuid.Nil {
		key = cacheKey{id: claims.grantID, login: true}
	}
	session, err := a.lookupGuessable(ctx, key)
	switch {
	case fault.Is(err, fault.NotFound):
		return Identity{}, rejected
	case err != nil:
		return Identity{}, err
	case !claims.matches(session) || a.validateSession(session, public) != nil:
		return Identity{}, rejected
	case claims.capability != nil && claims.capability.Requested:
		if !mayHandOver(session) {
			return Identity{}, rejected
		}
	case claims.grantID != uuid.Nil && !mayUpload(session):
		return Identity{}, rejected
	}
	switch {
	case !claims.maySeal(session):
		return Identity{}, NotAllowed(account.SealMedia)
	case claims.capability != nil && claims.capability.Seal && claims.capability.Access != media.Private && claims.guarded(session.Principal).Guard.Publishes() != nil:
		return Identity{}, errPublishingSignature // of before the account wanted to be asked
	}
	by := session.Actor
	by.Kind = account.ActorCapability
	return Identity{Principal: claims.guarded(session.By(by)), Signed: true, Group: claims.group, Capability: claims.capability}, nil
}

// guarded returns the principal of uploads with a signature, which count as those of the connection that has created it.
func (c claims) guarded(p account.Principal) account.Principal {
	switch {
	case c.grantID != uuid.Nil:
		return p.AsConnection(account.ConnectionOfGrant(c.grantID))
	case c.assistant:
		return p.AsConnection(account.ConnectionOfKey(c.keyID))
	}
	return p
}

// mayUpload reports whether a login permits uploads.
func mayUpload(session oauth.Session) bool {
	return slices.Contains(session.Scopes, ScopeWrite) && session.Account.ToolPolicy.Allows(account.UploadMedia)
}

// maySeal reports whether the tool policy, as it is now, allows a signature to seal its uploads. A
// signature that a key created by REST is not limited.
func (c claims) maySeal(session oauth.Session) bool {
	return c.capability == nil || !c.capability.Seal || c.grantID == uuid.Nil && !c.assistant || session.Account.ToolPolicy.Allows(account.SealMedia)
}

// lookupGuessable is lookup for credentials that could be guessed. A client with too many
// wrong credentials is rejected without a look-up. A credential that was valid at its last
// look-up is exempt, so that guesses do not lock out others behind the same IP address.
func (a *Authenticator) lookupGuessable(ctx context.Context, key cacheKey) (oauth.Session, error) {
	if !a.sessions.wasValid(key) {
		if decision := a.limits.AllowAttempt(httpapi.FromContext(ctx).ClientIP); decision.Limited {
			a.failures.WithLabelValues(failedLimited.reason).Inc()
			return oauth.Session{}, decision.Err()
		}
	}
	return a.lookup(ctx, key)
}

// lookup returns the session of a credential. Only the first check of a request uses the
// cache; see Reauthenticate.
func (a *Authenticator) lookup(ctx context.Context, key cacheKey) (oauth.Session, error) {
	if fromContext(ctx) != nil {
		return a.sessions.reload(ctx, key)
	}
	return a.sessions.get(ctx, key)
}

// validateSession rejects a session whose key or account has ended, with the text public, or whose
// account is suspended.
func (a *Authenticator) validateSession(session oauth.Session, public string) error {
	switch {
	case isRevoked(session, a.now()):
		return failedRevoked.fault(fault.Unauthenticated, "%s", public)
	case session.Account.Suspended:
		return failedSuspended.fault(fault.Unauthenticated, "the account is suspended")
	}
	return nil
}

// isRevoked reports whether the key has expired or the account is closed.
func isRevoked(s oauth.Session, now time.Time) bool {
	return s.Account.ClosedAt != nil || s.Key.ExpiresAt != nil && !now.Before(*s.Key.ExpiresAt)
}
