// Package auth turns the credentials of a request into an account.Principal: API
// keys and access tokens everywhere, upload signatures where a route takes them. It also holds the
// server secret that signatures and delivery addresses are made with. Package rest
// puts its middleware in front of routes; package server runs its listener.
package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/limit"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/oauth"
)

// Config is what authentication needs. The tags are flag and environment names.
type Config struct {
	Secret         string        `env:"SERVICE_SECRET" required:"" help:"Server secret, at least 32 bytes in hexadecimal or base64 (prefer the environment over the flag)."`
	SecretPrevious string        `env:"SERVICE_SECRET_PREVIOUS" help:"The secret before this one: still accepted, never signed with."`
	SignatureTTL   time.Duration `env:"SERVICE_SIGNATURE_TTL" default:"1h" help:"How long an upload signature is valid."`
	KeyCacheTTL    time.Duration `env:"SERVICE_KEY_CACHE_TTL" default:"60s" help:"How long a key is remembered at most; changes end it at once."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if _, err := c.ServerSecret(); err != nil {
		return err
	}
	if c.SignatureTTL < time.Second || c.SignatureTTL > 7*24*time.Hour {
		return fmt.Errorf("SERVICE_SIGNATURE_TTL must be from 1s to 168h, not %s", c.SignatureTTL)
	}
	if c.KeyCacheTTL < 0 || c.KeyCacheTTL > time.Hour {
		return fmt.Errorf("SERVICE_KEY_CACHE_TTL must be from 0s to 1h, not %s", c.KeyCacheTTL)
	}
	return nil
}

// ServerSecret reads the secrets.
func (c Config) ServerSecret() (keys.Secret, error) {
	return keys.ParseSecret(c.Secret, c.SecretPrevious)
}

// Directory knows principals. postgres.Store implements it. A key that does not
// exist, was revoked with its app or belongs to a closed account is NotFound.
type Directory interface {
	FindPrincipal(ctx context.Context, hash account.Hash) (account.Principal, error)
	FindPrincipalByKeyID(ctx context.Context, id uuid.UUID) (account.Principal, error)
	// FindSession returns who an access token stands for. NotFound also when its grant was
	// revoked, or the person is no longer an owner of the account.
	FindSession(ctx context.Context, hash account.Hash) (oauth.Session, error)
	// FindSessionOfGrant is FindSession for what was made by a login, not for its tokens.
	FindSessionOfGrant(ctx context.Context, id uuid.UUID) (oauth.Session, error)
	// TouchKeys notes when keys were last used, and TouchGrants when grants were.
	TouchKeys(ctx context.Context, used map[uuid.UUID]time.Time) error
	TouchGrants(ctx context.Context, used map[uuid.UUID]time.Time) error
	// Listen runs until ctx ends. onConnect is called when changes are told from then
	// on, onChange for every change of an account, onLost when changes are missed.
	Listen(ctx context.Context, onConnect func(), onChange func(accountID uuid.UUID), onLost func(error)) error
}

// Scope is a part of what credentials permit, in the words of OAuth.
type Scope = oauth.Scope

// The scopes. An API key has both; what a login has, its owner consents to.
const (
	ScopeRead  = oauth.ScopeRead
	ScopeWrite = oauth.ScopeWrite
)

// Grant is what a request may do.
type Grant struct {
	account.Principal
	// Scopes are what the credential permits. An upload signature has none: what it
	// permits, Signed and Group say.
	Scopes []Scope
	// GrantID is that of the login whose access token was sent; zero for other credentials.
	GrantID uuid.UUID
	// Signed is set when an upload signature stands for the key: whoever sends it may
	// upload, and is not the account's owner.
	Signed bool
	// Group binds an upload that came by signature; empty = not bound.
	Group string
}

// Permits reports whether the credential has a scope.
func (g Grant) Permits(scope Scope) bool { return slices.Contains(g.Scopes, scope) }

type grantKey struct{}

// Of returns the grant of a request that passed the middleware.
func Of(ctx context.Context) Grant {
	grant, _ := ctx.Value(grantKey{}).(Grant)
	return grant
}

// Authenticator checks credentials. It is safe for concurrent use.
type Authenticator struct {
	keys         *keyring
	keyUses      *uses
	grantUses    *uses
	directory    Directory
	signer       *keys.Signer // of upload signatures
	tokens       *keys.Signer // of access tokens
	signatureTTL time.Duration
	limits       *limit.Limiter
	now          func() time.Time
	log          *slog.Logger

	// KeyHeader and SignatureHeader are the names of the headers, brand included.
	KeyHeader, SignatureHeader string

	// Resource is what access tokens must be for (RFC 8707); empty = none is accepted.
	// Set it before the first request.
	Resource string
	// MetadataURL is where clients learn how to log in (RFC 9728); empty = nobody can.
	// Set it before the first request.
	MetadataURL string
}

// New joins the authenticator to its directory and to the limits that keys and wrong
// credentials count against (nil = none). Header names begin with x-<brand>-.
func New(cfg Config, brand string, directory Directory, limits *limit.Limiter, now func() time.Time, log *slog.Logger) (*Authenticator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	secret, err := cfg.ServerSecret()
	if err != nil {
		return nil, err
	}
	signer, err := secret.Signer(keys.PurposeUploadSignature)
	if err != nil {
		return nil, err
	}
	tokens, err := secret.Signer(keys.PurposeOAuth)
	if err != nil {
		return nil, err
	}
	return &Authenticator{
		keys: newKeyring(directory, cfg.KeyCacheTTL, now), keyUses: newUses(directory.TouchKeys), grantUses: newUses(directory.TouchGrants), directory: directory,
		signer: signer, tokens: tokens, signatureTTL: cfg.SignatureTTL, limits: limits, now: now, log: log,
		KeyHeader: "x-" + brand + "-apikey", SignatureHeader: "x-" + brand + "-signature",
	}, nil
}

// Run keeps the remembered keys fresh and writes down when keys and grants were used,
// until ctx ends.
func (a *Authenticator) Run(ctx context.Context) error {
	var flushed sync.WaitGroup
	flushed.Go(func() { a.keyUses.run(ctx, a.log) })
	flushed.Go(func() { a.grantUses.run(ctx, a.log) })
	err := a.directory.Listen(ctx, func() { _ = a.keys.reset(true) }, a.keys.changed, func(cause error) {
		if a.keys.lost() { // once, not for every attempt to come back
			a.log.WarnContext(ctx, "account changes are not heard: every request's key is looked up", "error", cause)
		}
	})
	_ = a.keys.lost()
	flushed.Wait()
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// UploadRoute is the specification's upload, and ResumableRoute the TUS uploads: what
// lies below it belongs to it.
const (
	UploadRoute    = httpapi.UploadRoute
	ResumableRoute = UploadRoute + "/resumable"
)

// TakesSignature is the one place that says on which routes an upload signature is a
// credential. route is a pattern of the router.
func TakesSignature(route string) bool {
	return route == UploadRoute || route == ResumableRoute || strings.HasPrefix(route, ResumableRoute+"/")
}

// Require lets requests through that have an API key or an access token, or an upload
// signature where the route takes one; and those only as often as the limits allow. Put
// it behind the router's choice of the route.
func (a *Authenticator) Require(next http.Handler) http.Handler {
	return a.require(func(sent http.Header) string {
		challenge := a.keyChallenge()
		if a.MetadataURL != "" {
			challenge += ", " + a.bearerChallenge(sent)
		}
		return challenge
	}, next)
}

// RequireLogin is Require for a resource whose clients log in: who is refused is told
// only of that, if anybody can.
func (a *Authenticator) RequireLogin(next http.Handler) http.Handler {
	return a.require(func(sent http.Header) string {
		if a.MetadataURL == "" {
			return a.keyChallenge()
		}
		return a.bearerChallenge(sent)
	}, next)
}

func (a *Authenticator) keyChallenge() string {
	return `ApiKey realm="media", header="` + a.KeyHeader + `"`
}

// bothScopes is what a client is asked to ask for: with less it would be sent back to
// its person in the middle of its work.
const bothScopes = string(ScopeRead + " " + ScopeWrite)

// bearerChallenge says where the metadata of the resource is (RFC 9728), and which
// scopes there are.
func (a *Authenticator) bearerChallenge(sent http.Header) string {
	challenge := `Bearer resource_metadata="` + a.MetadataURL + `", scope="` + bothScopes + `"`
	if bearer(sent) {
		challenge += `, error="invalid_token"`
	}
	return challenge
}

// Need is what a request needs besides a credential.
type Need struct {
	// Tool is the tool by which assistants do the same. An account's leash knows tools
	// only, and holds for whatever its owners connected, whichever way it comes.
	Tool string
	// Reads is set when nothing is changed.
	Reads bool
}

type needKey struct{}

// uploadTool is the tool that does what an upload signature permits.
const uploadTool = "upload_media"

// Demanding lets requests through whose credential permits what they need. Put it behind
// Require.
func (a *Authenticator) Demanding(needs func(r *http.Request) Need) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			need := needs(r)
			if err := a.permit(w, Of(r.Context()), need); err != nil {
				httpapi.Fail(w, r, err)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), needKey{}, need)))
		})
	}
}

func (a *Authenticator) permit(w http.ResponseWriter, grant Grant, need Need) error {
	scope := ScopeWrite
	if need.Reads {
		scope = ScopeRead
	}
	if err := a.Demand(w, grant, scope); err != nil {
		return err
	}
	if grant.GrantID != uuid.Nil && !grant.Account.Agents.Permit(need.Tool, need.Reads) {
		return fault.New(fault.Forbidden, "this account does not let connected applications use %s", need.Tool)
	}
	return nil
}

// Demand refuses a credential that lacks a scope (RFC 6750, section 3.1), and leaves the
// challenge in w. An upload signature has no scopes, and passes no route but those that
// take it.
func (a *Authenticator) Demand(w http.ResponseWriter, grant Grant, scope Scope) error {
	if grant.Signed || grant.Permits(scope) {
		return nil
	}
	w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+bothScopes+`", resource_metadata="`+a.MetadataURL+`"`)
	return fault.New(fault.Forbidden, "the connection may not do this: it lacks the scope %s", scope)
}

