package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"mediastack.dev/runtime/cell"
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

// latestVersion is the version of the newest migration of this program.
var latestVersion = sync.OnceValue(func() int64 {
	var latest int64
	files, _ := embedded.ReadDir("migrations") // embedded, so it exists
	for _, file := range files {
		if version, err := goose.NumericComponent(file.Name()); err == nil {
			latest = max(latest, version)
		}
	}
	return latest
})

// errNotMigrated is returned by readVersion for a database without migrations.
var errNotMigrated = errors.New("no migration was applied")

// querier is a connection or a pool.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readVersion returns the oldest and the newest applied migration.
func readVersion(ctx context.Context, db querier) (oldest, newest int64, err error) {
	var first, last *int64
	err = db.QueryRow(ctx, "SELECT min(version_id), max(version_id) FROM goose_db_version WHERE version_id > 0").Scan(&first, &last)
	var server *pgconn.PgError
	switch {
	case errors.As(err, &server) && server.Code == undefinedTable, err == nil && first == nil:
		return 0, 0, errNotMigrated
	case err != nil:
		return 0, 0, err
	}
	return *first, *last, nil
}

// rejectUnknownSchema returns an Unavailable fault if a migration was applied that was never
// released, or one that this program does not know. Every new connection checks it: queries would
// fail, or change rows that the program misinterprets.
func rejectUnknownSchema(ctx context.Context, conn *pgx.Conn) error {
	oldest, newest, err := readVersion(ctx, conn)
	if errors.Is(err, errNotMigrated) {
		return nil
	}
	if err != nil {
		return err
	}
	return checkKnown(oldest, newest)
}

// checkKnown returns a fault unless this program knows the applied migrations.
func checkKnown(oldest, newest int64) error {
	switch {
	case oldest < firstVersion:
		return fault.WithReason(fault.New(fault.Unavailable, "the database schema is that of an unreleased version (migration %d), which cannot be upgraded: use an empty database", min(newest, firstVersion-1)), fault.Schema)
	case newest > latestVersion():
		return fault.WithReason(fault.New(fault.Unavailable, "this program is older than the database's schema: the schema has version %d, the program knows versions up to %d; run a newer version", newest, latestVersion()), fault.Schema)
	}
	return nil
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
// processes may call it concurrently. It returns a fault with reason OtherInstallation if the
// database has another cell than the configuration.
func Migrate(ctx context.Context, cfg Config, log *slog.Logger) error {
	poolCfg, err := cfg.WithMaxConns(1).poolConfig()
	if err != nil {
		return err
	}
	// The migration that makes the row of the installation reads its cell from there.
	afterConnect := poolCfg.AfterConnect
	poolCfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT set_config('mediastack.cell', $1, false)", strconv.Itoa(int(cfg.Cell))); err != nil {
			return err
		}
		return afterConnect(ctx, conn)
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolCfg)
	if err != nil {
		return fmt.Errorf("create the database pool: %w", err)
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	if err := verifyCell(ctx, pool, cfg.Cell); err != nil {
		return err
	}
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
	return verifyCell(ctx, pool, cfg.Cell) // another process may have made the schema meanwhile
}

// verifyCell returns a fault if the database has another cell. One without tables has none yet.
func verifyCell(ctx context.Context, db querier, configured cell.Number) error {
	var recorded int32
	err := db.QueryRow(ctx, "SELECT cell FROM installation").Scan(&recorded)
	var server *pgconn.PgError
	switch {
	case errors.As(err, &server) && server.Code == undefinedTable:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return errNoInstallation
	case err != nil:
		return toFault(err, "read the cell")
	}
	return checkCell(recorded, configured)
}

// CheckSchema returns an Unavailable fault with reason Schema while migrations are pending, or if the
// database has a migration that this program does not know. It is one cheap query.
func (s *Store) CheckSchema(ctx context.Context) error {
	oldest, newest, err := readVersion(ctx, s.pool)
	switch {
	case errors.Is(err, errNotMigrated):
		return fault.WithReason(fault.New(fault.Unavailable, "the database schema is older than this program: it has no tables, the program needs version %d; run mediastack-runtime migrate", latestVersion()), fault.Schema)
	case err != nil:
		return toFault(err, "check the schema")
	}
	if err := checkKnown(oldest, newest); err != nil {
		// New connections are rejected; this closes those of before the migration, so that nothing
		// is written any more.
		s.pool.Reset()
		return err
	}
	if newest < latestVersion() {
		return fault.WithReason(fault.New(fault.Unavailable, "the database schema is older than this program: it has version %d, the program needs version %d; run mediastack-runtime migrate", newest, latestVersion()), fault.Schema)
	}
	return nil
}
