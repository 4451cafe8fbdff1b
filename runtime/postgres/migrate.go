package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"mediastack.dev/runtime/fault"
)

//go:embed migrations/*.sql
var embedded embed.FS

// migrationLock is the advisory lock that serializes migrations. The number is arbitrary and
// must never change.
const migrationLock = 5_268_713_941

// firstVersion is the version of the oldest migration of a release. The versions below it
// belong to migrations that were never released.
const firstVersion = 10

// rejectUnreleased returns an Unavailable fault if a migration was applied that was never
// released. Every new connection checks it, because tables and columns of such a database have
// other names: queries would fail, or change rows that the program misinterprets.
func rejectUnreleased(ctx context.Context, conn *pgx.Conn) error {
	var version int64
	err := conn.QueryRow(ctx, "SELECT version_id FROM goose_db_version WHERE version_id > 0 AND version_id < $1 ORDER BY version_id DESC LIMIT 1", firstVersion).Scan(&version)
	var server *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case errors.As(err, &server) && server.Code == undefinedTable: // no migration was applied yet
		return nil
	case err != nil:
		return err
	}
	return fault.WithReason(fault.New(fault.Unavailable, "the database schema is that of an unreleased version (migration %d), which can't be upgraded: use an empty database", version), fault.Schema)
}

// provider returns the embedded migrations for db.
func provider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
}

// Migrate applies the pending migrations under an advisory lock, so that any number of
// processes may call it concurrently.
func Migrate(ctx context.Context, cfg Config, log *slog.Logger) error {
	poolCfg, err := cfg.pool()
	if err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolCfg)
	if err != nil {
		return fmt.Errorf("create the database pool: %w", err)
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	migrations, err := provider(db)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	applied, err := migrations.Up(ctx)
	if err != nil {
		return toFault(err, "migrate")
	}
	for _, m := range applied {
		log.InfoContext(ctx, "migration applied", "version", m.Source.Version, "file", m.Source.Path, "duration", m.Duration)
	}
	if len(applied) == 0 {
		log.InfoContext(ctx, "no pending migrations")
	}
	return nil
}

// schema caches that the schema was current once: it is never downgraded under a running
// program.
type schema struct{ current atomic.Bool }

// CheckSchema returns an Unavailable fault while migrations are pending.
func (s *Store) CheckSchema(ctx context.Context) error {
	if s.schema.current.Load() {
		return nil
	}
	db := stdlib.OpenDBFromPool(s.pool)
	defer func() { _ = db.Close() }()
	migrations, err := provider(db)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	pending, err := migrations.HasPending(ctx)
	if err != nil {
		return toFault(err, "check the schema")
	}
	if pending {
		return fault.New(fault.Unavailable, "the database schema is older than this program: run mediastack-runtime migrate")
	}
	s.schema.current.Store(true)
	return nil
}
