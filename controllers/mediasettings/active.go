package mediasettings

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
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

// peers returns the others of the same account.
func (r *Reconciler) peers(ctx context.Context, object client.Object) []*v1alpha1.MediaSettings {
	settings := object.(*v1alpha1.MediaSettings)
	return slices.DeleteFunc(r.ofName(ctx, settings.Namespace, settings.Spec.AccountRef.Name), func(other *v1alpha1.MediaSettings) bool { return other.Name == settings.Name })
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

// RequestOf requests a reconcile of the MediaSettings of an account that has this version in the database,
// unless their status shows it. It reports false while one of them is reconciled, whose end decides that.
func (r *Reconciler) RequestOf(ctx context.Context, priority int, account types.NamespacedName, version int64) bool {
	asked := true
	for _, settings := range r.ofName(ctx, account.Namespace, account.Name) {
		key := client.ObjectKeyFromObject(settings)
		switch shows, running := r.shown.Shows(key, version); {
		case running:
			asked = false
		case !shows:
			r.deps.Queue.Add(reconcile.PriorityOf(priority, settings, observedGeneration(settings)), ctrl.Request{NamespacedName: key})
		}
	}
	return asked
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

// ofName returns the MediaSettings of an account, which must not be changed.
func (r *Reconciler) ofName(ctx context.Context, namespace, account string) []*v1alpha1.MediaSettings {
	list := &v1alpha1.MediaSettingsList{}
	if err := r.deps.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{accountIndex: account}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list the MediaSettings of an account", "namespace", namespace, "account", account)
		return nil
	}
	found := make([]*v1alpha1.MediaSettings, len(list.Items))
	for i := range list.Items {
		found[i] = &list.Items[i]
	}
	return found
}
