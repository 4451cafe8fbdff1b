package imaging

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

// Jobs take turns also if they end before a goroutine of another one can start.
func TestTurns_OfJobsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	turns := newTurns(1)
	blocker := &job{account: uuid.New(), purpose: forUpload}
	turns.enqueue(blocker)
	names := map[*job]string{}
	a, b := uuid.New(), uuid.New()
	for _, j := range []struct {
		name    string
		purpose purpose
		account uuid.UUID
	}{
		{"eager1", eager, a}, {"demand a1", onDemand, a}, {"demand a2", onDemand, a}, {"demand b", onDemand, b},
		{"upload 1", forUpload, a}, {"upload 2", forUpload, a}, {"eager2", eager, b},
	} {
		waiting := &job{account: j.account, purpose: j.purpose}
		names[waiting] = j.name
		turns.enqueue(waiting)
	}
	var order []string
	for range len(names) + 1 {
		if n := len(turns.granted); n != 1 {
			t.Fatalf("one worker has %d jobs after %v", n, order)
		}
		running := <-turns.granted
		order = append(order, names[running])
		turns.release(running)
	}
	if order = order[1:]; len(turns.granted) != 0 {
		t.Errorf("%d jobs are left", len(turns.granted))
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
	turns.release(<-turns.granted)
	if turns.working[onDemand] != 3 || turns.working[eager] != 1 {
		t.Errorf("%v work", turns.working)
	}
}

// A job that is given up leaves the queue, and an eager job that waited for it begins.
func TestTurns_AJobThatIsGivenUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	turns := newTurns(2)
	long := &job{account: uuid.New(), purpose: eager}
	first := &job{account: uuid.New(), purpose: onDemand}
	given := &job{account: first.account, purpose: onDemand}
	next := &job{account: uuid.New(), purpose: eager}
	for _, j := range []*job{long, first, given, next} {
		turns.enqueue(j)
	}
	if got := []*job{<-turns.granted, <-turns.granted}; !slices.Equal(got, []*job{long, first}) {
		t.Error("other jobs have the workers")
	}
	if turns.remove(first) || !turns.remove(given) || turns.remove(given) {
		t.Error("a job was removed that has a worker, or twice, or not at all")
	}
	if turns.waiting() != 1 || len(turns.queues[onDemand].accounts)+len(turns.queues[onDemand].waiting) != 0 {
		t.Errorf("%+v", turns)
	}
	turns.release(long)
	if len(turns.granted) != 1 || <-turns.granted != next {
		t.Error("the eager job waits for a job that was given up")
	}
}

// Jobs that have a worker are taken also after the end of the queue; the others are returned, and no worker gets one any more.
func TestTurns_AtTheEndTheJobsWithAWorkerAreTaken(t *testing.T) {
	t.Parallel()
	turns := newTurns(1)
	granted, waiting := &job{purpose: forUpload}, []*job{{purpose: forUpload}, {purpose: onDemand}, {purpose: eager}}
	for _, j := range append([]*job{granted}, waiting...) {
		turns.enqueue(j)
	}
	if got := turns.close(); !slices.Equal(got, waiting) || turns.close() != nil {
		t.Errorf("%d jobs were returned", len(got))
	}
	if turns.enqueue(&job{}) || turns.remove(waiting[0]) {
		t.Error("a job waits after the end")
	}
	var taken []*job
	for j := range turns.granted {
		taken = append(taken, j)
		turns.release(j)
	}
	if !slices.Equal(taken, []*job{granted}) {
		t.Errorf("%d jobs were taken", len(taken))
	}
}
