package fairlimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

// acquire acquires a slot that must be free.
func acquire(t *testing.T, l *Limiter[string], key string) {
	t.Helper()
	if err := l.TryAcquire(key); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
}

// wait calls Acquire in the background, and returns when it waits. It is for synctest.
func wait(t *testing.T, l *Limiter[string], key string) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	before := l.Waiting()
	go func() { result <- l.Acquire(t.Context(), key) }()
	synctest.Wait()
	if l.Waiting() != before+1 {
		t.Fatalf("%s does not wait", key)
	}
	return result
}

// granted reports whether a waiter has got its slot. It is for synctest.
func granted(t *testing.T, result <-chan error) bool {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		must(t, err)
		return true
	default:
		return false
	}
}

// checkIdle fails if a Limiter without users has state.
func checkIdle[K comparable](t *testing.T, l *Limiter[K]) {
	t.Helper()
	if l.inFlight != 0 || l.waiting != 0 || len(l.keys) != 0 || len(l.queue) != 0 {
		t.Errorf("%d in flight, %d waiting, keys %v, queue %v", l.inFlight, l.waiting, l.keys, l.queue)
	}
}

func TestAcquire_GrantsSlotsToWaitingKeysInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New[string](Config{Limit: 2, PerKey: 2, MaxWaiting: 100})
		acquire(t, l, "busy")
		acquire(t, l, "busy")
		first, second := wait(t, l, "busy"), wait(t, l, "busy")
		other := wait(t, l, "quiet")
		l.Release("busy")
		if !granted(t, first) {
			t.Error("the first waiter has no slot")
		}
		l.Release("busy")
		// The quiet key was queued last, and is served before the second waiter of the busy one.
		if !granted(t, other) {
			t.Error("the quiet key has no slot")
		}
		if granted(t, second) {
			t.Error("the busy key got two slots in a row")
		}
		l.Release("quiet")
		if !granted(t, second) {
			t.Error("the second waiter of the busy key has no slot")
		}
		l.Release("busy")
		l.Release("busy")
		checkIdle(t, l)
	})
}

func TestAcquire_KeepsAKeyWithinItsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New[string](Config{Limit: 4, PerKey: 3, MaxWaiting: 100})
		for range 3 {
			acquire(t, l, "busy")
		}
		fourth := wait(t, l, "busy")
		if err := l.Acquire(t.Context(), "quiet"); err != nil {
			t.Fatalf("the slot that the busy key can't have: %v", err)
		}
		l.Release("quiet")
		if granted(t, fourth) {
			t.Error("the busy key holds more than its bound")
		}
		l.Release("busy")
		if !granted(t, fourth) {
			t.Error("the waiter has no slot")
		}
	})
}

// A slot that is granted while the context ends belongs to the caller, who is told so: nobody else would release it.
func TestAcquire_ReportsASlotThatIsGrantedWhileItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New[string](Config{Limit: 1, PerKey: 1, MaxWaiting: 1})
		for range 100 { // the waiter may leave the queue before the release
			acquire(t, l, "first")
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() { result <- l.Acquire(ctx, "second") }()
			synctest.Wait()
			cancel()
			l.Release("first")
			if <-result == nil {
				l.Release("second")
			}
			synctest.Wait()
			if held := l.InFlight(); held != 0 {
				t.Fatalf("%d slots are held, and nobody knows", held)
			}
		}
		checkIdle(t, l)
	})
}

func TestAcquire_RejectsWhenTheQueueIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New[string](Config{Limit: 1, PerKey: 1, MaxWaiting: 4})
		acquire(t, l, "busy")
		waiters := []<-chan error{wait(t, l, "busy"), wait(t, l, "busy")}
		if err := l.Acquire(t.Context(), "busy"); !errors.Is(err, ErrQueueFull) {
			t.Errorf("a third waiter of one key: %v", err)
		}
		waiters = append(waiters, wait(t, l, "quiet"), wait(t, l, "quiet"))
		// Two keys have filled the queue, and must not keep a third one out of it.
		waiters = append(waiters, wait(t, l, "another"))
		if err := l.Acquire(t.Context(), "another"); !errors.Is(err, ErrQueueFull) {
			t.Errorf("a second waiter of a key beyond the bound: %v", err)
		}
		for _, key := range []string{"busy", "busy", "quiet", "another", "busy", "quiet"} {
			l.Release(key) // in the order of the grants
		}
		for _, waiter := range waiters {
			if !granted(t, waiter) {
				t.Error("a waiter has no slot")
			}
		}
		checkIdle(t, l)
	})
}

