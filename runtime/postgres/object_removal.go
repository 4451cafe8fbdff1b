package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// EnqueueRemovals implements media.RemovalStore.
func (s Items) EnqueueRemovals(ctx context.Context, now time.Time) (int, error) {
	added, err := s.queries.EnqueueRemovals(ctx, sqlgen.EnqueueRemovalsParams{Kind: string(media.RemovalWork), Now: now})
	return int(added), toFault(err, "enqueue removals")
}

// DueRemovals implements media.RemovalStore.
func (s Items) DueRemovals(ctx context.Context, accountID uuid.UUID, now time.Time, batch int) ([]media.Removal, error) {
	rows, err := s.queries.DueRemovals(ctx, sqlgen.DueRemovalsParams{AccountID: accountID, Now: now, Batch: batchSize(batch)})
	if err != nil {
		return nil, toFault(err, "read due removals")
	}
	due := make([]media.Removal, len(rows))
	for i, row := range rows {
		due[i] = media.Removal{ID: row.ID, AccountID: row.AccountID, Bucket: row.Bucket, Keys: row.Keys, AbortMultipart: row.AbortMultipart, Attempts: int(row.Attempts)}
	}
	return due, nil
}

// FinishRemovals implements media.RemovalStore.
func (s Items) FinishRemovals(ctx context.Context, ids []int64) error {
	if len(ids) == 1 {
		return toFault(s.queries.FinishRemoval(ctx, ids[0]), "finish removal")
	}
	return toFault(s.queries.FinishRemovals(ctx, ids), "finish removals")
}

// FailRemovals implements media.RemovalStore.
func (s Items) FailRemovals(ctx context.Context, ids []int64, notBefore time.Time, reason string) error {
	return toFault(s.queries.FailRemovals(ctx, sqlgen.FailRemovalsParams{Ids: ids, NotBefore: notBefore, LastError: reason}), "fail removals")
}

// InspectRemovals implements media.PurgeStore.
func (s Items) InspectRemovals(ctx context.Context, buckets int) (media.RemovalQueue, error) {
	left, err := s.queries.InspectRemovals(ctx)
	if err != nil {
		return media.RemovalQueue{}, toFault(err, "count removals")
	}
	queue := media.RemovalQueue{Pending: left.Pending, MaxAttempts: int(left.Attempts)}
	failing, err := s.queries.FailingBuckets(ctx, batchSize(buckets))
	for _, row := range failing {
		queue.FailingBuckets = append(queue.FailingBuckets, installation.Bucket{AccountID: row.AccountID, Name: row.Bucket})
	}
	return queue, toFault(err, "find the buckets of failed removals")
}
