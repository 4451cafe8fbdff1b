package postgres

import (
	"context"
	"errors"
	"slices"

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
		return account.Account{}, toFault(err, "ensure account")
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
	if errors.Is(err, pgx.ErrNoRows) { // another caller wrote the same values meanwhile
		return s.FindAccount(ctx, want.Namespace, want.Name)
	}
	if err != nil {
		return account.Account{}, toFault(err, "update account")
	}
	return accountOf(updated), nil
}

// insertAccount inserts the account, or finds the one that another caller inserted meanwhile.
func (s *Store) insertAccount(ctx context.Context, want account.Account) (sqlgen.Account, error) {
	var inserted sqlgen.Account
	err := s.inTx(ctx, "insert account", func(q *sqlgen.Queries) error {
		var err error
		inserted, err = q.InsertAccount(ctx, sqlgen.InsertAccountParams{
			ID: want.ID, Namespace: want.Namespace, Name: want.Name, NamespaceUid: want.NamespaceUID, ObjectUid: want.ObjectUID, DisplayName: want.DisplayName, Owners: want.Owners,
			MaxStorage: want.MaxStorage, MaxUploadSize: want.MaxUploadSize, Bucket: want.Bucket, Suspended: want.Suspended,
			McpReadOnly: want.ToolPolicy.ReadOnly, McpTools: want.ToolPolicy.Tools,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			inserted, err = q.FindAccount(ctx, sqlgen.FindAccountParams{Namespace: want.Namespace, Name: want.Name})
			return err
		}
		if err != nil {
			return err
		}
		return q.InsertUsage(ctx, want.ID)
	})
	if fault.Is(err, fault.Conflict) {
		return inserted, fault.Wrap(err, fault.Conflict, "bucket %s is owned by another account", want.Bucket)
	}
	return inserted, err
}

// FindAccount implements account.Store.
func (s *Store) FindAccount(ctx context.Context, namespace, name string) (account.Account, error) {
	found, err := s.queries.FindAccount(ctx, sqlgen.FindAccountParams{Namespace: namespace, Name: name})
	if err != nil {
		return account.Account{}, toFault(err, "find account")
	}
	return accountOf(found), nil
}

// SetBucketOwned implements account.Store.
func (s *Store) SetBucketOwned(ctx context.Context, accountID uuid.UUID, owned bool) error {
	return toFault(s.queries.SetBucketOwned(ctx, sqlgen.SetBucketOwnedParams{ID: accountID, BucketOwned: owned}), "set bucket ownership")
}

// OwnedBucket returns the bucket of an open account that is marked as the account's, or an
// empty name if there is none.
func (s *Store) OwnedBucket(ctx context.Context) (string, error) {
	bucket, err := s.queries.OwnedBucket(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return bucket, toFault(err, "find a bucket")
}

// Usage implements account.Store.
func (s *Store) Usage(ctx context.Context, accountID uuid.UUID) (account.Usage, error) {
	sealed, err := s.queries.SealedUsage(ctx, accountID)
	if err != nil {
		return account.Usage{}, toFault(err, "read sealed usage")
	}
	drafts, err := s.queries.DraftUsage(ctx, accountID)
	if err != nil {
		return account.Usage{}, toFault(err, "read draft usage")
	}
	reserved, err := s.queries.ReservedUsage(ctx, accountID)
	if err != nil {
		return account.Usage{}, toFault(err, "read reserved usage")
	}
	return account.Usage{SealedItems: sealed.Items, SealedBytes: sealed.Bytes, DraftItems: drafts.Items, DraftBytes: drafts.Bytes, Reserved: reserved}, nil
}

func accountOf(row sqlgen.Account) account.Account {
	return account.Account{ID: row.ID, Namespace: row.Namespace, Name: row.Name, NamespaceUID: row.NamespaceUid, ObjectUID: row.ObjectUid, DisplayName: row.DisplayName, Owners: row.Owners,
		MaxStorage: row.MaxStorage, MaxUploadSize: row.MaxUploadSize, Bucket: row.Bucket, BucketOwned: row.BucketOwned, BucketClaimed: row.BucketClaimed, Suspended: row.Suspended, ClosedAt: row.ClosedAt, EraseAfter: row.EraseAfter, ErasingAt: row.ErasingAt, BucketRemovedAt: row.BucketRemovedAt,
		ToolPolicy: toolPolicyOf(row)}
}

func toolPolicyOf(row sqlgen.Account) account.ToolPolicy {
	return account.ToolPolicy{ReadOnly: row.McpReadOnly, Tools: row.McpTools}
}
