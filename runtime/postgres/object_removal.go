package postgres

import (
	"context"
	"time"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// DueRemovals implements media.PurgeStore.
func (s *Store) DueRemovals(ctx context.Context, now, leasedUntil time.Time, batch int) ([]media.Removal, error) {
	rows, err := s.queries.DueRemovals(ctx, sqlgen.DueRemovalsParams{Now: now, LeasedUntil: leasedUntil, Batch: batchSize(batch)})
	if err != nil {
		return nil, toFault(err, "lease removals")
	}
	due := make([]media.Removal, len(rows))
	for i, row := range rows {
		due[i] = media.Removal{ID: row.ID, AccountID: row.AccountID, Bucket: row.Bucket, Keys: row.Keys, AbortMultipart: row.AbortMultipart, Attempts: int(row.Attempts)}
	}
	return due, nil
}

// FinishRemovals implements media.PurgeStore.
func (s *Store) FinishRemovals(ctx context.Context, ids []int64) error {
	return toFault(s.queries.FinishRemovals(ctx, ids), "finish removals")
}

// FailRemovals implements media.PurgeStore.
func (s *Store) FailRemovals(ctx context.Context, ids []int64, notBefore time.Time, reason string) error {
	return toFault(s.queries.FailRemovals(ctx, sqlgen.FailRemovalsParams{Ids: ids, NotBefore: notBefore, LastError: reason}), "fail removals")
}

// CountRemovals implements media.PurgeStore.
func (s *Store) CountRemovals(ctx context.Context) (int64, error) {
	n, err := s.queries.CountRemovals(ctx)
	return n, toFault(err, "count removals")
}
