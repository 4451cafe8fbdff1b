package mediawebhook

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
)

// maxOfAllAccounts is how many MediaWebhooks of all accounts there may be.
const maxOfAllAccounts = 5

// checkLimit stalls the object if the account has enough older ones, and removes what is stored of it, in case it was active before.
func (r *Reconciler) checkLimit(ctx context.Context, s *scope) bool {
	list := &v1alpha1.MediaWebhookList{}
	value := indexValue(s.Object)
	err := r.deps.Client.List(ctx, list, client.InNamespace(s.Object.Namespace), client.MatchingFields{accountIndex: value})
	if err != nil {
		s.observed.failure = reconcile.NewAPIError(err, "list the MediaWebhooks of the account")
		return false
	}
	before := olderThan(s.Object, list.Items)
	switch {
	case s.Object.Spec.AllAccounts && before >= maxOfAllAccounts:
		s.observed.problem = problem{v1alpha1.ReasonLimitExceeded, fmt.Sprintf("%d older MediaWebhooks of all accounts are in effect, which is the limit; delete one of them", maxOfAllAccounts)}
	case !s.Object.Spec.AllAccounts && before >= r.config.PerAccount:
		s.observed.problem = problem{v1alpha1.ReasonLimitExceeded, fmt.Sprintf(
			"MediaAccount %s has %d older MediaWebhooks, which is the limit (SERVICE_WEBHOOKS_PER_ACCOUNT of the operator); delete one of them", s.Object.AccountName(), r.config.PerAccount)}
	default:
		return true
	}
	r.remove(ctx, s)
	return false
}

// olderThan counts the objects that are older than one, by creation time, then by name, without those that are being deleted.
func olderThan(object *v1alpha1.MediaWebhook, all []v1alpha1.MediaWebhook) int {
	count := 0
	for i := range all {
		other := &all[i]
		if other.DeletionTimestamp.IsZero() && cmp.Or(other.CreationTimestamp.Compare(object.CreationTimestamp.Time), cmp.Compare(other.Name, object.Name)) < 0 {
			count++
		}
	}
	return count
}

// peers returns the others of the same account.
func (r *Reconciler) peers(ctx context.Context, object client.Object) []*v1alpha1.MediaWebhook {
	of := object.(*v1alpha1.MediaWebhook)
	return slices.DeleteFunc(r.indexed(ctx, of.Namespace, indexValue(of)), func(other *v1alpha1.MediaWebhook) bool { return other.Name == of.Name })
}

// CountChanges selects the events that change how many MediaWebhooks an account has: one was created, marked for deletion, or deleted.
func CountChanges() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
	}
}
