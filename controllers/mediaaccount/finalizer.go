package mediaaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
)

// ensureFinalizer holds the object before anything outside the cluster is made for it.
func (r *Reconciler) ensureFinalizer(ctx context.Context, run *run) bool {
	if controllerutil.ContainsFinalizer(run.object, v1alpha1.Finalizer) {
		return true
	}
	if ending, failure := r.namespaceEnds(ctx, run); ending || failure != nil {
		run.seen.account.failure, run.over = failure, ending
		return false
	}
	return r.patchFinalizers(ctx, run, func() { controllerutil.AddFinalizer(run.object, v1alpha1.Finalizer) }, &run.seen.account.failure)
}

// release lets the object go: nothing outside is left that the policy does not keep.
func (r *Reconciler) release(ctx context.Context, run *run) bool {
	if controllerutil.ContainsFinalizer(run.object, v1alpha1.Finalizer) {
		drop := func() { controllerutil.RemoveFinalizer(run.object, v1alpha1.Finalizer) }
		if !r.patchFinalizers(ctx, run, drop, &run.seen.removal.failure) {
			return false
		}
	}
	r.memory.forget(run.object.UID)
	run.over = true
	return true
}

// patchFinalizers changes the finalizers, unless somebody else changed the object
// since it was read: then the reconcile ends and the next one looks again.
func (r *Reconciler) patchFinalizers(ctx context.Context, run *run, change func(), failure **status.Failure) bool {
	base := run.object.DeepCopy()
	change()
	err := r.client.Patch(ctx, run.object, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		run.over = true
		run.lookAgain(r.now().Add(status.Jitter(again)))
		return false
	case apierrors.IsNotFound(err):
		run.over = true
		return false
	case err != nil:
		run.object = base
		*failure = status.FailKubernetes(err, "change the finalizers")
		return false
	}
	run.before = run.object.DeepCopy()
	return true
}

// namespaceEnds reports whether the namespace is being deleted: nothing is made in it
// any more, and the deletion of the account follows by itself.
func (r *Reconciler) namespaceEnds(ctx context.Context, run *run) (bool, *status.Failure) {
	if run.namespaceStays {
		return false, nil
	}
	name := run.object.Namespace
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.live.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, status.FailKubernetes(err, "read namespace %s", name)
	}
	run.namespaceStays = namespace.DeletionTimestamp.IsZero()
	return !run.namespaceStays, nil
}
