package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"mediastack.dev/runtime/fault"
)

// carrier is a batch's work that a test holds up, and looks at.
type carrier struct {
	mu      sync.Mutex
	batches [][]int
	hold    chan struct{} // one is taken for each batch
}

var errPoison = errors.New("the row is refused")

func (c *carrier) carry(_ context.Context, _ string, calls []int) ([]bool, error) {
	<-c.hold
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches = append(c.batches, slices.Clone(calls))
	done := make([]bool, len(calls))
	for i, n := range calls {
		if n < 0 {
			return nil, errPoison
		}
		done[i] = n%2 == 0
	}
	return done, nil
}

func gather(b *batcher[string, int], key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting[key])
}

// calls makes calls, of which the first goes alone and the others gather meanwhile.
func calls(t *testing.T, b *batcher[string, int], numbers ...int) (done []bool, errs []error) {
	t.Helper()
	c := &carrier{hold: make(chan struct{})}
	b.carry = c.carry
	done, errs = make([]bool, len(numbers)), make([]error, len(numbers))
	var all sync.WaitGroup
	for i, n := range numbers {
		all.Go(func() { done[i], errs[i] = b.do(t.Context(), "k", n) })
		for first := true; first || gather(b, "k") != i && i > 0; first = false {
			if i == 0 { // wait until it was taken
				for b.idle("k") {
					continue
				}
				for gather(b, "k") != 0 {
					continue
				}
			}
		}
	}
	close(c.hold)
	all.Wait()
	if len(c.batches) < 2 || len(c.batches[0]) != 1 || len(c.batches[1]) != len(numbers)-1 {
		t.Errorf("the batches were %v", c.batches)
	}
	return done, errs
}

func (b *batcher[K, C]) idle(key K) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, running := b.waiting[key]
	return !running
}

func TestCallsGatherWhileABatchIsOnItsWay(t *testing.T) {
	t.Parallel()
	b := newBatcher[string, int](nil)
	done, errs := calls(t, b, 1, 2, 3, 4)
	if !slices.Equal(done, []bool{false, true, false, true}) || errors.Join(errs...) != nil {
		t.Errorf("%v %v", done, errs)
	}
	for !b.idle("k") { // nothing is remembered of a key that is quiet
		continue
	}
}

// One call that the database refuses must not take its neighbours with it.
func TestARefusedCallFailsAlone(t *testing.T) {
	t.Parallel()
	done, errs := calls(t, newBatcher[string, int](nil), 2, 4, -1, 6)
	if !slices.Equal(done, []bool{true, true, false, true}) || !errors.Is(errs[2], errPoison) || errs[0] != nil || errs[1] != nil || errs[3] != nil {
		t.Errorf("%v %v", done, errs)
	}
}

func TestAnUnreachableDatabaseIsNotAskedForEveryCallAlone(t *testing.T) {
	t.Parallel()
	asked := 0
	b := newBatcher(func(context.Context, string, []int) ([]bool, error) {
		asked++
		return nil, fault.New(fault.Unavailable, "away")
	})
	batch := []*call[int]{{what: 1, ended: make(chan struct{})}, {what: 2, ended: make(chan struct{})}}
	b.together(t.Context(), "k", batch)
	if asked != 1 || !fault.Is(batch[0].err, fault.Unavailable) || !fault.Is(batch[1].err, fault.Unavailable) {
		t.Errorf("asked %d times: %v, %v", asked, batch[0].err, batch[1].err)
	}
}

// A caller that leaves while its call is on its way stays for the outcome: an upload
// must know whether it was noted.
func TestACallWhoseCallerLeavesIsCarriedOutAndKnown(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	b := newBatcher(func(ctx context.Context, _ string, calls []int) ([]bool, error) {
		leave()
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a batch has no time limit")
		}
		return []bool{true}, ctx.Err()
	})
	if done, err := b.do(ctx, "k", 1); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if done, err := b.do(ctx, "k", 1); done || !errors.Is(err, context.Canceled) {
		t.Errorf("a call of somebody who had left: %v, %v", done, err)
	}
	if batchTimeout > time.Minute {
		t.Error("a batch may take longer than anybody waits")
	}
}
