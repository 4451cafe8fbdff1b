package mediaaccount

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/fault"
)

const (
	// removalSlice is how long one reconcile works at a deletion before it writes its
	// progress down and lets others have the worker.
	removalSlice = 10 * time.Second
	// drainBatch is how many objects one call removes.
	drainBatch = 1000
)

// closeAccount ends the account: every key stops now. It learns the account's id and
// bucket first and writes them down, since a closed account can't be looked up again.
// What the status said before counts for nothing: others can write it.
func (r *Reconciler) closeAccount(ctx context.Context, run *run) bool {
	run.seen.removal = &removal{progress: "The account is being closed"}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := r.accounts.Find(ctx, run.object.Namespace, run.object.Name)
	switch {
	case fault.Is(err, fault.NotFound):
	case err != nil:
		run.seen.removal.failure = status.Fail(status.Database, err)
		return false
	default:
		if run.object.Status.AccountID != found.ID.String() || run.object.Status.Bucket != found.Bucket {
			run.object.Status.AccountID, run.object.Status.Bucket = found.ID.String(), found.Bucket
			if _, err := status.Write(ctx, r.client, run.before, run.object); err != nil {
				run.seen.removal.failure = status.FailKubernetes(err, "write the status")
				return false
			}
			run.before = run.object.DeepCopy()
		}
		if err := r.accounts.Close(ctx, found.ID); err != nil && !fault.Is(err, fault.NotFound) {
			run.seen.removal.failure = status.Fail(status.Database, err)
			return false
		}
	}
	if id, err := uuid.Parse(run.object.Status.AccountID); err == nil {
		run.account.ID, run.account.Bucket = id, run.object.Status.Bucket
	}
	return true
}

// removeSecrets removes the Secrets that carried the keys.
func (r *Reconciler) removeSecrets(ctx context.Context, run *run) bool {
	secrets, failure := r.cachedSecrets(ctx, run.object)
	for _, secret := range secrets {
		if failure == nil {
			failure = r.removeSecret(ctx, run.object, secret)
		}
	}
	run.seen.removal.failure = failure
	return failure == nil
}

// erases reports whether the media goes with the account. An account that never came
// to be has none.
func (run *run) erases() bool {
	return run.object.Spec.DeletionPolicy == v1alpha1.DeletionDelete && run.account.ID != uuid.Nil
}

// eraseItems removes the items' rows in batches.
func (r *Reconciler) eraseItems(ctx context.Context, run *run) bool {
	if !run.erases() {
		return true
	}
	for end := r.now().Add(removalSlice); ; {
		left, err := r.eraseBatch(ctx, run)
		if err != nil && !fault.Is(err, fault.NotFound) {
			run.seen.removal.failure = status.Fail(status.Database, err)
			return false
		}
		if left == 0 {
			return true
		}
		if !r.now().Before(end) {
			run.seen.removal.progress = fmt.Sprintf("Deleting the media: %s items left", thousands(left))
			run.lookAgain(r.now())
			return false
		}
	}
}

func (r *Reconciler) eraseBatch(ctx context.Context, run *run) (left int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return r.accounts.Erase(ctx, run.object.Namespace, run.object.Name, run.account.ID)
}

// removeBucket empties and removes the bucket, if its marker says that it is this
// account's; any other bucket stays as it is.
func (r *Reconciler) removeBucket(ctx context.Context, run *run) bool {
	bucket := run.account.Bucket
	if !run.erases() || bucket == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, removalSlice+bucketTimeout)
	defer cancel()
	owner, err := r.buckets.Owner(ctx, bucket)
	switch {
	case fault.Is(err, fault.NotFound):
		// No bucket, or one without a marker: what an interrupted removal leaves is
		// empty and goes here. A bucket that holds anything can't be removed this way.
		err := r.buckets.RemoveBucket(ctx, bucket)
		if fault.Is(err, fault.Conflict) {
			return r.keepBucket(run, "it has no owner and is not empty")
		}
		run.seen.removal.failure = status.Fail(status.ObjectStore, err)
		return err == nil
	case fault.Is(err, fault.Conflict):
		return r.keepBucket(run, "its owner can't be read")
	case err != nil:
		run.seen.removal.failure = status.Fail(status.ObjectStore, err)
		return false
	case owner != r.owner(run):
		return r.keepBucket(run, "it belongs to another account")
	}
	return r.drain(ctx, run)
}

// drain removes objects until the bucket is gone or the slice is over. Uploads that
// were running when the account was closed may still land: they are drained too.
func (r *Reconciler) drain(ctx context.Context, run *run) bool {
	removed := int64(0)
	for end := r.now().Add(removalSlice); ; {
		empty, err := r.buckets.Drain(ctx, run.account.Bucket, drainBatch)
		if err == nil && empty {
			if err = r.buckets.RemoveBucket(ctx, run.account.Bucket); err == nil {
				return true
			}
		}
		if err != nil && !fault.Is(err, fault.Conflict) {
			run.seen.removal.failure = status.Fail(status.ObjectStore, err)
			return false
		}
		removed += drainBatch
		if !r.now().Before(end) {
			total := r.memory.drained(run.object.UID, removed)
			run.seen.removal.progress = fmt.Sprintf("Emptying bucket %s: about %s objects removed", run.account.Bucket, thousands(total))
			run.lookAgain(r.now())
			return false
		}
	}
}

// keepBucket leaves a bucket that is not this account's and goes on.
func (r *Reconciler) keepBucket(run *run, why string) bool {
	r.events.Eventf(run.object, nil, corev1.EventTypeWarning, "BucketKept", "RemoveBucket",
		"bucket %s is left as it is: %s", run.account.Bucket, why)
	return true
}

// thousands writes a number with commas.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
