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

// recorder records batches. It executes each when the test sends to release.
type recorder struct {
	mu      sync.Mutex
	batches [][]int
	release chan struct{} // one receive per batch
}

var errRejected = errors.New("the row is rejected")

func (c *recorder) exec(_ context.Context, _ string, calls []int) ([]bool, error) {
	<-c.release
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches = append(c.batches, slices.Clone(calls))
	done := make([]bool, len(calls))
	for i, n := range calls {
		if n < 0 {
			return nil, errRejected
		}
		done[i] = n%2 == 0
	}
	return done, nil
}

func queued(b *batcher[string, int], key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue[key])
}

// calls makes calls, of which the first runs alone while the others queue.
func calls(t *testing.T, b *batcher[string, int], numbers ...int) (done []bool, errs []error) {
	t.Helper()
	c := &recorder{release: make(chan struct{})}
	b.exec = c.exec
	done, errs = make([]bool, len(numbers)), make([]error, len(numbers))
	var all sync.WaitGroup
	for i, n := range numbers {
		all.Go(func() { done[i], errs[i] = b.Do(t.Context(), "k", n) })
		for first := true; first || queued(b, "k") != i && i > 0; first = false {
			if i == 0 { // wait until it is running
				for b.idle("k") {
					continue
				}
				for queued(b, "k") != 0 {
					continue
				}
			}
		}
	}
	close(c.release)
	all.Wait()
	if len(c.batches) < 2 || len(c.batches[0]) != 1 || len(c.batches[1]) != len(numbers)-1 {
		t.Errorf("the batches were %v", c.batches)
	}
	return done, errs
}

func (b *batcher[K, C]) idle(key K) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, running := b.queue[key]
	return !running
}

func TestBatcher_QueuesCallsWhileABatchRuns(t *testing.T) {
	t.Parallel()
	b := newBatcher[string, int](nil)
	done, errs := calls(t, b, 1, 2, 3, 4)
	if !slices.Equal(done, []bool{false, true, false, true}) || errors.Join(errs...) != nil {
		t.Errorf("%v %v", done, errs)
	}
	for !b.idle("k") { // the key of an empty queue is deleted
		continue
	}
}

// A call that the database rejects does not fail the others of its batch.
func TestBatcher_RejectedCallFailsAlone(t *testing.T) {
	t.Parallel()
	done, errs := calls(t, newBatcher[string, int](nil), 2, 4, -1, 6)
	if !slices.Equal(done, []bool{true, true, false, true}) || !errors.Is(errs[2], errRejected) || errs[0] != nil || errs[1] != nil || errs[3] != nil {
		t.Errorf("%v %v", done, errs)
	}
}

func TestBatcher_TransientErrorIsNotRetriedPerCall(t *testing.T) {
	t.Parallel()
	executed := 0
	b := newBatcher(func(context.Context, string, []int) ([]bool, error) {
		executed++
		return nil, fault.New(fault.Unavailable, "unreachable")
	})
	batch := []*batchCall[int]{{ctx: t.Context(), payload: 1, done: make(chan struct{})}, {ctx: t.Context(), payload: 2, done: make(chan struct{})}}
	b.queue["k"] = batch
	b.run("k")
	if executed != 1 || !fault.Is(batch[0].err, fault.Unavailable) || !fault.Is(batch[1].err, fault.Unavailable) {
		t.Errorf("executed %d times: %v, %v", executed, batch[0].err, batch[1].err)
	}
}

// A caller that is canceled while its call runs waits for the result: an upload must know
// whether its row was written.
func TestBatcher_CanceledCallerGetsResult(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := newBatcher(func(ctx context.Context, _ string, calls []int) ([]bool, error) {
		cancel()
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a batch has no time limit")
		}
		return []bool{true}, ctx.Err()
	})
	if done, err := b.Do(ctx, "k", 1); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if done, err := b.Do(ctx, "k", 1); done || !errors.Is(err, context.Canceled) {
		t.Errorf("a call with a canceled context: %v, %v", done, err)
	}
	if batchTimeout > time.Minute {
		t.Error("the batch timeout is longer than a minute")
	}
}