func TestAcquire_RejectsAtOnceWithoutAQueue(t *testing.T) {
	t.Parallel()
	l := New[string](Config{Limit: 1, PerKey: 1})
	acquire(t, l, "a")
	for _, key := range []string{"a", "b"} {
		if err := l.Acquire(t.Context(), key); !errors.Is(err, ErrQueueFull) {
			t.Errorf("%s: %v", key, err)
		}
	}
	l.Release("a")
	checkIdle(t, l)
}

func TestAcquire_ForgetsACancelledWaiter(t *testing.T) {
	t.Parallel()
	l := New[string](Config{Limit: 1, PerKey: 1, MaxWaiting: 4})
	acquire(t, l, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, key := range []string{"a", "b"} {
		if err := l.Acquire(ctx, key); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", key, err)
		}
	}
	l.Release("a")
	checkIdle(t, l)
}

func TestHasWaiters_CountsThoseWhoCouldGetTheSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New[string](Config{Limit: 3, PerKey: 2, MaxWaiting: 100})
		for _, key := range []string{"busy", "busy", "quiet"} {
			acquire(t, l, key)
		}
		expect := func(when string, want map[string]bool) {
			t.Helper()
			for key, want := range want {
				if got := l.HasWaiters(key); got != want {
					t.Errorf("%s, %s: %t, want %t", when, key, got, want)
				}
			}
		}
		expect("no key waits", map[string]bool{"busy": false, "quiet": false})
		waiters := map[string]<-chan error{"busy": wait(t, l, "busy")}
		expect("a key at its bound waits", map[string]bool{"busy": true, "quiet": false})
		waiters["other"] = wait(t, l, "other")
		expect("a key without a slot waits", map[string]bool{"busy": true, "quiet": true})
		l.Release("busy")
		l.Release("quiet")
		for key, waiter := range waiters {
			if !granted(t, waiter) {
				t.Errorf("%s has no slot", key)
			}
		}
	})
}

func TestTryAcquire_NamesTheBoundThatIsReached(t *testing.T) {
	t.Parallel()
	l := New[string](Config{Limit: 4, PerKey: 2})
	for _, tt := range []struct {
		key  string
		want error
	}{
		{"one", nil}, {"one", nil}, {"one", ErrKeyLimit}, {"two", nil}, {"three", nil}, {"three", ErrLimit},
		{"one", ErrLimit}, // the total bound is checked first
	} {
		if err := l.TryAcquire(tt.key); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.key, err, tt.want)
		}
	}
	l.Release("one")
	if err := l.TryAcquire("three"); err != nil {
		t.Errorf("after a release: %v", err)
	}
	for _, key := range []string{"one", "two", "three", "three"} {
		l.Release(key)
	}
	checkIdle(t, l)
}

