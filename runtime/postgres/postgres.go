// Package postgres stores accounts, settings, media and OAuth data in PostgreSQL. A Store has a sub-store for each domain, which
// implements the interfaces of the domain package; UploadLocks implements tus.Locks.
//
// A file holds the methods of one table. The queries are in queries/, the schema is in
// migrations/. Driver errors become faults in this package only.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// Store is a pool of connections to one database. It is safe for concurrent use.
type Store struct {
	// The sub-stores share the pool.
	Accounts      Accounts
	Items         Items
	Uploads       Uploads
	Pictures      Pictures
	Logins        Logins
	Installations Installations
	Consistency   Consistency
	Credentials   Credentials
	Fetches       Fetches
	Settings      Settings
	Tasks         Tasks
	Journal       Journal
	Webhooks      Webhooks
	CDN           CDN
	Gates         Gates
	Approvals     Approvals
	Handovers     Handovers

	pool *pgxpool.Pool
	db   *connections // the pool, with retries
	// queries are retried if they were not sent, idempotent also if their outcome is not known, and once never: repeat retries what
	// they are part of.
	queries, idempotent, once *sqlgen.Queries

	fence fence
	cell  cell.Number
	// wasWritable is set once the database was seen to accept changes.
	wasWritable atomic.Bool

	// Concurrent uploads are opened, and committed, in batches of all accounts.
	openBatch   *batcher[uuid.UUID, openRequest]
	commitBatch *batcher[uuid.UUID, draft]
	storedBatch *batcher[uuid.UUID, storedFile]
	// Concurrent look-ups of keys share a statement.
	principalBatch *batcher[account.Hash, *principalLookup]
	batches        batchMetrics
	evicted        *prometheus.CounterVec // renditions
	// finishLockTimeout and eraseTimeout are the constants, except in tests.
	finishLockTimeout time.Duration
	eraseTimeout      time.Duration
	instance          atomic.Pointer[uuid.UUID] // of this process; nil until it is recorded
	replicas          atomic.Int64              // that serve, as of the last heartbeat
	statements        measuredTracer
	pageIndex         *pageIndex
	caches            *cacheWait
	searches          searchBounds
	onRoomMade        func(ctx context.Context, removals []media.Removal) // nil = the purge does it
}

// Open returns a Store. It connects on first use, so Open succeeds while the server is down.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	poolCfg, err := cfg.poolConfig()
	if err != nil {
		return nil, err
	}
	s := &Store{cell: cfg.Cell, db: &connections{retryTimeout: cfg.RetryTimeout, statementTimeout: cfg.StatementTimeout}, batches: newBatchMetrics(), evicted: newEvicted(), finishLockTimeout: finishLockTimeout, eraseTimeout: eraseTimeout, statements: newMeasuredTracer(), searches: cfg.Search.bounds()}
	s.Accounts, s.Items, s.Uploads, s.Pictures, s.Logins, s.Installations, s.Consistency, s.Credentials, s.Fetches, s.Settings, s.Tasks, s.Journal, s.Webhooks, s.CDN, s.Gates, s.Approvals, s.Handovers = Accounts{s}, Items{s}, Uploads{s}, Pictures{s}, Logins{s}, Installations{s}, Consistency{s}, Credentials{s}, Fetches{s}, Settings{s}, Tasks{s}, Journal{s}, Webhooks{s}, CDN{s}, Gates{s}, Approvals{s}, Handovers{s}
	poolCfg.ConnConfig.Tracer = s.statements
	s.fence.install(poolCfg)
	readLimits(poolCfg, &s.db.limits)
	s.db.counters.install(poolCfg)
	if s.pool, err = pgxpool.NewWithConfig(ctx, poolCfg); err != nil {
		return nil, fmt.Errorf("create the database pool: %w", err)
	}
	s.db.pool = s.pool
	s.db.shares = newShares(int(s.pool.Config().MaxConns))
	s.queries, s.idempotent, s.once = sqlgen.New(statements{connections: s.db, again: isUnsent}), s.idempotentFor(uuid.Nil), sqlgen.New(s.pool)
	s.openBatch, s.commitBatch = newBatcher(openRequest.account, s.Uploads.openUploads), newBatcher(draft.account, s.Uploads.commitUploads)
	s.storedBatch = newBatcher(storedFile.account, s.Uploads.commitStoredFiles)
	s.openBatch.pause, s.commitBatch.pause, s.storedBatch.pause = s.Uploads.batchPause, s.Uploads.batchPause, s.Uploads.batchPause
	s.openBatch.waiting, s.openBatch.size = s.batches.of("open")
	s.commitBatch.waiting, s.commitBatch.size = s.batches.of("commit")
	s.storedBatch.waiting, s.storedBatch.size = s.batches.of("commit_stored")
	s.principalBatch = newBatcher((*principalLookup).key, s.Credentials.findPrincipals)
	s.principalBatch.lateAfter = principalsLateAfter
	s.pageIndex = newPageIndex(s.Items.compactApp)
	s.caches = newCacheWait(s.acknowledgeRound)
	return s, nil
}

// Close waits for running queries and closes every connection.
func (s *Store) Close() {
	s.pageIndex.close()
	s.pool.Close()
}

// Cell returns the number of the installation, as the configuration has it. Installation returns a
// fault if the database has another one.
func (s *Store) Cell() cell.Number { return s.cell }

// Ping checks that the server responds.
func (s *Store) Ping(ctx context.Context) error {
	return toFault(s.db.explain(s.pool.Ping(ctx)), "ping")
}

// CheckWritable returns an Unavailable fault while PostgreSQL accepts no changes: it is a standby, or its transactions are read-only by
// default. Reads go on then. always reports whether it was so ever since the Store was opened.
func (s *Store) CheckWritable(ctx context.Context) (always bool, err error) {
	var readOnly, standby bool
	err = s.db.explain(s.pool.QueryRow(ctx, "SELECT current_setting('transaction_read_only') = 'on', pg_is_in_recovery()").Scan(&readOnly, &standby))
	switch {
	case err != nil:
		return false, toFault(err, "look whether the database accepts changes")
	case standby:
		err = errors.New("PostgreSQL is read-only: SERVICE_DATABASE_URL names a standby")
	case readOnly:
		err = errors.New("PostgreSQL is read-only: default_transaction_read_only is on, for the server, the database or the role")
	default:
		s.wasWritable.Store(true)
		return false, nil
	}
	return !s.wasWritable.Load(), fault.Explain(fault.Wrap(err, fault.Unavailable, readOnlyText), fault.ReadOnly, err.Error())
}

// inTx runs do in one transaction. Inside, only the transaction's queries are used.
func (s *Store) inTx(ctx context.Context, op string, do func(q *sqlgen.Queries) error) error {
	ctx, cancel := s.db.bound(ctx)
	defer cancel()
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error { return do(s.queries.WithTx(tx)) })
	s.db.dropStalePlans(err)
	return toFault(err, op)
}

// maxBatch bounds the rows that one statement of the purge changes.
const maxBatch = 100_000

// batchSize returns a batch size that fits a query parameter.
func batchSize(n int) int32 { return int32(min(n, maxBatch)) } //nolint:gosec // bounded by maxBatch

// totalSlots is the number of rows over which the totals of an app are spread.
const totalSlots = 16

// randomSlot picks a row of a total, so that concurrent writers seldom lock the same one.
func randomSlot() int16 { return int16(rand.IntN(totalSlots)) } //nolint:gosec // spreading load needs no secret
