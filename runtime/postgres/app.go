package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// SetApps implements account.Store.
func (s *Store) SetApps(ctx context.Context, accountID uuid.UUID, names []string) ([]account.App, error) {
	current, err := s.queries.Apps(ctx, accountID)
	if err != nil {
		return nil, toFault(err, "read apps")
	}
	if apps, same := openApps(current, names); same {
		return apps, nil
	}
	var apps []account.App
	err = s.inTx(ctx, "set apps", func(q *sqlgen.Queries) error {
		apps = nil
		owner, err := q.LockAccount(ctx, accountID)
		if err != nil {
			return err
		}
		if owner.ClosedAt != nil {
			return fault.New(fault.Conflict, "the account is closed")
		}
		current, err := q.Apps(ctx, accountID)
		if err != nil {
			return err
		}
		if err := closeApps(ctx, q, current, names); err != nil {
			return err
		}
		for _, name := range names {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			app, err := q.OpenApp(ctx, sqlgen.OpenAppParams{ID: id, AccountID: accountID, Name: name})
			if err != nil {
				return err
			}
			if err := q.InsertTotals(ctx, sqlgen.InsertTotalsParams{AppID: app.ID, AccountID: accountID}); err != nil {
				return err
			}
			apps = append(apps, appOf(app))
		}
		return nil
	})
	return apps, err
}

// openApps returns the open apps in the order of names, and whether they are exactly those.
func openApps(current []sqlgen.App, names []string) ([]account.App, bool) {
	open := map[string]sqlgen.App{}
	for _, app := range current {
		if app.ClosedAt == nil {
			open[app.Name] = app
		}
	}
	apps := make([]account.App, 0, len(names))
	for _, name := range names {
		app, ok := open[name]
		if !ok {
			return nil, false
		}
		apps = append(apps, appOf(app))
	}
	return apps, len(open) == len(names)
}

func closeApps(ctx context.Context, q *sqlgen.Queries, current []sqlgen.App, names []string) error {
	var closing []uuid.UUID
	for _, app := range current {
		if app.ClosedAt == nil && !slices.Contains(names, app.Name) {
			closing = append(closing, app.ID)
		}
	}
	if len(closing) == 0 {
		return nil
	}
	if err := q.RevokeKeysOfApps(ctx, closing); err != nil {
		return err
	}
	return q.CloseApps(ctx, closing)
}

func appOf(row sqlgen.App) account.App {
	return account.App{ID: row.ID, AccountID: row.AccountID, Name: row.Name}
}
