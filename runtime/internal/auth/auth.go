// Package auth turns the credentials of a request into an account.Principal: API
// keys everywhere, upload signatures where a route takes them. It also holds the
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
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/exchange"
	"mediastack.dev/runtime/internal/limit"
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
func (c Config) ServerSecret() (Secret, error) { return ParseSecret(c.Secret, c.SecretPrevious) }

// Directory knows principals. postgres.Store implements it. A key that does not
// exist, was revoked with its app or belongs to a closed account is NotFound.
type Directory interface {
	FindPrincipal(ctx context.Context, hash account.Hash) (account.Principal, error)
	FindPrincipalByKeyID(ctx context.Context, id uuid.UUID) (account.Principal, error)
	// TouchKeys notes when keys were last used.
	TouchKeys(ctx context.Context, used map[uuid.UUID]time.Time) error
	// Listen runs until ctx ends. onConnect is called when changes are told from then
	// on, onChange for every change of an account, onLost when changes are missed.
	Listen(ctx context.Context, onConnect func(), onChange func(accountID uuid.UUID), onLost func(error)) error
}

// Scope is a part of what credentials permit, in the words of OAuth.
type Scope string

// The scopes. An API key has both; what an OAuth login has, its owner consents to.
const (
	ScopeRead  Scope = "media:read"
	ScopeWrite Scope = "media:write"
)

// Grant is what a request may do.
type Grant struct {
	account.Principal
	// Scopes are what the credential permits. An upload signature has none: what it
	// permits, Signed and Group say.
	Scopes []Scope
	// Signed is set when an upload signature stands for the key: whoever sends it may
	// upload, and is not the account's owner.
	Signed bool
	// Group binds an upload that came by signature; empty = not bound.
	Group string
}

// Permits tells whether the credential has a scope.
func (g Grant) Permits(scope Scope) bool { return slices.Contains(g.Scopes, scope) }

type grantKey struct{}

// Of gives the grant of a request that passed the middleware.
func Of(ctx context.Context) Grant {
	grant, _ := ctx.Value(grantKey{}).(Grant)
	return grant
}

// Authenticator checks credentials. It is safe for concurrent use.
type Authenticator struct {
	keys         *keyring
	uses         *uses
	directory    Directory
	signer       *Signer
	signatureTTL time.Duration
	limits       *limit.Limiter
	now          func() time.Time
	log          *slog.Logger

	// KeyHeader and SignatureHeader are the names of the headers, brand included.
	KeyHeader, SignatureHeader string
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
	signer, err := secret.Signer(ForUploads)
	if err != nil {
		return nil, err
	}
	return &Authenticator{
		keys: newKeyring(directory, cfg.KeyCacheTTL, now), uses: newUses(), directory: directory,
		signer: signer, signatureTTL: cfg.SignatureTTL, limits: limits, now: now, log: log,
		KeyHeader: "x-" + brand + "-apikey", SignatureHeader: "x-" + brand + "-signature",
	}, nil
}

// Run keeps the remembered keys fresh and writes down when keys were used, until
// ctx ends.
func (a *Authenticator) Run(ctx context.Context) error {
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		a.uses.run(ctx, a.directory, a.log)
	}()
	err := a.directory.Listen(ctx, func() { _ = a.keys.reset(true) }, a.keys.changed, func(cause error) {
		if a.keys.lost() { // once, not for every attempt to come back
			a.log.WarnContext(ctx, "account changes are not heard: every request's key is looked up", "error", cause)
		}
	})
	_ = a.keys.lost()
	<-flushed
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// UploadRoute is the specification's upload, and ResumableRoute the TUS uploads: what
// lies below it belongs to it.
const (
	UploadRoute    = exchange.UploadRoute
	ResumableRoute = UploadRoute + "/resumable"
)

// TakesSignature is the one place that says on which routes an upload signature is a
// credential. route is a pattern of the router.
func TakesSignature(route string) bool {
	return route == UploadRoute || route == ResumableRoute || strings.HasPrefix(route, ResumableRoute+"/")
}

// Require lets requests through that have an API key, or an upload signature where
// the route takes one; and those only as often as the limits allow. Put it behind the
// router's choice of the route.
func (a *Authenticator) Require(next http.Handler) http.Handler {
	return a.require(func(http.Header) string { return `ApiKey realm="media", header="` + a.KeyHeader + `"` }, next)
}

// RequireFor is Require for a resource that clients log in to: who is refused is told
// where its metadata is (RFC 9728), and which scopes there are.
func (a *Authenticator) RequireFor(metadataURL string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return a.require(func(sent http.Header) string {
			challenge := `Bearer resource_metadata="` + metadataURL + `", scope="` + string(ScopeRead+" "+ScopeWrite) + `"`
			if bearer(sent) {
				challenge += `, error="invalid_token"`
			}
			return challenge
		}, next)
	}
}

func (a *Authenticator) require(challenge func(sent http.Header) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grant, err := a.Check(r)
		if fault.Is(err, fault.Unauthenticated) {
			w.Header().Set("WWW-Authenticate", challenge(r.Header))
		}
		if err == nil {
			verdict := a.limits.TakeKey(grant.Key.ID)
			verdict.Describe(w.Header())
			err = verdict.Err()
		}
		if err != nil {
			exchange.Fail(w, r, err)
			return
		}
		a.uses.note(grant.Key.ID, a.now())
		next.ServeHTTP(w, a.admit(r, grant, challenge))
	})
}

