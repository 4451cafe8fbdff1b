package work_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/work"
)

// long is a worker whose attempts last until they are interrupted.
func long(ctx context.Context, _ work.Task) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestPolicy_SpareClaimsTheLastSlotForAnotherAccount(t *testing.T) {
	t.Parallel()
	type claim struct{ limit, perAccount int }
	for name, c := range map[string]struct {
		slots int
		want  []claim
	}{"three slots": {3, []claim{{2, 5}, {1, 1}}}, "one slot": {1, []claim{{1, 5}}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &queue{}
				store.add(make([]work.Task, 7)...)
				spare := policy
				spare.Slots, spare.PerAccount, spare.Spare = c.slots, 5, 1
				run(t, store, spare, long)
				synctest.Wait()
				asked := store.now().asked
				if len(asked) != len(c.want) {
					t.Fatalf("%+v", asked)
				}
				for i, want := range c.want {
					if got := (claim{asked[i].Limit, asked[i].PerAccount}); got != want {
						t.Errorf("claim %d is for %+v, want %+v", i, got, want)
					}
				}
			})
		})
	}
}

// A slot that becomes free is claimed for as the last one is.
func TestPolicy_SpareHoldsForASlotThatBecomesFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, first := &queue{}, make(chan struct{})
		store.add(make([]work.Task, 4)...)
		spare := policy
		spare.Slots, spare.PerAccount, spare.Spare = 3, 5, 1
		var begun atomic.Int32
		run(t, store, spare, func(ctx context.Context, _ work.Task) error {
			if begun.Add(1) == 1 {
				<-first
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		synctest.Wait()
		before := len(store.now().asked)
		close(first)
		synctest.Wait()
		if asked := store.now().asked[before:]; len(asked) != 1 || asked[0].Limit != 1 || asked[0].PerAccount != 1 {
			t.Errorf("%+v", asked)
		}
	})
}

// Attempts that take long leave their slots to others, as long as slow slots are free.
func TestPolicy_SlowAttemptsLeaveTheirSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		store.add(make([]work.Task, 9)...)
		apart := policy
		apart.Slots, apart.PerAccount, apart.CheckInterval, apart.Timeout = 2, 5, 10*time.Second, time.Hour
		apart.Slow = &work.Slow{Slots: 3, After: time.Second}
		var selected atomic.Pointer[work.Selecting]
		apart.Select = func(_ context.Context, claim work.Selecting) (work.Selection, error) {
			if claim.Slow {
				selected.Store(&claim)
				return work.Selection{Only: map[uuid.UUID]int{}}, nil // no account is slow
			}
			return work.Selection{Except: []uuid.UUID{{1}}}, nil
		}
		var begun atomic.Int32
		ends := make(chan struct{})
		run(t, store, apart, func(context.Context, work.Task) error { begun.Add(1); <-ends; return nil })
		for _, step := range []struct {
			after time.Duration
			want  int32
		}{{time.Millisecond, 2}, {900 * time.Millisecond, 2}, {200 * time.Millisecond, 4}, {time.Second, 5}, {time.Minute, 5}} {
			pass(step.after)
			if got := begun.Load(); got != step.want {
				t.Errorf("%s later, %d attempts have begun, want %d", step.after, got, step.want)
			}
		}
		if got := selected.Load(); got.Slots != 3 || got.PerAccount != 5 || got.Running[uuid.Nil] != 5 {
			t.Errorf("%+v", got)
		}
		for _, claim := range store.now().asked {
			if len(claim.Of.Except) != 1 || claim.Of.Only != nil {
				t.Errorf("%+v", claim)
			}
		}
		close(ends)
		pass(time.Second)
		if left := store.left(); left != 0 {
			t.Errorf("%d tasks are left", left)
		}
	})
}

// Nothing is claimed while it is not known of which accounts, and the next check tries again.
func TestPolicy_SelectThatFailsClaimsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		store.add(work.Task{})
		failing := policy
		var down atomic.Bool
		down.Store(true)
		failing.Select = func(context.Context, work.Selecting) (work.Selection, error) {
			if down.Load() {
				return work.Selection{}, errDown
			}
			return work.Selection{}, nil
		}
		r := run(t, store, failing, func(context.Context, work.Task) error { return nil })
		pass(time.Minute)
		if claims, warned := store.now().claims, r.logs.count("tasks cannot be claimed"); claims != 0 || warned != 1 {
			t.Errorf("%d claims, %d warnings", claims, warned)
		}
		down.Store(false)
		pass(time.Minute)
		if left := store.left(); left != 0 {
			t.Errorf("%d tasks are left", left)
		}
	})
}

func TestPolicy_FullIsCalledWhileNoSlotIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		var held atomic.Bool
		var calls atomic.Int32
		release := make(chan struct{})
		full := policy
		full.CheckInterval = 10 * time.Second
		full.Full = func(context.Context) { calls.Add(1) }
		full.Ready = func() error {
			if held.Load() {
				return errDown
			}
			return nil
		}
		full.Timeout = time.Hour
		run(t, store, full, func(context.Context, work.Task) error { <-release; return nil })
		store.add(work.Task{})
		pass(2 * time.Minute)
		if n := calls.Load(); n != 0 {
			t.Errorf("with a free slot, %d calls", n)
		}
		store.add(work.Task{})
		pass(2 * time.Minute)
		if n := calls.Load(); n < 8 || n > 16 {
			t.Errorf("%d calls in two minutes of checks each ten seconds", n)
		}
		held.Store(true)
		before := calls.Load()
		pass(2 * time.Minute)
		if n := calls.Load() - before; n != 0 {
			t.Errorf("while nothing may run, %d calls", n)
		}
		close(release)
	})
}

func TestPolicy_CheckIntervalIsObeyed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		slow := policy
		slow.CheckInterval = time.Minute
		run(t, store, slow, func(context.Context, work.Task) error { return nil })
		pass(time.Hour)
		if n := store.now().claims; n < 48 || n > 81 {
			t.Errorf("%d checks in an hour", n)
		}
	})
}

// Without Interrupt, an attempt has some seconds (TestRunner_ShutdownLeavesNothingBehind).
func TestPolicy_InterruptEndsAttemptsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		store.add(work.Task{})
		interrupted := policy
		interrupted.Interrupt = true
		r := run(t, store, interrupted, long)
		synctest.Wait()
		began := time.Now()
		r.stop()
		if took := time.Since(began); took != 0 || r.outcome(t, "returned") != 1 || store.left() != 1 {
			t.Errorf("after %s, %d attempts are given back, %d tasks are left", took, r.outcome(t, "returned"), store.left())
		}
	})
}
