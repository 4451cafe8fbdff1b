package mediaaccount

import (
	"container/list"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"mediastack.dev/controllers/reconcile"
)

// buckets is what is known about the buckets of all accounts, and when to check each again. The
// controller of accounts reads it and never waits for the object store; that of buckets writes it.
// It is in memory: after a restart a bucket counts as it is recorded in PostgreSQL until its turn.
type buckets struct {
	queue *reconcile.Queue // of the controller of buckets

	mu     sync.Mutex
	states map[types.NamespacedName]*bucketState
	// running are the objects whose bucket is being checked.
	running map[types.NamespacedName]bool
	// The next checks, earliest first: all of one list have the same interval.
	healthy, failing *list.List
}

// bucketState is what is known about the bucket of one object.
type bucketState struct {
	key     types.NamespacedName
	want    bucketWant
	checked bool                 // want was checked
	failure *reconcile.StepError // of the last check; nil = the bucket belongs to the account
	at      time.Time            // when the last check ended
	asked   time.Time            // when the account asked for the first check of want
	awaited bool                 // a reconcile ended without the result
	told    bool                 // the account was told that an outage postpones the check
	due     time.Time
	waits   *list.Element // in healthy or failing; nil while it is in the queue
	in      *list.List
}

// bucketWant is what a check is about. The result of another one says nothing.
type bucketWant struct {
	uid          types.UID
	accountID    uuid.UUID
	bucket       string
	adopt        bool
	acknowledged bool
}

func newBuckets() *buckets {
	return &buckets{queue: &reconcile.Queue{}, states: map[types.NamespacedName]*bucketState{}, running: map[types.NamespacedName]bool{}, healthy: list.New(), failing: list.New()}
}

// Begin is called before a check reads its object, and the returned function after the check.
func (b *buckets) Begin(key types.NamespacedName) (end func()) {
	set := func(running bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if delete(b.running, key); running {
			b.running[key] = true
		}
	}
	set(true)
	return func() { set(false) }
}

// Runs reports whether a check is under way that may have begun before the object was deleted.
func (b *buckets) Runs(key types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running[key]
}

// Look returns the result of the last check of want, and when it ended. checked is false if there was none.
func (b *buckets) Look(key types.NamespacedName, want bucketWant) (failure *reconcile.StepError, at time.Time, checked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state := b.states[key]; state != nil && state.want == want && state.checked {
		return state.failure, state.at, true
	}
	return nil, time.Time{}, false
}

// Await is Look at the end of a reconcile: if there is no result, the account is told when there is one.
func (b *buckets) Await(key types.NamespacedName, want bucketWant) (failure *reconcile.StepError, checked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.of(key, want)
	state.awaited = !state.checked
	return state.failure, state.checked
}

// Trust counts the bucket as the account's until its turn, which comes at once if there is room.
func (b *buckets) Trust(key types.NamespacedName, want bucketWant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.of(key, want)
	state.checked, state.failure = true, nil
	if state.waits == nil {
		state.waits, state.in = b.healthy.PushFront(state), b.healthy
	}
}

// Ask requests a check at once, and returns since when one is awaited.
func (b *buckets) Ask(key types.NamespacedName, want bucketWant, priority int, now time.Time) (since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.of(key, want)
	state.checked = false
	if state.asked.IsZero() {
		state.asked = now
	}
	b.take(state)
	b.queue.Add(priority, ctrl.Request{NamespacedName: key})
	return state.asked
}

// Wanted returns what the controller of buckets has to check, and whether the last check succeeded.
func (b *buckets) Wanted(key types.NamespacedName) (want bucketWant, confirmed, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.states[key]
	if state == nil {
		return bucketWant{}, false, false
	}
	return state.want, state.checked && state.failure == nil, true
}

// Checked records the result of a check and when to repeat it. It reports whether that is news for the
// status of the account.
func (b *buckets) Checked(key types.NamespacedName, want bucketWant, failure *reconcile.StepError, now, due time.Time) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.states[key]
	if state == nil || state.want != want {
		return false
	}
	news = state.awaited || state.checked && ((failure == nil) != (state.failure == nil) ||
		failure != nil && (failure.Reason() != state.failure.Reason() || failure.Message() != state.failure.Message()))
	state.checked, state.awaited, state.told, state.failure, state.asked = true, false, false, failure, time.Time{}
	state.at = now
	b.schedule(state, due)
	return news
}

// Postpone repeats a check that was not made. It reports once whether an account awaits the result, whose
// status has to say why there is none.
func (b *buckets) Postpone(key types.NamespacedName, due time.Time) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.states[key]
	if state == nil {
		return false
	}
	b.schedule(state, due)
	news = state.awaited && !state.told
	state.told = state.told || news
	return news
}

// Forget removes an object that is gone.
func (b *buckets) Forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state := b.states[key]; state != nil {
		b.take(state)
		delete(b.states, key)
	}
}

// Next requests the periodic checks that are due, up to max. A bucket that failed takes turns with
// those that did not, so that neither waits for all others.
func (b *buckets) Next(now time.Time, maximum int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range maximum {
		first, second := b.healthy, b.failing
		if maximum%2 == 0 {
			first, second = second, first
		}
		maximum--
		state := earliest(first, now)
		if state == nil {
			state = earliest(second, now)
		}
		if state == nil {
			return
		}
		b.take(state)
		b.queue.Add(reconcile.PriorityRepeat, ctrl.Request{NamespacedName: state.key})
	}
}

// Probe requests the check of one bucket, to find out whether an outage has ended.
func (b *buckets) Probe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, from := range []*list.List{b.failing, b.healthy} {
		if first := from.Front(); first != nil {
			state := first.Value.(*bucketState)
			b.take(state)
			b.queue.Add(reconcile.PriorityChange, ctrl.Request{NamespacedName: state.key})
			return
		}
	}
}

// earliest returns the first of a list if it is due.
func earliest(of *list.List, now time.Time) *bucketState {
	if first := of.Front(); first != nil {
		if state := first.Value.(*bucketState); !now.Before(state.due) {
			return state
		}
	}
	return nil
}

// of returns the state of an object, a new one if it wants something else than before.
func (b *buckets) of(key types.NamespacedName, want bucketWant) *bucketState {
	state := b.states[key]
	if state == nil {
		state = &bucketState{key: key, want: want}
		b.states[key] = state
	}
	if state.want != want {
		b.take(state)
		*state = bucketState{key: key, want: want}
	}
	return state
}

func (b *buckets) take(state *bucketState) {
	if state.waits != nil {
		state.in.Remove(state.waits)
		state.waits, state.in = nil, nil
	}
}

func (b *buckets) schedule(state *bucketState, due time.Time) {
	b.take(state)
	state.due, state.in = due, b.healthy
	if state.failure != nil || !state.checked {
		state.in = b.failing
	}
	state.waits = state.in.PushBack(state)
}
