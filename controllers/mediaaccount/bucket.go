package mediaaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
)

// ensureBucket makes the bucket exist with a marker that names this account. A bucket that
// was checked is not checked again before its interval has passed.
func (r *Reconciler) ensureBucket(ctx context.Context, s *scope) bool {
	name := s.account.Bucket
	ready := stepResult{ready: true, message: fmt.Sprintf("Bucket %s belongs to this account", name)}
	if due := r.schedule.NextBucketCheck(s.Object.UID, name); r.deps.Now().Before(due) && s.account.BucketOwned {
		s.observed.bucket = ready
		s.RequeueBy(due)
		return true
	}
	// While the store is out, everything else goes on without waiting for it.
	if failure := r.deps.Outages.Admit(reconcile.ObjectStore); failure != nil {
		s.observed.bucket.failure = failure
		return true
	}
	result, err := r.claimBucket(ctx, s)
	r.deps.Outages.Called(reconcile.ObjectStore, reconcile.NewError(reconcile.ObjectStore, err))
	due := r.deps.Now().Add(reconcile.Jitter(r.config.BucketCheckInterval))
	s.RequeueBy(due)
	if failure := r.recordOwnership(ctx, s, err); failure != nil {
		r.schedule.InvalidateBucket(s.Object.UID)
		s.observed.bucket.failure = failure
		return true // apps and keys do not depend on the bucket
	}
	if result == objectstore.BucketClaimed || result == objectstore.BucketRestored {
		r.emitBucketEvent(s)
	}
	r.schedule.BucketChecked(s.Object.UID, name, due)
	s.observed.bucket = ready
	return true
}

func (r *Reconciler) claimBucket(ctx context.Context, s *scope) (objectstore.ClaimResult, error) {
	adopt := s.Object.Spec.Storage.Bucket != nil && s.Object.Spec.Storage.Bucket.Adopt
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	identity, err := r.deps.Identity(ctx)
	if err != nil {
		return objectstore.ClaimUnchanged, err
	}
	return r.deps.Buckets.Claim(ctx, objectstore.ClaimRequest{
		Bucket: s.account.Bucket, Owner: r.owner(s, identity), Epoch: identity.Epoch, Adopt: adopt, Claimed: s.account.BucketClaimed, Now: r.deps.Now(),
	})
}

// recordOwnership records in PostgreSQL whether the bucket belongs to the account: the runtime
// accepts uploads into such a bucket only. While the store cannot be reached, nothing changes.
func (r *Reconciler) recordOwnership(ctx context.Context, s *scope, claim error) *reconcile.StepError {
	failure := reconcile.NewError(reconcile.ObjectStore, claim)
	owned := claim == nil
	if claim != nil && !failure.Stalls() || s.account.BucketOwned == owned {
		return failure
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := r.deps.Accounts.SetBucketOwned(ctx, s.account.ID, owned); err != nil {
		return reconcile.NewError(reconcile.Database, err)
	}
	s.account.BucketOwned = owned
	return failure
}

// owner returns the content of the bucket's marker.
func (r *Reconciler) owner(s *scope, identity installation.Identity) objectstore.Owner {
	return objectstore.Owner{AccountID: s.account.ID.String(), Namespace: s.Object.Namespace, Name: s.Object.Name, InstallationID: identity.ID}
}

// emitBucketEvent records an event that distinguishes a first claim from a repair.
func (r *Reconciler) emitBucketEvent(s *scope) {
	if meta.IsStatusConditionTrue(s.Original.Status.Conditions, v1alpha1.ConditionBucketReady) {
		r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeWarning, "BucketRestored", "ClaimBucket",
			"bucket %s or its marker was missing and was created again", s.account.Bucket)
		return
	}
	r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeNormal, "BucketClaimed", "ClaimBucket",
		"bucket %s now belongs to this account", s.account.Bucket)
}
