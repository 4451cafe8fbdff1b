package mediasettings

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
)

// findAccount looks for the account that the settings are for. Without a usable one
// the steps go on, to find out who rules; its watch brings the object back.
func (r *Reconciler) findAccount(ctx context.Context, run *run) bool {
	name := run.object.Spec.AccountRef.Name
	run.seen.account = name
	run.seen.deleting = !run.object.DeletionTimestamp.IsZero()
	account := &v1alpha1.MediaAccount{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: run.object.Namespace, Name: name}, account)
	switch {
	case apierrors.IsNotFound(err):
		run.seen.waiting = fmt.Sprintf("There is no MediaAccount %s in this namespace", name)
		return true
	case err != nil:
		run.seen.failure = status.FailKubernetes(err, "read MediaAccount %s", name)
		return false
	case !account.DeletionTimestamp.IsZero():
		run.seen.waiting = fmt.Sprintf("MediaAccount %s is being deleted", name)
	}
	id, err := uuid.Parse(account.Status.AccountID)
	if err != nil && run.seen.waiting == "" {
		run.seen.waiting = fmt.Sprintf("MediaAccount %s is not provisioned yet", name)
	}
	run.accountID = id
	return true
}

// ofAccount maps an account to the settings that are for it.
func (r *Reconciler) ofAccount(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, object.GetNamespace(), object.GetName(), "")
}

// accountChanges lets through what changes whether an account can be used: that it
// came, was provisioned, is being deleted, or went.
func accountChanges() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*v1alpha1.MediaAccount)
			after, ok2 := e.ObjectNew.(*v1alpha1.MediaAccount)
			return !ok1 || !ok2 || before.Status.AccountID != after.Status.AccountID ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
		},
	}
}
