package mediaaccount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
)

// maxBucketWait is how long a reconcile waits for the first check of a bucket before it writes a
// status without it.
const maxBucketWait = 5 * time.Second

// ensureBucket uses the result of the last check of the bucket, and requests one if there is none. It
// calls neither the object store nor the database: see bucketReconciler.
func (r *Reconciler) ensureBucket(_ context.Context, s *scope) bool {
	key, want := client.ObjectKeyFromObject(s.Object), r.bucketWant(s)
	ready := stepResult{ready: true, message: bucketMessage(s)}
	failure, at, checked := r.buckets.Look(key, want)
	switch {
	case checked && failure != nil:
		s.observed.bucket.failure = failure.Shared()
	case checked && (s.account.BucketOwned || at.After(s.began)): // a check may have ended since the account was read
		s.observed.bucket = ready
	case !checked && s.account.BucketOwned && meta.IsStatusConditionTrue(s.Original.Status.Conditions, v1alpha1.ConditionBucketReady):
		// After a restart of the operator: PostgreSQL and the status agree until the bucket's turn.
		r.buckets.Trust(key, want)
		s.observed.bucket = ready
	default:
		since := r.buckets.Ask(key, want, reconcile.PriorityOf(reconcile.PriorityChange, s.Original, observedGeneration(s.Original)), r.deps.Now())
		s.awaitsBucket = since.Add(maxBucketWait)
	}
	if out := r.deps.Outages.Standing(reconcile.ObjectStore); out != nil && !s.observed.bucket.failure.Stalls() {
		s.observed.bucket = stepResult{failure: out}
	}
	return true // apps and keys do not depend on the bucket
}

// awaitBucket uses the result of a check that ended meanwhile. While the first check still runs, it
// writes no status: the end of the check requests the next reconcile, and the status is written once.
func (r *Reconciler) awaitBucket(s *scope) {
	if s.awaitsBucket.IsZero() {
		return
	}
	failure, checked := r.buckets.Await(client.ObjectKeyFromObject(s.Object), r.bucketWant(s))
	if s.StatusSkipped() {
		return
	}
	if checked {
		s.observed.bucket = stepResult{ready: failure == nil, message: bucketMessage(s), failure: failure.Shared()}
	}
	failed := slices.ContainsFunc(s.observed.failures(), func(f *reconcile.StepError) bool { return f != nil })
	if now := r.deps.Now(); !s.observed.bucket.ready && !failed && now.Before(s.awaitsBucket) {
		s.SkipStatus()
		s.RequeueBy(s.awaitsBucket)
	}
}

// awaitCheck waits for the check of the bucket that may be under way, before the media is deleted: it
// would make the bucket again. No check begins for an object that is being deleted.
func (r *Reconciler) awaitCheck(_ context.Context, s *scope) bool {
	if !r.buckets.Runs(client.ObjectKeyFromObject(s.Object)) {
		return true
	}
	s.Conflicted()
	return false
}

func bucketMessage(s *scope) string {
	return fmt.Sprintf("Bucket %s belongs to this account", s.account.Bucket)
}

// claimBucket claims the bucket. What items the account has matters only if the bucket or its
// marker is missing, so that it is read only then.
func (r *Reconciler) claimBucket(ctx context.Context, s *scope) (objectstore.ClaimResult, *reconcile.StepError) {
	identity, err := r.identity(ctx)
	if err != nil {
		return objectstore.ClaimUnchanged, reconcile.NewError(reconcile.Database, err)
	}
	request := objectstore.ClaimRequest{
		Bucket: s.account.Bucket, Owner: r.owner(s, identity), Epoch: identity.Epoch,
		Adopt:   s.Object.Spec.Storage.Bucket != nil && s.Object.Spec.Storage.Bucket.Adopt,
		Claimed: s.account.BucketClaimed, HasMedia: true, Acknowledged: acknowledgesLoss(s),
	}
	result, err := r.claim(ctx, request)
	if fault.ReasonOf(err) != fault.MediaLost {
		return result, reconcile.NewError(reconcile.ObjectStore, err)
	}
	failure := r.readMedia(ctx, s, &request)
	if failure != nil {
		return result, failure
	}
	if result, err = r.claim(ctx, request); fault.ReasonOf(err) == fault.MediaLost {
		return result, mediaLost(s, err)
	}
	return result, reconcile.NewError(reconcile.ObjectStore, err)
}