func (a *Authenticator) require(challenge func(sent http.Header) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grant, err := a.Check(r)
		if fault.Is(err, fault.Unauthenticated) {
			w.Header().Set("WWW-Authenticate", challenge(r.Header))
		}
		if err == nil {
			decision := a.limits.AllowKey(grant.Key.ID)
			decision.AddHeaders(w.Header())
			err = decision.Err()
		}
		if err != nil {
			httpapi.Fail(w, r, err)
			return
		}
		a.keyUses.note(grant.Key.ID, a.now())
		if grant.GrantID != uuid.Nil {
			a.grantUses.note(grant.GrantID, a.now())
		}
		next.ServeHTTP(w, a.admit(r, grant, challenge))
	})
}

// Check returns what the request's credential permits, and notes in the record who
// asks. Credentials that are wrong count against the address that sent them.
func (a *Authenticator) Check(r *http.Request) (Grant, error) {
	record := httpapi.Of(r.Context())
	grant, err := a.credential(r)
	wrong := fault.Is(err, fault.Unauthenticated) && a.sent(r.Header) && !errors.Is(err, errNoGuess)
	if wrong || fault.Is(err, fault.InvalidSignature) {
		a.limits.RecordFailure(record.Address)
	}
	if err != nil {
		return Grant{}, err
	}
	record.AccountID, record.AppID, record.KeyID = grant.Account.ID, grant.App.ID, grant.Key.ID
	return grant, nil
}

