package reconcile

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"mediastack.dev/api/v1alpha1"
)

// A suspension took 32 s while 1,000 accounts were created: it waited behind them.
func TestUrgency_ChangesComeBeforeNewAndUnchangedAccounts(t *testing.T) {
	t.Parallel()
	account := func(name string, generation, observed int64) *v1alpha1.MediaAccount {
		return &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}, Status: v1alpha1.MediaAccountStatus{ObservedGeneration: observed}}
	}
	queue := priorityqueue.New[ctrl.Request]("urgency")
	defer queue.ShutDown()
	on := ByUrgency(func(a *v1alpha1.MediaAccount) int64 { return a.Status.ObservedGeneration })
	list := func(object client.Object) {
		on.Create(t.Context(), event.CreateEvent{Object: object, IsInInitialList: true}, queue)
	}
	list(account("unchanged", 3, 3))
	on.Create(t.Context(), event.CreateEvent{Object: account("new", 1, 0)}, queue)
	list(account("new before the restart", 1, -1))
	list(account("changed before the restart", 4, 3))
	on.Update(t.Context(), event.UpdateEvent{ObjectOld: account("changed", 3, 3), ObjectNew: account("changed", 4, 3)}, queue)

	var order []string
	for range 5 {
		request, _ := queue.Get()
		order = append(order, request.Name)
	}
	want := []string{"changed before the restart", "changed", "new", "new before the restart", "unchanged"}
	if !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
}

// What an event says about another object is as urgent as that one.
func TestUrgency_OfARelatedObjectIsItsOwn(t *testing.T) {
	t.Parallel()
	settings := func(name string, observed int64) *v1alpha1.MediaSettings {
		return &v1alpha1.MediaSettings{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Status: v1alpha1.MediaSettingsStatus{ObservedGeneration: observed}}
	}
	queue := priorityqueue.New[ctrl.Request]("related")
	defer queue.ShutDown()
	on := RelatedByUrgency(func(context.Context, client.Object) []*v1alpha1.MediaSettings {
		return []*v1alpha1.MediaSettings{settings("new", 0), settings("in use", 1)}
	}, func(s *v1alpha1.MediaSettings) int64 { return s.Status.ObservedGeneration })
	on.Update(t.Context(), event.UpdateEvent{ObjectNew: &v1alpha1.MediaAccount{}}, queue)
	for _, want := range []struct {
		name     string
		priority int
	}{{"in use", PriorityChange}, {"new", PriorityNew}} {
		if got, priority, _ := queue.GetWithPriority(); got.Name != want.name || priority != want.priority {
			t.Errorf("the next is %s with priority %d, want %s with %d", got.Name, priority, want.name, want.priority)
		}
	}
}
