package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
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

// Bounds of Config.MigrationLockTimeout.
const (
	MinLockTimeout = 10 * time.Millisecond
	MaxLockTimeout = 10 * time.Second
)

// defaultLockTimeout is how long a migration waits for a lock if the configuration does not say it. It is
// less than PostgreSQL's deadlock_timeout of 1 s, so of a deadlock with requests the migration is ended.
const defaultLockTimeout = 500 * time.Millisecond

// noTransaction is the annotation of a migration whose statements are transactions of their own. They lock
// nobody out, such as CREATE INDEX CONCURRENTLY, which has to wait for the transactions of others.
const noTransaction = "-- +goose NO TRANSACTION"

// provider returns the migrations of files for db.
func provider(db *sql.DB, files fs.FS) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
}

// Migrate applies the pending migrations under an advisory lock, so that any number of
// processes may call it concurrently. It returns a fault with reason OtherInstallation if the
// database has another cell than the configuration.
//
// A transaction waits for a lock as long as cfg.MigrationLockTimeout, because all requests to the same
// table wait behind it. Then Migrate returns an Unavailable fault, and may be called again.
func Migrate(ctx context.Context, cfg Config, log *slog.Logger) error {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return err
	}
	return migrateFiles(ctx, cfg, files, log)
}

// migrateFiles is Migrate with these migrations.
func migrateFiles(ctx context.Context, cfg Config, files fs.FS, log *slog.Logger) error {
	poolCfg, err := cfg.WithMaxConns(1).poolConfig()
	if err != nil {
		return err
	}
	var lockTimeout time.Duration
	// goose takes the connection from the pool for each migration.
	poolCfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		// The migration that makes the row of the installation reads its cell from there.
		_, err := conn.Exec(ctx, "SELECT set_config('mediastack.cell', $1, false), set_config('lock_timeout', $2, false)",
			strconv.Itoa(int(cfg.Cell)), strconv.FormatInt(lockTimeout.Milliseconds(), 10))
		return err == nil, err
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
	pending, err := pendingMigrations(ctx, pool, files)
	if err != nil {
		return toFault(err, "read the applied migrations")
	}
	if len(pending) == 0 {
		return logCurrent(ctx, pool, log)
	}
	migrations, err := provider(db, files)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	for _, one := range pending {
		lockTimeout = 0
		if one.transaction {
			lockTimeout = cmp.Or(cfg.MigrationLockTimeout, defaultLockTimeout)
		}
		applied, err := migrations.ApplyVersion(ctx, one.version, true)
		switch {
		case errors.Is(err, goose.ErrAlreadyApplied): // by another process meanwhile
		case isLockFailure(err):
			return explainLock(ctx, pool, one, err)
		case err != nil:
			return toFault(err, "migrate")
		default:
			log.InfoContext(ctx, "migration applied", "version", one.version, "file", one.file, "duration", applied.Duration)
		}
	}
	return verifyCell(ctx, pool, cfg.Cell) // another process may have made the schema meanwhile
}

// logCurrent logs that nothing is to be done.
func logCurrent(ctx context.Context, db querier, log *slog.Logger) error {
	found, err := readSchema(ctx, db)
	if err != nil {
		return toFault(err, "read the applied migrations")
	}
	if found.isNewer() {
		log.InfoContext(ctx, "no pending migrations: the schema is newer than this program, which may use it", "schema", found.newest, "program", latestVersion(), "oldest_program", found.oldestProgram)
		return nil
	}
	log.InfoContext(ctx, "no pending migrations")
	return nil
}

// migration is a file of this program.
type migration struct {
	version     int64
	file        string
	transaction bool // its statements are one
}

// pendingMigrations returns the migrations that were not applied, in their order.
func pendingMigrations(ctx context.Context, pool *pgxpool.Pool, files fs.FS) (pending []migration, err error) {
	var applied []int64
	err = pool.QueryRow(ctx, "SELECT array_agg(version_id) FROM goose_db_version WHERE version_id > 0").Scan(&applied)
	if err != nil && !isUndefinedTable(err) {
		return nil, err
	}
	known, newest := map[int64]bool{}, int64(0)
	for _, version := range applied {
		known[version], newest = true, max(newest, version)
	}
	entries, err := fs.ReadDir(files, ".") // sorted
	if err != nil {
		return nil, err
	}
	for _, file := range entries {
		version, err := goose.NumericComponent(file.Name())
		switch {
		case err != nil:
			return nil, err
		case known[version]:
			continue
		case version < newest:
			return nil, fault.WithReason(fault.New(fault.Unavailable, "migration %d was applied and %s was not: the database was migrated by a program of another line of versions", newest, file.Name()), fault.Schema)
		}
		text, err := fs.ReadFile(files, file.Name())
		if err != nil {
			return nil, err
		}
		pending = append(pending, migration{version: version, file: file.Name(), transaction: !strings.Contains(string(text), noTransaction)})
	}
	return pending, nil
}

// explainLock returns the fault of a migration that did not get a lock in time, with the transaction that most likely holds it.
func explainLock(ctx context.Context, db querier, one migration, cause error) error {
	holder := "no transaction is open any more"
	var pid int32
	var application string
	var age time.Duration
	err := db.QueryRow(ctx, `SELECT pid, coalesce(application_name, ''), now() - xact_start FROM pg_catalog.pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1`).Scan(&pid, &application, &age)
	if err == nil {
		holder = fmt.Sprintf("the oldest transaction is that of the process %d of PostgreSQL (application %q), open for %s", pid, application, age.Round(time.Millisecond))
	}
	return fault.Wrap(fmt.Errorf("postgres: migrate: %w", cause), fault.Unavailable, "%s did not get a lock in time: %s", one.file, holder)
}

// verifyCell returns a fault if the database has another cell. One without tables has none yet.
func verifyCell(ctx context.Context, db querier, configured cell.Number) error {
	var recorded int32
	err := db.QueryRow(ctx, "SELECT cell FROM installation").Scan(&recorded)
	switch {
	case isUndefinedTable(err):
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return errNoInstallation
	case err != nil:
		return toFault(err, "read the cell")
	}
	return checkCell(recorded, configured)
}
