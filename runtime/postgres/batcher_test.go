package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
)

// call is a call of an account.
type call struct{ account, n int }

func (c call) key() int { return c.account }

var (
	errRejected = errors.New("the row is rejected")
	errLocked   = fmt.Errorf("a row: %w", &pgconn.PgError{Code: "55P03"})
)

// recorder records batches.
type recorder struct {
	mu      sync.Mutex
	batches [][]call
	entered chan []call        // one send per batch, if it is not nil
	leave   chan struct{}      // one receive per batch, if it is not nil
	fail    func([]call) error // the error of a batch
}

func (r *recorder) exec(_ context.Context, _ time.Duration, calls []call) ([]bool, error) {
	if r.entered != nil {
		r.entered <- calls
	}
	if r.leave != nil {
		<-r.leave
	}
	r.mu.Lock()
	r.batches = append(r.batches, slices.Clone(calls))
	r.mu.Unlock()
	done := make([]bool, len(calls))
	for i, c := range calls {
		if c.n < 0 {
			return nil, errRejected
		}
		done[i] = c.n%2 == 0
	}
	if r.fail != nil {
		if err := r.fail(calls); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// doing are calls that run.
type doing struct {
	done []bool
	errs []error
	all  sync.WaitGroup
}

// begin makes calls, of which the first runs alone while the others queue.
func begin(t *testing.T, b *batcher[int, call], r *recorder, calls ...call) *doing {
	t.Helper()
	d := &doing{done: make([]bool, len(calls)), errs: make([]error, len(calls))}
	for i, c := range calls {
		d.all.Go(func() { d.done[i], d.errs[i] = b.Do(context.Background(), c) })
		if i == 0 {
			<-r.entered
			continue
		}
		wait.Until(t, fmt.Sprintf("%d calls are queued", i), func() bool { return b.queued() >= i })
	}
	return d
}

func (b *batcher[K, C]) queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.shared.queue)
}

func (b *batcher[K, C]) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.shared.running && b.shared.late == 0 && len(b.solo) == 0
}

// held returns a batcher whose batches run one after the other once r.leave is closed. No batch is late: on a busy
// machine, the calls of begin may take longer than that to queue.
func held() (*batcher[int, call], *recorder) {
	r := &recorder{entered: make(chan []call, 100), leave: make(chan struct{})}
	b := newBatcher(call.key, r.exec)
	b.lateAfter = time.Hour
	return b, r
}

func TestBatcher_QueuesCallsOfAllAccountsWhileABatchRuns(t *testing.T) {
	t.Parallel()
	b, r := held()
	d := begin(t, b, r, call{1, 1}, call{2, 2}, call{3, 3}, call{2, 4})
	close(r.leave)
	d.all.Wait()
	if !slices.Equal(d.done, []bool{false, true, false, true}) || errors.Join(d.errs...) != nil {
		t.Errorf("%v %v", d.done, d.errs)
	}
	if len(r.batches) != 2 || len(r.batches[0]) != 1 || len(r.batches[1]) != 3 {
		t.Errorf("the batches were %v", r.batches)
	}
	wait.Until(t, "the batcher is idle", b.idle)
}

// A call that the database rejects fails neither those of other accounts nor those of its own.
func TestBatcher_RejectedCallFailsAlone(t *testing.T) {
	t.Parallel()
	b, r := held()
	d := begin(t, b, r, call{1, 2}, call{2, 4}, call{3, -1}, call{3, 6}, call{4, 8})
	close(r.leave)
	d.all.Wait()
	if !slices.Equal(d.done, []bool{true, true, false, true, true}) || !errors.Is(d.errs[2], errRejected) || errors.Join(append(d.errs[:2:2], d.errs[3:]...)...) != nil {
		t.Errorf("%v %v", d.done, d.errs)
	}
	wait.Until(t, "the batcher is idle", b.idle)
}

// While the row of an account is locked, other accounts are executed without it.
func TestBatcher_LockedAccountDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	b, r := held()
	unlocked := make(chan struct{})
	r.fail = func(calls []call) error {
		select {
		case <-unlocked:
		default:
			if slices.ContainsFunc(calls, func(c call) bool { return c.account == 3 }) {
				return errLocked
			}
		}
		return nil
	}
	d := begin(t, b, r, call{1, 2}, call{2, 4}, call{3, 6}, call{4, 8})
	go func() { // account 3 tries again and again
		for range r.entered {
			continue
		}
	}()
	close(r.leave)
	const more = 20 // calls of all accounts
	later := make(chan error, more)
	for range more {
		go func() { _, err := b.Do(context.Background(), call{3, 10}); later <- err }()
		if ok, err := b.Do(t.Context(), call{2, 12}); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
	}
	close(unlocked)
	d.all.Wait()
	err := errors.Join(d.errs...)
	for range more {
		err = errors.Join(err, <-later)
	}
	if err != nil {
		t.Error(err)
	}
	wait.Until(t, "the batcher is idle", b.idle)
}

