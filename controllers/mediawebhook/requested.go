package mediawebhook

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
)

// RequestAll requests a reconcile of every MediaWebhook, after everything else.
func (r *Reconciler) RequestAll(ctx context.Context) {
	list := &v1alpha1.MediaWebhookList{}
	if err := r.deps.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list the MediaWebhooks")
		return
	}
	for i := range list.Items {
		r.deps.Queue.Add(reconcile.PriorityRepeat, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
}

// RequestWaiting requests a reconcile of the MediaWebhooks of an account that has changed in the database, if they wait for its journal.
// Others do not depend on what has changed. One whose status does not say yet that it waits looks again by itself.
func (r *Reconciler) RequestWaiting(ctx context.Context, priority int, account types.NamespacedName) {
	for _, object := range r.indexed(ctx, account.Namespace, account.Name) {
		if ready := readyOf(object); ready != nil && ready.Reason == v1alpha1.ReasonWaitingForJournal {
			r.deps.Queue.Add(reconcile.PriorityOf(priority, object, observedGeneration(object)), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		}
	}
}
