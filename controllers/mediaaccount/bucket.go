package mediaaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/objectstore"
)

// ensureBucket makes the bucket exist and carry the account's marker. A bucket that
// was fine a moment ago is not asked for again before its time.
func (r *Reconciler) ensureBucket(ctx context.Context, run *run) bool {
	name := run.account.Bucket
	done := part{done: true, message: fmt.Sprintf("Bucket %s belongs to this account", name)}
	if due := r.memory.bucketDue(run.object.UID, name); r.now().Before(due) && run.account.BucketOwned {
		run.seen.bucket = done
		run.lookAgain(due)
		return true
	}
	changed, err := r.claimBucket(ctx, run)
	due := r.now().Add(status.Jitter(r.config.BucketCheckInterval))
	run.lookAgain(due)
	if failure := r.noteOwner(ctx, run, err); failure != nil {
		r.memory.doubtBucket(run.object.UID)
		run.seen.bucket.failure = failure
		return true // apps and keys do not wait for the bucket
	}
	if changed {
		r.announceBucket(run)
	}
	r.memory.sawBucket(run.object.UID, name, due)
	run.seen.bucket = done
	return true
}

func (r *Reconciler) claimBucket(ctx context.Context, run *run) (changed bool, err error) {
	adopt := run.object.Spec.Storage.Bucket != nil && run.object.Spec.Storage.Bucket.Adopt
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	return r.buckets.Claim(ctx, run.account.Bucket, r.owner(run), adopt)
}

// noteOwner records for the runtime whose the bucket is: it takes no upload into a bucket
// that is not the account's. A store that can't be reached leaves that as it was.
func (r *Reconciler) noteOwner(ctx context.Context, run *run, claim error) *status.Failure {
	failure := status.Fail(status.ObjectStore, claim)
	owned := claim == nil
	if claim != nil && !failure.Stalls() || run.account.BucketOwned == owned {
		return failure
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := r.accounts.SetBucketOwned(ctx, run.account.ID, owned); err != nil {
		return status.Fail(status.Database, err)
	}
	run.account.BucketOwned = owned
	return failure
}

// owner is what the bucket's marker says.
func (r *Reconciler) owner(run *run) objectstore.Owner {
	return objectstore.Owner{AccountID: run.account.ID.String(), Namespace: run.object.Namespace, Name: run.object.Name}
}

// announceBucket distinguishes a first bucket from one that was there and went missing.
func (r *Reconciler) announceBucket(run *run) {
	if meta.IsStatusConditionTrue(run.before.Status.Conditions, v1alpha1.ConditionBucketReady) {
		r.events.Eventf(run.object, nil, corev1.EventTypeWarning, "BucketRestored", "ClaimBucket",
			"bucket %s, or its marker, was missing and has been made again", run.account.Bucket)
		return
	}
	r.events.Eventf(run.object, nil, corev1.EventTypeNormal, "BucketClaimed", "ClaimBucket",
		"bucket %s belongs to this account now", run.account.Bucket)
}