// credential returns what the request's credential permits, by the kinds that the route takes.
func (a *Authenticator) credential(r *http.Request) (Grant, error) {
	if TakesSignature(chi.RouteContext(r.Context()).RoutePattern()) {
		return a.byEither(r.Context(), r.Header)
	}
	return a.byOwner(r.Context(), r.Header)
}

// sent reports whether there is a credential at all: a request without any guesses nothing.
func (a *Authenticator) sent(header http.Header) bool {
	return header.Get(a.KeyHeader) != "" || bearer(header)
}

// byEither accepts an upload signature, too.
func (a *Authenticator) byEither(ctx context.Context, header http.Header) (Grant, error) {
	signatures := header.Values(a.SignatureHeader)
	switch {
	case len(signatures) == 0 || len(signatures) == 1 && signatures[0] == "":
		return a.byOwner(ctx, header)
	case len(signatures) > 1 || header.Get(a.KeyHeader) != "" || bearer(header):
		return Grant{}, fault.New(fault.Invalid, "send one credential: %s or %s", a.KeyHeader, a.SignatureHeader)
	}
	return a.bySignature(ctx, signatures[0])
}

// find looks a credential up. An address whose credentials were wrong too often is
// refused before that; but one that was good when it was looked up last is looked up
// again, so that a stranger's guesses shut nobody out who comes from the same address.
func (a *Authenticator) find(ctx context.Context, what lookup) (oauth.Session, error) {
	if !a.keys.wasGood(what) {
		if decision := a.limits.AllowAttempt(httpapi.Of(ctx).Address); decision.Limited {
			return oauth.Session{}, decision.Err()
		}
	}
	return a.session(ctx, what)
}

