package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// Redeem implements oauth.Store.
func (s *Store) Redeem(ctx context.Context, hash account.Hash, now time.Time, check func(oauth.Grant, oauth.Code) ([]oauth.Token, error)) error {
	var refusal error // of a use that is written down all the same
	err := s.inTx(ctx, "redeem a code", func(q *sqlgen.Queries) error {
		row, err := q.UseAuthorizationCode(ctx, sqlgen.UseAuthorizationCodeParams{Hash: hash[:], Now: now})
		if errors.Is(err, pgx.ErrNoRows) {
			if row, err = q.FindAuthorizationCode(ctx, hash[:]); err != nil {
				return err
			}
			refusal = fault.Wrap(oauth.ErrRefused, fault.Invalid, "the code was used before: what it gave has ended")
			return revoke(ctx, q, row.GrantID, now, "authorization code reused")
		}
		if err != nil {
			return err
		}
		grant, err := lockGrant(ctx, q, row.GrantID, now)
		if err != nil {
			return err
		}
		code := oauth.Code{Hash: hash, Challenge: row.CodeChallenge, ExpiresAt: row.ExpiresAt}
		tokens, err := check(grant, code)
		if errors.Is(err, oauth.ErrRefused) {
			refusal = err
			return revoke(ctx, q, grant.ID, now, "authorization code rejected")
		}
		if err != nil {
			return err
		}
		return insertTokens(ctx, q, grant.ID, tokens)
	})
	return errors.Join(refusal, err)
}

// Rotate implements oauth.Store.
func (s *Store) Rotate(ctx context.Context, hash account.Hash, now time.Time, check func(oauth.Grant, oauth.Token) ([]oauth.Token, error)) error {
	var theft error
	err := s.inTx(ctx, "rotate a refresh token", func(q *sqlgen.Queries) error {
		row, err := q.LockRefreshToken(ctx, hash[:])
		if err != nil {
			return err
		}
		grant, err := lockGrant(ctx, q, row.GrantID, now)
		if err != nil {
			return err
		}
		tokens, err := check(grant, oauth.Token{Hash: hash, Refresh: true, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, RotatedAt: row.RotatedAt, Pairs: int(row.Rotations)})
		if stolen := new(oauth.Theft); errors.As(err, &stolen) {
			theft = err
			return revoke(ctx, q, grant.ID, now, "refresh token reused")
		}
		if err != nil {
			return err
		}
		if err := q.RotateToken(ctx, sqlgen.RotateTokenParams{Hash: hash[:], Now: now}); err != nil {
			return err
		}
		// Keys are rotated, too: in the time that the old one has left, sessions move on to the new.
		key, err := q.DefaultKey(ctx, sqlgen.DefaultKeyParams{AccountID: grant.AccountID, App: account.DefaultApp, Now: now})
		if err != nil {
			return err
		}
		if err := q.RebindGrant(ctx, sqlgen.RebindGrantParams{ID: grant.ID, KeyID: key.ID}); err != nil {
			return err
		}
		return insertTokens(ctx, q, grant.ID, tokens)
	})
	return errors.Join(theft, err)
}

func insertTokens(ctx context.Context, q *sqlgen.Queries, grantID uuid.UUID, tokens []oauth.Token) error {
	for _, token := range tokens {
		if err := q.InsertToken(ctx, sqlgen.InsertTokenParams{Hash: token.Hash[:], GrantID: grantID, Refresh: token.Refresh,
			CreatedAt: token.CreatedAt, ExpiresAt: token.ExpiresAt}); err != nil {
			return err
		}
	}
	return nil
}

// RevokeToken implements oauth.Store.
func (s *Store) RevokeToken(ctx context.Context, hash account.Hash, clientID string, now time.Time) error {
	return s.inTx(ctx, "revoke a token", func(q *sqlgen.Queries) error {
		row, err := q.FindToken(ctx, hash[:])
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		case clientID != "" && row.ClientID != clientID:
			return fault.Wrap(oauth.ErrRefused, fault.Invalid, "the token belongs to another client")
		}
		return revoke(ctx, q, row.GrantID, now, "revoked by the client")
	})
}

// FindSession returns who an access token stands for; NotFound when nobody. Whether token
// and key have expired is for the caller's clock.
func (s *Store) FindSession(ctx context.Context, hash account.Hash) (oauth.Session, error) {
	row, err := s.queries.FindSession(ctx, hash[:])
	if err != nil {
		return oauth.Session{}, classify(err, "find session")
	}
	return oauth.Session{Principal: principalOf(row.Account, row.App, row.ApiKey), GrantID: row.GrantID, Scopes: scopesOf(row.Scopes),
		Resource: row.Resource, ExpiresAt: row.TokenExpiresAt}, nil
}

// FindSessionOfGrant returns who a grant stands for, without a token; NotFound when it has ended.
func (s *Store) FindSessionOfGrant(ctx context.Context, id uuid.UUID) (oauth.Session, error) {
	row, err := s.queries.FindSessionOfGrant(ctx, id)
	if err != nil {
		return oauth.Session{}, classify(err, "find session of grant")
	}
	return oauth.Session{Principal: principalOf(row.Account, row.App, row.ApiKey), GrantID: row.GrantID, Scopes: scopesOf(row.Scopes), Resource: row.Resource}, nil
}
