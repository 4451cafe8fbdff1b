package main

import (
	"context"
	"log/slog"

	"mediastack.dev/runtime/postgres"
)

type migrateCommand struct {
	Database postgres.Config `embed:"" group:"Stores"`
}

// Validate checks what is needed; kong calls it.
func (c *migrateCommand) Validate() error { return checkSet(c) }

// Run applies the migrations that are missing; the log says which.
func (c *migrateCommand) Run(ctx context.Context, log *slog.Logger) error {
	return postgres.Migrate(ctx, c.Database, log)
}
