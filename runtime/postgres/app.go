package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// OpenApps implements account.Store.
func (s Accounts) OpenApps(ctx context.Context, accountID uuid.UUID, names []string) (open, others []account.App, err error) {
	current, err := s.queries.Apps(ctx, accountID)
	if err != nil {
		return nil, nil, toFault(err, "read apps")
	}
	open, others = splitApps(current, names)
	if len(open) == len(names) {
		return open, others, nil
	}
	err = s.inTx(ctx, "open apps", func(q *sqlgen.Queries) error {
		if err := lockOpenAccount(ctx, q, accountID); err != nil {
			return err
		}
		current, err := q.Apps(ctx, accountID)
		if err != nil {
			return err
		}
		open = nil
		_, others = splitApps(current, names)
		for _, name := range names {
			id, err := s.cell.NewID()
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
			open = append(open, appOf(app))
		}
		return nil
	})
	return open, others, err
}

// CloseApps implements account.Store.
func (s Accounts) CloseApps(ctx context.Context, accountID uuid.UUID, apps []account.App) error {
	ids := make([]uuid.UUID, len(apps))
	for i, app := range apps {
		ids[i] = app.ID
	}
	return s.inTx(ctx, "close apps", func(q *sqlgen.Queries) error {
		if err := lockOpenAccount(ctx, q, accountID); err != nil {
			return err
		}
		if err := q.RevokeKeysOfApps(ctx, ids); err != nil {
			return err
		}
		return q.CloseApps(ctx, ids)
	})
}

// lockOpenAccount locks the account against other changes; Conflict if it is closed.
func lockOpenAccount(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID) error {
	owner, err := q.LockAccount(ctx, accountID)
	if err == nil && owner.ClosedAt != nil {
		return fault.New(fault.Conflict, "the account is closed")
	}
	return err
}

// splitApps returns the open apps with these names, in their order, and all other open apps.
func splitApps(current []sqlgen.App, names []string) (named, others []account.App) {
	open := map[string]account.App{}
	for _, app := range current {
		switch {
		case app.ClosedAt != nil:
		case slices.Contains(names, app.Name):
			open[app.Name] = appOf(app)
		default:
			others = append(others, appOf(app))
		}
	}
	for _, name := range names {
		if app, ok := open[name]; ok {
			named = append(named, app)
		}
	}
	return named, others
}

func appOf(row sqlgen.App) account.App {
	return account.App{ID: row.ID, AccountID: row.AccountID, Name: row.Name}
}
