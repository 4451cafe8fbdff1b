package mediasettings

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
)

// findAccount looks up the account of the settings. Without a usable one the next steps still
// resolve the active object; the watch of accounts triggers the next reconcile.
func (r *Reconciler) findAccount(ctx context.Context, s *scope) bool {
	name := s.Object.Spec.AccountRef.Name
	s.observed.account = name
	s.observed.deleting = s.Deleting()
	account := &v1alpha1.MediaAccount{}
	err := r.deps.Client.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: name}, account)
	switch {
	case apierrors.IsNotFound(err):
		s.observed.pendingReason = fmt.Sprintf("MediaAccount %s not found in this namespace", name)
		return true
	case err != nil:
		s.observed.failure = reconcile.NewAPIError(err, "read MediaAccount %s", name)
		return false
	case !account.DeletionTimestamp.IsZero():
		s.observed.pendingReason = fmt.Sprintf("MediaAccount %s is being deleted", name)
	}
	id, err := uuid.Parse(account.Status.AccountID)
	if err != nil && s.observed.pendingReason == "" {
		s.observed.pendingReason = fmt.Sprintf("MediaAccount %s is not provisioned yet", name)
	}
	s.accountID = id
	return true
}

// ofAccount maps an account to its MediaSettings.
func (r *Reconciler) ofAccount(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, object.GetNamespace(), object.GetName(), "")
}

// accountChanges selects the events that change whether an account can be used: it was
// created, provisioned, marked for deletion, or deleted.
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
