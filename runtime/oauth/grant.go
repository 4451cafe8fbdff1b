package oauth

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// maxAccounts bounds the accounts that a user can choose from.
const maxAccounts = 100

// Grant is the consent of a user to a client. All tokens that follow from it belong to it.
type Grant struct {
	ID        uuid.UUID
	AccountID uuid.UUID
	// KeyID is the Default API Key that the grant stands for.
	KeyID       uuid.UUID
	Email       string
	ClientID    string
	ClientName  string
	RedirectURI string
	Scopes      []Scope
	Resource    string
	CreatedAt   time.Time
	LastUsedAt  *time.Time
	// Requests are those with the tokens of the grant, but not the last minute's.
	Requests int64

	// State of the account, set when the store locks the grant for a token request.
	Suspended bool // the account is suspended
	IsOwner   bool // the user still owns the account
	KeyValid  bool // the API key has not expired
}

// Accounts returns the accounts that the logged-in user can choose from.
func (s *Service) Accounts(ctx context.Context, session LoginSession) ([]account.Account, error) {
	if !session.LoggedIn() {
		return nil, ReasonNotLoggedIn.Fault()
	}
	return s.Store.AccountsOfOwner(ctx, session.Email, maxAccounts)
}

// maxApps bounds the apps that a user can choose from.
const maxApps = 200

// Apps returns the names of the apps of an account that the logged-in user can choose from; none if the user does not own it (any more).
func (s *Service) Apps(ctx context.Context, session LoginSession, accountID uuid.UUID) ([]string, error) {
	if !session.LoggedIn() || session.AuthorizationRequest != nil {
		return nil, ReasonNotLoggedIn.Fault()
	}
	return s.Store.AppsOfOwner(ctx, session.Email, accountID, s.Now(), maxApps)
}

// Principal returns the principal that the logged-in user acts for in an account: one of its apps, with the newest key of it. An empty
// name is that of the Default App. It reads the account anew. Forbidden if the user does not own the
// account (any more), or the account is suspended, closed or missing: the user cannot tell these apart, nor from a missing app.
func (s *Service) Principal(ctx context.Context, session LoginSession, accountID uuid.UUID, app string) (account.Principal, error) {
	if !session.LoggedIn() || session.AuthorizationRequest != nil {
		return account.Principal{}, ReasonNotLoggedIn.Fault()
	}
	noSuchApp := fault.New(fault.Forbidden, "There is no such app, or you do not own its account (any more).")
	if !utf8.ValidString(app) || strings.Contains(app, "\x00") { // PostgreSQL has no such texts
		return account.Principal{}, noSuchApp
	}
	principal, err := s.Store.FindPrincipalOfOwner(ctx, session.Email, accountID, cmp.Or(app, account.DefaultApp), s.Now())
	if fault.Is(err, fault.NotFound) {
		if app != "" {
			return account.Principal{}, noSuchApp
		}
		return account.Principal{}, ReasonNotOwner.Fault()
	}
	return principal, err
}

// Approve ends a session with a grant on the account and returns the authorization code.
// Conflict if the user does not own the account (any more).
func (s *Service) Approve(ctx context.Context, session LoginSession, accountID uuid.UUID) (string, error) {
	if !session.LoggedIn() || session.AuthorizationRequest == nil {
		return "", ReasonNotLoggedIn.Fault()
	}
	id, err := s.Store.Cell().NewID()
	if err != nil {
		return "", fmt.Errorf("create a grant id: %w", err)
	}
	secret, err := newSecret(s.Store.Cell(), codePrefix)
	if err != nil {
		return "", err
	}
	now, request := s.Now(), session.AuthorizationRequest
	err = s.Store.AddGrant(ctx, session, Grant{ID: id, AccountID: accountID, Email: session.Email,
		ClientID: request.ClientID, ClientName: request.ClientName, RedirectURI: request.RedirectURI,
		Scopes: request.Scopes, Resource: request.Resource, CreatedAt: now,
	}, AuthorizationCode{Hash: hashSecret(secret), CodeChallenge: request.CodeChallenge, ExpiresAt: now.Add(s.cfg.AuthorizationCodeTTL)})
	if err != nil {
		return "", sessionExpired(err)
	}
	s.metrics.grants.Inc()
	s.Log.LogAttrs(ctx, slog.LevelInfo, "oauth grant created", slog.String("grant", id.String()), slog.String("account", accountID.String()),
		slog.String("email", MaskEmail(session.Email)), slog.String("client", request.ClientID))
	return secret, nil
}

// narrow returns the scopes of the grant that a refresh asks for. Scopes that the service does not know are ignored, as in
// authorization requests: clients repeat what they sent there.
func (g Grant) narrow(scope string) ([]Scope, error) {
	requested := strings.Fields(scope)
	if len(requested) == 0 {
		return g.Scopes, nil
	}
	for _, known := range Scopes() {
		if slices.Contains(requested, string(known)) && !slices.Contains(g.Scopes, known) {
			return nil, fault.Wrap(ErrInvalidScope, fault.Invalid, "the user did not grant %s: the scopes are %s", known, JoinScopes(g.Scopes))
		}
	}
	narrowed := slices.DeleteFunc(slices.Clone(g.Scopes), func(granted Scope) bool { return !slices.Contains(requested, string(granted)) })
	if len(narrowed) == 0 {
		return nil, fault.Wrap(ErrInvalidScope, fault.Invalid, "scope must hold one or more of %s", JoinScopes(g.Scopes))
	}
	return narrowed, nil
}

// validate returns an error if the state of the account no longer permits new tokens.
func (g Grant) validate() error {
	switch {
	case !g.IsOwner:
		return invalidGrant("the user is no longer an owner of the account")
	case g.Suspended:
		return invalidGrant("the account is suspended")
	case !g.KeyValid:
		return invalidGrant("the API key of the grant was revoked")
	}
	return nil
}
