package reconcile

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// The priorities of requests. The events of a changed object have PriorityChange.
const (
	PriorityChange = 0
	// PriorityNew is of objects that are not provisioned yet.
	PriorityNew = -10
	// PriorityRepeat is of what nobody waits for: timers, periodic checks, and the list with which a
	// controller begins.
	PriorityRepeat = handler.LowPriority
)

// Queue adds requests to the queue of a controller, of which Source is a source. The zero value is
// ready for use, and safe for concurrent use.
type Queue struct {
	mu     sync.Mutex
	queue  priorityqueue.PriorityQueue[ctrl.Request] // nil until the controller starts
	before []prioritized                             // requests of before then
}

type prioritized struct {
	priority int
	request  ctrl.Request
}

// Source returns the source that the controller watches.
func (q *Queue) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.queue = queue.(priorityqueue.PriorityQueue[ctrl.Request])
		for _, early := range q.before {
			q.queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(early.priority)}, early.request)
		}
		q.before = nil
		return nil
	})
}

// Add adds requests. A request that waits already is not added again; the higher priority counts.
func (q *Queue) Add(priority int, requests ...ctrl.Request) {
	if q == nil || len(requests) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queue != nil {
		q.queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(priority)}, requests...)
		return
	}
	for _, request := range requests {
		q.before = append(q.before, prioritized{priority, request})
	}
}
