package cdn

import (
	"context"

	"mediastack.dev/runtime/purge"
)

// Forget removes what is queued for a CDN that no process purges anymore, and returns how many purges. A day without a purger ends the queue.
func Forget(ctx context.Context, store PurgeStore, batches purge.Batches) (removed int, err error) {
	if err := store.ForgetPurger(ctx); err != nil {
		return 0, err
	}
	return batches.Each(ctx, store.ForgetPurges)
}
