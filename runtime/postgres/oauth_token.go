package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// ExchangeCode implements oauth.Store.
func (s Logins) ExchangeCode(ctx context.Context, hash account.Hash, now time.Time, decide func(oauth.Grant, oauth.AuthorizationCode) oauth.Outcome) (oauth.Outcome, error) {
	var outcome oauth.Outcome
	err := s.inTx(ctx, "exchange an authorization code", func(q *sqlgen.Queries) error {
		row, err := q.UseAuthorizationCode(ctx, sqlgen.UseAuthorizationCodeParams{Hash: hash[:], Now: now})
		used := errors.Is(err, pgx.ErrNoRows)
		if used {
			row, err = q.FindAuthorizationCode(ctx, hash[:])
		}
		if err != nil {
			return err
		}
		grant, err := lockGrant(ctx, q, row.GrantID, now)
		if err != nil {
			return err
		}
		outcome = decide(grant, oauth.AuthorizationCode{Hash: hash, CodeChallenge: row.CodeChallenge, ExpiresAt: row.ExpiresAt, Used: used})
		return commitOutcome(ctx, q, grant.ID, outcome, now)
	})
	return outcome, err
}

// RotateRefreshToken implements oauth.Store.
func (s Logins) RotateRefreshToken(ctx context.Context, hash account.Hash, now time.Time, decide func(oauth.Grant, oauth.Token) oauth.Outcome) (oauth.Outcome, error) {
	var outcome oauth.Outcome
	err := s.inTx(ctx, "rotate a refresh token", func(q *sqlgen.Queries) error {
		row, err := q.LockRefreshToken(ctx, hash[:])
		if err != nil {
			return err
		}
		grant, err := lockGrant(ctx, q, row.GrantID, now)
		if err != nil {
			return err
		}
		outcome = decide(grant, oauth.Token{Hash: hash, Refresh: true, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RotatedAt: row.RotatedAt, Rotations: int(row.Rotations)})
		if outcome.Err == nil {
			if err := rotateToken(ctx, q, hash, grant, now); err != nil {
				return err
			}
		}
		return commitOutcome(ctx, q, grant.ID, outcome, now)
	})
	return outcome, err
}

// rotateToken counts a rotation and binds the grant to the newest key of the account, so that
// grants outlive the rotation of a key if they refresh while the old key is valid.
func rotateToken(ctx context.Context, q *sqlgen.Queries, hash account.Hash, grant oauth.Grant, now time.Time) error {
	if err := q.RotateToken(ctx, sqlgen.RotateTokenParams{Hash: hash[:], Now: now}); err != nil {
		return err
	}
	key, err := q.DefaultKey(ctx, sqlgen.DefaultKeyParams{AccountID: grant.AccountID, App: account.DefaultApp, Now: now})
	if err != nil {
		return err
	}
	return q.RebindGrant(ctx, sqlgen.RebindGrantParams{ID: grant.ID, KeyID: key.ID})
}

// commitOutcome revokes the grant or stores its new tokens. It returns the error of a
// rejection that must change nothing, which rolls the transaction back.
func commitOutcome(ctx context.Context, q *sqlgen.Queries, grantID uuid.UUID, outcome oauth.Outcome, now time.Time) error {
	switch {
	case outcome.RevokeReason != "":
		return revoke(ctx, q, grantID, now, outcome.RevokeReason)
	case outcome.Err != nil:
		return outcome.Err
	}
	return insertTokens(ctx, q, grantID, outcome.Stored)
}

func insertTokens(ctx context.Context, q *sqlgen.Queries, grantID uuid.UUID, tokens []oauth.Token) error {
	for _, token := range tokens {
		if err := q.InsertToken(ctx, sqlgen.InsertTokenParams{Hash: token.Hash[:], GrantID: grantID, Refresh: token.Refresh,
			CreatedAt: token.CreatedAt, ExpiresAt: token.ExpiresAt, Scopes: textsOf(token.Scopes)}); err != nil {
			return err
		}
	}
	return nil
}

// RevokeToken implements oauth.Store.
func (s Logins) RevokeToken(ctx context.Context, hash account.Hash, clientID string, now time.Time) error {
	return s.inTx(ctx, "revoke a token", func(q *sqlgen.Queries) error {
		row, err := q.FindToken(ctx, hash[:])
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		case clientID != "" && row.ClientID != clientID:
			return fault.Wrap(oauth.ErrInvalidGrant, fault.Invalid, "the token belongs to another client")
		}
		return revoke(ctx, q, row.GrantID, now, "revoked by the client")
	})
}

// FindSession returns the session of an access token; NotFound. The caller checks whether the
// token and the key have expired.
func (s Credentials) FindSession(ctx context.Context, hash account.Hash) (oauth.Session, error) {
	row, err := s.idempotent.FindSession(ctx, hash[:])
	if err != nil {
		return oauth.Session{}, toFault(err, "find session")
	}
	scopes := scopesOf(row.Scopes)
	if row.TokenScopes != nil { // a token never has more than its grant
		scopes = slices.DeleteFunc(scopes, func(scope oauth.Scope) bool { return !slices.Contains(row.TokenScopes, string(scope)) })
	}
	return oauth.Session{Principal: byLogin(principalOf(row.Account, row.App, row.ApiKey), row.GrantID, row.ClientName, row.Email), GrantID: row.GrantID, Scopes: scopes,
		Resource: row.Resource, ExpiresAt: row.TokenExpiresAt}, nil
}

// FindSessionOfGrant returns the session of a grant; NotFound if the grant was revoked.
func (s Credentials) FindSessionOfGrant(ctx context.Context, id uuid.UUID) (oauth.Session, error) {
	row, err := s.idempotent.FindSessionOfGrant(ctx, id)
	if err != nil {
		return oauth.Session{}, toFault(err, "find session of grant")
	}
	return oauth.Session{Principal: byLogin(principalOf(row.Account, row.App, row.ApiKey), row.GrantID, row.ClientName, row.Email), GrantID: row.GrantID,
		Scopes: scopesOf(row.Scopes), Resource: row.Resource}, nil
}

// byLogin returns the principal with the actor of an application that a user has connected.
func byLogin(p account.Principal, grant uuid.UUID, client, email string) account.Principal {
	return p.By(account.Actor{Kind: account.ActorLogin, ID: grant.String(), Name: client, Email: p.Account.AddressOf(email)})
}
