package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

type checkCommand struct {
	Account  string             `help:"The account to check: its id, or namespace/name of its MediaAccount."`
	All      bool               `help:"Check every open account."`
	Limit    int                `env:"SERVICE_CHECK_LIMIT" default:"1000" help:"Most findings that are printed; all are counted."`
	Check    media.CheckConfig  `embed:"" group:"Check"`
	Database postgres.Config    `embed:"" group:"Stores"`
	Objects  objectstore.Config `embed:"" prefix:"s3-" group:"Stores"`
}

// Validate checks the bounds; kong calls it.
func (c *checkCommand) Validate() error {
	switch {
	case (c.Account == "") != c.All:
		return errors.New("give either --account or --all")
	case c.Limit < 0:
		return fmt.Errorf("SERVICE_CHECK_LIMIT must not be negative, but is %d", c.Limit)
	}
	if c.Account != "" {
		if _, _, err := accountName(c.Account); err != nil {
			return err
		}
	}
	if err := checkSet(c); err != nil {
		return err
	}
	return c.Check.Validate()
}

// accountName reads namespace/name; both are empty for an id.
func accountName(text string) (namespace, name string, err error) {
	if _, err := uuid.Parse(text); err == nil {
		return "", "", nil
	}
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("--account must be an id or namespace/name, not %q", text)
	}
	return namespace, name, nil
}

// checkReport is the last line of the output.
type checkReport struct {
	media.CheckSummary
	// Omitted counts findings that were not printed because of --limit.
	Omitted int64 `json:"omitted"`
	// Complete is false when the check did not reach its end.
	Complete bool `json:"complete"`
}

// Run checks, and prints findings and a summary as lines of JSON.
func (c *checkCommand) Run(ctx context.Context, log *slog.Logger, io streams) error {
	store, err := postgres.Open(ctx, c.Database)
	if err != nil {
		return usage{err}
	}
	defer store.Close()
	objects, err := objectstore.New(c.Objects)
	if err != nil {
		return usage{err}
	}
	checker, err := media.NewChecker(store, objects, c.Check, time.Now, log)
	if err != nil {
		return err
	}
	report := checkReport{CheckSummary: media.CheckSummary{Found: map[media.FindingKind]int64{}}}
	checked := c.check(ctx, store, checker, &report, io.out)
	report.Complete = checked == nil
	// The summary tells what was seen also when the check did not reach its end.
	if err := json.NewEncoder(io.out).Encode(report); err != nil {
		return err
	}
	if checked == nil && report.NeedsAttention > 0 {
		return exit(exitActionRequired)
	}
	return checked
}

func (c *checkCommand) check(ctx context.Context, store *postgres.Store, checker *media.Checker, report *checkReport, out io.Writer) error {
	left := c.Limit
	lines := json.NewEncoder(out)
	found := func(f media.Finding) error {
		if left == 0 {
			report.Omitted++
			return nil
		}
		left--
		return lines.Encode(f)
	}
	if !c.All {
		a, err := c.find(ctx, store)
		if err != nil {
			return err
		}
		return checker.Check(ctx, a, &report.CheckSummary, found)
	}
	const batch = 100
	var after uuid.UUID
	for {
		accounts, err := store.OpenAccountsAfter(ctx, after, batch)
		if err != nil {
			return err
		}
		for _, a := range accounts {
			if err := checker.Check(ctx, a, &report.CheckSummary, found); err != nil {
				return fmt.Errorf("account %s: %w", a.ID, err)
			}
			after = a.ID
		}
		if len(accounts) < batch {
			return nil
		}
	}
}

func (c *checkCommand) find(ctx context.Context, store *postgres.Store) (account.Account, error) {
	namespace, name, err := accountName(c.Account)
	if err != nil {
		return account.Account{}, err
	}
	var a account.Account
	if name != "" {
		a, err = store.FindAccount(ctx, namespace, name)
	} else {
		a, err = store.AccountByID(ctx, uuid.MustParse(c.Account))
	}
	if fault.Is(err, fault.NotFound) {
		return account.Account{}, fmt.Errorf("there is no account %s", c.Account)
	}
	return a, err
}
