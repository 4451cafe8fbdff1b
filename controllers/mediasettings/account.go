package mediasettings

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
)

// accountRetry is when the database is asked again for an account that is not bound yet. The watch
// of accounts usually comes first.
const accountRetry = 30 * time.Second

// maxAccountWait is how long the status waits for an account that is being provisioned.
const maxAccountWait = 10 * time.Second

// findAccount looks up the account of the settings in PostgreSQL. It is the one that is bound to
// the MediaAccount: a status, which others can write, names none. Without a usable one the next
// steps still resolve the active object.
func (r *Reconciler) findAccount(ctx context.Context, s *scope) bool {
	name := s.Object.Spec.AccountRef.Name
	s.observed.account = name
	object := &v1alpha1.MediaAccount{}
	err := r.deps.Client.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: name}, object)
	switch {
	case apierrors.IsNotFound(err):
		s.observed.pendingReason = fmt.Sprintf("MediaAccount %s not found in this namespace", name)
		return true
	case err != nil:
		s.observed.failure = reconcile.NewAPIError(err, "read MediaAccount %s", name)
		return false
	case !object.DeletionTimestamp.IsZero():
		s.observed.pendingReason = fmt.Sprintf("MediaAccount %s is being deleted", name)
		return true
	}
	pending := fmt.Sprintf("MediaAccount %s is not provisioned yet", name)
	if until := r.awaitsUntil(s.Object, object); !until.IsZero() && isNew(s.Original) && r.deps.Outages.Standing(reconcile.Database) == nil {
		// Its first status requests the next reconcile: the database need not be asked before.
		s.observed.pendingReason, s.awaitsAccount, s.databaseCalled = pending, until, false
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := r.deps.Accounts.Find(ctx, object.Namespace, object.Name)
	switch {
	case fault.Is(err, fault.NotFound), err == nil && found.ObjectUID != string(object.UID):
		s.observed.pendingReason = pending
		s.RequeueBy(r.deps.Now().Add(reconcile.Jitter(accountRetry)))
		s.awaitsAccount = r.awaitsUntil(s.Object, object)
		return true
	case err != nil:
		s.observed.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	s.accountID, s.accountUID = found.ID, found.ObjectUID
	return true
}

// awaitsUntil returns until when the status of settings waits for an account that has no status yet: both
// are new, as in one manifest. It is zero if the time is over, and if the clocks differ too much to tell.
func (r *Reconciler) awaitsUntil(object *v1alpha1.MediaSettings, of *v1alpha1.MediaAccount) time.Time {
	created := of.CreationTimestamp
	if created.Before(&object.CreationTimestamp) {
		created = object.CreationTimestamp
	}
	until := created.Add(maxAccountWait)
	if left := until.Sub(r.deps.Now()); len(of.Status.Conditions) > 0 || left <= 0 || left > maxAccountWait {
		return time.Time{}
	}
	return until
}

// awaitAccount writes no status while the account is being provisioned: the end of that requests the
// next reconcile, and the status is written once.
func (r *Reconciler) awaitAccount(s *scope) {
	ready := meta.IsStatusConditionTrue(s.Original.Status.Conditions, v1alpha1.ConditionReady)
	if s.awaitsAccount.IsZero() || s.observed.pendingReason == "" || s.observed.failure != nil || ready {
		return
	}
	s.SkipStatus()
	s.RequeueBy(s.awaitsAccount)
}

// isNew reports whether the object has no status of the operator yet.
func isNew(object *v1alpha1.MediaSettings) bool { return len(object.Status.Conditions) == 0 }

// ofAccount returns the MediaSettings of an account.
func (r *Reconciler) ofAccount(ctx context.Context, object client.Object) []*v1alpha1.MediaSettings {
	return r.ofName(ctx, object.GetNamespace(), object.GetName())
}

// accountChanges selects the events that may change whether an account can be used: it was
// created, provisioned, marked for deletion, or deleted.
func accountChanges() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*v1alpha1.MediaAccount)
			after, ok2 := e.ObjectNew.(*v1alpha1.MediaAccount)
			return !ok1 || !ok2 || before.Status.AccountID != after.Status.AccountID ||
				before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
		},
	}
}
