package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// AccountsOfOwner implements oauth.Store.
func (s Logins) AccountsOfOwner(ctx context.Context, email string, limit int) ([]account.Account, error) {
	rows, err := s.queries.AccountsByOwner(ctx, sqlgen.AccountsByOwnerParams{Email: email, Batch: int32(limit)}) //nolint:gosec // a constant
	if err != nil {
		return nil, toFault(err, "find accounts of an owner")
	}
	accounts := make([]account.Account, 0, len(rows))
	for _, row := range rows {
		accounts = append(accounts, accountOf(row))
	}
	return accounts, nil
}

// IsOwner implements oauth.Store.
func (s Logins) IsOwner(ctx context.Context, email string) (bool, error) {
	owns, err := s.queries.OwnsAnyAccount(ctx, email)
	return owns, toFault(err, "look for an owner")
}

// FindPrincipalOfOwner implements oauth.Store.
func (s Logins) FindPrincipalOfOwner(ctx context.Context, email string, accountID uuid.UUID, app string, now time.Time) (account.Principal, error) {
	row, err := s.idempotent.PrincipalOfOwner(ctx, sqlgen.PrincipalOfOwnerParams{ID: accountID, App: app, Now: now, Email: email})
	if err != nil {
		return account.Principal{}, toFault(err, "find the principal of an owner")
	}
	principal := principalOf(row.Account, row.App, row.ApiKey)
	return principal.By(account.Actor{Kind: account.ActorPage, Email: principal.Account.AddressOf(email)}), nil
}

// AppsOfOwner implements oauth.Store.
func (s Logins) AppsOfOwner(ctx context.Context, email string, accountID uuid.UUID, now time.Time, limit int) ([]string, error) {
	names, err := repeat(ctx, s.Store, uuid.Nil, func(ctx context.Context) ([]string, error) {
		return s.once.AppNamesOfOwner(ctx, sqlgen.AppNamesOfOwnerParams{AccountID: accountID, Email: email, Now: now, Batch: batchSize(limit)})
	})
	return names, toFault(err, "find apps of an owner")
}

// AddGrant implements oauth.Store.
func (s Logins) AddGrant(ctx context.Context, session oauth.LoginSession, grant oauth.Grant, code oauth.AuthorizationCode) error {
	return s.inTx(ctx, "grant", func(q *sqlgen.Queries) error {
		ended, err := q.EndLoginSession(ctx, sqlgen.EndLoginSessionParams{ID: session.ID, CookieHash: session.CookieHash[:], Now: grant.CreatedAt})
		if err != nil {
			return err
		}
		if ended.LoggedInAt == nil || ended.Email != grant.Email {
			return oauth.ReasonNotLoggedIn.Fault()
		}
		if _, err := q.LockAccountForShare(ctx, sqlgen.LockAccountForShareParams{ID: grant.AccountID, Email: grant.Email}); err != nil {
			return errAccountNotAllowed(err)
		}
		key, err := q.DefaultKey(ctx, sqlgen.DefaultKeyParams{AccountID: grant.AccountID, App: account.DefaultApp, Now: grant.CreatedAt})
		if err != nil {
			return errAccountNotAllowed(err)
		}
		scopes := make([]string, 0, len(grant.Scopes))
		for _, scope := range grant.Scopes {
			scopes = append(scopes, string(scope))
		}
		if err := q.InsertGrant(ctx, sqlgen.InsertGrantParams{ID: grant.ID, AccountID: grant.AccountID, KeyID: key.ID, Email: grant.Email, ClientID: grant.ClientID,
			ClientName: grant.ClientName, RedirectUri: grant.RedirectURI, Scopes: scopes, Resource: grant.Resource, CreatedAt: grant.CreatedAt}); err != nil {
			return err
		}
		return q.InsertAuthorizationCode(ctx, sqlgen.InsertAuthorizationCodeParams{Hash: code.Hash[:], GrantID: grant.ID, CodeChallenge: code.CodeChallenge, ExpiresAt: code.ExpiresAt})
	})
}

