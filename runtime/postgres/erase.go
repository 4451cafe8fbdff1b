package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

const (
	// eraseBatch bounds the rows of one statement.
	eraseBatch = 1000
	// eraseAppBatch bounds the apps of one statement, each of which checks every table that
	// refers to it, and deletes the pagination index.
	eraseAppBatch = 5
	// eraseTimeout bounds one statement of an erasure. The server ends it, and has answered then: the caller, whose own timeout is
	// longer, can tell it from a server that does not respond.
	eraseTimeout = 10 * time.Second
)

// CloseAccount implements account.Store.
func (s Accounts) CloseAccount(ctx context.Context, accountID uuid.UUID, options account.CloseOptions) (account.Account, error) {
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
	if err == nil { // also if it was closed already, by a call that failed here
		err = s.awaitItemCaches(ctx)
	}
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
func (s Accounts) FindAccountOfObject(ctx context.Context, namespace, name, objectUID string) (account.Account, error) {
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
func (s Accounts) BeginErasure(ctx context.Context, accountID uuid.UUID) (account.Account, error) {
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
func (s Accounts) SetBucketRemoved(ctx context.Context, accountID uuid.UUID) error {
	return toFault(s.queries.SetBucketRemoved(ctx, accountID), "record that a bucket was removed")
}

// ItemsToErase implements account.ErasureStore.
func (s Accounts) ItemsToErase(ctx context.Context, accountID uuid.UUID) (int64, error) {
	items, err := s.queries.ItemsToErase(ctx, accountID)
	return items, toFault(err, "count the items to erase")
}

// AbandonErasure implements account.ErasureStore.
func (s Accounts) AbandonErasure(ctx context.Context, accountID uuid.UUID) (account.Account, error) {
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
// the rows that are left. A statement that takes too long is Busy, not Unavailable: the server responds, and
// nothing else has to wait for it.
func (s Accounts) EraseRows(ctx context.Context, accountID uuid.UUID, more func() bool) (done bool, err error) {
	err = s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, erasePlanner); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, eraseBound, s.eraseTimeout.Milliseconds()); err != nil {
			return err
		}
		rows := rowEraser{q: sqlgen.New(conn), accountID: accountID, more: more}
		var err error
		done, err = rows.erase(ctx)
		if err := resetPlanner(context.WithoutCancel(ctx), conn); err != nil {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
		return err
	})
	if isTimeout(err) {
		return false, fault.Wrap(err, fault.Busy, "PostgreSQL took too long to delete a batch of rows: the deletion is tried again")
	}
	return done && err == nil, toFault(err, "erase rows")
}

// erasePlanner are the settings of an erasure. The planner must not prefer to scan a whole table, even if most of it is of
// this account: each batch, and each check of a foreign key, would scan it. Nor must it read all rows of the account, by a
// bitmap, to find a batch of them. Without an index, such as for the row of the installation, the estimated cost is then so
// high that each statement would be compiled, which takes longer than the deletion. No plan is that of an earlier erasure, when
// the tables may have been empty.
const erasePlanner = `SELECT set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false), set_config('jit', 'off', false),
	set_config('plan_cache_mode', '` + maintenancePlans + `', false)`

// eraseBound sets eraseTimeout; a shorter timeout of the session stays.
const eraseBound = `SELECT set_config('statement_timeout', least(nullif(setting::bigint, 0), $1::bigint)::text, false) FROM pg_catalog.pg_settings WHERE name = 'statement_timeout'`

// resetPlanner ends the settings of EraseRows.
func resetPlanner(ctx context.Context, conn *pgxpool.Conn) error {
	for _, setting := range []string{"enable_seqscan", "enable_bitmapscan", "jit", "plan_cache_mode", "statement_timeout"} {
		if _, err := conn.Exec(ctx, "RESET "+setting); err != nil {
			return err
		}
	}
	return nil
}

// rowEraser deletes the rows of one account. Its methods report whether none is left.
type rowEraser struct {
	q         *sqlgen.Queries
	accountID uuid.UUID
	more      func() bool
}

// erase deletes the items, then the rows of the other tables, those that refer to others first,
// and the account last.
func (e rowEraser) erase(ctx context.Context) (bool, error) {
	for _, step := range []func(context.Context) (bool, error){e.eraseItems, e.eraseOfApps, e.eraseRemovals, e.eraseEvents, e.eraseDependents, e.eraseAccount} {
		if done, err := step(ctx); !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (e rowEraser) eraseItems(ctx context.Context) (bool, error) {
	return eraseInOrder(e.more, uuid.Nil, func(after uuid.UUID) (int32, uuid.UUID, error) {
		batch, err := e.q.EraseItems(ctx, sqlgen.EraseItemsParams{AccountID: e.accountID, After: after, Batch: eraseBatch})
		return batch.Erased, batch.Last, err
	})
}

// eraseOfApps deletes the rows of the apps that are as many as items.
func (e rowEraser) eraseOfApps(ctx context.Context) (bool, error) {
	apps, err := e.q.AppsToErase(ctx, e.accountID)
	if err != nil {
		return false, err
	}
	for _, app := range apps {
		done, err := eraseInOrder(e.more, uuid.Nil, func(after uuid.UUID) (int32, uuid.UUID, error) {
			batch, err := e.q.ErasePageDeltas(ctx, sqlgen.ErasePageDeltasParams{AppID: app, After: after, Batch: eraseBatch})
			return batch.Erased, batch.Last, err
		})
		if !done || err != nil {
			return false, err
		}
		done, err = eraseInOrder(e.more, "", func(after string) (int32, string, error) {
			batch, err := e.q.EraseGroupTotals(ctx, sqlgen.EraseGroupTotalsParams{AppID: app, After: after, Batch: eraseBatch})
			return batch.Erased, batch.Last, err
		})
		if !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (e rowEraser) eraseRemovals(ctx context.Context) (bool, error) {
	return eraseInOrder(e.more, 0, func(after int64) (int32, int64, error) {
		batch, err := e.q.EraseRemovals(ctx, sqlgen.EraseRemovalsParams{AccountID: e.accountID, After: after, Batch: eraseBatch})
		return batch.Erased, batch.Last, err
	})
}

func (e rowEraser) eraseEvents(ctx context.Context) (bool, error) {
	type position struct{ epoch, xid, id int64 }
	return eraseInOrder(e.more, position{}, func(after position) (int32, position, error) {
		batch, err := e.q.EraseEvents(ctx, sqlgen.EraseEventsParams{AccountID: e.accountID, Epoch: after.epoch, Xid: after.xid, ID: after.id, Batch: eraseBatch})
		return batch.Erased, position{batch.Epoch, batch.Xid, batch.ID}, err
	})
}

// eraseInOrder deletes batches in the order of a key, until one is empty. erase deletes the batch
// after a key and returns its last key. Each batch begins where the one before the last ended:
// the scan meets the entries that the last batch deleted and marks them as dead in the index,
// which keeps later scans cheap, also before a vacuum.
func eraseInOrder[K any](more func() bool, first K, erase func(after K) (erased int32, last K, err error)) (done bool, err error) {
	from, end := first, first
	for {
		erased, last, err := erase(from)
		if erased == 0 || err != nil {
			return err == nil, err
		}
		if !more() {
			return false, nil
		}
		from, end = end, last
	}
}

// erasedRows are the parameters of the queries that delete any batch.
type erasedRows = struct {
	AccountID uuid.UUID
	Batch     int32
}

// eraseDependents deletes the rows of the tables that are small.
func (e rowEraser) eraseDependents(ctx context.Context) (bool, error) {
	q := e.q
	for _, table := range []struct {
		batch int32
		erase func(r erasedRows) (int64, error)
	}{
		{eraseBatch, func(r erasedRows) (int64, error) { return q.EraseUploads(ctx, sqlgen.EraseUploadsParams(r)) }},
		{eraseBatch, func(r erasedRows) (int64, error) {
			return q.EraseResumableUploads(ctx, sqlgen.EraseResumableUploadsParams(r))
		}},
		{eraseBatch, func(r erasedRows) (int64, error) { return q.EraseFetches(ctx, sqlgen.EraseFetchesParams(r)) }},
		{eraseBatch, func(r erasedRows) (int64, error) { return q.EraseOAuthTokens(ctx, sqlgen.EraseOAuthTokensParams(r)) }},
		{eraseBatch, func(r erasedRows) (int64, error) { return q.EraseOAuthGrants(ctx, sqlgen.EraseOAuthGrantsParams(r)) }},
		{eraseBatch, func(r erasedRows) (int64, error) { return q.EraseKeys(ctx, sqlgen.EraseKeysParams(r)) }},
		{eraseAppBatch, func(r erasedRows) (int64, error) { return q.EraseApps(ctx, sqlgen.EraseAppsParams(r)) }},
	} {
		for erased := int64(table.batch); erased == int64(table.batch); {
			var err error
			if erased, err = table.erase(erasedRows{AccountID: e.accountID, Batch: table.batch}); err != nil {
				return false, err
			}
			if erased == int64(table.batch) && !e.more() {
				return false, nil
			}
		}
	}
	return true, nil
}

// eraseAccount deletes the account. It is Conflict if the account is not being erased.
func (e rowEraser) eraseAccount(ctx context.Context) (bool, error) {
	erased, err := e.q.EraseAccount(ctx, e.accountID)
	if err != nil || erased > 0 {
		return err == nil, err
	}
	_, err = e.q.GetAccount(ctx, e.accountID)
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil // another process erased it
	}
	if err == nil {
		err = fault.New(fault.Conflict, "account %s is not being erased", e.accountID)
	}
	return false, err
}
