package approval

import (
	"context"
	"time"

	"mediastack.dev/runtime/purge"
)

// Expire records that nobody has decided in time, which is an event of the account, and returns of how many approvals. Without it they cannot be
// decided either.
func Expire(ctx context.Context, store PurgeStore, batches purge.Batches, now time.Time) (expired int, err error) {
	return batches.Each(ctx, func(ctx context.Context, size int) (int, error) { return store.EndExpiredApprovals(ctx, now, size) })
}

// Purge deletes the approvals that have expired for longer than Retention, and returns how many.
func Purge(ctx context.Context, store PurgeStore, batches purge.Batches, now time.Time) (ended int, err error) {
	return batches.Each(ctx, func(ctx context.Context, size int) (int, error) {
		return store.ExpireApprovals(ctx, now.Add(-Retention), size)
	})
}