// Check gives what the request's credential permits, and notes in the record who
// asks. Credentials that are wrong count against the address that sent them.
func (a *Authenticator) Check(r *http.Request) (Grant, error) {
	record := exchange.Of(r.Context())
	grant, err := a.credential(r)
	if fault.Is(err, fault.Unauthenticated) && a.sent(r.Header) || fault.Is(err, fault.BadSignature) {
		a.limits.Failed(record.Address)
	}
	if err != nil {
		return Grant{}, err
	}
	record.AccountID, record.AppID, record.KeyID = grant.Account.ID, grant.App.ID, grant.Key.ID
	return grant, nil
}

// credential gives what the request's credential permits, by the kinds that the route takes.
func (a *Authenticator) credential(r *http.Request) (Grant, error) {
	if TakesSignature(chi.RouteContext(r.Context()).RoutePattern()) {
		return a.byEither(r.Context(), r.Header)
	}
	return a.byKey(r.Context(), r.Header)
}

// sent tells whether there is a credential at all: a request without any guesses nothing.
func (a *Authenticator) sent(header http.Header) bool {
	return header.Get(a.KeyHeader) != "" || bearer(header)
}

// byEither accepts an API key or an upload signature.
func (a *Authenticator) byEither(ctx context.Context, header http.Header) (Grant, error) {
	signatures := header.Values(a.SignatureHeader)
	switch {
	case len(signatures) == 0 || len(signatures) == 1 && signatures[0] == "":
		return a.byKey(ctx, header)
	case len(signatures) > 1 || header.Get(a.KeyHeader) != "" || bearer(header):
		return Grant{}, fault.New(fault.Invalid, "send one credential: %s or %s", a.KeyHeader, a.SignatureHeader)
	}
	return a.bySignature(ctx, signatures[0])
}

// find looks a principal up. An address whose credentials were wrong too often is
// refused before that; but a key that was good when it was looked up last is looked up
// again, so that a stranger's guesses shut nobody out who comes from the same address.
func (a *Authenticator) find(ctx context.Context, what lookup) (account.Principal, error) {
	if !a.keys.wasGood(what) {
		if verdict := a.limits.MayFail(exchange.Of(ctx).Address); verdict.Refused {
			return account.Principal{}, verdict.Err()
		}
	}
	return a.keys.find(ctx, what)
}

// bearer tells whether the request carries an OAuth token.
func bearer(header http.Header) bool {
	scheme, _, _ := strings.Cut(header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer")
}

func (a *Authenticator) byKey(ctx context.Context, header http.Header) (Grant, error) {
	sent := header.Values(a.KeyHeader)
	switch {
	case len(sent) > 1 || len(sent) == 1 && sent[0] != "" && bearer(header):
		return Grant{}, fault.New(fault.Invalid, "send one credential, once")
	case bearer(header):
		return Grant{}, fault.New(fault.Unauthenticated, "bearer tokens are not accepted: send an API key in %s", a.KeyHeader)
	case len(sent) == 0 || sent[0] == "":
		return Grant{}, fault.New(fault.Unauthenticated, "send an API key in %s", a.KeyHeader)
	}
	token, ok := account.ParseToken(sent[0])
	if !ok {
		return Grant{}, notAccepted()
	}
	hash := token.Hash()
	principal, err := a.find(ctx, lookup{hash: hash})
	if fault.Is(err, fault.NotFound) || err == nil && !principal.Key.Hash.Equal(hash) {
		return Grant{}, notAccepted()
	}
	if err != nil {
		return Grant{}, err
	}
	return Grant{Principal: principal, Scopes: []Scope{ScopeRead, ScopeWrite}}, a.judge(principal)
}

func notAccepted() error { return fault.New(fault.Unauthenticated, "the API key is not accepted") }

// judge refuses principals whose key ended or whose account serves nobody.
func (a *Authenticator) judge(p account.Principal) error {
	switch {
	case ended(p, a.now()):
		return notAccepted()
	case p.Account.Suspended:
		return fault.New(fault.Unauthenticated, "the account is suspended")
	}
	return nil
}

// ended tells whether a key's time, or its account's, is over for good.
func ended(p account.Principal, now time.Time) bool {
	return p.Account.ClosedAt != nil || p.Key.ExpiresAt != nil && !now.Before(*p.Key.ExpiresAt)
}

// Sign makes an upload signature for the principal's app, bound to group unless it is empty.
func (a *Authenticator) Sign(p account.Principal, group string) string {
	return sealClaims(a.signer, claimsOf(p, a.now().Add(a.signatureTTL), group))
}

// bySignature accepts an upload signature while it is valid and the key that made it is, too.
func (a *Authenticator) bySignature(ctx context.Context, signature string) (Grant, error) {
	refused := fault.New(fault.BadSignature, "the upload signature is not accepted")
	claims, ok := openClaims(a.signer, signature)
	if !ok {
		return Grant{}, refused
	}
	if !a.asked(ctx).Before(claims.expires) {
		return Grant{}, fault.New(fault.BadSignature, "the upload signature has expired")
	}
	principal, err := a.find(ctx, lookup{id: claims.keyID})
	switch {
	case fault.Is(err, fault.NotFound):
		return Grant{}, refused
	case err != nil:
		return Grant{}, err
	case !claims.belongTo(principal) || a.judge(principal) != nil:
		return Grant{}, refused
	}
	return Grant{Principal: principal, Signed: true, Group: claims.group}, nil
}