func errAccountNotAllowed(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return oauth.ReasonAccountNotAllowed.Fault()
	}
	return err
}

func lockGrant(ctx context.Context, q *sqlgen.Queries, id uuid.UUID, now time.Time) (oauth.Grant, error) {
	row, err := q.LockGrant(ctx, sqlgen.LockGrantParams{ID: id, Now: now})
	grant := grantOf(row.OAuthGrant)
	grant.Suspended, grant.IsOwner, grant.KeyValid = row.Suspended, row.Owner, row.KeyValid
	return grant, err
}

func grantOf(row sqlgen.OAuthGrant) oauth.Grant {
	return oauth.Grant{ID: row.ID, AccountID: row.AccountID, KeyID: row.KeyID, Email: row.Email, ClientID: row.ClientID, ClientName: row.ClientName,
		RedirectURI: row.RedirectUri, Scopes: scopesOf(row.Scopes), Resource: row.Resource, CreatedAt: row.CreatedAt, LastUsedAt: row.LastUsedAt, Requests: row.Requests}
}

func scopesOf(texts []string) []oauth.Scope {
	scopes := make([]oauth.Scope, 0, len(texts))
	for _, text := range texts {
		scopes = append(scopes, oauth.Scope(text))
	}
	return scopes
}

// textsOf returns the texts of scopes; nil of nil.
func textsOf(scopes []oauth.Scope) []string {
	if scopes == nil {
		return nil
	}
	texts := make([]string, 0, len(scopes))
	for _, scope := range scopes {
		texts = append(texts, string(scope))
	}
	return texts
}

func revoke(ctx context.Context, q *sqlgen.Queries, id uuid.UUID, now time.Time, reason string) error {
	_, err := q.RevokeGrant(ctx, sqlgen.RevokeGrantParams{ID: id, Now: now, Reason: reason})
	return err
}

// TouchGrants notes when grants were last used, and how often. Those that are gone are left out.
func (s Credentials) TouchGrants(ctx context.Context, used map[uuid.UUID]account.Use) error {
	params := sqlgen.TouchGrantsParams{}
	for id, use := range used {
		params.Ids = append(params.Ids, id)
		params.UsedAt = append(params.UsedAt, use.At)
		params.Requests = append(params.Requests, use.Requests)
	}
	return toFault(s.queries.TouchGrants(ctx, params), "touch grants")
}

// AuthorizedApps implements oauth.Store.
func (s Logins) AuthorizedApps(ctx context.Context, email string, now time.Time, limit int) ([]oauth.AuthorizedApp, error) {
	rows, err := s.queries.Connections(ctx, sqlgen.ConnectionsParams{Email: email, Now: now, Batch: int32(limit)}) //nolint:gosec // a constant
	if err != nil {
		return nil, toFault(err, "find authorized applications")
	}
	apps := make([]oauth.AuthorizedApp, 0, len(rows))
	for _, row := range rows {
		app := oauth.AuthorizedApp{Grant: grantOf(row.OAuthGrant), AccountName: row.Account.DisplayName, Account: oauth.NamespacedName(accountOf(row.Account)), ToolPolicy: toolPolicyOf(row.Account)}
		if app.AccountName == "" {
			app.AccountName = row.Account.Name
		}
		apps = append(apps, app)
	}
	return apps, s.addCeilings(ctx, apps)
}

// RevokeGrants implements oauth.Store.
func (s Logins) RevokeGrants(ctx context.Context, email string, id uuid.UUID, now time.Time) (int, error) {
	n, err := s.queries.RevokeGrantsByEmail(ctx, sqlgen.RevokeGrantsByEmailParams{Email: email, Now: now, ID: pgtype.UUID{Bytes: id, Valid: id != uuid.Nil}})
	return int(n), toFault(err, "revoke grants")
}
