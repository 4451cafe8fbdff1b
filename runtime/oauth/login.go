// Package oauth is how a person lets an application into an account: the browser that
// comes with an application's wish, the code that proves an e-mail address, the grant
// that the person gives, and the tokens that come of it (RFC 6749, OAuth 2.1). It
// holds the rules and knows no HTTP; package internal/oauthhttp shows them as pages and
// endpoints, and postgres keeps the state, so that any replica serves any step.
package oauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
)

// Config bounds a login. The tags are flag and environment names.
type Config struct {
	RequestTTL     time.Duration `env:"SERVICE_LOGIN_TTL" default:"15m" help:"How long a person may take to log in, and then to look at the connections."`
	CodeTTL        time.Duration `env:"SERVICE_LOGIN_CODE_TTL" default:"10m" help:"How long a code that was mailed is valid."`
	CodeTries      int           `name:"login-max-attempts" env:"SERVICE_LOGIN_MAX_ATTEMPTS" default:"5" help:"Codes that may be tried in one login."`
	ResendAfter    time.Duration `env:"SERVICE_LOGIN_RESEND_AFTER" default:"30s" help:"Pause before another code may be asked for with the same e-mail address, in any login at any replica."`
	CodesOfAddress int           `name:"login-codes-per-email" env:"SERVICE_LOGIN_CODES_PER_EMAIL" default:"5" help:"Codes an hour that are mailed to one address."`
	TriesOfAddress int           `name:"login-attempts-per-email" env:"SERVICE_LOGIN_ATTEMPTS_PER_EMAIL" default:"15" help:"Codes an hour that may be tried for one address, in all its logins."`
	CodesOfClient  int           `name:"login-codes-per-ip" env:"SERVICE_LOGIN_CODES_PER_IP" default:"20" help:"Codes an hour that one client address (IPv6: one /64) may ask for."`

	GrantCodeTTL  time.Duration `env:"SERVICE_OAUTH_CODE_TTL" default:"60s" help:"How long an application may take to turn its authorization code into tokens."`
	AccessTTL     time.Duration `env:"SERVICE_OAUTH_ACCESS_TTL" default:"1h" help:"How long an access token is valid."`
	RefreshTTL    time.Duration `env:"SERVICE_OAUTH_REFRESH_TTL" default:"720h" help:"How long a refresh token is valid; each refresh gives a new one."`
	RefreshGrace  time.Duration `env:"SERVICE_OAUTH_REFRESH_GRACE" default:"90s" help:"How long a used refresh token still works, for clients that refresh in parallel; later use ends the connection."`
	Registrations int           `name:"oauth-registrations-per-ip" env:"SERVICE_OAUTH_REGISTRATIONS_PER_IP" default:"100" help:"New applications an hour that one client address (IPv6: one /64) may register."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	for _, d := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{
		{"SERVICE_LOGIN_TTL", c.RequestTTL, time.Minute, 24 * time.Hour},
		{"SERVICE_LOGIN_CODE_TTL", c.CodeTTL, time.Minute, time.Hour},
		{"SERVICE_LOGIN_RESEND_AFTER", c.ResendAfter, 0, time.Hour},
		{"SERVICE_OAUTH_CODE_TTL", c.GrantCodeTTL, time.Second, 10 * time.Minute},
		{"SERVICE_OAUTH_ACCESS_TTL", c.AccessTTL, time.Minute, 24 * time.Hour},
		{"SERVICE_OAUTH_REFRESH_TTL", c.RefreshTTL, time.Hour, 366 * 24 * time.Hour},
		{"SERVICE_OAUTH_REFRESH_GRACE", c.RefreshGrace, 0, 10 * time.Minute},
	} {
		if d.value < d.least || d.value > d.most {
			return fmt.Errorf("%s must be from %s to %s, not %s", d.name, d.least, d.most, d.value)
		}
	}
	if c.CodeTTL > c.RequestTTL {
		return fmt.Errorf("SERVICE_LOGIN_CODE_TTL must be at most SERVICE_LOGIN_TTL, %s, not %s", c.RequestTTL, c.CodeTTL)
	}
	for _, n := range []struct {
		name        string
		value, most int
	}{
		{"SERVICE_LOGIN_MAX_ATTEMPTS", c.CodeTries, 10},
		{"SERVICE_LOGIN_CODES_PER_EMAIL", c.CodesOfAddress, 100},
		{"SERVICE_LOGIN_ATTEMPTS_PER_EMAIL", c.TriesOfAddress, 100},
		{"SERVICE_LOGIN_CODES_PER_IP", c.CodesOfClient, 10_000},
		{"SERVICE_OAUTH_REGISTRATIONS_PER_IP", c.Registrations, 10_000},
	} {
		if n.value < 1 || n.value > n.most {
			return fmt.Errorf("%s must be from 1 to %d, not %d", n.name, n.most, n.value)
		}
	}
	return nil
}

// Scope is a part of what credentials permit, in the words of OAuth.
type Scope string

// The scopes. An API key has both; what a login has, its owner consents to.
const (
	ScopeRead  Scope = "media:read"
	ScopeWrite Scope = "media:write"
)

// Signer makes and verifies MACs of messages. keys.Signer is one.
type Signer interface {
	Sign(message []byte) []byte
	Verify(message, mac []byte) bool
}

// Encrypter encrypts what must be read again. keys.Encrypter is one.
type Encrypter interface {
	Encrypt(plain []byte) []byte
	Decrypt(encrypted []byte) ([]byte, error)
}

// Parts are what the service stands on.
type Parts struct {
	Store     Store
	Signer    Signer
	Encrypter Encrypter
	Now       func() time.Time
	Log       *slog.Logger
}

// Service holds the rules. It is safe for concurrent use.
type Service struct {
	Parts
	cfg         Config
	emailQueued chan struct{}
}

// NewService joins the rules to their parts.
func NewService(cfg Config, parts Parts) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Service{Parts: parts, cfg: cfg, emailQueued: make(chan struct{}, 1)}, nil
}

// ErrRefused is within every error that says no to an application: its code or token
// is not, or no longer, good for anything.
var ErrRefused = errors.New("refused")

// Store keeps the state. postgres.Store implements it; times come from the caller's clock.
type Store interface {
	// AddClient keeps an application unless it is known; new ones count against take.
	AddClient(ctx context.Context, client Client, take Attempt) (Client, error)
	// FindClient returns a registered application; NotFound.
	FindClient(ctx context.Context, id string) (Client, error)
	// AddRequest keeps a new request, and notes that its application is in use.
	AddRequest(ctx context.Context, request Request, now time.Time) error
	// FindRequest returns a request that has neither ended nor expired, of this browser; NotFound.
	FindRequest(ctx context.Context, id uuid.UUID, browser account.Hash, now time.Time) (Request, error)
	// SetCode puts a new code in place of the one before, and a letter into the queue,
	// unless one of the attempts is refused (Busy).
	SetCode(ctx context.Context, id uuid.UUID, browser account.Hash, code NewCode, takes []Attempt) error
	// TakeTry counts a try against the request and take, and gives the request with the
	// code to compare with. NotFound when the request has no try left, Busy when take is refused.
	TakeTry(ctx context.Context, id uuid.UUID, browser account.Hash, most int, now time.Time, take func(Request) Attempt) (Request, error)
	// LogIn marks the request whose code was right, once, and moves it to the new cookie.
	LogIn(ctx context.Context, id uuid.UUID, codeMAC []byte, browser account.Hash, now, expires time.Time) error
	// EndRequest ends a request; NotFound when it has ended.
	EndRequest(ctx context.Context, id uuid.UUID, browser account.Hash, now time.Time) error
	// Accounts are those that an address owns: neither suspended nor closed.
	Accounts(ctx context.Context, address string, most int) ([]account.Account, error)
	// Grant ends the request and keeps the grant with its code, in one step. NotFound
	// when the request has ended, Conflict when the address does not own the account (any more).
	Grant(ctx context.Context, request Request, grant Grant, code Code) error

	// Redeem uses a code: check decides whether it is good for this use and gives the
	// tokens for it. Otherwise, and when the code was used before, the grant is revoked.
	Redeem(ctx context.Context, code account.Hash, now time.Time, check func(Grant, Code) ([]Token, error)) error
	// Rotate uses a refresh token in the same way, and moves the grant to the account's
	// newest key; only a Theft revokes the grant.
	Rotate(ctx context.Context, token account.Hash, now time.Time, check func(Grant, Token) ([]Token, error)) error
	// RevokeToken ends the grant of a token, if it belongs to the application.
	RevokeToken(ctx context.Context, token account.Hash, clientID string, now time.Time) error

	// Connections are the grants of an address that can still be used, newest first.
	Connections(ctx context.Context, address string, now time.Time, most int) ([]Connection, error)
	// EndConnections revokes a grant of the address, or all of them for the zero id, and
	// tells how many.
	EndConnections(ctx context.Context, address string, id uuid.UUID, now time.Time) (int, error)

	// ClaimLetters returns letters that are due, and keeps others from them until the lease ends.
	ClaimLetters(ctx context.Context, most int, now, leaseEnds time.Time) ([]EncryptedLetter, error)
	DeleteLetter(ctx context.Context, id int64) error
	DelayLetter(ctx context.Context, id int64, until time.Time) error
	// OwnsSomething reports whether an address may log in.
	OwnsSomething(ctx context.Context, address string) (bool, error)
}

// Attempt is something that may be done so often in a time.
type Attempt struct {
	Kind    string
	Subject []byte // a MAC: addresses are not kept
	Most    int
	Within  time.Duration
	Now     time.Time
	// Sentence is what the person reads when it was too often.
	Sentence string
}

func (s *Service) attempt(kind, subject string, most int, sentence string) Attempt {
	return Attempt{Kind: kind, Subject: s.mac("attempt", kind, subject), Most: most, Within: time.Hour, Now: s.Now(), Sentence: sentence}
}

// mac returns the code of parts that hold no zero byte.
func (s *Service) mac(parts ...string) []byte { return s.Signer.Sign(join(parts)) }

func join(parts []string) []byte {
	var message []byte
	for _, part := range parts {
		message = append(append(message, part...), 0)
	}
	return message
}
