package mediaaccount

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
)

const (
	// deletionTimeSlice is how long one reconcile works on a deletion before it reports the
	// progress and frees the worker.
	deletionTimeSlice = 10 * time.Second
	// drainBatch is the number of objects that one call removes.
	drainBatch = 1000
)

// closeAccount closes the account, which revokes every key at once. It saves the account's id
// and bucket in the status first, since a closed account cannot be found by name any more.
// PostgreSQL overrides the earlier values of the status, since other clients can write a status.
func (r *Reconciler) closeAccount(ctx context.Context, s *scope) bool {
	s.observed.deletion = &deletionProgress{message: "Closing the account"}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := r.deps.Accounts.Find(ctx, s.Object.Namespace, s.Object.Name)
	switch {
	case fault.Is(err, fault.NotFound):
	case err != nil:
		s.observed.deletion.failure = reconcile.NewError(reconcile.Database, err)
		return false
	default:
		if s.Object.Status.AccountID != found.ID.String() || s.Object.Status.Bucket != found.Bucket {
			s.Object.Status.AccountID, s.Object.Status.Bucket = found.ID.String(), found.Bucket
			if failure := s.SaveStatus(ctx); failure != nil {
				s.observed.deletion.failure = failure
				return false
			}
		}
		if err := r.deps.Accounts.Close(ctx, found.ID); err != nil && !fault.Is(err, fault.NotFound) {
			s.observed.deletion.failure = reconcile.NewError(reconcile.Database, err)
			return false
		}
	}
	if id, err := uuid.Parse(s.Object.Status.AccountID); err == nil {
		s.account.ID, s.account.Bucket = id, s.Object.Status.Bucket
	}
	return true
}

// removeSecrets deletes the Secrets with the keys.
func (r *Reconciler) removeSecrets(ctx context.Context, s *scope) bool {
	secrets, failure := r.cachedSecrets(ctx, s.Object)
	for _, secret := range secrets {
		if failure == nil {
			failure = r.removeSecret(ctx, s.Object, secret)
		}
	}
	s.observed.deletion.failure = failure
	return failure == nil
}

// deletesMedia reports whether the media is deleted with the account. An account that was
// never provisioned has none.
func (s *scope) deletesMedia() bool {
	return s.Object.Spec.DeletionPolicy == v1alpha1.DeletionDelete && s.account.ID != uuid.Nil
}

// deleteItems deletes the rows of the items in batches.
func (r *Reconciler) deleteItems(ctx context.Context, s *scope) bool {
	if !s.deletesMedia() {
		return true
	}
	for end := r.deps.Now().Add(deletionTimeSlice); ; {
		left, err := r.deleteBatch(ctx, s)
		if err != nil && !fault.Is(err, fault.NotFound) {
			s.observed.deletion.failure = reconcile.NewError(reconcile.Database, err)
			return false
		}
		if left == 0 {
			return true
		}
		if !r.deps.Now().Before(end) {
			s.observed.deletion.message = fmt.Sprintf("Deleting the media: %s items left", formatThousands(left))
			s.RequeueBy(r.deps.Now())
			return false
		}
	}
}

func (r *Reconciler) deleteBatch(ctx context.Context, s *scope) (left int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return r.deps.Accounts.Erase(ctx, s.Object.Namespace, s.Object.Name, s.account.ID)
}

// removeBucket empties and removes the bucket if its marker names this account. Any other
// bucket is retained.
func (r *Reconciler) removeBucket(ctx context.Context, s *scope) bool {
	bucket := s.account.Bucket
	if !s.deletesMedia() || bucket == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, deletionTimeSlice+bucketTimeout)
	defer cancel()
	owner, err := r.deps.Buckets.Owner(ctx, bucket)
	switch {
	case fault.Is(err, fault.NotFound):
		// The bucket or its marker is missing. An interrupted removal leaves an empty bucket
		// without a marker, which is removed here; S3 does not remove a bucket with objects.
		err := r.deps.Buckets.RemoveBucket(ctx, bucket)
		if fault.Is(err, fault.Conflict) {
			return r.retainBucket(s, "it has no owner and is not empty")
		}
		s.observed.deletion.failure = reconcile.NewError(reconcile.ObjectStore, err)
		return err == nil
	case fault.Is(err, fault.Conflict):
		return r.retainBucket(s, "its owner cannot be read")
	case err != nil:
		s.observed.deletion.failure = reconcile.NewError(reconcile.ObjectStore, err)
		return false
	case owner.AccountID != s.account.ID.String():
		return r.retainBucket(s, "it belongs to another account")
	}
	return r.drain(ctx, s)
}

// drain removes objects until the bucket is removed or the time slice ends. Uploads in
// progress when the account was closed may still write objects: they are removed too.
func (r *Reconciler) drain(ctx context.Context, s *scope) bool {
	removed := int64(0)
	for end := r.deps.Now().Add(deletionTimeSlice); ; {
		empty, err := r.deps.Buckets.Drain(ctx, s.account.Bucket, drainBatch)
		if err == nil && empty {
			if err = r.deps.Buckets.RemoveBucket(ctx, s.account.Bucket); err == nil {
				return true
			}
		}
		if err != nil && !fault.Is(err, fault.Conflict) {
			s.observed.deletion.failure = reconcile.NewError(reconcile.ObjectStore, err)
			return false
		}
		removed += drainBatch
		if !r.deps.Now().Before(end) {
			total := r.schedule.AddDrained(s.Object.UID, removed)
			s.observed.deletion.message = fmt.Sprintf("Emptying bucket %s: about %s objects removed", s.account.Bucket, formatThousands(total))
			s.RequeueBy(r.deps.Now())
			return false
		}
	}
}

// retainBucket records that a bucket which does not belong to this account is retained.
func (r *Reconciler) retainBucket(s *scope, reason string) bool {
	r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeWarning, "BucketRetained", "RemoveBucket",
		"bucket %s is retained: %s", s.account.Bucket, reason)
	return true
}

// formatThousands formats a number with commas between groups of three digits.
func formatThousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
