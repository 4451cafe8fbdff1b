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

const (
	// eraseItemBatch bounds the items of one statement, each of which has many index entries.
	eraseItemBatch = 1000
	// eraseRowBatch bounds the rows of one statement in the other tables.
	eraseRowBatch = 5000
	// eraseAppBatch bounds the apps of one statement, each of which checks every table that
	// refers to it.
	eraseAppBatch = 5
)

// CloseAccount implements account.Store.
func (s *Store) CloseAccount(ctx context.Context, accountID uuid.UUID, options account.CloseOptions) (account.Account, error) {
	var closed sqlgen.Account
	err := s.inTx(ctx, "close account", func(q *sqlgen.Queries) error {
		var err error
		if closed, err = q.LockAccount(ctx, accountID); err != nil || closed.ClosedAt != nil {
			return err
		}
		if err := q.RevokeKeysOfAccount(ctx, accountID); err != nil {
			return err
		}
		after, err := eraseAfter(ctx, q, accountID, options)
		if err != nil {
			return err
		}
		closed, err = q.CloseAccount(ctx, sqlgen.CloseAccountParams{ID: accountID, EraseAfterSeconds: after})
		return err
	})
	return accountOf(closed), err
}

// eraseAfter returns the seconds until the media is deleted, or nil if it is retained.
func eraseAfter(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID, options account.CloseOptions) (*float64, error) {
	if !options.Erase {
		return nil, nil
	}
	after := time.Duration(0)
	if options.EraseAfter != nil {
		after = *options.EraseAfter
	} else {
		sealed, err := q.SealedItems(ctx, accountID)
		if err != nil {
			return nil, err
		}
		if sealed > 0 {
			after = account.DefaultEraseAfter
		}
	}
	seconds := after.Seconds()
	return &seconds, nil
}

// FindAccountOfObject implements account.ErasureStore.
func (s *Store) FindAccountOfObject(ctx context.Context, namespace, name, objectUID string) (account.Account, error) {
	found, err := s.queries.FindAccount(ctx, sqlgen.FindAccountParams{Namespace: namespace, Name: name})
	if err == nil && (found.ObjectUid == objectUID || found.NamespaceUid == "") {
		return accountOf(found), nil
	}
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		found, err = s.queries.ClosedAccountOfObject(ctx, sqlgen.ClosedAccountOfObjectParams{Namespace: namespace, Name: name, ObjectUid: objectUID})
	}
	if err != nil {
		return account.Account{}, toFault(err, "find the account of an object")
	}
	return accountOf(found), nil
}

// BeginErasure implements account.ErasureStore.
func (s *Store) BeginErasure(ctx context.Context, accountID uuid.UUID) (account.Account, error) {
	begun, err := s.queries.BeginErasure(ctx, accountID)
	if errors.Is(err, pgx.ErrNoRows) {
		if begun, err = s.queries.GetAccount(ctx, accountID); err == nil && begun.ErasingAt == nil {
			return account.Account{}, fault.New(fault.Conflict, "account %s is open, or its media is kept", accountID)
		}
	}
	if err != nil {
		return account.Account{}, toFault(err, "begin an erasure")
	}
	return accountOf(begun), nil
}

// SetBucketRemoved implements account.ErasureStore.
func (s *Store) SetBucketRemoved(ctx context.Context, accountID uuid.UUID) error {
	return toFault(s.queries.SetBucketRemoved(ctx, accountID), "record that a bucket was removed")
}

// ItemsToErase implements account.ErasureStore.
func (s *Store) ItemsToErase(ctx context.Context, accountID uuid.UUID) (int64, error) {
	items, err := s.queries.ItemsToErase(ctx, accountID)
	return items, toFault(err, "count the items to erase")
}

// AbandonErasure implements account.ErasureStore.
func (s *Store) AbandonErasure(ctx context.Context, accountID uuid.UUID) (account.Account, error) {
	kept, err := s.queries.AbandonErasure(ctx, accountID)
	if errors.Is(err, pgx.ErrNoRows) {
		return account.Account{}, fault.New(fault.Conflict, "account %s is open, or its bucket was removed already", accountID)
	}
	if err != nil {
		return account.Account{}, toFault(err, "abandon an erasure")
	}
	return accountOf(kept), nil
}

