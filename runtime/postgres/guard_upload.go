package postgres

import (
	"context"
	"time"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// SpendBytes implements upload.Store. Batches of uploads have one statement for many accounts, so the bytes have a transaction of their own,
// before the file is stored: what is stored never exceeds the ceilings.
func (s Uploads) SpendBytes(ctx context.Context, scope media.Scope, bytes int64) (release func(context.Context), err error) {
	guard := scope.Guard
	if guard == nil || bytes == 0 {
		return func(context.Context) {}, nil
	}
	bound := uploadsOf(guard.Ceilings)
	if bound.each == 0 && bound.total == 0 {
		return func(context.Context) {}, nil
	}
	var at time.Time
	err = s.inTx(ctx, "count the bytes of an upload", func(q *sqlgen.Queries) (err error) {
		if err = spend(ctx, q, scope.AccountID, guard.Connection, bound, bytes); err == nil {
			at, err = q.DatabaseNow(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		ctx = context.WithoutCancel(ctx)
		for _, connection := range []string{allConnections, guard.Connection} {
			// What is not released stays counted until the window ends.
			_ = s.queries.ReturnUse(ctx, sqlgen.ReturnUseParams{AccountID: scope.AccountID, Connection: connection, Kind: bound.kind, Amount: bytes, Since: at})
		}
	}, nil
}
