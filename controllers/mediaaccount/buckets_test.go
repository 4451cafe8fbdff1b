package mediaaccount

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/fault"
)

// queued makes the requests of a Queue visible.
func queued(t *testing.T, q *reconcile.Queue) priorityqueue.PriorityQueue[ctrl.Request] {
	t.Helper()
	queue := priorityqueue.New[ctrl.Request](t.Name())
	t.Cleanup(queue.ShutDown)
	if err := q.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	return queue
}

// take returns the names and priorities of n requests.
func take(t *testing.T, queue priorityqueue.PriorityQueue[ctrl.Request], n int) map[string]int {
	t.Helper()
	found := map[string]int{}
	for range n {
		request, priority, _ := queue.GetWithPriority()
		found[request.Name] = priority
		queue.Done(request)
	}
	if queue.Len() != 0 {
		t.Errorf("%d more requests", queue.Len())
	}
	return found
}

func bucketKey(i int) (types.NamespacedName, bucketWant) {
	name := fmt.Sprintf("account-%d", i)
	return types.NamespacedName{Namespace: "team", Name: name}, bucketWant{uid: types.UID(name), bucket: name}
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestBuckets_ChecksStayWithinTheBudgetAndTakeTurns(t *testing.T) {
	t.Parallel()
	const accounts, rate = 100, 10
	b := newBuckets()
	queue := queued(t, b.queue)
	broken := reconcile.NewError(reconcile.ObjectStore, fault.New(fault.Conflict, "taken"))
	for i := range accounts {
		key, want := bucketKey(i)
		b.Trust(key, want)
		if i < 4 {
			b.Checked(key, want, broken, noon, noon)
			continue
		}
		b.Checked(key, want, nil, noon, noon.Add(time.Duration(i)*time.Second))
	}
	if b.Next(noon.Add(-time.Second), rate); queue.Len() != 0 {
		t.Error("a check was requested before it was due")
	}
	b.Next(noon.Add(time.Hour), rate)
	found := take(t, queue, rate)
	if _, oldest := found["account-4"]; !oldest {
		t.Errorf("the earliest of the others is not among them: %v", found)
	}
	if _, failed := found["account-0"]; !failed {
		t.Errorf("a bucket that failed is not among them: %v", found)
	}
	for name, priority := range found {
		if priority != reconcile.PriorityRepeat {
			t.Errorf("%s has priority %d", name, priority)
		}
	}
	seen := map[string]bool{}
	for name := range found {
		seen[name] = true
	}
	for range accounts/rate - 1 {
		b.Next(noon.Add(time.Hour), rate)
		for name := range take(t, queue, rate) {
			if seen[name] {
				t.Errorf("%s was requested again before its check", name)
			}
			seen[name] = true
		}
	}
	if b.Next(noon.Add(time.Hour), rate); queue.Len() != 0 || len(seen) != accounts {
		t.Errorf("%d of %d accounts had a turn", len(seen), accounts)
	}
}

// A check that had begun before the deletion once made the bucket again after it was removed.
func TestDeletion_WaitsForTheCheckOfTheBucket(t *testing.T) {
	t.Parallel()
	r := New(Config{}, Deps{Deps: reconcile.Deps{Now: func() time.Time { return noon }}})
	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "account-1"}}
	key, _ := bucketKey(1)
	other, _ := bucketKey(2)
	r.buckets.Begin(other)
	end := r.buckets.Begin(key)
	s := &scope{Run: reconcile.NewRun(r.deps.Deps, object)}
	if r.awaitCheck(t.Context(), s) || !s.StatusSkipped() {
		t.Error("the deletion goes on while the bucket is being checked")
	}
	end()
	if !r.awaitCheck(t.Context(), s) {
		t.Error("the deletion waits after the check has ended")
	}
}

func TestBuckets_TheAccountIsToldNewsOnly(t *testing.T) {
	t.Parallel()
	b := newBuckets()
	queue := queued(t, b.queue)
	key, want := bucketKey(1)
	taken := func() *reconcile.StepError {
		return reconcile.NewError(reconcile.ObjectStore, fault.New(fault.Conflict, "taken"))
	}
	b.Ask(key, want, reconcile.PriorityChange, noon)
	if found := take(t, queue, 1); found[key.Name] != reconcile.PriorityChange {
		t.Errorf("the first check has priority %v", found)
	}
	if b.Checked(key, want, nil, noon, noon) {
		t.Error("a reconcile that still runs is told, and would run again")
	}
	if _, _, checked := b.Look(key, want); !checked {
		t.Error("the result is not known")
	}
	for _, step := range []struct {
		failure *reconcile.StepError
		news    bool
	}{{nil, false}, {taken(), true}, {taken(), false}, {nil, true}} {
		if news := b.Checked(key, want, step.failure, noon, noon); news != step.news {
			t.Errorf("%v is news: %t", step.failure, news)
		}
	}
	other := want
	other.adopt = true
	if _, _, checked := b.Look(key, other); checked {
		t.Error("the result of another check counts")
	}
	if b.Ask(key, other, reconcile.PriorityChange, noon); b.Checked(key, want, nil, noon, noon) {
		t.Error("the late result of another check is news")
	}
	if _, checked := b.Await(key, other); checked {
		t.Error("there is a result")
	}
	if !b.Checked(key, other, nil, noon, noon) {
		t.Error("an account that waits is not told")
	}
	if b.Forget(key); len(b.states) != 0 || b.healthy.Len() != 0 || b.failing.Len() != 0 {
		t.Error("something is left of an object that is gone")
	}
}
