package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// InstallationID implements account.RetentionStore.
func (s Accounts) InstallationID(ctx context.Context) (uuid.UUID, error) {
	id, err := s.queries.InstallationID(ctx)
	return id, toFault(err, "read the installation")
}

// RetainedAccounts implements account.RetentionStore.
func (s Accounts) RetainedAccounts(ctx context.Context, after uuid.UUID, limit int) ([]account.Retained, error) {
	rows, err := s.queries.RetainedAccountsAfter(ctx, sqlgen.RetainedAccountsAfterParams{After: after, Limit: batchSize(limit)})
	if err != nil {
		return nil, toFault(err, "read retained accounts")
	}
	retained := make([]account.Retained, 0, len(rows))
	for _, row := range rows {
		retained = append(retained, account.Retained{Account: accountOf(row.Account), InstallationID: row.InstallationID,
			Items: row.Items, Bytes: row.Bytes, Due: row.Due})
	}
	return retained, nil
}

// RetainedAccount implements account.RetentionStore.
func (s Accounts) RetainedAccount(ctx context.Context, accountID uuid.UUID) (account.Retained, error) {
	row, err := s.queries.RetainedAccount(ctx, accountID)
	if err != nil {
		return account.Retained{}, toFault(err, "read retained account")
	}
	return account.Retained{Account: accountOf(row.Account), InstallationID: row.InstallationID, Items: row.Items, Bytes: row.Bytes, Due: row.Due}, nil
}

// SetErasure implements account.RetentionStore.
func (s Accounts) SetErasure(ctx context.Context, closing account.Closing, erase bool) error {
	return s.inTx(ctx, "set the erasure", func(q *sqlgen.Queries) error {
		row, err := q.LockRetainedAccount(ctx, closing.AccountID)
		if err != nil {
			return err
		}
		found := account.Retained{Account: accountOf(row.Account), InstallationID: row.InstallationID}
		switch {
		case !found.Closing().Equal(closing):
			return pgx.ErrNoRows
		case erase && found.EraseAfter == nil:
			return q.EraseNow(ctx, found.ID)
		case !erase && found.ErasingAt != nil:
			return fault.New(fault.Conflict, "the deletion of the media has begun and cannot be undone")
		case !erase && found.EraseAfter != nil:
			return q.KeepMedia(ctx, found.ID)
		}
		return nil
	})
}

// BoundAccounts implements account.RetentionStore.
func (s Accounts) BoundAccounts(ctx context.Context, namespaces []string, takeOverGrace time.Duration, after uuid.UUID, limit int) ([]account.Bound, error) {
	rows, err := s.queries.BoundAccountsAfter(ctx, sqlgen.BoundAccountsAfterParams{
		Namespaces: namespaces, GraceSeconds: takeOverGrace.Seconds(), After: after, Limit: batchSize(limit),
	})
	if err != nil {
		return nil, toFault(err, "read open accounts")
	}
	bound := make([]account.Bound, 0, len(rows))
	for _, row := range rows {
		bound = append(bound, account.Bound{ID: row.ID, Namespace: row.Namespace, Name: row.Name, ObjectUID: row.ObjectUid})
	}
	return bound, nil
}

// CloseOrphan implements account.RetentionStore.
func (s Accounts) CloseOrphan(ctx context.Context, orphan account.Bound) (closed bool, err error) {
	err = s.inTx(ctx, "close an orphan", func(q *sqlgen.Queries) error {
		closed = false
		_, err := q.LockBoundAccount(ctx, sqlgen.LockBoundAccountParams{ID: orphan.ID, ObjectUid: orphan.ObjectUID})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		closed = true
		return closeOrphan(ctx, q, orphan.ID)
	})
	return closed && err == nil, err
}

// closeOrphan closes an account whose MediaAccount is gone, and ends its keys.
func closeOrphan(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID) error {
	if err := q.RevokeKeysOfAccount(ctx, accountID); err != nil {
		return err
	}
	_, err := q.CloseAccount(ctx, sqlgen.CloseAccountParams{ID: accountID})
	return err
}
