package mediaaccount

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/erasure"
	"mediastack.dev/controllers/reconcile"
)

// deletionsName is the name of the controller of deletions in logs and metrics.
const deletionsName = Name + "-deletion"

// deletions passes objects from the controller of MediaAccounts to that of their deletions.
type deletions chan deletionEvent

type deletionEvent = event.TypedGenericEvent[*v1alpha1.MediaAccount]

// add passes an object whose media is deleted. It returns when the object is in the queue.
func (d deletions) add(ctx context.Context, object *v1alpha1.MediaAccount) {
	select {
	case d <- deletionEvent{Object: object}:
	case <-ctx.Done(): // the operator ends; the next one begins with every object
	}
}

// setupDeletions registers the controller of deletions. It has workers of its own, and each
// reconcile is a time slice of one deletion, so that deletions hold up neither other accounts nor
// each other.
func (r *Reconciler) setupDeletions(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(deletionsName).
		WatchesRawSource(source.TypedChannel[*v1alpha1.MediaAccount, ctrl.Request]((<-chan deletionEvent)(r.deletions), &handler.TypedEnqueueRequestForObject[*v1alpha1.MediaAccount]{})).
		WithOptions(r.config.DeletionOptions).
		Complete(reconcile.Gated(r.deps.Gate, deletionReconciler{r}))
}

// deletionReconciler deletes the media of objects that are being deleted.
type deletionReconciler struct{ *Reconciler }

// Reconcile works on one deletion for a time slice.
func (r deletionReconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	run, err := reconcile.Begin(ctx, r.deps.Deps, request, &v1alpha1.MediaAccount{})
	if run == nil || !run.Deleting() {
		return ctrl.Result{}, err
	}
	s := &scope{Run: run}
	s.observed.deletion = &deletionProgress{}
	defer func() { result, err = r.report(ctx, s) }()
	reconcile.RunSteps(ctx, s, r.admitDatabase, r.findErasing, r.erase, r.removeFinalizer)
	return ctrl.Result{}, nil
}

// findErasing finds the closed account whose media is deleted.
func (r deletionReconciler) findErasing(ctx context.Context, s *scope) bool {
	found, failure := r.findClosing(ctx, s)
	switch {
	case failure != nil:
		s.observed.deletion.failure = failure
		return false
	case found.ID != uuid.Nil && (found.ClosedAt == nil || !erasesAtOnce(found)):
		s.SkipStatus() // it is the other controller's: the annotation abandon retained the account
		return false
	}
	s.account = found
	return true
}

// erase deletes the media of the account for a time slice.
func (r deletionReconciler) erase(ctx context.Context, s *scope) bool {
	if s.account.ID == uuid.Nil {
		return true
	}
	progress, err := r.deps.Eraser.Erase(ctx, erasure.Target{AccountID: s.account.ID, Bucket: s.account.Bucket})
	if progress.BucketRetained != "" {
		r.deps.Events.Eventf(s.Object, nil, corev1.EventTypeWarning, "BucketRetained", "RemoveBucket",
			"bucket %s is retained: %s", s.account.Bucket, progress.BucketRetained)
	}
	if err != nil {
		s.observed.deletion.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	if progress.Done {
		return true
	}
	s.RequeueBy(r.deps.Now().Add(progress.RetryAfter))
	s.observed.deletion.message = progress.Message + abandonHint(s)
	if s.observed.deletion.blocked = progress.Blocked; progress.Blocked != nil && progress.ItemsLeft > 0 {
		s.observed.deletion.message += fmt.Sprintf("; %d items left", progress.ItemsLeft)
	}
	return false
}
