package mediawebhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
)

const (
	// accountIndex finds the MediaWebhooks of an account.
	accountIndex = "webhook.account"
	// allAccounts is the value of the index for MediaWebhooks of all accounts. No account has that name.
	allAccounts = "*"
	// accountRetry is when the database is asked again for an account that is not bound yet. The watch of accounts usually comes first.
	accountRetry = 30 * time.Second
)

// addIndex adds the index that Any uses.
func addIndex(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &v1alpha1.MediaWebhook{}, accountIndex, func(object client.Object) []string {
		return []string{indexValue(object.(*v1alpha1.MediaWebhook))}
	})
}

func indexValue(object *v1alpha1.MediaWebhook) string {
	if object.Spec.AllAccounts {
		return allAccounts
	}
	return object.AccountName()
}

// NamespaceOfAll returns the namespace in which MediaWebhooks of all accounts may be: that of the operator, if it watches it; else none.
func NamespaceOfAll(own string, watched []string) string {
	if len(watched) > 0 && !slices.Contains(watched, own) {
		return ""
	}
	return own
}

// Any reports whether there is a MediaWebhook of an account, or one of all accounts in the namespace ofAll (empty = none), that is not being
// deleted. The cache has the index since the manager was set up.
func Any(ctx context.Context, cached client.Reader, account client.ObjectKey, ofAll string) (bool, error) {
	for _, look := range []client.ObjectKey{account, {Namespace: ofAll, Name: allAccounts}} {
		if look.Namespace == "" {
			continue
		}
		list := &v1alpha1.MediaWebhookList{}
		if err := cached.List(ctx, list, client.InNamespace(look.Namespace), client.MatchingFields{accountIndex: look.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return false, err
		}
		if slices.ContainsFunc(list.Items, func(object v1alpha1.MediaWebhook) bool { return object.DeletionTimestamp.IsZero() }) {
			return true, nil
		}
	}
	return false, nil
}

// findAccount looks up the account in PostgreSQL. It is the one that is bound to the MediaAccount: a status, which others can write, names
// none. Without a usable one nothing is sent.
func (r *Reconciler) findAccount(ctx context.Context, s *scope) bool {
	if s.Object.Spec.AllAccounts {
		return true
	}
	name := s.Object.AccountName()
	object := &v1alpha1.MediaAccount{}
	err := r.deps.Client.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return r.pend(ctx, s, fmt.Sprintf("MediaAccount %s not found in this namespace", name))
	case err != nil:
		s.observed.failure = reconcile.NewAPIError(err, "read MediaAccount %s", name)
		return false
	case !object.DeletionTimestamp.IsZero():
		return r.pend(ctx, s, fmt.Sprintf("MediaAccount %s is being deleted", name))
	}
	calling, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := r.deps.Accounts.Find(calling, object.Namespace, object.Name)
	switch {
	case fault.Is(err, fault.NotFound), err == nil && found.ObjectUID != string(object.UID):
		s.RequeueBy(r.deps.Now().Add(reconcile.Jitter(accountRetry)))
		return r.pend(ctx, s, fmt.Sprintf("MediaAccount %s is not provisioned yet", name))
	case err != nil:
		s.observed.failure = reconcile.NewError(reconcile.Database, err)
		return false
	}
	s.accountID = found.ID
	return true
}

// pend records why the account cannot be used, and removes what is stored of the webhook.
func (r *Reconciler) pend(ctx context.Context, s *scope, reason string) bool {
	if r.remove(ctx, s) {
		s.observed.pendingReason = reason
	}
	return false
}

// ofAccount returns the MediaWebhooks of an account.
func (r *Reconciler) ofAccount(ctx context.Context, object client.Object) []*v1alpha1.MediaWebhook {
	return r.indexed(ctx, object.GetNamespace(), object.GetName())
}

// indexed returns the MediaWebhooks of a namespace with a value of the index, which must not be changed.
func (r *Reconciler) indexed(ctx context.Context, namespace, value string) []*v1alpha1.MediaWebhook {
	list := &v1alpha1.MediaWebhookList{}
	if err := r.deps.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{accountIndex: value}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list the MediaWebhooks of an account", "namespace", namespace, "account", value)
		return nil
	}
	found := make([]*v1alpha1.MediaWebhook, len(list.Items))
	for i := range list.Items {
		found[i] = &list.Items[i]
	}
	return found
}

// accountChanges selects the events that may change whether an account can be used: it was created, provisioned, marked for deletion, or
// deleted.
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
