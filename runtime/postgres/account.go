package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// FindAccount implements account.Store.
func (s Accounts) FindAccount(ctx context.Context, namespace, name string) (account.Account, error) {
	found, err := s.queries.FindAccount(ctx, sqlgen.FindAccountParams{Namespace: namespace, Name: name})
	if err != nil {
		return account.Account{}, toFault(err, "find account")
	}
	return accountOf(found), nil
}

// SetBucketOwned implements account.Store.
func (s Accounts) SetBucketOwned(ctx context.Context, accountID uuid.UUID, owned bool) error {
	return toFault(s.queries.SetBucketOwned(ctx, sqlgen.SetBucketOwnedParams{ID: accountID, BucketOwned: owned}), "set bucket ownership")
}

// OwnedBucket returns the bucket of an open account that is marked as the account's, or an
// empty name if there is none.
func (s Accounts) OwnedBucket(ctx context.Context) (string, error) {
	bucket, err := s.queries.OwnedBucket(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return bucket, toFault(err, "find a bucket")
}

// HasItems implements account.Store.
func (s Accounts) HasItems(ctx context.Context, accountID uuid.UUID) (bool, error) {
	has, err := s.queries.HasItems(ctx, accountID)
	return has, toFault(err, "look for items")
}

// filesOfSample is the number of the oldest items, and of the newest, that SampleFiles reads.
const filesOfSample = 3

// SampleFiles implements account.Store.
func (s Accounts) SampleFiles(ctx context.Context, accountID uuid.UUID) ([]string, error) {
	keys, err := s.queries.SampleFiles(ctx, sqlgen.SampleFilesParams{AccountID: accountID, Items: filesOfSample})
	return keys, toFault(err, "read files of the account")
}

func accountOf(row sqlgen.Account) account.Account {
	return account.Account{ID: row.ID, Namespace: row.Namespace, Name: row.Name, NamespaceUID: row.NamespaceUid, ObjectUID: row.ObjectUid, DisplayName: row.DisplayName, Owners: row.Owners,
		MaxStorage: row.MaxStorage, MaxUploadSize: row.MaxUploadSize, Bucket: row.Bucket, BucketOwned: row.BucketOwned, BucketClaimed: row.BucketClaimed, Suspended: row.Suspended, ClosedAt: row.ClosedAt, EraseAfter: row.EraseAfter, ErasingAt: row.ErasingAt, BucketRemovedAt: row.BucketRemovedAt,
		ToolPolicy: toolPolicyOf(row), Origins: row.CorsOrigins, Undo: undoOf(row), Journal: durationOf(row.JournalRetention), FullAddresses: row.JournalFullAddresses, Gate: gateOf(row.Gate), Search: searchOf(row.Search), KeepLocation: row.KeepLocation}
}

func toolPolicyOf(row sqlgen.Account) account.ToolPolicy {
	return account.ToolPolicy{ReadOnly: row.McpReadOnly, Tools: row.McpTools, Toolsets: row.McpToolsets, Approval: approvalOf(row.Approval), Ceilings: ceilingsOf(row.Ceilings)}
}

// ListOrigins implements accountcache.OriginStore.
func (s Accounts) ListOrigins(ctx context.Context) ([]string, error) {
	texts, err := s.queries.ListOrigins(ctx)
	return texts, toFault(err, "list web origins")
}
