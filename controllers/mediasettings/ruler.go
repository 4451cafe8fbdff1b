package mediasettings

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
)

// findRuler finds out whether this object rules its account. One that does not takes
// back what it pinned, if it ruled before.
func (r *Reconciler) findRuler(ctx context.Context, run *run) bool {
	list := &v1alpha1.MediaSettingsList{}
	err := r.client.List(ctx, list, client.InNamespace(run.object.Namespace), client.MatchingFields{accountIndex: run.seen.account})
	if err != nil {
		run.seen.failure = status.FailKubernetes(err, "list the MediaSettings of MediaAccount %s", run.seen.account)
		return false
	}
	ruler := oldest(append(list.Items, *run.object))
	if ruler.Name == run.object.Name {
		return run.seen.waiting == ""
	}
	run.seen.ruler, run.seen.waiting = ruler.Name, ""
	if r.unpin(ctx, run) {
		run.seen.failure = nil
	}
	return false
}

// oldest returns the object that rules: the first by creation, then by name, of those
// that are not being deleted.
func oldest(all []v1alpha1.MediaSettings) *v1alpha1.MediaSettings {
	var first *v1alpha1.MediaSettings
	for i := range all {
		candidate := &all[i]
		if candidate.DeletionTimestamp.IsZero() && (first == nil || older(candidate, first)) {
			first = candidate
		}
	}
	return first
}

func older(a, b *v1alpha1.MediaSettings) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// siblings maps an object to the others of the same account.
func (r *Reconciler) siblings(ctx context.Context, object client.Object) []reconcile.Request {
	settings, ok := object.(*v1alpha1.MediaSettings)
	if !ok {
		return nil
	}
	return r.requests(ctx, settings.Namespace, settings.Spec.AccountRef.Name, settings.Name)
}

// succession lets through what can change who rules: an object came, is being
// deleted, or went.
func succession() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
	}
}

// requests returns the settings of an account, except the one that is named but.
func (r *Reconciler) requests(ctx context.Context, namespace, account, but string) []reconcile.Request {
	list := &v1alpha1.MediaSettingsList{}
	if err := r.client.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{accountIndex: account}); err != nil {
		log.FromContext(ctx).Error(err, "list the MediaSettings of an account", "namespace", namespace, "account", account)
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Name != but {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
