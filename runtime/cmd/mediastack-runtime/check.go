package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

type checkCommand struct {
	Account  string             `help:"The account to check: its id, or namespace/name of its MediaAccount."`
	All      bool               `help:"Check every open account."`
	Limit    int                `env:"SERVICE_CHECK_LIMIT" default:"1000" help:"Maximum number of findings to print; all are counted."`
	Check    consistency.Config `embed:"" group:"Check"`
	Database postgres.Config    `embed:"" group:"Stores"`
	Objects  objectstore.Config `embed:"" prefix:"s3-" group:"Stores"`

	Installation installation.Config `embed:"" group:"Stores"`
}

// Validate checks the bounds; kong calls it.
func (c *checkCommand) Validate() error {
	if _, err := c.target(); err != nil {
		return err
	}
	if c.Limit < 0 {
		return fmt.Errorf("SERVICE_CHECK_LIMIT must not be negative, but is %d", c.Limit)
	}
	return nil
}

// target returns the accounts to check.
func (c *checkCommand) target() (consistency.Target, error) {
	if (c.Account == "") != c.All {
		return consistency.Target{}, errors.New("give either --account or --all")
	}
	if c.All {
		return consistency.AllAccounts, nil
	}
	target, err := consistency.ParseTarget(c.Account)
	if err != nil {
		return target, fmt.Errorf("--account: %w", err)
	}
	return target, nil
}

// Run checks the accounts, and prints findings and a report as lines of JSON.
func (c *checkCommand) Run(ctx context.Context, log *slog.Logger, io stdio) error {
	target, err := c.target()
	if err != nil {
		return usageError{err}
	}
	store, err := postgres.Open(ctx, c.Database.ForMaintenance(maintenanceConns))
	if err != nil {
		return usageError{err}
	}
	defer store.Close()
	objects, err := objectstore.New(c.Objects)
	if err != nil {
		return usageError{err}
	}
	guard := installation.NewGuard(c.Installation, installation.Deps{Store: store.Installations, Markers: objects, Log: log})
	allowed := consistency.Guard(guard.ReadOnly())
	if c.Check.Repair {
		defer runGuard(ctx, guard)()
		if err := guard.Beat(ctx); err != nil {
			return asHeld(err)
		}
		allowed = guard
	}
	checker, err := consistency.NewChecker(store.Consistency, objects, allowed, c.Check, time.Now, log)
	if err != nil {
		return err
	}
	report, err := consistency.NewRunner(store.Consistency, checker, c.Limit).Run(ctx, target, io.out)
	if err == nil && report.NeedsAttention > 0 {
		return exitCode(exitActionRequired)
	}
	return asHeld(err)
}
