package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres"
)

type migrateCommand struct {
	Wait        time.Duration   `name:"database-wait" env:"SERVICE_DATABASE_WAIT" default:"5m" help:"How long to wait for a database that cannot be used yet, from 0s to 1h."`
	LockTimeout time.Duration   `name:"migration-lock-timeout" env:"SERVICE_MIGRATION_LOCK_TIMEOUT" default:"500ms" help:"How long a migration waits for a lock before it is ended and tried again, from 10ms to 10s: requests to the same table wait behind it."`
	Database    postgres.Config `embed:"" group:"Stores"`
}

// maxDatabaseWait bounds the wait for the database.
const maxDatabaseWait = time.Hour

// Validate checks the settings; kong calls it.
func (c *migrateCommand) Validate() error {
	if c.Wait < 0 || c.Wait > maxDatabaseWait {
		return fmt.Errorf("SERVICE_DATABASE_WAIT must be from 0s to %s, not %s", maxDatabaseWait, c.Wait)
	}
	if c.LockTimeout < postgres.MinLockTimeout || c.LockTimeout > postgres.MaxLockTimeout {
		return fmt.Errorf("SERVICE_MIGRATION_LOCK_TIMEOUT must be from %s to %s, not %s", postgres.MinLockTimeout, postgres.MaxLockTimeout, c.LockTimeout)
	}
	return nil
}

// otherCellIsUsage returns err as an invalid configuration if the database has another cell: the
// text alone, because nothing is unavailable.
func otherCellIsUsage(err error) error {
	if fault.ReasonOf(err) == fault.OtherInstallation {
		return usageError{errors.New(fault.From(err).Public)}
	}
	return err
}

// Run applies the missing migrations, and logs them.
func (c *migrateCommand) Run(ctx context.Context, log *slog.Logger) error {
	c.Database.MigrationLockTimeout = c.LockTimeout
	return otherCellIsUsage(postgres.MigrateWithin(ctx, c.Database, c.Wait, log))
}