// claim calls Claim, and records whether the store responded.
func (r *Reconciler) claim(ctx context.Context, request objectstore.ClaimRequest) (objectstore.ClaimResult, error) {
	claiming, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	began := r.deps.Now()
	result, err := r.deps.Buckets.Claim(claiming, request)
	r.deps.Outages.CalledSince(ctx, reconcile.ObjectStore, began, reconcile.NewError(reconcile.ObjectStore, err))
	if known := new(fault.Error); errors.As(err, &known) && known.Kind == fault.Conflict && known.Cause != nil {
		log.FromContext(ctx).Info("the bucket is not claimed", "cause", known.Cause.Error()) // the status does not name the owner
	}
	return result, err
}

func (r *Reconciler) identity(ctx context.Context) (installation.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return r.deps.Identity(ctx)
}

// readMedia adds to the request what the database has of the account's items.
func (r *Reconciler) readMedia(ctx context.Context, s *scope, request *objectstore.ClaimRequest) *reconcile.StepError {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	var err error
	if request.HasMedia, err = r.deps.Accounts.HasItems(ctx, s.account.ID); err != nil {
		return reconcile.NewError(reconcile.Database, err)
	}
	request.Files, err = r.deps.Accounts.SampleFiles(ctx, s.account.ID)
	return reconcile.NewError(reconcile.Database, err)
}

// mediaLost adds to the error of a claim what the cluster admin can do.
func mediaLost(s *scope, err error) *reconcile.StepError {
	return reconcile.NewError(reconcile.ObjectStore, fault.WithReason(fault.Wrap(err, fault.Conflict,
		"%s; to continue without them, set the annotation %s: %q", fault.From(err).Public, v1alpha1.AnnotationAcknowledgeMediaLoss, s.account.ID), fault.MediaLost))
}

// acknowledgesLoss reports whether the cluster admin accepts that the media of this account is lost.
func acknowledgesLoss(s *scope) bool {
	return s.Object.Annotations[v1alpha1.AnnotationAcknowledgeMediaLoss] == s.account.ID.String()
}

// recordOwnership records in PostgreSQL whether the bucket belongs to the account: the runtime
// accepts uploads into such a bucket only. A store that does not say whose bucket it is changes
// nothing.
func (r *Reconciler) recordOwnership(ctx context.Context, s *scope, claim *reconcile.StepError) *reconcile.StepError {
	owned := claim == nil
	if claim != nil && !fault.Is(claim.Err, fault.Conflict) || s.account.BucketOwned == owned {
		return claim
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := r.deps.Accounts.SetBucketOwned(ctx, s.account.ID, owned); err != nil {
		return reconcile.NewError(reconcile.Database, err)
	}
	s.account.BucketOwned = owned
	return claim
}

// owner returns the content of the bucket's marker.
func (r *Reconciler) owner(s *scope, identity installation.Identity) objectstore.Owner {
	return objectstore.Owner{AccountID: s.account.ID.String(), Namespace: s.Object.Namespace, Name: s.Object.Name, InstallationID: identity.ID}
}

// emitBucketEvent records an event that distinguishes a first claim from a repair.
func (r *Reconciler) emitBucketEvent(s *scope, result objectstore.ClaimResult) {
	switch result {
	case objectstore.BucketRestored:
		r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeWarning, "BucketRestored", "ClaimBucket",
			"bucket %s or its marker was missing and was created again", s.account.Bucket)
	case objectstore.BucketClaimed:
		r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeNormal, "BucketClaimed", "ClaimBucket",
			"bucket %s now belongs to this account", s.account.Bucket)
	case objectstore.ClaimUnchanged, objectstore.ClaimUpdated, objectstore.ClaimDiffers:
	}
}
