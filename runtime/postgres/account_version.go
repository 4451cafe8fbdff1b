package postgres

import (
	"context"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// Versions implements account.VersionStore.
func (s Accounts) Versions(ctx context.Context, ids []uuid.UUID) ([]account.Version, error) {
	rows, err := s.queries.AccountVersions(ctx, ids)
	return versionsOf(rows), toFault(err, "read the versions of accounts")
}

// VersionsAfter implements account.VersionStore.
func (s Accounts) VersionsAfter(ctx context.Context, namespaces []string, after uuid.UUID, limit int) ([]account.Version, error) {
	rows, err := s.queries.AccountVersionsAfter(ctx, sqlgen.AccountVersionsAfterParams{Namespaces: namespaces, After: after, Limit: batchSize(limit)})
	return versionsOf(rows), toFault(err, "read the versions of all accounts")
}

func versionsOf(rows []sqlgen.AccountVersion) []account.Version {
	versions := make([]account.Version, 0, len(rows))
	for _, row := range rows {
		versions = append(versions, account.Version{ID: row.ID, Namespace: row.Namespace, Name: row.Name, Account: row.Version, Settings: row.SettingsVersion})
	}
	return versions
}

// Usage implements account.Store.
func (s Accounts) Usage(ctx context.Context, accountID uuid.UUID) (account.Usage, error) {
	row, err := s.queries.AccountHolding(ctx, accountID)
	if err != nil {
		return account.Usage{}, toFault(err, "read the usage")
	}
	return account.Usage{Used: row.Used, SealedItems: row.SealedItems, SealedBytes: row.SealedBytes, DraftBytes: row.DraftBytes, DeletedBytes: row.DeletedBytes, RenditionBytes: row.RenditionBytes, Reserved: row.Reserved}, nil
}

// HoldingsAfter implements account.VersionStore.
func (s Accounts) HoldingsAfter(ctx context.Context, namespaces []string, after uuid.UUID, limit int) ([]account.Holding, error) {
	rows, err := s.queries.AccountHoldingsAfter(ctx, sqlgen.AccountHoldingsAfterParams{Namespaces: namespaces, After: after, Limit: batchSize(limit)})
	if err != nil {
		return nil, toFault(err, "read the usage of all accounts")
	}
	holdings := make([]account.Holding, 0, len(rows))
	for _, row := range rows {
		holdings = append(holdings, account.Holding{ID: row.ID, Namespace: row.Namespace, Name: row.Name, LastUsedAt: row.LastUsedAt,
			Usage: account.Usage{Used: row.Used, SealedItems: row.SealedItems, SealedBytes: row.SealedBytes, DraftBytes: row.DraftBytes, DeletedBytes: row.DeletedBytes, RenditionBytes: row.RenditionBytes, Reserved: row.Reserved}})
	}
	return holdings, nil
}