// One account once filled the queue with images, and no other account could upload anything.
func TestTryAcquire_GrantsEachKeyItsFirstSlotBeyondTheLimit(t *testing.T) {
	t.Parallel()
	l := New[string](Config{Limit: 4, PerKey: 2, FirstBeyondLimit: true})
	try := func(name, key string, want error) {
		t.Helper()
		if err := l.TryAcquire(key); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	try("the first", "one", nil)
	try("the second", "one", nil)
	try("a third of the same key", "one", ErrKeyLimit)
	if !l.KeyFull("one") || l.KeyFull("two") {
		t.Error("one key holds its maximum, the other holds nothing")
	}
	try("another key's first", "two", nil)
	if l.Full() {
		t.Error("full while a slot is free")
	}
	try("another key's second", "two", nil)
	if !l.Full() {
		t.Error("not full when all slots are held")
	}
	try("a key's first beyond the limit", "three", nil)
	try("its second", "three", ErrLimit)
	l.Release("one")
	try("its second, as all are held still", "three", ErrLimit)
	try("that of a key which holds one", "one", ErrLimit)
	l.Release("two")
	try("the one that is free now", "three", nil)
	for _, key := range []string{"one", "two", "three", "three"} {
		l.Release(key)
	}
	checkIdle(t, l)
}

// Accounts that together could hold all slots once left none to another one.
func TestTryAcquire_ReserveIsForKeysThatHoldFew(t *testing.T) {
	t.Parallel()
	const limit, perKey = 128, 96
	take := func(l *Limiter[string], key string) (slots int) {
		for l.TryAcquire(key) == nil {
			slots++
		}
		return slots
	}
	for _, busy := range []int{1, 2, 3, 5, 10, 15} {
		l := New[string](Config{Limit: limit, PerKey: perKey, Reserve: ReserveOf(limit, perKey)})
		total := 0
		for i := range busy { // one after the other: the first one holds most
			held := take(l, fmt.Sprintf("busy %d", i))
			if total += held; i == 0 && held != perKey {
				t.Errorf("a key that is alone gets %d slots of %d", held, perKey)
			}
		}
		for i := range busy { // those that were rejected try again
			total += take(l, fmt.Sprintf("busy %d", i))
		}
		other := take(l, "other")
		if total += other; total > limit || l.InFlight() != total {
			t.Errorf("%d slots of %d are held, %d are counted", total, limit, l.InFlight())
		}
		want := 2 // an upload, and another one meanwhile
		if busy > 10 {
			want = 1
		}
		if other < want {
			t.Errorf("%d keys leave %d slots to another one, want %d", busy, other, want)
		}
		if err := l.TryAcquire("other"); !errors.Is(err, ErrLimit) {
			t.Errorf("%d keys, one more of another: %v, want that all slots are held", busy, err)
		}
	}
}

func TestAcquire_ReserveIsNotWaitedForByAKeyThatHoldsFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New[string](Config{Limit: 16, PerKey: 12, MaxWaiting: 100, Reserve: ReserveOf(16, 12)})
		for range 12 {
			acquire(t, l, "busy")
		}
		for _, key := range []string{"second", "third"} {
			acquire(t, l, key) // of the four
		}
		var waiters []<-chan error
		for _, key := range []string{"busy", "busy", "second", "third"} {
			waiters = append(waiters, wait(t, l, key))
		}
		if err := l.Acquire(t.Context(), "other"); err != nil { // although others wait
			t.Fatal(err)
		}
		l.Release("other")
		l.Release("second")
		if !granted(t, waiters[2]) {
			t.Error("a key that holds no slot any more waits")
		}
		if granted(t, waiters[0]) || granted(t, waiters[1]) || granted(t, waiters[3]) {
			t.Error("a key that holds many has a slot of the reserve")
		}
		for range 5 { // two of the reserve are held still
			l.Release("busy")
		}
		for _, waiter := range []<-chan error{waiters[0], waiters[1], waiters[3]} {
			if !granted(t, waiter) {
				t.Error("a slot that is not of the reserve is free while one waits")
			}
		}
	})
}

func TestReserveOf_LeavesAKeyThatIsAloneItsSlots(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ limit, perKey, want int }{
		{128, 96, 32}, {128, 12, 32}, {128, 128, 0}, {128, 120, 8}, {3, 1, 0}, {4, 3, 1}, {1, 1, 0},
		{100, Unlimited, 0},
	} {
		if got := ReserveOf(tt.limit, tt.perKey); got != tt.want {
			t.Errorf("of %d slots, %d for one key: %d, want %d", tt.limit, tt.perKey, got, tt.want)
		}
	}
}

func TestAcquire_GrantsAKeyItsOwnLastSlotBeyondTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New[string](Config{Limit: 2, PerKey: 2, MaxWaiting: Unlimited, FirstBeyondLimit: true})
		for _, key := range []string{"a", "b", "c"} {
			acquire(t, l, key)
		}
		waiter := wait(t, l, "c")
		l.Release("c") // two are held still, and c holds none
		if !granted(t, waiter) {
			t.Error("a key without a slot waits")
		}
	})
}

func TestAcquire_WaitersBeyondTheLimitTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New[string](Config{Limit: 2, PerKey: 1, MaxWaiting: Unlimited, FirstBeyondLimit: true})
		acquire(t, l, "busy")
		acquire(t, l, "quiet")
		second, third, late := wait(t, l, "busy"), wait(t, l, "busy"), wait(t, l, "quiet")
		l.Release("busy")
		if !granted(t, second) {
			t.Error("the busy key has no slot")
		}
		l.Release("quiet")
		if !granted(t, late) {
			t.Error("the quiet key has no slot")
		}
		if granted(t, third) {
			t.Error("the busy key holds more than its bound")
		}
		l.Release("busy")
		if !granted(t, third) {
			t.Error("the busy key's third has no slot")
		}
		l.Release("busy")
		l.Release("quiet")
		checkIdle(t, l)
	})
}

