package work_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mediastack.dev/runtime/work"
)

func TestDrain_RunsWhatIsDueOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		var most, running atomic.Int32
		var failed atomic.Int32
		finding := policy
		finding.MinBackoff, finding.MaxBackoff = time.Hour, time.Hour
		batches := 3
		finding.Enqueue = func(context.Context) (int, error) {
			if batches == 0 {
				return 0, nil
			}
			batches--
			store.add(make([]work.Task, 5)...)
			return 5, nil
		}
		runner, err := work.NewRunner(work.Deps{Store: store, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		must(t, runner.Register(kind, worker(func(context.Context, work.Task) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			pass(time.Second)
			if failed.Add(1) == 2 {
				return errDown
			}
			return nil
		}), finding))
		must(t, runner.Drain(t.Context(), kind))
		if state := store.now(); store.left() != 1 || len(state.returns) != 1 || len(state.rows) != 15 || most.Load() != 2 {
			t.Errorf("%d tasks are left, %d failed, %d were there, %d ran at once", store.left(), len(state.returns), len(state.rows), most.Load())
		}
	})
}

func TestDrain_EndsWithTheErrorOfWhatItNeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			change func(store *queue, p *work.Policy, stop func())
			left   int
			want   error
		}{
			"held before": {func(_ *queue, p *work.Policy, _ func()) { p.Ready = func() error { return errDown } }, 5, errDown},
			"no queue":    {func(store *queue, _ *work.Policy, _ func()) { store.fail(errDown, nil) }, 5, errDown},
			"no enqueuing": {func(_ *queue, p *work.Policy, _ func()) {
				p.Enqueue = func(context.Context) (int, error) { return 0, errDown }
			}, 5, errDown},
			"held meanwhile": {func(store *queue, p *work.Policy, _ func()) {
				p.Slots, p.Ready = 1, func() error {
					if store.left() < 3 {
						return errDown
					}
					return nil
				}
			}, 2, errDown},
			"the end of its context": {func(_ *queue, _ *work.Policy, stop func()) { stop() }, 5, context.Canceled},
		} {
			store, changed := &queue{}, policy
			ctx, stop := context.WithCancel(t.Context())
			store.add(make([]work.Task, 5)...)
			c.change(store, &changed, stop)
			runner, err := work.NewRunner(work.Deps{Store: store, Log: slog.New(slog.DiscardHandler)})
			must(t, err)
			must(t, runner.Register(kind, worker(func(context.Context, work.Task) error { return nil }), changed))
			if err := runner.Drain(ctx, kind); !errors.Is(err, c.want) || store.left() != c.left {
				t.Errorf("%s: %v, %d tasks are left", name, err, store.left())
			}
			stop()
		}
	})
}
