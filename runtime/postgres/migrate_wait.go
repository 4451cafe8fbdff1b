package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/runtime/fault"
)

const (
	// The pause between two attempts to migrate doubles from minMigratePause to maxMigratePause.
	minMigratePause = 200 * time.Millisecond
	maxMigratePause = 3 * time.Second
	// migrateLogInterval is the time after which the same failure is logged again.
	migrateLogInterval = 15 * time.Second
)

// MigrateWithin is Migrate that waits for a database that cannot be used yet: a server that is
// starting, a role or a database that is not created yet, a password that is not set yet, a table that
// others have locked. It logs what it waits for, and fails after wait. A schema that this program cannot
// migrate fails at once.
func MigrateWithin(ctx context.Context, cfg Config, wait time.Duration, log *slog.Logger) error {
	return migrateWithin(ctx, cfg, wait, log, Migrate)
}

func migrateWithin(ctx context.Context, cfg Config, wait time.Duration, log *slog.Logger, migrate func(context.Context, Config, *slog.Logger) error) error {
	begun, pause := time.Now(), minMigratePause
	var logged string
	var loggedAt time.Time
	for {
		err := migrate(ctx, cfg, log)
		if err == nil || ctx.Err() != nil || !mayMigrateLater(err) {
			return err
		}
		waited := time.Since(begun)
		if waited >= wait {
			return fmt.Errorf("%s for %s: %w", waitsFor(err, cfg), wait, err)
		}
		if text := waitsFor(err, cfg); text != logged || time.Since(loggedAt) >= migrateLogInterval {
			log.WarnContext(ctx, "migrate waits: "+text, "database", cfg.Address(), "waited", waited.Round(time.Second).String(), "gives_up_after", wait.String(), "error", err)
			logged, loggedAt = text, time.Now()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(pause/2+rand.N(pause/2), wait-waited)):
		}
		pause = min(2*pause, maxMigratePause)
	}
}

// mayMigrateLater reports whether a migration that failed may succeed without another program.
func mayMigrateLater(err error) bool {
	return fault.Is(err, fault.Unavailable) && fault.ReasonOf(err) != fault.Schema && fault.ReasonOf(err) != fault.OtherInstallation
}

// waitsFor says what is wrong with the database.
func waitsFor(err error, cfg Config) string {
	switch fault.ReasonOf(err) { //nolint:exhaustive // all others are failures of the server
	case fault.Credentials:
		return "PostgreSQL at " + cfg.Address() + " rejects the user or the password of SERVICE_DATABASE_URL, or its role lacks a permission"
	case fault.DatabaseMissing:
		return "the database of SERVICE_DATABASE_URL does not exist at " + cfg.Address()
	case fault.StoreFull:
		return "PostgreSQL at " + cfg.Address() + " has no space left"
	}
	if isLockFailure(err) {
		return fault.From(err).Public
	}
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == tooManyConnections {
		return "PostgreSQL at " + cfg.Address() + " has no connection left"
	}
	return "PostgreSQL at " + cfg.Address() + " cannot be used"
}
