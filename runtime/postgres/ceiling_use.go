package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// addCeilings adds to applications what they have used of the ceilings of their accounts. Without ceilings it reads nothing.
func (s Logins) addCeilings(ctx context.Context, apps []oauth.AuthorizedApp) error {
	var params sqlgen.ConnectionUsesParams
	for _, app := range apps {
		if app.ToolPolicy.Ceilings.On() {
			params.AccountIds = append(params.AccountIds, app.AccountID)
			params.Connections = append(params.Connections, account.ConnectionOfGrant(app.ID))
		}
	}
	if len(params.AccountIds) == 0 {
		return nil
	}
	params.Connections = append(params.Connections, allConnections)
	rows, err := s.queries.ConnectionUses(ctx, params)
	if err != nil {
		return toFault(err, "find the uses of ceilings")
	}
	type window struct {
		accountID        uuid.UUID
		connection, kind string
	}
	used := make(map[window]sqlgen.ConnectionUsesRow, len(rows))
	for _, row := range rows {
		used[window{row.AccountID, row.Connection, row.Kind}] = row
	}
	for i, app := range apps {
		ceilings := app.ToolPolicy.Ceilings
		for _, bound := range []use{uploadsOf(ceilings), deletesOf(ceilings), fetchesOf(ceilings)} {
			for _, whose := range []struct {
				connection string
				limit      int64
			}{{account.ConnectionOfGrant(app.ID), bound.each}, {allConnections, bound.total}} {
				if whose.limit == 0 {
					continue
				}
				one := account.CeilingUse{Kind: account.CeilingKind(bound.kind), Total: whose.connection == allConnections, Limit: whose.limit}
				// As SpendUse has it: a window that has ended begins anew with the next use.
				if row, ok := used[window{app.AccountID, whose.connection, bound.kind}]; ok && row.WindowStart.Add(bound.window).After(row.Now) {
					one.Used, one.Ends = row.Used, row.WindowStart.Add(bound.window).Truncate(time.Second)
				}
				apps[i].Ceilings = append(apps[i].Ceilings, one)
			}
		}
	}
	return nil
}
