package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/keys"
)

// maxRotations bounds the token pairs that one refresh token yields within its grace period.
const maxRotations = 10

// ErrInvalidGrant is in the chain of every error that rejects a code or token of a client
// (invalid_grant, RFC 6749, section 5.2).
var ErrInvalidGrant = errors.New("invalid_grant")

// ErrInvalidScope is in the chain of the error that rejects the scope of a refresh (invalid_scope).
var ErrInvalidScope = errors.New("invalid_scope")

func invalidGrant(format string, args ...any) error {
	return fault.Wrap(ErrInvalidGrant, fault.Invalid, format, args...)
}

// AuthorizationCode is a stored authorization code (RFC 6749, section 4.1).
type AuthorizationCode struct {
	Hash          account.Hash
	CodeChallenge string
	ExpiresAt     time.Time
	Used          bool // an earlier request used it
}

// Token is a stored access or refresh token.
type Token struct {
	Hash      account.Hash
	Refresh   bool
	CreatedAt time.Time
	ExpiresAt time.Time
	// RotatedAt is the time of the first rotation of a refresh token, and Rotations their number.
	RotatedAt *time.Time
	Rotations int
	// Scopes are those of an access token that has fewer than its grant; nil = those of the grant. A refresh token
	// always has those of the grant.
	Scopes []Scope
}

// Session is the identity that an access token stands for.
type Session struct {
	account.Principal
	GrantID   uuid.UUID
	Scopes    []Scope
	Resource  string
	ExpiresAt time.Time
}

// Tokens is the response to a token request. It hides its secrets when it is printed or logged.
type Tokens struct {
	Access, Refresh string
	Lifetime        time.Duration // of the access token
	Scopes          []Scope
}

// String hides the tokens.
func (Tokens) String() string { return "(hidden)" }

// GoString hides the tokens from %#v.
func (Tokens) GoString() string { return "(hidden)" }

// LogValue hides the tokens from slog.
func (Tokens) LogValue() slog.Value { return slog.StringValue("(hidden)") }

// TokenRequest is an access token request with an authorization code.
type TokenRequest struct {
	Code, ClientID, RedirectURI, CodeVerifier string
	Resource                                  string // empty if not sent
}

// ExchangeCode exchanges an authorization code for tokens, once (RFC 6749, section 4.1.3, and
// RFC 7636). A request that does not match the code, and a second use, revoke the grant.
func (s *Service) ExchangeCode(ctx context.Context, request TokenRequest) (tokens Tokens, err error) {
	defer func() { s.metrics.countTokens(grantOfCode, err) }()
	hash, ok := parseSecret(codePrefix, request.Code)
	if !ok {
		return Tokens{}, invalidGrant("the code is not valid")
	}
	now := s.Now()
	outcome, err := s.Store.ExchangeCode(ctx, hash, now, func(grant Grant, code AuthorizationCode) Outcome {
		return s.decideExchange(request, grant, code, now)
	})
	return s.finish(ctx, "authorization code", outcome, err)
}

func (s *Service) decideExchange(request TokenRequest, grant Grant, code AuthorizationCode, now time.Time) Outcome {
	reject := func(text string) Outcome {
		return Outcome{Err: invalidGrant("%s", text), RevokeReason: "authorization code rejected"}
	}
	switch {
	case code.Used:
		return Outcome{Err: invalidGrant("the code was used before; its grant is revoked"), RevokeReason: "authorization code reused"}
	case !now.Before(code.ExpiresAt):
		return reject("the code has expired")
	case subtle.ConstantTimeCompare([]byte(codeChallengeS256(request.CodeVerifier)), []byte(code.CodeChallenge)) != 1:
		return reject("the code verifier does not match the challenge")
	case grant.ClientID != request.ClientID || grant.RedirectURI != request.RedirectURI:
		return reject("the code belongs to another client or redirect URI")
	case request.Resource != "" && request.Resource != grant.Resource:
		return reject("the code is for another resource")
	}
	if err := grant.validate(); err != nil {
		return Outcome{Err: err, RevokeReason: "authorization code rejected"}
	}
	return s.issueTokens(grant, grant.Scopes, now)
}

