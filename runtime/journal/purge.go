package journal

import (
	"context"

	"mediastack.dev/runtime/purge"
)

// daysAhead is for how many days the purge makes partitions. It may fail for that long: then events are in no partition.
const daysAhead = 7

// Purge makes the partitions of the next days, and removes the events that no account can read anymore. It returns how many days it has
// dropped.
func Purge(ctx context.Context, store PurgeStore, batches purge.Batches) (dropped int, err error) {
	if _, err := store.PrepareJournal(ctx, daysAhead); err != nil {
		return 0, err
	}
	if dropped, err = store.DropJournal(ctx); err != nil {
		return dropped, err
	}
	_, err = batches.Each(ctx, store.ExpireJournal)
	return dropped, err
}
