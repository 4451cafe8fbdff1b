// Package postgres stores accounts, settings, media and OAuth data in PostgreSQL. Store
// implements account.Store, settings.Store, media.Store, media.PurgeStore, consistency.Store,
// consistency.AccountStore, oauth.Store, oauth.PurgeStore, installation.Store and
// auth.CredentialStore; UploadLocks implements tus.Locks.
//
// A file holds the methods of one table. The queries are in queries/, the schema is in
// migrations/. Driver errors become faults in this package only.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/settings"
)

var (
	_ account.Store              = (*Store)(nil)
	_ settings.Store             = (*Store)(nil)
	_ media.Store                = (*Store)(nil)
	_ media.PurgeStore           = (*Store)(nil)
	_ consistency.Store          = (*Store)(nil)
	_ consistency.AccountStore   = (*Store)(nil)
	_ oauth.Store                = (*Store)(nil)
	_ oauth.PurgeStore           = (*Store)(nil)
	_ installation.ResumeStore   = (*Store)(nil)
	_ installation.InstanceStore = (*Store)(nil)
)

// Config configures the database connection. The tags are flag and environment names.
type Config struct {
	DatabaseURL    string        `env:"SERVICE_DATABASE_URL" required:"" help:"PostgreSQL URL, e.g. postgres://user:password@host/db (prefer the environment over the flag)."`
	DatabaseConns  int32         `name:"database-max-conns" env:"SERVICE_DATABASE_MAX_CONNS" default:"20" help:"Maximum number of connections of this process."`
	ConnectTimeout time.Duration `env:"SERVICE_DATABASE_CONNECT_TIMEOUT" default:"5s" help:"Timeout of one connection attempt."`
}

// pool returns the pool's configuration. Its error never contains the URL, which has a password.
func (c Config) pool() (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(c.DatabaseURL)
	if err != nil {
		return nil, errors.New("SERVICE_DATABASE_URL is not a PostgreSQL URL such as postgres://user:password@host/db")
	}
	if c.DatabaseConns > 0 {
		cfg.MaxConns = c.DatabaseConns
	}
	if c.ConnectTimeout > 0 {
		cfg.ConnConfig.ConnectTimeout = c.ConnectTimeout
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "mediastack"
	cfg.AfterConnect = rejectUnknownSchema
	return cfg, nil
}

// Store is a pool of connections to one database. It is safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	queries *sqlgen.Queries
	fence   fence

	// Concurrent uploads of one account are opened, and committed, in batches.
	openBatch   *batcher[uuid.UUID, openRequest]
	commitBatch *batcher[uuid.UUID, media.Item]
	pageIndex   *pageIndex
}

// Open returns a Store. It connects on first use, so Open succeeds while the server is down.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	poolCfg, err := cfg.pool()
	if err != nil {
		return nil, err
	}
	s := &Store{}
	s.fence.install(poolCfg)
	if s.pool, err = pgxpool.NewWithConfig(ctx, poolCfg); err != nil {
		return nil, fmt.Errorf("create the database pool: %w", err)
	}
	s.queries = sqlgen.New(s.pool)
	s.openBatch, s.commitBatch = newBatcher(s.openUploads), newBatcher(s.commitUploads)
	s.pageIndex = newPageIndex(s.compactApp)
	return s, nil
}

// Close waits for running queries and closes every connection.
func (s *Store) Close() {
	s.pageIndex.close()
	s.pool.Close()
}

// Ping checks that the server responds.
func (s *Store) Ping(ctx context.Context) error { return toFault(s.pool.Ping(ctx), "ping") }

// inTx runs do in one transaction. Inside, only the transaction's queries are used.
func (s *Store) inTx(ctx context.Context, op string, do func(q *sqlgen.Queries) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return do(s.queries.WithTx(tx)) })
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