// session returns the session of a credential. Only the first check of a request uses the
// cache; see Again.
func (a *Authenticator) session(ctx context.Context, what lookup) (oauth.Session, error) {
	if _, again := ctx.Value(admissionKey{}).(admission); again {
		return a.keys.reload(ctx, what)
	}
	return a.keys.find(ctx, what)
}

// bearer reports whether the request carries an access token.
func bearer(header http.Header) bool {
	return slices.ContainsFunc(header.Values("Authorization"), func(value string) bool {
		scheme, _, _ := strings.Cut(value, " ")
		return strings.EqualFold(scheme, "Bearer")
	})
}

// byOwner accepts what the owner of an account has: an API key or an access token.
func (a *Authenticator) byOwner(ctx context.Context, header http.Header) (Grant, error) {
	keys, tokens := header.Values(a.KeyHeader), header.Values("Authorization")
	switch {
	case len(keys) > 1 || bearer(header) && (len(tokens) > 1 || len(keys) == 1 && keys[0] != ""):
		return Grant{}, fault.New(fault.Invalid, "send one credential, once")
	case bearer(header):
		return a.byToken(ctx, tokens[0])
	case (len(keys) == 0 || keys[0] == "") && a.MetadataURL != "":
		return Grant{}, fault.New(fault.Unauthenticated, "send an API key in %s, or an access token: WWW-Authenticate says where to log in", a.KeyHeader)
	case len(keys) == 0 || keys[0] == "":
		return Grant{}, fault.New(fault.Unauthenticated, "send an API key in %s", a.KeyHeader)
	}
	return a.byKey(ctx, keys[0])
}

func (a *Authenticator) byKey(ctx context.Context, sent string) (Grant, error) {
	refused := fault.New(fault.Unauthenticated, "the API key is not accepted")
	token, ok := account.ParseToken(sent)
	if !ok {
		return Grant{}, refused
	}
	hash := token.Hash()
	session, err := a.find(ctx, lookup{hash: hash})
	if fault.Is(err, fault.NotFound) || err == nil && !session.Key.Hash.Equal(hash) {
		return Grant{}, refused
	}
	if err != nil {
		return Grant{}, err
	}
	return Grant{Principal: session.Principal, Scopes: []Scope{ScopeRead, ScopeWrite}}, a.judge(session, refused)
}

