package postgres

import (
	"context"
	"time"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// sweepLock is the advisory lock of the purge; the number is arbitrary and must never change.
const sweepLock = 5_268_713_942

// WithPurgeLock implements media.Store. The lock belongs to a connection of its
// own and ends with it, so a purge that is killed stands in nobody's way.
func (s *Store) WithPurgeLock(ctx context.Context, sweep func(ctx context.Context) error) (bool, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, classify(err, "acquire the purge's connection")
	}
	defer conn.Release()
	q := sqlgen.New(conn)
	locked, err := q.TrySweepLock(ctx, sweepLock)
	if err != nil || !locked {
		return false, classify(err, "lock the purge")
	}
	defer func() {
		// Unlocking is needed even when the pass was cancelled; a connection that
		// can't do it any more is closed by the pool and drops the lock.
		unlock, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := q.SweepUnlock(unlock, sweepLock); err != nil {
			_ = conn.Conn().Close(unlock)
		}
	}()
	return true, sweep(ctx)
}

// PurgeDrafts implements media.Store.
func (s *Store) PurgeDrafts(ctx context.Context, cutoff time.Time, batch int) (int, error) {
	queued, err := s.queries.PurgeDrafts(ctx, sqlgen.PurgeDraftsParams{Cutoff: cutoff, Batch: int32(min(batch, 100_000))}) //nolint:gosec // bounded just there
	return len(queued), classify(err, "purge drafts")
}

// DueRemovals implements media.Store.
func (s *Store) DueRemovals(ctx context.Context, now, claimedUntil time.Time, batch int) ([]media.Removal, error) {
	rows, err := s.queries.DueRemovals(ctx, sqlgen.DueRemovalsParams{Now: now, ClaimedUntil: claimedUntil, Batch: int32(min(batch, 100_000))}) //nolint:gosec // bounded just there
	if err != nil {
		return nil, classify(err, "claim removals")
	}
	due := make([]media.Removal, len(rows))
	for i, row := range rows {
		due[i] = media.Removal{ID: row.ID, Bucket: row.Bucket, Keys: row.Keys, AbortMultipart: row.AbortMultipart, Attempts: int(row.Attempts)}
	}
	return due, nil
}

// FinishRemovals implements media.Store.
func (s *Store) FinishRemovals(ctx context.Context, ids []int64) error {
	return classify(s.queries.FinishRemovals(ctx, ids), "finish removals")
}

// FailRemovals implements media.Store.
func (s *Store) FailRemovals(ctx context.Context, ids []int64, notBefore time.Time, reason string) error {
	return classify(s.queries.FailRemovals(ctx, sqlgen.FailRemovalsParams{Ids: ids, NotBefore: notBefore, LastError: reason}), "put off removals")
}

// CountRemovals implements media.Store.
func (s *Store) CountRemovals(ctx context.Context) (int64, error) {
	n, err := s.queries.CountRemovals(ctx)
	return n, classify(err, "count removals")
}
