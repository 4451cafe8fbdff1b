// Package oauth implements the rules of the authorization server (RFC 6749 with the
// restrictions of OAuth 2.1): login sessions with one-time codes by e-mail, consent, grants
// and tokens. It is independent of HTTP and of the database: internal/oauthhttp provides
// the endpoints and pages, and postgres implements Store, so that any replica can serve
// any step of a login.
package oauth

import (
	"log/slog"
	"strings"
	"time"

	"mediastack.dev/runtime/account"
)

// Scope is an OAuth scope: a part of the permissions of an account.
type Scope string

// The scopes. An API key has all; the user consents to those of a grant.
const (
	ScopeRead   Scope = "media:read"
	ScopeWrite  Scope = "media:write"
	ScopeDelete Scope = "media:delete"
)

// Scopes returns all scopes, in the order in which they are shown.
func Scopes() []Scope { return []Scope{ScopeRead, ScopeWrite, ScopeDelete} }

// ScopeOf returns the scope that an operation requires.
func ScopeOf(operation account.Operation) Scope {
	switch operation.Access() {
	case account.Reading:
		return ScopeRead
	case account.Deleting:
		return ScopeDelete
	case account.Writing:
	}
	return ScopeWrite
}

// JoinScopes returns the value of a scope parameter (RFC 6749, section 3.3).
func JoinScopes(scopes []Scope) string {
	names := make([]string, len(scopes))
	for i, scope := range scopes {
		names[i] = string(scope)
	}
	return strings.Join(names, " ")
}

// Signer creates and verifies MACs. keys.Signer implements it.
type Signer interface {
	Sign(message []byte) []byte
	Verify(message, mac []byte) bool
}

// Encrypter encrypts data that must be readable later. keys.Encrypter implements it.
type Encrypter interface {
	Encrypt(plain []byte) []byte
	Decrypt(encrypted []byte) ([]byte, error)
}

// Deps are the dependencies of a Service.
type Deps struct {
	Store     Store
	Signer    Signer
	Encrypter Encrypter
	// EmailQueued is called after a task of EmailWork was added; nil = it is found later.
	EmailQueued func()
	Now         func() time.Time
	Log         *slog.Logger
}

// Service applies the rules. It is safe for concurrent use.
type Service struct {
	Deps
	cfg     Config
	review  map[string]reviewLogin // by address
	metrics metrics
}

// NewService returns a Service that uses deps.
func NewService(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	review, err := parseReviewLogins(cfg.ReviewLogins)
	if err != nil {
		return nil, err
	}
	for _, login := range review {
		deps.Log.Warn("an account has a fixed login code", "account", login.account)
	}
	return &Service{Deps: deps, cfg: cfg, review: review, metrics: newMetrics()}, nil
}

// mac returns the MAC of a list of strings. They must not contain zero bytes.
func (s *Service) mac(parts ...string) []byte { return s.Signer.Sign(macInput(parts...)) }

// verifyMAC reports whether mac is the MAC of a list of strings.
func (s *Service) verifyMAC(mac []byte, parts ...string) bool {
	return s.Signer.Verify(macInput(parts...), mac)
}

// macInput encodes a list of strings unambiguously.
func macInput(parts ...string) []byte {
	var message []byte
	for _, part := range parts {
		message = append(append(message, part...), 0)
	}
	return message
}
