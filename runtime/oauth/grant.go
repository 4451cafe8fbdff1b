package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/keys"
)

// Grant is what a person allowed an application: the family of all the tokens that come
// of it.
type Grant struct {
	ID        uuid.UUID
	AccountID uuid.UUID
	// KeyID is the Default API Key that the grant stands for.
	KeyID       uuid.UUID
	Address     string
	ClientID    string
	ClientName  string
	RedirectURI string
	Scopes      []Scope
	Resource    string
	CreatedAt   time.Time
	LastUsedAt  *time.Time

	// What the store found when it locked the grant for use.
	Suspended bool // the account serves nobody
	Owner     bool // the address still owns the account
	KeyValid  bool // the API key has not ended
}

// Code is an authorization code (RFC 6749, section 4.1).
type Code struct {
	Hash      account.Hash
	Challenge string
	ExpiresAt time.Time
}

// Token is an access or a refresh token.
type Token struct {
	Hash      account.Hash
	Refresh   bool
	CreatedAt time.Time
	ExpiresAt time.Time
	// RotatedAt is when a refresh token was used first, and Pairs how often it was.
	RotatedAt *time.Time
	Pairs     int
}

// Session is who an access token stands for.
type Session struct {
	account.Principal
	GrantID   uuid.UUID
	Scopes    []Scope
	Resource  string
	ExpiresAt time.Time
}

// Tokens is what an application gets. It prints and logs as nothing.
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

// mostAccounts bounds the accounts that are offered to one address, and mostPairs how
// many pairs of tokens one refresh token gives within its grace.
const (
	mostAccounts    = 100
	mostConnections = 200
	mostPairs       = 10
)

// Accounts are those that the logged-in person can choose from.
func (s *Service) Accounts(ctx context.Context, request Request) ([]account.Account, error) {
	if !request.LoggedIn() {
		return nil, fault.New(fault.Unauthenticated, "log in first")
	}
	return s.Store.Accounts(ctx, request.Address, mostAccounts)
}

// Allow ends a request with a grant on the account, and gives the authorization code.
// Conflict when the person may not choose the account, or may no longer.
func (s *Service) Allow(ctx context.Context, request Request, accountID uuid.UUID) (string, error) {
	if !request.LoggedIn() || request.Ask == nil {
		return "", fault.New(fault.Unauthenticated, "log in first")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make a grant id: %w", err)
	}
	secret, err := newSecret(codePrefix)
	if err != nil {
		return "", err
	}
	now, ask := s.Now(), request.Ask
	err = s.Store.Grant(ctx, request, Grant{ID: id, AccountID: accountID, Address: request.Address,
		ClientID: ask.ClientID, ClientName: ask.ClientName, RedirectURI: ask.RedirectURI, Scopes: ask.Scopes, Resource: ask.Resource, CreatedAt: now,
	}, Code{Hash: hashOf(secret), Challenge: ask.Challenge, ExpiresAt: now.Add(s.cfg.GrantCodeTTL)})
	if err != nil {
		return "", gone(err)
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "an application was connected", slog.String("grant", id.String()), slog.String("account", accountID.String()),
		slog.String("address", MaskAddress(request.Address)), slog.String("client", ask.ClientID))
	return secret, nil
}

// Redemption is what an application sends for its tokens.
type Redemption struct {
	Code, ClientID, RedirectURI, Verifier string
	Resource                              string // empty = not sent
}

// Redeem turns an authorization code into tokens, once (RFC 6749, section 4.1.3, and
// RFC 7636). What does not fit, and a second use, revokes all that the code gave.
func (s *Service) Redeem(ctx context.Context, sent Redemption) (Tokens, error) {
	hash, ok := hashOfSecret(codePrefix, sent.Code)
	if !ok {
		return Tokens{}, refused("the code is not valid")
	}
	var tokens Tokens
	now := s.Now()
	err := s.Store.Redeem(ctx, hash, now, func(grant Grant, code Code) (made []Token, err error) {
		switch {
		case !now.Before(code.ExpiresAt):
			return nil, refused("the code has expired")
		case subtle.ConstantTimeCompare([]byte(challengeOf(sent.Verifier)), []byte(code.Challenge)) != 1:
			return nil, refused("the code verifier does not fit the challenge")
		case grant.ClientID != sent.ClientID || grant.RedirectURI != sent.RedirectURI:
			return nil, refused("the code belongs to another client or redirect URI")
		case sent.Resource != "" && sent.Resource != grant.Resource:
			return nil, refused("the code is for another resource")
		}
		if err := standing(grant); err != nil {
			return nil, err
		}
		tokens, made, err = s.pair(grant, now)
		return made, err
	})
	return tokens, s.note(ctx, "authorization code", err)
}

