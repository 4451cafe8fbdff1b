package mediasettings

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
)

// ensureFinalizer holds the object before it pins anything.
func (r *Reconciler) ensureFinalizer(ctx context.Context, run *run) bool {
	if controllerutil.ContainsFinalizer(run.object, v1alpha1.Finalizer) {
		return true
	}
	return r.patchFinalizers(ctx, run, func() { controllerutil.AddFinalizer(run.object, v1alpha1.Finalizer) })
}

// release lets the object go: it pins nothing any more.
func (r *Reconciler) release(ctx context.Context, run *run) bool {
	if !controllerutil.ContainsFinalizer(run.object, v1alpha1.Finalizer) {
		run.over = true
		return true
	}
	run.over = r.patchFinalizers(ctx, run, func() { controllerutil.RemoveFinalizer(run.object, v1alpha1.Finalizer) }) || run.over
	return run.over
}

// patchFinalizers changes the finalizers, unless somebody else changed the object
// since it was read.
func (r *Reconciler) patchFinalizers(ctx context.Context, run *run, change func()) bool {
	base := run.object.DeepCopy()
	change()
	err := r.client.Patch(ctx, run.object, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		run.lost = true
		return false
	case apierrors.IsNotFound(err):
		run.over = true
		return false
	case err != nil:
		run.object = base
		run.seen.failure = status.FailKubernetes(err, "change the finalizers")
		return false
	}
	run.before = run.object.DeepCopy()
	return true
}
