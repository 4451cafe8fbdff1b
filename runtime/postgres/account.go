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
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// EnsureAccount implements account.Store.
func (s *Store) EnsureAccount(ctx context.Context, want account.Account) (account.Account, error) {
	found, err := s.queries.FindAccount(ctx, sqlgen.FindAccountParams{Namespace: want.Namespace, Name: want.Name})
	if errors.Is(err, pgx.ErrNoRows) {
		found, err = s.insertAccount(ctx, want)
	}
	if err != nil {
		return account.Account{}, classify(err, "ensure account")
	}
	same := found.DisplayName == want.DisplayName && slices.Equal(found.Owners, want.Owners) && found.MaxStorage == want.MaxStorage &&
		found.MaxUploadSize == want.MaxUploadSize && found.Suspended == want.Suspended && toolPolicyOf(found).Equal(want.ToolPolicy)
	if same {
		return accountOf(found), nil
	}
	updated, err := s.queries.UpdateAccount(ctx, sqlgen.UpdateAccountParams{
		ID: found.ID, DisplayName: want.DisplayName, Owners: want.Owners,
		MaxStorage: want.MaxStorage, MaxUploadSize: want.MaxUploadSize, Suspended: want.Suspended,
		McpReadOnly: want.ToolPolicy.ReadOnly, McpTools: want.ToolPolicy.Tools,
	})
	if errors.Is(err, pgx.ErrNoRows) { // somebody else wrote the same just now
		return s.FindAccount(ctx, want.Namespace, want.Name)
	}
	if err != nil {
		return account.Account{}, classify(err, "update account")
	}
	return accountOf(updated), nil
}