// EraseRows implements account.ErasureStore. Every statement is a transaction of its own and
// bounded, so that none holds locks, or delays others, for long. A killed erasure continues with
// the rows that are left.
func (s *Store) EraseRows(ctx context.Context, accountID uuid.UUID, more func() bool) (bool, error) {
	steps := []func() (bool, error){
		func() (bool, error) { return s.eraseItems(ctx, accountID, more) },
		func() (bool, error) { return s.eraseDependents(ctx, accountID, more) },
	}
	for _, step := range steps {
		if done, err := step(); !done || err != nil {
			return false, toFault(err, "erase rows")
		}
	}
	erased, err := s.queries.EraseAccount(ctx, accountID)
	if err != nil || erased > 0 {
		return err == nil, toFault(err, "erase account")
	}
	if _, err = s.queries.GetAccount(ctx, accountID); err == nil {
		err = fault.New(fault.Conflict, "account %s is not being erased", accountID)
	} else if errors.Is(err, pgx.ErrNoRows) {
		return true, nil // another process erased it
	}
	return false, toFault(err, "erase account")
}

// eraseItems deletes items in the order of their ids. Each batch begins where the one before the
// last ended: the scan meets the entries that the last batch deleted and marks them as dead in the
// index, which keeps later scans of the account cheap, also before a vacuum.
func (s *Store) eraseItems(ctx context.Context, accountID uuid.UUID, more func() bool) (bool, error) {
	var from, last uuid.UUID
	for {
		erased, err := s.queries.EraseItems(ctx, sqlgen.EraseItemsParams{AccountID: accountID, After: from, Batch: eraseItemBatch})
		if err != nil {
			return false, err
		}
		if erased.Erased == 0 {
			return true, nil
		}
		if !more() {
			return false, nil
		}
		from, last = last, erased.Last
	}
}

// eraseBatch are the parameters of every query that deletes a batch.
type eraseBatch = struct {
	AccountID uuid.UUID
	Batch     int32
}

// eraseDependents deletes the rows of the other tables, those that refer to others first.
func (s *Store) eraseDependents(ctx context.Context, accountID uuid.UUID, more func() bool) (bool, error) {
	q := s.queries
	for _, table := range []struct {
		batch int32
		erase func(b eraseBatch) (int64, error)
	}{
		{eraseRowBatch, func(b eraseBatch) (int64, error) { return q.ErasePageDeltas(ctx, sqlgen.ErasePageDeltasParams(b)) }},
		{eraseRowBatch, func(b eraseBatch) (int64, error) { return q.ErasePageBlocks(ctx, sqlgen.ErasePageBlocksParams(b)) }},
		{eraseRowBatch, func(b eraseBatch) (int64, error) { return q.EraseGroupTotals(ctx, sqlgen.EraseGroupTotalsParams(b)) }},
		{eraseRowBatch, func(b eraseBatch) (int64, error) { return q.EraseUploads(ctx, sqlgen.EraseUploadsParams(b)) }},
		{eraseRowBatch, func(b eraseBatch) (int64, error) {
			return q.EraseResumableUploads(ctx, sqlgen.EraseResumableUploadsParams(b))
		}},
		{eraseRowBatch, func(b eraseBatch) (int64, error) { return q.EraseRemovals(ctx, sqlgen.EraseRemovalsParams(b)) }},
		{eraseRowBatch, func(b eraseBatch) (int64, error) { return q.EraseOAuthTokens(ctx, sqlgen.EraseOAuthTokensParams(b)) }},
		{eraseRowBatch, func(b eraseBatch) (int64, error) { return q.EraseOAuthGrants(ctx, sqlgen.EraseOAuthGrantsParams(b)) }},
		{eraseRowBatch, func(b eraseBatch) (int64, error) { return q.EraseKeys(ctx, sqlgen.EraseKeysParams(b)) }},
		{eraseAppBatch, func(b eraseBatch) (int64, error) { return q.EraseApps(ctx, sqlgen.EraseAppsParams(b)) }},
	} {
		for erased := int64(table.batch); erased == int64(table.batch); {
			if !more() {
				return false, nil
			}
			var err error
			if erased, err = table.erase(eraseBatch{AccountID: accountID, Batch: table.batch}); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}