func TestBatcher_TransientErrorIsNotRetriedPerCall(t *testing.T) {
	t.Parallel()
	b, r := held()
	r.fail = func([]call) error { return fault.New(fault.Unavailable, "unreachable") }
	d := begin(t, b, r, call{1, 2}, call{2, 2}, call{3, 2})
	close(r.leave)
	d.all.Wait()
	for i, err := range d.errs {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if len(r.batches) != 2 {
		t.Errorf("the batches were %v", r.batches)
	}
}

// A batch on a connection that hangs does not hold those after it. The clock is that of synctest: the batch is late
// once all calls wait.
func TestBatcher_LateBatchDoesNotDelayTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, r := held()
		b.lateAfter = defaultLateAfter
		d := begin(t, b, r, call{1, 2}, call{2, 4}, call{3, 6})
		if next := <-r.entered; len(next) != 2 { // while the first one runs
			t.Errorf("the next batch is %v", next)
		}
		close(r.leave)
		d.all.Wait()
		if err := errors.Join(d.errs...); err != nil {
			t.Error(err)
		}
		if synctest.Wait(); !b.idle() {
			t.Error("the batcher is not idle")
		}
	})
}

// Calls that come during the pause after a batch share the next one. A call that comes after it, and
// calls that fill a batch, do not wait. The clock is that of synctest.
func TestBatcher_PausesUnlessABatchIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type batch struct {
			at    time.Duration
			calls int
		}
		var batches []batch
		begun := time.Now()
		b := newBatcher(call.key, func(_ context.Context, _ time.Duration, calls []call) ([]bool, error) {
			batches = append(batches, batch{time.Since(begun), len(calls)})
			time.Sleep(3 * time.Millisecond) //nolint:forbidigo // the clock of synctest
			return make([]bool, len(calls)), nil
		})
		b.pause = func(took time.Duration) time.Duration { return 2 * took }
		var calling sync.WaitGroup
		do := func(at time.Duration, calls int) {
			for n := range calls {
				calling.Go(func() {
					time.Sleep(at) //nolint:forbidigo // the clock of synctest
					if _, err := b.Do(t.Context(), call{n, 1}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		do(0, 1)
		do(1*time.Millisecond, 2)  // during the batch
		do(8*time.Millisecond, 1)  // during the pause
		do(30*time.Millisecond, 1) // after the pause of the second batch
		do(31*time.Millisecond, maxBatchCalls+1)
		calling.Wait()
		time.Sleep(maxBatchPause) //nolint:forbidigo // the clock of synctest: the pause after the last batch
		want := []batch{{0, 1}, {9 * time.Millisecond, 3}, {30 * time.Millisecond, 1}, {33 * time.Millisecond, maxBatchCalls}, {42 * time.Millisecond, 1}}
		if !slices.Equal(batches, want) {
			t.Errorf("the batches were %v, want %v", batches, want)
		}
	})
}

// A replica pauses for every other one that serves, at most for maxPauseReplicas and maxBatchPause.
func TestStore_BatchPauseIsBounded(t *testing.T) {
	t.Parallel()
	for replicas, want := range map[int64]time.Duration{0: 0, 1: 0, 2: time.Millisecond, 5: 4 * time.Millisecond, 100: 4 * time.Millisecond} {
		var s Store
		s.replicas.Store(replicas)
		if got := (Uploads{&s}).batchPause(time.Millisecond); got != want {
			t.Errorf("%d replicas pause for %s, want %s", replicas, got, want)
		}
		if got := (Uploads{&s}).batchPause(time.Minute); replicas > 1 && got != maxBatchPause {
			t.Errorf("%d replicas pause for %s after a minute", replicas, got)
		}
	}
}

// A caller that is canceled while its call runs waits for the result: an upload must know
// whether its row was written.
func TestBatcher_CanceledCallerGetsResult(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := newBatcher(call.key, func(ctx context.Context, _ time.Duration, calls []call) ([]bool, error) {
		cancel()
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a batch has no time limit")
		}
		return []bool{true}, ctx.Err()
	})
	if done, err := b.Do(ctx, call{1, 1}); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	if done, err := b.Do(ctx, call{1, 1}); done || !errors.Is(err, context.Canceled) {
		t.Errorf("a call with a canceled context: %v, %v", done, err)
	}
	if batchTimeout > time.Minute {
		t.Error("the batch timeout is longer than a minute")
	}
}
