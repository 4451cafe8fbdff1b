package imaging

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
)

// Jobs take turns also if they end before a goroutine of another one can start.
func TestTurns_OfJobsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	turns := newTurns(1)
	blocker := &job{account: uuid.New(), purpose: forUpload}
	turns.enqueue(blocker)
	granted := map[string]chan struct{}{}
	jobs := map[string]*job{}
	a, b := uuid.New(), uuid.New()
	for _, j := range []struct {
		name    string
		purpose purpose
		account uuid.UUID
	}{
		{"eager1", eager, a}, {"demand a1", onDemand, a}, {"demand a2", onDemand, a}, {"demand b", onDemand, b},
		{"upload 1", forUpload, a}, {"upload 2", forUpload, a}, {"eager2", eager, b},
	} {
		jobs[j.name] = &job{account: j.account, purpose: j.purpose}
		granted[j.name] = turns.enqueue(jobs[j.name])
	}
	var order []string
	for running := blocker; ; running = jobs[order[len(order)-1]] {
		turns.release(running)
		before := len(order)
		for name, ch := range granted {
			select {
			case <-ch:
				order = append(order, name)
				delete(granted, name)
			default:
			}
		}
		if len(order) == before {
			break
		}
		if len(order) != before+1 {
			t.Fatalf("one worker has %d jobs: %v", len(order)-before, order)
		}
	}
	want := []string{"demand a1", "upload 1", "demand b", "upload 2", "demand a2", "eager1", "eager2"}
	if !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	if turns.waiting() != 0 || turns.free != 1 || turns.working != [purposes]int{} {
		t.Errorf("after all: %+v", turns)
	}
}

func TestTurns_EagerJobsHaveHalfOfTheWorkers(t *testing.T) {
	t.Parallel()
	turns := newTurns(4)
	for range 3 {
		turns.enqueue(&job{account: uuid.New(), purpose: eager})
	}
	if turns.working[eager] != 2 || turns.waiting() != 1 {
		t.Errorf("%d work, %d wait", turns.working[eager], turns.waiting())
	}
	for range 3 {
		turns.enqueue(&job{account: uuid.New(), purpose: onDemand})
	}
	if turns.working[onDemand] != 2 || turns.waiting() != 2 {
		t.Errorf("%d work, %d wait", turns.working[onDemand], turns.waiting())
	}
	// The worker of an eager job goes to the one that a client waits for.
	turns.release(&job{purpose: eager})
	if turns.working[onDemand] != 3 || turns.working[eager] != 1 {
		t.Errorf("%v work", turns.working)
	}
}

// A job that is given up leaves the queue, and an eager job that waited for it begins.
func TestTurns_AJobThatIsGivenUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2)
		long := &job{account: uuid.New(), purpose: eager}
		turns.enqueue(long)
		first := &job{account: uuid.New(), purpose: onDemand}
		turns.enqueue(first)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- turns.acquire(ctx, &job{account: first.account, purpose: onDemand}) }()
		synctest.Wait()
		next := turns.enqueue(&job{account: uuid.New(), purpose: eager})
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if turns.waiting() != 1 || len(turns.queues[onDemand].accounts)+len(turns.queues[onDemand].waiting) != 0 {
			t.Errorf("%+v", turns)
		}
		turns.release(long)
		select {
		case <-next:
		default:
			t.Error("the eager job waits for a job that was given up")
		}
	})
}
