package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"

	"mediastack.dev/runtime/fault"
)

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

// errNotMigrated is returned by readSchema for a database without migrations.
var errNotMigrated = errors.New("no migration was applied")

// querier is a connection or a pool.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// schema is that of a database.
type schema struct {
	oldest, newest int64 // of the applied migrations
	// oldestProgram is the migration that a program must know to use the schema. It is read, and
	// needed, only if the schema is newer than this program.
	oldestProgram int64
}

// readSchema reads which migrations were applied, and which programs may use them.
func readSchema(ctx context.Context, db querier) (schema, error) {
	var first, last *int64
	err := db.QueryRow(ctx, "SELECT min(version_id), max(version_id) FROM goose_db_version WHERE version_id > 0").Scan(&first, &last)
	switch {
	case isUndefinedTable(err), err == nil && first == nil:
		return schema{}, errNotMigrated
	case err != nil:
		return schema{}, err
	}
	found := schema{oldest: *first, newest: *last}
	if found.newest <= latestVersion() {
		return found, nil
	}
	// Read afterwards: it only grows, so a migration in between is noticed.
	err = db.QueryRow(ctx, "SELECT oldest_program FROM schema_compatibility").Scan(&found.oldestProgram)
	if errors.Is(err, pgx.ErrNoRows) || isUndefinedTable(err) {
		found.oldestProgram, err = found.newest, nil // nobody knows
	}
	return found, err
}

// isUndefinedTable reports whether a table of a statement does not exist.
func isUndefinedTable(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == undefinedTable
}

// isNewer reports whether the schema has migrations that this program does not know.
func (s schema) isNewer() bool { return s.newest > latestVersion() }

// isPending reports whether this program has migrations that were not applied.
func (s schema) isPending() bool { return s.newest < latestVersion() }

// check returns an Unavailable fault if a migration was applied that was never released, or if this
// program must not use the schema any more. A schema that is newer than the program is used as long as its
// migrations remove nothing that the program needs.
func (s schema) check() error {
	switch {
	case s.oldest < firstVersion:
		return fault.WithReason(fault.New(fault.Unavailable, "the database schema is that of an unreleased version (migration %d), which cannot be upgraded: use an empty database", min(s.newest, firstVersion-1)), fault.Schema)
	case s.isNewer() && latestVersion() < s.oldestProgram:
		return fault.WithReason(fault.New(fault.Unavailable, "this program is older than the database's schema: the schema has version %d and may be used by programs that know version %d, this one knows versions up to %d; run a newer version, or restore the backup of before the upgrade", s.newest, s.oldestProgram, latestVersion()), fault.Schema)
	}
	return nil
}

// rejectUnknownSchema returns a fault if this program must not use the schema. Every new connection
// checks it: queries would fail, or change rows that the program misinterprets.
func rejectUnknownSchema(ctx context.Context, conn *pgx.Conn) error {
	found, err := readSchema(ctx, conn)
	if errors.Is(err, errNotMigrated) {
		return nil
	}
	if err != nil {
		return err
	}
	return found.check()
}

// CheckSchema returns an Unavailable fault with reason Schema while migrations are pending, or if this
// program must not use the schema any more. It is one cheap query, and another one if the schema is newer than the program.
func (s *Store) CheckSchema(ctx context.Context) error {
	found, err := readSchema(ctx, s.pool)
	switch {
	case errors.Is(err, errNotMigrated):
		return fault.WithReason(fault.New(fault.Unavailable, "the database schema is older than this program: it has no tables, the program needs version %d; run mediastack-runtime migrate", latestVersion()), fault.Schema)
	case err != nil:
		return toFault(err, "check the schema")
	}
	if err := found.check(); err != nil {
		// New connections are rejected; this closes those of before the migration, so that nothing
		// is written any more.
		s.pool.Reset()
		return err
	}
	if found.isPending() {
		return fault.WithReason(fault.New(fault.Unavailable, "the database schema is older than this program: it has version %d, the program needs version %d; run mediastack-runtime migrate", found.newest, latestVersion()), fault.Schema)
	}
	return nil
}