// insertAccount makes the account, or finds the one that another caller made meanwhile.
func (s *Store) insertAccount(ctx context.Context, want account.Account) (sqlgen.Account, error) {
	var made sqlgen.Account
	err := s.inTx(ctx, "insert account", func(q *sqlgen.Queries) error {
		var err error
		made, err = q.InsertAccount(ctx, sqlgen.InsertAccountParams{
			ID: want.ID, Namespace: want.Namespace, Name: want.Name, DisplayName: want.DisplayName, Owners: want.Owners,
			MaxStorage: want.MaxStorage, MaxUploadSize: want.MaxUploadSize, Bucket: want.Bucket, Suspended: want.Suspended,
			McpReadOnly: want.ToolPolicy.ReadOnly, McpTools: want.ToolPolicy.Tools,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			made, err = q.FindAccount(ctx, sqlgen.FindAccountParams{Namespace: want.Namespace, Name: want.Name})
			return err
		}
		if err != nil {
			return err
		}
		return q.InsertHold(ctx, want.ID)
	})
	if fault.Is(err, fault.Conflict) {
		return made, fault.Wrap(err, fault.Conflict, "bucket %s is owned by another account", want.Bucket)
	}
	return made, err
}

// FindAccount implements account.Store.
func (s *Store) FindAccount(ctx context.Context, namespace, name string) (account.Account, error) {
	found, err := s.queries.FindAccount(ctx, sqlgen.FindAccountParams{Namespace: namespace, Name: name})
	if err != nil {
		return account.Account{}, classify(err, "find account")
	}
	return accountOf(found), nil
}

// SetBucketOwned implements account.Store.
func (s *Store) SetBucketOwned(ctx context.Context, accountID uuid.UUID, owned bool) error {
	return classify(s.queries.SetBucketOwned(ctx, sqlgen.SetBucketOwnedParams{ID: accountID, BucketOwned: owned}), "note the bucket's owner")
}

// OwnedBucket returns the bucket of an open account that is marked as the account's, or an
// empty name if there is none.
func (s *Store) OwnedBucket(ctx context.Context) (string, error) {
	bucket, err := s.queries.OwnedBucket(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return bucket, classify(err, "find a bucket")
}

// SetApps implements account.Store.
func (s *Store) SetApps(ctx context.Context, accountID uuid.UUID, names []string, now time.Time) ([]account.App, error) {
	current, err := s.queries.Apps(ctx, accountID)
	if err != nil {
		return nil, classify(err, "read apps")
	}
	if apps, same := openApps(current, names); same {
		return apps, nil
	}
	var apps []account.App
	err = s.inTx(ctx, "set apps", func(q *sqlgen.Queries) error {
		apps = nil
		owner, err := q.LockAccount(ctx, accountID)
		if err != nil {
			return err
		}
		if owner.ClosedAt != nil {
			return fault.New(fault.Conflict, "the account is closed")
		}
		current, err := q.Apps(ctx, accountID)
		if err != nil {
			return err
		}
		if err := closeApps(ctx, q, current, names, now); err != nil {
			return err
		}
		for _, name := range names {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			app, err := q.OpenApp(ctx, sqlgen.OpenAppParams{ID: id, AccountID: accountID, Name: name})
			if err != nil {
				return err
			}
			if err := q.InsertTotals(ctx, sqlgen.InsertTotalsParams{AppID: app.ID, AccountID: accountID}); err != nil {
				return err
			}
			apps = append(apps, appOf(app))
		}
		return nil
	})
	return apps, err
}

// openApps returns the open apps in the order of names, and whether they are exactly those.
func openApps(current []sqlgen.App, names []string) ([]account.App, bool) {
	open := map[string]sqlgen.App{}
	for _, app := range current {
		if app.ClosedAt == nil {
			open[app.Name] = app
		}
	}
	apps := make([]account.App, 0, len(names))
	for _, name := range names {
		app, ok := open[name]
		if !ok {
			return nil, false
		}
		apps = append(apps, appOf(app))
	}
	return apps, len(open) == len(names)
}

func closeApps(ctx context.Context, q *sqlgen.Queries, current []sqlgen.App, names []string, now time.Time) error {
	var closing []uuid.UUID
	for _, app := range current {
		if app.ClosedAt == nil && !slices.Contains(names, app.Name) {
			closing = append(closing, app.ID)
		}
	}
	if len(closing) == 0 {
		return nil
	}
	if err := q.RevokeKeysOfApps(ctx, sqlgen.RevokeKeysOfAppsParams{AppIds: closing, Now: now}); err != nil {
		return err
	}
	return q.CloseApps(ctx, closing)
}

// Keys implements account.Store.
func (s *Store) Keys(ctx context.Context, accountID uuid.UUID, now time.Time) ([]account.Key, error) {
	rows, err := s.queries.Keys(ctx, sqlgen.KeysParams{AccountID: accountID, Now: now})
	if err != nil {
		return nil, classify(err, "read keys")
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

// CloseAccount implements account.Store.
func (s *Store) CloseAccount(ctx context.Context, accountID uuid.UUID, now time.Time) error {
	return s.inTx(ctx, "close account", func(q *sqlgen.Queries) error {
		if err := q.RevokeKeysOfAccount(ctx, sqlgen.RevokeKeysOfAccountParams{AccountID: accountID, Now: now}); err != nil {
			return err
		}
		return q.CloseAccount(ctx, sqlgen.CloseAccountParams{ID: accountID, Now: now})
	})
}

// EraseAccount implements account.Store.
func (s *Store) EraseAccount(ctx context.Context, namespace, name string, accountID uuid.UUID, batch int) (int64, error) {
	if _, err := s.queries.EraseItems(ctx, sqlgen.EraseItemsParams{
		ID: accountID, Namespace: namespace, Name: name, Batch: int32(min(batch, 100_000)), //nolint:gosec // bounded just there
	}); err != nil {
		return 0, classify(err, "erase items")
	}
	left, err := s.queries.CountItemsToErase(ctx, sqlgen.CountItemsToEraseParams{ID: accountID, Namespace: namespace, Name: name})
	if err != nil {
		return 0, classify(err, "count items")
	}
	if left > 0 {
		return left, nil
	}
	return 0, classify(s.queries.EraseAccount(ctx, sqlgen.EraseAccountParams{ID: accountID, Namespace: namespace, Name: name}), "erase account")
}

// Usage implements account.Store.
func (s *Store) Usage(ctx context.Context, accountID uuid.UUID) (account.Usage, error) {
	sealed, err := s.queries.SealedUsage(ctx, accountID)
	if err != nil {
		return account.Usage{}, classify(err, "read sealed usage")
	}
	drafts, err := s.queries.DraftUsage(ctx, accountID)
	if err != nil {
		return account.Usage{}, classify(err, "read draft usage")
	}
	reserved, err := s.queries.ReservedUsage(ctx, accountID)
	if err != nil {
		return account.Usage{}, classify(err, "read reserved usage")
	}
	return account.Usage{SealedItems: sealed.Items, SealedBytes: sealed.Bytes, DraftItems: drafts.Items, DraftBytes: drafts.Bytes, Reserved: reserved}, nil
}

// FindPrincipal returns who holds the key with this hash; NotFound when nobody does.
// Whether the key has expired is for the caller's clock.
func (s *Store) FindPrincipal(ctx context.Context, hash account.Hash) (account.Principal, error) {
	row, err := s.queries.Principal(ctx, hash[:])
	if err != nil {
		return account.Principal{}, classify(err, "find principal")
	}
	return principalOf(row.Account, row.App, row.ApiKey), nil
}

// FindPrincipalByKeyID returns who holds the key with this id; NotFound when nobody does.
func (s *Store) FindPrincipalByKeyID(ctx context.Context, id uuid.UUID) (account.Principal, error) {
	row, err := s.queries.PrincipalOfKey(ctx, id)
	if err != nil {
		return account.Principal{}, classify(err, "find principal of key")
	}
	return principalOf(row.Account, row.App, row.ApiKey), nil
}

// TouchKeys notes when keys were last used. Keys that are gone are left out.
func (s *Store) TouchKeys(ctx context.Context, used map[uuid.UUID]time.Time) error {
	params := sqlgen.TouchKeysParams{}
	for id, at := range used {
		params.Ids = append(params.Ids, id)
		params.UsedAt = append(params.UsedAt, at)
	}
	return classify(s.queries.TouchKeys(ctx, params), "touch keys")
}

func accountOf(row sqlgen.Account) account.Account {
	return account.Account{ID: row.ID, Namespace: row.Namespace, Name: row.Name, DisplayName: row.DisplayName, Owners: row.Owners,
		MaxStorage: row.MaxStorage, MaxUploadSize: row.MaxUploadSize, Bucket: row.Bucket, BucketOwned: row.BucketOwned, Suspended: row.Suspended, ClosedAt: row.ClosedAt,
		ToolPolicy: toolPolicyOf(row)}
}

func toolPolicyOf(row sqlgen.Account) account.ToolPolicy {
	return account.ToolPolicy{ReadOnly: row.McpReadOnly, Tools: row.McpTools}
}

func appOf(row sqlgen.App) account.App {
	return account.App{ID: row.ID, AccountID: row.AccountID, Name: row.Name}
}

func principalOf(a sqlgen.Account, app sqlgen.App, k sqlgen.ApiKey) account.Principal {
	key := account.Key{ID: k.ID, AppID: k.AppID, Generation: k.Generation, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt}
	copy(key.Hash[:], k.Hash)
	return account.Principal{Account: accountOf(a), App: appOf(app), Key: key}
}
