package retained

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/erasure"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// erase deletes the media of one account for a time slice, and shows the progress. It has
// workers of its own, so that deletions hold up no other object.
func (r *Reconciler) erase(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object, err := r.read(ctx, request.Name)
	if object == nil {
		return ctrl.Result{}, err // the pass creates it again
	}
	row, ours, err := r.look(ctx, request.Name, object)
	switch {
	case err != nil || !ours:
		return ctrl.Result{}, err
	case row == nil:
		return ctrl.Result{}, r.withoutAccount(ctx, object)
	case !row.Due && row.ErasingAt == nil || !describes(object, *row):
		return ctrl.Result{}, r.request(ctx, object.Name) // decided otherwise meanwhile
	}
	if held, err := r.isHeld(ctx, *row); held || err != nil {
		return ctrl.Result{}, err
	}
	progress, err := r.deps.Eraser.Erase(ctx, erasure.Target{AccountID: row.ID, Bucket: row.Bucket})
	if err != nil {
		return ctrl.Result{}, ignoreRestored(err)
	}
	if progress.BucketRetained != "" {
		r.deps.Events.Eventf(object, nil, corev1.EventTypeWarning, "BucketRetained", "RemoveBucket",
			"bucket %s is retained: %s", row.Bucket, progress.BucketRetained)
	}
	if progress.Done {
		return ctrl.Result{}, r.withoutAccount(ctx, object)
	}
	return ctrl.Result{RequeueAfter: progress.RetryAfter}, r.report(ctx, object, *row, summarizeErasure(object, *row, progress))
}

// ignoreRestored returns nil for an account that was restored, or kept, just before its erasure
// began.
func ignoreRestored(err error) error {
	if fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}

// summarizeErasure returns the summary of an account that is being erased.
func summarizeErasure(object *v1alpha1.RetainedMediaAccount, row account.Retained, progress erasure.Progress) reconcile.Summary {
	if object.Spec.Reclaim != v1alpha1.ReclaimPurge && row.ErasingAt != nil {
		return reconcile.Summary{Stalled: true, Reason: v1alpha1.ReasonConflict,
			Message: fmt.Sprintf("spec.reclaim is %s, but the deletion of the media has begun and cannot be undone: %s", object.Spec.Reclaim, progress.Message)}
	}
	if blocked, ok := reconcile.FromErrors(progress.Blocked); ok {
		blocked.Message = progress.Message
		return blocked
	}
	return reconcile.Reconciling(v1alpha1.ReasonPurging, progress.Message)
}
