package mediaaccount

import (
	"context"
	"time"

	"github.com/google/uuid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/objectstore"
)

// bucketsName is the name of the controller of buckets in logs and metrics.
const bucketsName = Name + "-bucket"

const (
	// failedCheckInterval is the longest interval between two checks of a bucket that failed.
	failedCheckInterval = 30 * time.Second
	// postponed is the pause before a check that the database or an outage prevented.
	postponed = 5 * time.Second
)

// setupBuckets registers the controller of buckets: every request to the object store, deletions
// aside, is made by its workers, so that a store that hangs holds up nothing but buckets.
func (r *Reconciler) setupBuckets(mgr ctrl.Manager) error {
	options := r.config.BucketOptions
	options.Reconciler = reconcile.Gated(r.deps.Gate, bucketReconciler{r})
	checks, err := controller.New(bucketsName, mgr, options)
	if err != nil {
		return err
	}
	return checks.Watch(r.buckets.queue.Source())
}

// bucketReconciler makes the bucket of an account exist and belong to it.
type bucketReconciler struct{ *Reconciler }

// Reconcile checks one bucket, and requests a reconcile of the account if the result is news.
func (r bucketReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	defer r.buckets.Begin(request.NamespacedName)()
	run, err := reconcile.Begin(ctx, r.deps.Deps, request, &v1alpha1.MediaAccount{})
	want, confirmed, known := r.buckets.Wanted(request.NamespacedName)
	switch {
	case err != nil || !known:
		return ctrl.Result{}, err
	case run == nil || run.Deleting() || run.Object.UID != want.uid:
		r.buckets.Forget(request.NamespacedName) // the controller of accounts begins again, if there is another object
		return ctrl.Result{}, nil
	}
	s := &scope{Run: run}
	if r.deps.Outages.Admit(reconcile.ObjectStore) != nil {
		r.postpone(s)
		return ctrl.Result{}, nil
	}
	if confirmed {
		if failure, known := r.confirm(ctx, s, want); known {
			r.learn(s, want, failure)
			return ctrl.Result{}, nil
		}
	}
	failure, done := r.check(ctx, s, want)
	if !done {
		r.postpone(s)
		return ctrl.Result{}, nil
	}
	r.learn(s, want, failure)
	if failure != nil && failure.Retries() && !failure.Outage() {
		return ctrl.Result{}, failure.Err // with backoff
	}
	return ctrl.Result{}, nil
}

// postpone repeats a check that an outage prevented.
func (r bucketReconciler) postpone(s *scope) {
	if r.buckets.Postpone(client.ObjectKeyFromObject(s.Object), r.deps.Now().Add(reconcile.Jitter(postponed))) {
		r.request(s)
	}
}

// request requests a reconcile of the account. A new one waits as its creation does.
func (r bucketReconciler) request(s *scope) {
	r.deps.Queue.Add(reconcile.PriorityOf(reconcile.PriorityChange, s.Object, observedGeneration(s.Object)), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.Object)})
}

// learn records the result of a check.
func (r bucketReconciler) learn(s *scope, want bucketWant, failure *reconcile.StepError) {
	now, interval := r.deps.Now(), r.config.BucketCheckInterval
	if failure != nil {
		interval = min(failedCheckInterval, interval)
	}
	if r.buckets.Checked(client.ObjectKeyFromObject(s.Object), want, failure, now, now.Add(interval)) {
		r.request(s)
	}
}

// confirm reads the marker of a bucket that was the account's at the last check, with one request to
// the object store and none to the database. known is false if the bucket must be checked completely.
func (r bucketReconciler) confirm(ctx context.Context, s *scope, want bucketWant) (failure *reconcile.StepError, known bool) {
	identity, err := r.identity(ctx)
	if err != nil {
		return nil, false
	}
	s.account.ID, s.account.Bucket = want.accountID, want.bucket
	result, err := r.claim(ctx, objectstore.ClaimRequest{Bucket: want.bucket, Owner: r.owner(s, identity), Epoch: identity.Epoch, ReadOnly: true})
	failure = reconcile.NewError(reconcile.ObjectStore, err)
	return failure, failure.Outage() || err == nil && result == objectstore.ClaimUnchanged
}

// check claims the bucket of the account as PostgreSQL has it, and records there whose it is. done is
// false if the database does not answer, or the account is another one by now.
func (r bucketReconciler) check(ctx context.Context, s *scope, want bucketWant) (failure *reconcile.StepError, done bool) {
	if r.deps.Outages.Admit(reconcile.Database) != nil || !r.findOwner(ctx, s, want) {
		return nil, false
	}
	result, failure := r.claimBucket(ctx, s)
	if failure = r.recordOwnership(ctx, s, failure); failure != nil {
		return failure, failure.Source != reconcile.Database || !failure.Outage()
	}
	r.emitBucketEvent(s, result)
	if want.acknowledged && result == objectstore.BucketRestored {
		failure = s.RemoveAnnotation(ctx, v1alpha1.AnnotationAcknowledgeMediaLoss)
	}
	return failure, true
}

// findOwner reads the account, and reports whether it is still the one that asked for the check.
func (r bucketReconciler) findOwner(ctx context.Context, s *scope, want bucketWant) bool {
	finding, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := r.deps.Accounts.Find(finding, s.Object.Namespace, s.Object.Name)
	if !fault.Is(err, fault.NotFound) {
		r.deps.Outages.Called(ctx, reconcile.Database, reconcile.NewError(reconcile.Database, err))
	}
	s.account = found
	return err == nil && found.ObjectUID == string(want.uid) && r.bucketWant(s) == want
}

// bucketWant returns what a check of the account's bucket is about.
func (r *Reconciler) bucketWant(s *scope) bucketWant {
	return bucketWant{
		uid: s.Object.UID, accountID: s.account.ID, bucket: s.account.Bucket, acknowledged: s.account.ID != uuid.Nil && acknowledgesLoss(s),
		adopt: s.Object.Spec.Storage.Bucket != nil && s.Object.Spec.Storage.Bucket.Adopt,
	}
}
