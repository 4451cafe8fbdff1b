package reconcile

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// ByUrgency requests a reconcile of the object of an event, the changes of objects in use first: a
// suspension must not wait until a thousand new accounts are provisioned, nor after a restart until all
// accounts were looked at. observed returns the generation that the status of an object is of.
func ByUrgency[T client.Object](observed func(T) int64) handler.EventHandler {
	return RelatedByUrgency(func(_ context.Context, object client.Object) []T { return []T{object.(T)} }, observed)
}

// RelatedByUrgency requests a reconcile of every object that the object of an event is related to. The
// urgency is that of the object to reconcile: what follows from the creation of an account waits as the
// creation does.
func RelatedByUrgency[T client.Object](related func(context.Context, client.Object) []T, observed func(T) int64) handler.EventHandler {
	add := func(ctx context.Context, object client.Object, listed bool, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		for _, of := range related(ctx, object) {
			priority := urgencyOf(of, observed(of), listed)
			queue.(priorityqueue.PriorityQueue[ctrl.Request]).AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(of)})
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(ctx, e.Object, e.IsInInitialList, queue)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(ctx, e.ObjectNew, false, queue)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(ctx, e.Object, false, queue)
		},
	}
}

// PriorityOf returns the lower one of a priority and that of a change of the object: what an object that is
// not provisioned yet asks for itself must not come before the changes of objects in use.
func PriorityOf(priority int, object client.Object, observed int64) int {
	return min(priority, urgencyOf(object, observed, false))
}

// urgencyOf returns the priority of a reconcile. listed: the object is of the list with which a watch
// begins, so that it need not have changed.
func urgencyOf(object client.Object, observed int64, listed bool) int {
	switch {
	case !object.GetDeletionTimestamp().IsZero():
		return PriorityChange
	case observed < 1:
		return PriorityNew
	case listed && observed == object.GetGeneration():
		return PriorityRepeat
	}
	return PriorityChange
}
