package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// Keys implements account.Store.
func (s *Store) Keys(ctx context.Context, accountID uuid.UUID, now time.Time) ([]account.Key, error) {
	rows, err := s.queries.Keys(ctx, sqlgen.KeysParams{AccountID: accountID, Now: now})
	if err != nil {
		return nil, toFault(err, "read keys")
	}
	keys := make([]account.Key, 0, len(rows))
	for _, row := range rows {
		key := account.Key{ID: row.ID, AppID: row.AppID, Generation: row.Generation, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, LastUsedAt: row.LastUsedAt}
		copy(key.Hash[:], row.Hash)
		keys = append(keys, key)
	}
	return keys, nil
}

// AddKey implements account.Store.
func (s *Store) AddKey(ctx context.Context, key account.Key, othersExpire time.Time) error {
	return s.inTx(ctx, "add key", func(q *sqlgen.Queries) error {
		app, err := q.LockApp(ctx, key.AppID)
		if err != nil {
			return err
		}
		if err := q.LimitKeys(ctx, sqlgen.LimitKeysParams{AppID: key.AppID, ExpiresAt: othersExpire}); err != nil {
			return err
		}
		return q.InsertKey(ctx, sqlgen.InsertKeyParams{ID: key.ID, AccountID: app.AccountID, AppID: app.ID, Hash: key.Hash[:],
			Generation: key.Generation, CreatedAt: key.CreatedAt})
	})
}

// FindPrincipal returns the principal of the key with this hash; NotFound without one. The
// caller's clock decides whether the key has expired.
func (s *Store) FindPrincipal(ctx context.Context, hash account.Hash) (account.Principal, error) {
	row, err := s.queries.Principal(ctx, hash[:])
	if err != nil {
		return account.Principal{}, toFault(err, "find principal")
	}
	return principalOf(row.Account, row.App, row.ApiKey), nil
}

// FindPrincipalByKeyID returns the principal of the key with this id; NotFound without one.
func (s *Store) FindPrincipalByKeyID(ctx context.Context, id uuid.UUID) (account.Principal, error) {
	row, err := s.queries.PrincipalOfKey(ctx, id)
	if err != nil {
		return account.Principal{}, toFault(err, "find principal of key")
	}
	return principalOf(row.Account, row.App, row.ApiKey), nil
}

// TouchKeys sets when keys were last used. Deleted keys are ignored.
func (s *Store) TouchKeys(ctx context.Context, used map[uuid.UUID]time.Time) error {
	params := sqlgen.TouchKeysParams{}
	for id, at := range used {
		params.Ids = append(params.Ids, id)
		params.UsedAt = append(params.UsedAt, at)
	}
	return toFault(s.queries.TouchKeys(ctx, params), "touch keys")
}

func principalOf(a sqlgen.Account, app sqlgen.App, k sqlgen.ApiKey) account.Principal {
	key := account.Key{ID: k.ID, AppID: k.AppID, Generation: k.Generation, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt}
	copy(key.Hash[:], k.Hash)
	return account.Principal{Account: accountOf(a), App: appOf(app), Key: key}
}
