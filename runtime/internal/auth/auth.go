// Package auth authenticates HTTP requests: API keys and access tokens on every route,
// upload signatures on the upload routes. Packages rest, tus and mcp mount its middleware,
// which checks the credential before the request and again at the end of its body.
package auth

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/internal/accountcache"
	"mediastack.dev/runtime/internal/origin"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
)

// CredentialStore finds the principals of credentials. Package postgres implements it. It
// returns NotFound for a key that does not exist, was revoked with its app or belongs to a
// closed account.
type CredentialStore interface {
	// Cell returns the number of the installation, which upload signatures contain.
	Cell() cell.Number
	FindPrincipal(ctx context.Context, hash account.Hash) (account.Principal, error)
	FindPrincipalByKeyID(ctx context.Context, id uuid.UUID) (account.Principal, error)
	// FindSession returns the session of an access token. It returns NotFound also if the
	// token's grant was revoked, or its user is no longer an owner of the account.
	FindSession(ctx context.Context, hash account.Hash) (oauth.Session, error)
	// FindSessionOfGrant returns the session of a grant, for an upload signature that was
	// created by a login.
	FindSessionOfGrant(ctx context.Context, id uuid.UUID) (oauth.Session, error)
	// TouchKeys records when keys were last used, and TouchGrants when grants were, and how often.
	TouchKeys(ctx context.Context, used map[uuid.UUID]account.Use) error
	TouchGrants(ctx context.Context, used map[uuid.UUID]account.Use) error
}

// Scope is an OAuth scope.
type Scope = oauth.Scope

// The scopes. An API key has all; the user consents to those of a login.
const (
	ScopeRead   = oauth.ScopeRead
	ScopeWrite  = oauth.ScopeWrite
	ScopeDelete = oauth.ScopeDelete
)

// Identity is an authenticated caller: the principal that it acts for, and what its
// credential permits.
type Identity struct {
	account.Principal
	// Scopes are those of the credential. An upload signature has none: Signed and Group
	// describe what it permits.
	Scopes []Scope
	// GrantID is the grant of the access token that was sent; zero for other credentials.
	GrantID uuid.UUID
	// Assistant is set for a request at MCP, where the tool policy of the account limits keys, too.
	Assistant bool
	// Signed is set for an upload signature: its holder may upload, but is not the owner of
	// the account.
	Signed bool
	// Group is the group that the upload signature is bound to; empty = not bound.
	Group string
	// Capability is what the upload signature permits if it is a capability; then Group is empty. It
	// may have expired on the routes of an upload that exists: see Capability.Is.
	Capability *upload.Capability
}

// HasScope reports whether the credential has a scope.
func (i Identity) HasScope(scope Scope) bool { return slices.Contains(i.Scopes, scope) }

// Guarded returns the identity with what its changes have to pass, if the tool policy of the account limits it.
func (i Identity) Guarded() Identity {
	switch {
	case i.GrantID != uuid.Nil:
		i.Principal = i.AsConnection(account.ConnectionOfGrant(i.GrantID))
	case i.Assistant:
		i.Principal = i.AsConnection(account.ConnectionOfKey(i.Key.ID))
	}
	return i
}

// underToolPolicy reports whether the tool policy of the account limits the caller.
func (i Identity) underToolPolicy() bool { return i.GrantID != uuid.Nil || i.Assistant }

// Authenticator checks credentials. It is safe for concurrent use.
type Authenticator struct {
	cfg       Config
	sessions  *sessionCache
	keyUses   *lastUsedRecorder
	grantUses *lastUsedRecorder
	store     CredentialStore
	signer    *keys.Signer // of upload signatures
	tokens    *keys.Signer // of access tokens
	limits    *ratelimit.Limiter
	writable  func() error
	settings  Settings
	origins   *origin.Policy
	now       func() time.Time
	log       *slog.Logger
	failures  *prometheus.CounterVec

	// KeyHeader and SignatureHeader are the names of the headers, brand included.
	KeyHeader, SignatureHeader string
}

// Settings returns the settings of an account, whose pins may limit upload signatures.
type Settings interface {
	Get(ctx context.Context, accountID uuid.UUID) (settings.Layers, error)
}

// Deps are the dependencies of an Authenticator.
type Deps struct {
	Store CredentialStore
	// Limits count requests by key and wrong credentials by client; nil = no limits.
	Limits *ratelimit.Limiter
	// Settings have the ceilings of upload signatures; nil = there are none.
	Settings Settings
	// Writable returns an error while nothing may be changed; nil = always writable.
	Writable func() error
	// Origins are the web origins whose pages may call; nil = any, for every account.
	Origins *origin.Policy
	Now     func() time.Time
	Log     *slog.Logger
}

// New returns an Authenticator that uses deps.
func New(cfg Config, deps Deps) (*Authenticator, error) {
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
		cfg: cfg, sessions: newSessionCache(deps.Store, cfg.KeyCacheTTL, deps.Now),
		keyUses: newLastUsedRecorder(deps.Store.TouchKeys), grantUses: newLastUsedRecorder(deps.Store.TouchGrants), store: deps.Store,
		signer: signer, tokens: tokens, limits: deps.Limits, writable: deps.Writable, settings: deps.Settings, origins: deps.Origins, now: deps.Now, log: deps.Log, failures: newFailures(),
		KeyHeader: "x-" + cfg.Brand + "-apikey", SignatureHeader: "x-" + cfg.Brand + "-signature",
	}, nil
}

// Run records when keys and grants were last used, until ctx ends.
func (a *Authenticator) Run(ctx context.Context) {
	var flushed sync.WaitGroup
	flushed.Go(func() { a.keyUses.run(ctx, a.log) })
	flushed.Go(func() { a.grantUses.run(ctx, a.log) })
	flushed.Wait()
}

// Sessions returns the cache of sessions, for the feed that invalidates it.
func (a *Authenticator) Sessions() accountcache.Cache { return a.sessions }