// byToken accepts an access token that is for this resource.
func (a *Authenticator) byToken(ctx context.Context, sent string) (Grant, error) {
	refused := fault.New(fault.Unauthenticated, "the access token is not accepted, or has expired")
	if a.Resource == "" {
		return Grant{}, fault.New(fault.Unauthenticated, "bearer tokens are not accepted: send an API key in %s", a.KeyHeader)
	}
	_, token, _ := strings.Cut(sent, " ")
	hash, ok := oauth.AccessTokenHash(a.tokens, strings.TrimLeft(token, " "))
	if !ok {
		return Grant{}, noGuess(refused)
	}
	session, err := a.session(ctx, lookup{hash: hash, token: true}) // it is one of ours: no guesses to count
	if fault.Is(err, fault.NotFound) || err == nil && session.Resource != a.Resource {
		return Grant{}, noGuess(refused)
	}
	if err != nil {
		return Grant{}, err
	}
	// What was sent while the token was valid may take longer than the token has left.
	if !a.askedWithin(ctx, patience).Before(session.ExpiresAt) {
		return Grant{}, noGuess(refused)
	}
	return Grant{Principal: session.Principal, Scopes: session.Scopes, GrantID: session.GrantID}, a.judge(session, refused)
}

// judge refuses those whose key or account ended, and whose account serves nobody.
func (a *Authenticator) judge(session oauth.Session, refused error) error {
	switch {
	case ended(session, a.now()):
		return noGuess(refused)
	case session.Account.Suspended:
		return noGuess(fault.New(fault.Unauthenticated, "the account is suspended"))
	}
	return nil
}

// errNoGuess is within a refusal that does not count against the address: of credentials
// that were real once, and of access tokens that nobody could guess. Hosted applications,
// thousands of them at one address, use each token once more after its hour, and any of
// them may send what it likes.
var errNoGuess = errors.New("no guess")

func noGuess(refused error) error {
	return fault.Wrap(errNoGuess, fault.From(refused).Kind, "%s", fault.From(refused).Public)
}

// ended reports whether a key's time, or its account's, is over for good.
func ended(s oauth.Session, now time.Time) bool {
	return s.Account.ClosedAt != nil || s.Key.ExpiresAt != nil && !now.Before(*s.Key.ExpiresAt)
}

// Sign makes an upload signature for the grant's app, bound to group unless it is empty.
// It ends with what it was made with: the key, or the login.
func (a *Authenticator) Sign(grant Grant, group string) string {
	return encodeSignature(a.signer, claimsOf(grant, a.now().Add(a.signatureTTL), group))
}

// bySignature accepts an upload signature while it is valid and what made it is, too: the
// key, or the login with all that it permits.
func (a *Authenticator) bySignature(ctx context.Context, signature string) (Grant, error) {
	refused := fault.New(fault.InvalidSignature, "the upload signature is not accepted")
	claims, ok := decodeSignature(a.signer, signature)
	if !ok {
		return Grant{}, refused
	}
	if !a.asked(ctx).Before(claims.expires) {
		return Grant{}, fault.New(fault.InvalidSignature, "the upload signature has expired")
	}
	what := lookup{id: claims.keyID}
	if claims.grantID != uuid.Nil {
		what = lookup{id: claims.grantID, token: true}
	}
	session, err := a.find(ctx, what)
	switch {
	case fault.Is(err, fault.NotFound):
		return Grant{}, refused
	case err != nil:
		return Grant{}, err
	case !claims.belongTo(session) || a.judge(session, refused) != nil:
		return Grant{}, refused
	case claims.grantID != uuid.Nil && (!slices.Contains(session.Scopes, ScopeWrite) || !session.Account.Agents.Permit(uploadTool, false)):
		return Grant{}, refused
	}
	return Grant{Principal: session.Principal, Signed: true, Group: claims.group}, nil
}
