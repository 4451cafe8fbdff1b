package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// statement is what executions of a statement of the product have cost. Blocks have 8 KiB; those that were read were not in
// shared_buffers.
type statement struct {
	Name                                   string
	Calls, Milliseconds, Hit, Read, Writes float64
}

// statementLog sums up the statements of one side, by their names.
type statementLog map[string]statement

// read adds the statements of a database since the last call, and resets their numbers.
func (l statementLog) read(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		return err
	}
	rows, err := conn.Query(ctx, `SELECT query, calls::float8, total_exec_time, shared_blks_hit::float8, shared_blks_read::float8, shared_blks_written::float8
		FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid WHERE datname = current_database() AND query LIKE '-- name: %'`)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[statement])
	if err != nil {
		return err
	}
	for _, one := range found {
		name := statementName(one.Name)
		sum := l[name]
		l[name] = statement{name, sum.Calls + one.Calls, sum.Milliseconds + one.Milliseconds, sum.Hit + one.Hit, sum.Read + one.Read, sum.Writes + one.Writes}
	}
	_, err = conn.Exec(ctx, "SELECT pg_stat_statements_reset()")
	return err
}

// costliest returns the statements that took most of the time.
func (l statementLog) costliest(most int) []statement {
	all := slices.SortedFunc(maps.Values(l), func(a, b statement) int {
		return cmp.Or(cmp.Compare(b.Milliseconds, a.Milliseconds), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(most, len(all))]
}

// countStatements returns a side whose statements are added to the log after each round.
func countStatements(s side, l statementLog, url string) side {
	after := s.after
	s.after = func(ctx context.Context) error {
		if err := l.read(ctx, url); err != nil || after == nil {
			return err
		}
		return after(ctx)
	}
	return s
}

// statementName returns the name that begins the text of a statement of the product.
func statementName(text string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(text, "-- name: "), " ")
	return name
}

// newStatementTable makes a table of the costliest statements of requests, with their costs for each call.
func newStatementTable() table {
	return table{{"request", "side", "statement", "calls", "ms a call", "blocks a call", "of them read", "written"}}
}

// statements adds rows of statements.
func (t *table) statements(request, side string, found []statement) {
	for _, one := range found {
		each := func(sum float64) string { return number(sum / one.Calls) }
		t.row(request, side, one.Name, fmt.Sprint(one.Calls), each(one.Milliseconds), each(one.Hit+one.Read), each(one.Read), each(one.Writes))
	}
}
