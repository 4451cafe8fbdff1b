package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
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

// migrationLock is the advisory lock that makes concurrent migrations wait for each
// other; the number is arbitrary and must never change.
const migrationLock = 5_268_713_941

// firstVersion is the version of the oldest migration of a release. The versions below it
// belong to migrations that were never released.
const firstVersion = 10

// rejectUnreleased returns an Unavailable fault if a migration was applied that was never
// released. Every new connection checks it: the versions alone would look current, and the
// tables and columns have other names.
func rejectUnreleased(ctx context.Context, conn *pgx.Conn) error {
	var version int64
	err := conn.QueryRow(ctx, "SELECT version_id FROM goose_db_version WHERE version_id > 0 AND version_id < $1 ORDER BY version_id DESC LIMIT 1", firstVersion).Scan(&version)
	var server *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case errors.As(err, &server) && server.Code == "42P01": // undefined_table: no migration was applied yet
		return nil
	case err != nil:
		return err
	}
	return fault.New(fault.Unavailable, "the database schema is that of an unreleased version (migration %d), which can't be upgraded: use an empty database", version)
}

// provider reads the embedded migrations against db.
func provider(db *sql.DB) (*goose.Provider, error) {
	files, err := migrationFiles()
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
}

// Migrate brings the schema up to this program's version, under an advisory lock,
// so that any number of processes may try at once.
func Migrate(ctx context.Context, cfg Config, log *slog.Logger) error {
	poolCfg, err := cfg.pool()
	if err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolCfg)
	if err != nil {
		return fmt.Errorf("make the database pool: %w", err)
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
		return classify(err, "migrate")
	}
	for _, m := range applied {
		log.InfoContext(ctx, "migration applied", "version", m.Source.Version, "file", m.Source.Path, "took", m.Duration)
	}
	if len(applied) == 0 {
		log.InfoContext(ctx, "the schema is current")
	}
	return nil
}

// schema remembers that the database was once current: a schema never goes back
// under a running program.
type schema struct{ current atomic.Bool }

// CheckSchema returns an Unavailable fault while the database's schema is behind this program's.
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
		return classify(err, "check the schema")
	}
	if pending {
		return fault.New(fault.Unavailable, "the database schema is behind this program: run mediastack-runtime migrate")
	}
	s.schema.current.Store(true)
	return nil
}
