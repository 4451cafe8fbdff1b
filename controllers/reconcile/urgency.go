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
	add := func(object client.Object, listed bool, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		priority := urgencyOf(object, observed(object.(T)), listed)
		queue.(priorityqueue.PriorityQueue[ctrl.Request]).AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(e.Object, e.IsInInitialList, queue)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(e.ObjectNew, false, queue)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(e.Object, false, queue)
		},
	}
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