// A key that had been granted a slot was once the first of the queue again after a full round.
func TestRelease_PutsAKeyThatGotASlotBehindTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New[string](Config{Limit: 3, PerKey: 3, MaxWaiting: Unlimited, FirstBeyondLimit: true})
		for _, key := range []string{"a", "b", "c"} {
			acquire(t, l, key)
		}
		first, second, other := wait(t, l, "a"), wait(t, l, "a"), wait(t, l, "b")
		l.Release("c")
		if !granted(t, first) {
			t.Error("the first waiter has no slot")
		}
		l.Release("a")
		if !granted(t, other) || granted(t, second) {
			t.Error("the same key got two slots in a row")
		}
		l.Release("a")
		if !granted(t, second) {
			t.Error("the last waiter has no slot")
		}
	})
}

// Ninety concurrent requests once passed a separate check of the queue's length.
func TestTryAcquire_GrantsNoSlotTwice(t *testing.T) {
	t.Parallel()
	l := New[int](Config{Limit: 64, PerKey: 32, FirstBeyondLimit: true})
	begin := make(chan struct{})
	var all sync.WaitGroup
	taken := make([]atomic.Int64, 2)
	for i := range 180 {
		all.Go(func() {
			<-begin
			if l.TryAcquire(i%2) == nil {
				taken[i%2].Add(1)
			}
		})
	}
	close(begin)
	all.Wait()
	for i := range taken {
		if n := taken[i].Load(); n != 32 {
			t.Errorf("key %d holds %d slots of 64", i, n)
		}
	}
}

func TestTryAcquire_CountsWithoutALimit(t *testing.T) {
	t.Parallel()
	l := New[string](Config{Limit: Unlimited, PerKey: Unlimited})
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if err := l.TryAcquire("a"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := l.InFlight(); n != 1000 || l.Full() {
		t.Errorf("%d are counted, full %t", n, l.Full())
	}
}

// Under concurrent use with cancellations, no bound is exceeded, and every caller that is
// neither canceled nor rejected gets a slot.
func TestAcquire_HoldsItsBoundsUnderCancellation(t *testing.T) {
	t.Parallel()
	const limit, perKey = 5, 3
	l := New[int](Config{Limit: limit, PerKey: perKey, MaxWaiting: 30})
	var inFlight atomic.Int64
	ofKey := make([]atomic.Int64, 4)
	var all sync.WaitGroup
	for w := range 32 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range 300 {
				key := random.IntN(len(ofKey))
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.IntN(200))*time.Microsecond, cancel)
				}
				if err := l.Acquire(ctx, key); err == nil {
					if inFlight.Add(1) > limit || ofKey[key].Add(1) > perKey {
						t.Error("too many hold a slot")
					}
					ofKey[key].Add(-1)
					inFlight.Add(-1)
					l.Release(key)
				} else if !errors.Is(err, ErrQueueFull) && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	checkIdle(t, l)
}

func TestRelease_PanicsWithoutASlot(t *testing.T) {
	t.Parallel()
	l := New[string](Config{Limit: 1, PerKey: 1})
	defer func() {
		if recover() == nil {
			t.Error("a slot was released that no key held")
		}
		checkIdle(t, l)
	}()
	l.Release("a")
}

func TestRegister_ExportsSlotsWaitersAndLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		l := New[string](Config{Limit: 1, PerKey: 1, MaxWaiting: 4})
		must(t, l.RegisterWithQueue(registry, "uploads", "Slots of uploads"))
		unlimited := New[string](Config{Limit: Unlimited, PerKey: Unlimited})
		must(t, unlimited.Register(registry, "reads", "Slots of reads"))
		acquire(t, l, "a")
		waiter := wait(t, l, "b")
		families, err := registry.Gather()
		must(t, err)
		got := map[string]float64{}
		for _, family := range families {
			got[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
		}
		want := map[string]float64{
			"reads_in_flight": 0, "reads_limit": math.Inf(1),
			"uploads_in_flight": 1, "uploads_waiting": 1, "uploads_limit": 1,
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if err := l.RegisterWithQueue(registry, "uploads", "Slots of uploads"); err == nil {
			t.Error("the same gauges were registered twice")
		}
		l.Release("a")
		if !granted(t, waiter) {
			t.Error("the waiter has no slot")
		}
	})
}