// Refresh returns a new token pair for a refresh token (RFC 6749, section 6), which it
// replaces. The old token works for a short grace period, because hosted clients refresh in
// parallel. Any later use is token reuse (RFC 9700, section 4.14) and revokes the grant.
// The access token has the scopes of scope, or of the grant if it is empty. The new refresh token has those of the
// grant, as the RFC requires.
func (s *Service) Refresh(ctx context.Context, token, clientID, resource, scope string) (tokens Tokens, err error) {
	defer func() { s.metrics.countTokens(grantOfRefresh, err) }()
	hash, ok := parseSecret(refreshPrefix, token)
	if !ok {
		return Tokens{}, invalidGrant("the refresh token is not valid")
	}
	now := s.Now()
	outcome, err := s.Store.RotateRefreshToken(ctx, hash, now, func(grant Grant, used Token) Outcome {
		return s.decideRefresh(clientID, resource, scope, grant, used, now)
	})
	return s.finish(ctx, "refresh token", outcome, err)
}

func (s *Service) decideRefresh(clientID, resource, scope string, grant Grant, used Token, now time.Time) Outcome {
	reject := func(text string) Outcome { return Outcome{Err: invalidGrant("%s", text)} }
	switch {
	case used.RotatedAt != nil && !now.Before(used.RotatedAt.Add(s.cfg.RefreshGrace)):
		return Outcome{Err: invalidGrant("the refresh token was used before; its grant is revoked"), RevokeReason: "refresh token reused"}
	case !now.Before(used.ExpiresAt):
		return reject("the refresh token has expired")
	case grant.ClientID != clientID:
		return reject("the refresh token belongs to another client")
	case used.Rotations >= maxRotations:
		return reject("the refresh token was used too often")
	case resource != "" && resource != grant.Resource:
		return reject("the refresh token is for another resource")
	}
	if err := grant.validate(); err != nil {
		return Outcome{Err: err}
	}
	scopes, err := grant.narrow(scope)
	if err != nil {
		return Outcome{Err: err}
	}
	return s.issueTokens(grant, scopes, now)
}

// issueTokens returns the outcome of a request that gets a new token pair. scopes are those of the access token.
func (s *Service) issueTokens(grant Grant, scopes []Scope, now time.Time) Outcome {
	access, hash, err := NewAccessToken(s.Store.Cell(), s.Signer)
	if err != nil {
		return Outcome{Err: err}
	}
	refresh, err := newSecret(s.Store.Cell(), refreshPrefix)
	if err != nil {
		return Outcome{Err: err}
	}
	var narrowed []Scope
	if len(scopes) < len(grant.Scopes) {
		narrowed = scopes
	}
	return Outcome{
		Issued: Tokens{Access: access, Refresh: refresh, Lifetime: s.cfg.AccessTTL, Scopes: scopes},
		Stored: []Token{
			{Hash: hash, CreatedAt: now, ExpiresAt: now.Add(s.cfg.AccessTTL), Scopes: narrowed},
			{Hash: hashSecret(refresh), Refresh: true, CreatedAt: now, ExpiresAt: now.Add(s.cfg.RefreshTTL)},
		},
	}
}

// finish returns the result of a token request and logs its rejection.
func (s *Service) finish(ctx context.Context, credential string, outcome Outcome, err error) (Tokens, error) {
	if err == nil {
		err = outcome.Err
	}
	if err == nil {
		return outcome.Issued, nil
	}
	if fault.Is(err, fault.NotFound) {
		err = invalidGrant("the %s is not valid", credential)
	}
	if !fault.Is(err, fault.Unavailable) {
		s.Log.LogAttrs(ctx, slog.LevelInfo, "token request rejected", slog.String("credential", credential), slog.String("reason", err.Error()))
	}
	return Tokens{}, err
}

// RevokeToken revokes the grant of a token (RFC 7009). An unknown token is not an error.
func (s *Service) RevokeToken(ctx context.Context, token, clientID string) error {
	hash, ok := parseSecret(refreshPrefix, token)
	if !ok {
		hash, ok = AccessTokenHash(s.Signer, token)
	}
	if !ok {
		return nil
	}
	return s.Store.RevokeToken(ctx, hash, clientID, s.Now())
}

// codeChallengeS256 returns the code challenge of a verifier (RFC 7636, section 4.2).
func codeChallengeS256(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return keys.Encode(sum[:])
}
