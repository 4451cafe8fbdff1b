package main

import (
	"context"
	"log/slog"

	"mediastack.dev/runtime/postgres"
)

type migrateCommand struct {
	Database postgres.Config `embed:"" group:"Stores"`
}

// Validate checks the required settings; kong calls it.
func (c *migrateCommand) Validate() error { return requireSettings(c) }

// Run applies the missing migrations, and logs them.
func (c *migrateCommand) Run(ctx context.Context, log *slog.Logger) error {
	return postgres.Migrate(ctx, c.Database, log)
}
