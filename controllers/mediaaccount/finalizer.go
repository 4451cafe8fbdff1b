package mediaaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
)

// ensureFinalizer adds the finalizer before anything outside the cluster is created.
func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) bool {
	if !controllerutil.ContainsFinalizer(s.Object, v1alpha1.Finalizer) {
		terminating, failure := r.namespaceTerminating(ctx, s)
		if terminating {
			s.SkipStatus()
		}
		if terminating || failure != nil {
			s.observed.account.failure = failure
			return false
		}
	}
	missing := !controllerutil.ContainsFinalizer(s.Object, v1alpha1.Finalizer)
	added, failure := s.AddFinalizer(ctx)
	s.observed.account.failure = failure
	s.live = missing && added // the API server compared the resource version
	return added
}

// removeFinalizer removes the finalizer, so that Kubernetes deletes the object. Everything
// outside the cluster that the deletion policy does not retain is removed before. Finalizers of
// others may keep the object: its status says so then, and nothing else waits for it.
func (r *Reconciler) removeFinalizer(ctx context.Context, s *scope) bool {
	removed, failure := s.RemoveFinalizer(ctx)
	if !removed {
		s.observed.deletion.failure = failure
		return false
	}
	r.objects.Delete(s.Object.UID)
	r.buckets.Forget(client.ObjectKeyFromObject(s.Object))
	r.deps.Written.Forget(s.Object.UID)
	r.undelivered.forget(s.Object.UID)
	s.observed.deletion.message = "The deletion is complete here; finalizers of others keep the object: " + reconcile.Finalizers(s.Object)
	return true
}

// namespaceTerminating reports whether the namespace is being deleted. Nothing can be created
// in it then, and the namespace controller deletes the account next.
func (r *Reconciler) namespaceTerminating(ctx context.Context, s *scope) (bool, *reconcile.StepError) {
	if s.namespaceUID != "" {
		return false, nil
	}
	if uid, known := r.namespaces.Find(s.Object); known {
		s.namespaceUID = uid
		return false, nil
	}
	name := s.Object.Namespace
	learn := r.namespaces.Begin(name)
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.deps.APIReader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, reconcile.NewAPIError(err, "read namespace %s", name)
	}
	if !namespace.DeletionTimestamp.IsZero() {
		return true, nil
	}
	s.namespaceUID = string(namespace.UID)
	learn(s.namespaceUID)
	return false, nil
}
