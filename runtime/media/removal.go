package media

import (
	"cmp"
	"context"
	"errors"
	"path"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
)

// removalLease is how long a run may take for a batch of removals before they are due again.
const removalLease = 5 * time.Minute

// removeDue carries out the queued removals that are due, each at most once per run.
func (p *purgeRun) removeDue(ctx context.Context) error {
	due := p.deps.Now()
	_, err := p.batches.Each(ctx, func(ctx context.Context, size int) (int, error) {
		batch, err := p.deps.Store.DueRemovals(ctx, due, due.Add(removalLease), size)
		if err != nil || len(batch) == 0 {
			return 0, err
		}
		done, failed := p.removeBatch(ctx, batch)
		return len(batch), p.recordRemovals(ctx, done, failed)
	})
	return err
}

// recordRemovals records how the removals of a batch ended.
func (p *purgeRun) recordRemovals(ctx context.Context, done []int64, failed []failedRemoval) error {
	store, summary := p.deps.Store, p.summary
	summary.RemovalsDone += len(done)
	if len(done) > 0 {
		if err := store.FinishRemovals(ctx, done); err != nil {
			return err
		}
	}
	for _, f := range failed {
		summary.RemovalsFailed++
		summary.NeedsAttention = summary.NeedsAttention || f.removal.Attempts >= p.cfg.MaxAttempts
		backoff := min(p.cfg.MaxBackoff, time.Second<<min(f.removal.Attempts, 20))
		if err := store.FailRemovals(ctx, []int64{f.removal.ID}, p.deps.Now().Add(backoff), f.cause.Error()); err != nil {
			return err
		}
		p.deps.Log.WarnContext(ctx, "removing objects failed", "removal", f.removal.ID, "bucket", f.removal.Bucket,
			"attempts", f.removal.Attempts, "retry_in", backoff, "error", f.cause)
	}
	return nil
}

type failedRemoval struct {
	removal Removal
	cause   error
}

// bucketCheck is whether objects of a bucket may be removed.
type bucketCheck struct {
	gone bool
	err  error
}

// check reads the marker of a bucket once per run.
func (p *purgeRun) check(ctx context.Context, bucket installation.Bucket) bucketCheck {
	checked, known := p.buckets[bucket]
	if known {
		return checked
	}
	_, checked.err = p.deps.Guard.CheckBucket(ctx, bucket)
	if errors.Is(checked.err, installation.ErrNoBucket) {
		checked = bucketCheck{gone: true} // with everything in it
	}
	p.buckets[bucket] = checked
	if fault.Is(checked.err, fault.Conflict) {
		p.summary.BucketsSkipped++
		p.summary.NeedsAttention = true
	}
	return checked
}

// removeBatch removes the objects of each bucket that belongs to its account.
func (p *purgeRun) removeBatch(ctx context.Context, due []Removal) (done []int64, failed []failedRemoval) {
	byBucket := map[installation.Bucket][]Removal{}
	for _, removal := range due {
		bucket := installation.Bucket{AccountID: removal.AccountID, Name: removal.Bucket}
		byBucket[bucket] = append(byBucket[bucket], removal)
	}
	for bucket, removals := range byBucket {
		checked := p.check(ctx, bucket)
		var failures map[int64]error
		if checked.err == nil && !checked.gone {
			failures = p.removeFromBucket(ctx, bucket.Name, removals)
		}
		for _, removal := range removals {
			if err := cmp.Or(checked.err, failures[removal.ID]); err != nil {
				failed = append(failed, failedRemoval{removal, err})
			} else {
				done = append(done, removal.ID)
			}
		}
	}
	return done, failed
}

// removeFromBucket removes the objects of one bucket with one request. If that fails, it removes
// those of one removal at a time, and returns the errors by the ids of the removals.
func (p *purgeRun) removeFromBucket(ctx context.Context, bucket string, removals []Removal) map[int64]error {
	var bulk []string
	for _, removal := range removals {
		if !removal.AbortMultipart {
			bulk = append(bulk, removal.Keys...)
		}
	}
	bulkErr := errors.New("no bulk request was sent")
	if len(bulk) > 0 {
		bulkErr = p.deps.Objects.Remove(ctx, bucket, bulk)
	}
	failures := map[int64]error{}
	for _, removal := range removals {
		if removal.AbortMultipart || bulkErr != nil {
			if err := removeObjects(ctx, p.deps.Objects, removal); err != nil {
				failures[removal.ID] = err
			}
		}
	}
	return failures
}

// removeObjects carries out one removal. It is safe to repeat.
func removeObjects(ctx context.Context, objects ObjectRemover, removal Removal) error {
	if removal.AbortMultipart {
		for _, key := range removal.Keys {
			if path.Base(key) != string(Original) {
				continue // stored in one request, always
			}
			if err := objects.AbortIncomplete(ctx, removal.Bucket, key); err != nil {
				return err
			}
		}
	}
	return objects.Remove(ctx, removal.Bucket, removal.Keys)
}
