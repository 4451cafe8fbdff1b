package mediasettings

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
)

// resolveActive finds the active MediaSettings of the account. If it is another object, the
// pins of this one are removed, in case it was active before.
func (r *Reconciler) resolveActive(ctx context.Context, s *scope) bool {
	list := &v1alpha1.MediaSettingsList{}
	err := r.deps.Client.List(ctx, list, client.InNamespace(s.Object.Namespace), client.MatchingFields{accountIndex: s.observed.account})
	if err != nil {
		s.observed.failure = reconcile.NewAPIError(err, "list the MediaSettings of MediaAccount %s", s.observed.account)
		return false
	}
	active := activeOf(append(list.Items, *s.Object))
	if active.Name == s.Object.Name {
		return s.observed.pendingReason == ""
	}
	s.observed.active, s.observed.pendingReason = active.Name, ""
	r.unpin(ctx, s)
	return false
}

// activeOf returns the active object: the oldest by creation time, then the first by name, of
// those that are not being deleted.
func activeOf(all []v1alpha1.MediaSettings) *v1alpha1.MediaSettings {
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

// peers maps an object to the others of the same account.
func (r *Reconciler) peers(ctx context.Context, object client.Object) []ctrl.Request {
	settings, ok := object.(*v1alpha1.MediaSettings)
	if !ok {
		return nil
	}
	return r.requests(ctx, settings.Namespace, settings.Spec.AccountRef.Name, settings.Name)
}

// activeMayChange selects the events that can change which object is active: one was
// created, marked for deletion, or deleted.
func activeMayChange() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
	}
}

// RequestsOf returns requests for the MediaSettings of an account.
func (r *Reconciler) RequestsOf(ctx context.Context, namespace, account string) []ctrl.Request {
	return r.requests(ctx, namespace, account, "")
}

// RequestAll requests a reconcile of every MediaSettings, after everything else.
func (r *Reconciler) RequestAll(ctx context.Context) {
	list := &v1alpha1.MediaSettingsList{}
	if err := r.deps.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list the MediaSettings")
		return
	}
	for i := range list.Items {
		r.deps.Queue.Add(reconcile.PriorityRepeat, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
}

// requests returns requests for the MediaSettings of an account, without the one named except.
func (r *Reconciler) requests(ctx context.Context, namespace, account, except string) []ctrl.Request {
	list := &v1alpha1.MediaSettingsList{}
	if err := r.deps.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{accountIndex: account}); err != nil {
		log.FromContext(ctx).Error(err, "list the MediaSettings of an account", "namespace", namespace, "account", account)
		return nil
	}
	var requests []ctrl.Request
	for i := range list.Items {
		if list.Items[i].Name != except {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