// Refresh returns a new pair of tokens for a refresh token (RFC 6749, section 6). Its use
// replaces it; for a short grace it works again, since hosted clients refresh in
// parallel. Any later use is taken for theft: it revokes the family. The scope stays as
// it was granted; a narrower one that is asked for is passed over, as RFC 6749 permits.
func (s *Service) Refresh(ctx context.Context, token, clientID, resource string) (Tokens, error) {
	hash, ok := hashOfSecret(refreshPrefix, token)
	if !ok {
		return Tokens{}, refused("the refresh token is not valid")
	}
	var tokens Tokens
	now := s.Now()
	err := s.Store.Rotate(ctx, hash, now, func(grant Grant, used Token) (made []Token, err error) {
		switch {
		case used.RotatedAt != nil && !now.Before(used.RotatedAt.Add(s.cfg.RefreshGrace)):
			return nil, &Theft{refused("the refresh token was used before: the connection has ended")}
		case !now.Before(used.ExpiresAt):
			return nil, refused("the refresh token has expired")
		case grant.ClientID != clientID:
			return nil, refused("the refresh token belongs to another client")
		case used.Pairs >= mostPairs:
			return nil, refused("the refresh token was used too often")
		case resource != "" && resource != grant.Resource:
			return nil, refused("the refresh token is for another resource")
		}
		if err := standing(grant); err != nil {
			return nil, err
		}
		tokens, made, err = s.pair(grant, now)
		return made, err
	})
	return tokens, s.note(ctx, "refresh token", err)
}

// Theft is the refusal that ends a family.
type Theft struct{ error }

// Unwrap returns the refusal.
func (t *Theft) Unwrap() error { return t.error }

// standing refuses a grant that no longer counts.
func standing(grant Grant) error {
	switch {
	case !grant.Owner:
		return refused("the person may no longer log in to the account")
	case grant.Suspended:
		return refused("the account is suspended")
	case !grant.KeyValid:
		return refused("the API key of the connection was revoked")
	}
	return nil
}

func (s *Service) pair(grant Grant, now time.Time) (Tokens, []Token, error) {
	access, hash, err := NewAccessToken(s.Signer)
	if err != nil {
		return Tokens{}, nil, err
	}
	refresh, err := newSecret(refreshPrefix)
	if err != nil {
		return Tokens{}, nil, err
	}
	return Tokens{Access: access, Refresh: refresh, Lifetime: s.cfg.AccessTTL, Scopes: grant.Scopes}, []Token{
		{Hash: hash, CreatedAt: now, ExpiresAt: now.Add(s.cfg.AccessTTL)},
		{Hash: hashOf(refresh), Refresh: true, CreatedAt: now, ExpiresAt: now.Add(s.cfg.RefreshTTL)},
	}, nil
}

// Revoke ends the connection of a token (RFC 7009). A token that nobody knows is no error.
func (s *Service) Revoke(ctx context.Context, token, clientID string) error {
	hash, ok := hashOfSecret(refreshPrefix, token)
	if !ok {
		hash, ok = AccessTokenHash(s.Signer, token)
	}
	if !ok {
		return nil
	}
	return s.Store.RevokeToken(ctx, hash, clientID, s.Now())
}

func (s *Service) note(ctx context.Context, what string, err error) error {
	if fault.Is(err, fault.NotFound) {
		err = refused("the %s is not valid", what)
	}
	if err != nil && !fault.Is(err, fault.Unavailable) {
		s.Log.LogAttrs(ctx, slog.LevelInfo, "no tokens for an application", slog.String("sent", what), slog.String("reason", err.Error()))
	}
	return err
}

// refused is an invalid_grant.
func refused(format string, args ...any) error {
	return fault.Wrap(ErrRefused, fault.Invalid, format, args...)
}

// challengeOf is the S256 of RFC 7636.
func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return keys.Encode(sum[:])
}

// Connection is a grant as its owner sees it.
type Connection struct {
	Grant
	AccountName string
}

// Connections are the applications that the logged-in person connected.
func (s *Service) Connections(ctx context.Context, request Request) ([]Connection, error) {
	if !request.LoggedIn() {
		return nil, fault.New(fault.Unauthenticated, "log in first")
	}
	return s.Store.Connections(ctx, request.Address, s.Now(), mostConnections)
}

// EndConnections ends one connection of the logged-in person, or all for the zero id,
// and tells how many.
func (s *Service) EndConnections(ctx context.Context, request Request, id uuid.UUID) (int, error) {
	if !request.LoggedIn() {
		return 0, fault.New(fault.Unauthenticated, "log in first")
	}
	ended, err := s.Store.EndConnections(ctx, request.Address, id, s.Now())
	if err == nil {
		s.Log.LogAttrs(ctx, slog.LevelInfo, "connections were ended by their owner", slog.Int("connections", ended), slog.String("address", MaskAddress(request.Address)))
	}
	return ended, err
}
