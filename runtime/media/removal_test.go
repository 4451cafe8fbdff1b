package media_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

// countedRemovals is an object store that counts how often each key is removed.
type countedRemovals struct {
	media.ObjectRemover
	mu   sync.Mutex
	keys map[string]int
}

func (c *countedRemovals) Remove(ctx context.Context, bucket string, keys []string) error {
	c.mu.Lock()
	for _, key := range keys {
		c.keys[key]++
	}
	c.mu.Unlock()
	return c.ObjectRemover.Remove(ctx, bucket, keys)
}

// Replicas and the purge share the queue: each object is removed by one of them.
func TestRemovals_AreCarriedOutOnceByManyProcesses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const accounts, drafts = 3, 15
	var owners []uuid.UUID
	for range accounts {
		p := b.Tenant(1 << 30)
		owners = append(owners, p.Account.ID)
		for range drafts {
			b.Upload(p, random(10), media.Fields{})
		}
	}
	b.Clock.Advance(25 * time.Hour)
	check.NoError(t, check.ErrorOf(b.Store.Items.PurgeDrafts(t.Context(), b.Clock.Now(), 1000)))
	if n := b.Number(`SELECT count(*) FROM object_removal`); n != accounts*drafts {
		t.Fatalf("%d removals are queued", n)
	}
	objects := &countedRemovals{ObjectRemover: b.Objects, keys: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	events := make(chan work.Event)
	for range 2 {
		store := b.Open()
		runner, err := work.NewRunner(work.Deps{Store: store.Tasks, Log: slog.New(slog.DiscardHandler), Events: events})
		must(t, err)
		remover := media.NewRemover(mediatest.PurgeConfig.RemovalConfig, media.RemoverDeps{Store: store.Items, Objects: objects, Guard: b.Guard, Ready: b.Guard.Writable, Now: b.Clock.Now, Log: slog.New(slog.DiscardHandler)})
		must(t, runner.Register(media.RemovalWork, remover, remover.Policy()))
		all.Go(func() { must(t, runner.Run(ctx)) })
	}
	purger, err := media.NewPurger(mediatest.PurgeConfig, media.PurgeDeps{Store: b.Store.Items, Tasks: b.Store.Tasks, Objects: objects, Guard: b.Guard, Now: b.Clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	purged := make(chan struct{})
	all.Go(func() {
		defer close(purged)
		_, err := purger.Run(t.Context())
		must(t, err)
	})
	// The purge has the accounts, or a replica has: what it left is done when the attempt of that replica has ended.
	<-purged
	for b.Number(`SELECT count(*) FROM object_removal`) > 0 {
		if event := <-events; event.Outcome != "done" || !slices.Contains(owners, event.Key) {
			t.Errorf("%+v", event)
		}
	}
	stop()
	go func() { all.Wait(); close(events) }()
	for range events { // attempts that end meanwhile
	}
	if len(objects.keys) != accounts*drafts {
		t.Errorf("%d objects were removed", len(objects.keys))
	}
	for key, times := range objects.keys {
		if times != 1 {
			t.Errorf("%s was removed %d times", key, times)
		}
	}
}

// removals is a media.RemovalStore in memory, for what a Remover does when.
type removals struct {
	due    []media.Removal
	failed map[int64]string
}

func (r *removals) EnqueueRemovals(context.Context, time.Time) (int, error) { return 0, nil }

func (r *removals) DueRemovals(_ context.Context, _ uuid.UUID, _ time.Time, batch int) ([]media.Removal, error) {
	return slices.Clone(r.due[:min(batch, len(r.due))]), nil
}

func (r *removals) end(ids []int64) {
	r.due = slices.DeleteFunc(r.due, func(removal media.Removal) bool { return slices.Contains(ids, removal.ID) })
}

func (r *removals) FinishRemovals(_ context.Context, ids []int64) error {
	r.end(ids)
	return nil
}

func (r *removals) FailRemovals(_ context.Context, ids []int64, _ time.Time, reason string) error {
	r.end(ids)
	for _, id := range ids {
		r.failed[id] = reason
	}
	return nil
}

// slowObjects is an object store that takes a second for a request.
type slowObjects struct{ media.ObjectRemover }

func (slowObjects) Remove(context.Context, string, []string) error {
	time.Sleep(time.Second) //nolint:forbidigo // the clock of synctest
	return nil
}

// One account with many removals does not keep others waiting, and a hold ends an attempt between two batches, without a failure.
func TestRemover_EndsItsTurn(t *testing.T) {
	t.Parallel()
	held := errors.New("held")
	for name, c := range map[string]struct {
		batches int
		heldAt  time.Duration
		left    int
		snoozed bool
	}{
		"all are done":             {3, time.Hour, 0, false},
		"others have waited":       {100, time.Hour, 96, true}, // a second for the request and two of pause
		"the installation is held": {100, 4 * time.Second, 98, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &removals{failed: map[int64]string{}}
			for i := range c.batches {
				store.due = append(store.due, media.Removal{ID: int64(i), Bucket: "b", Keys: []string{"k"}})
			}
			began := time.Now()
			ready := func() error {
				if time.Since(began) >= c.heldAt {
					return held
				}
				return nil
			}
			remover := media.NewRemover(media.RemovalConfig{BatchSize: 1, PausePercent: 200, MaxBackoff: time.Hour},
				media.RemoverDeps{Store: store, Objects: slowObjects{}, Guard: ownBuckets{}, Ready: ready, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			err := remover.Work(t.Context(), work.Task{})
			if len(store.due) != c.left || len(store.failed) != 0 || (err != nil) != c.snoozed || err != nil && err.Error() != work.Snooze(0).Error() {
				t.Errorf("%s: %v; %d are left, %v failed", name, err, len(store.due), store.failed)
			}
			if done, failed := remover.Counts(); done != c.batches-c.left || failed != 0 {
				t.Errorf("%s: %d are counted, %d as failed", name, done, failed)
			}
		})
	}
}

// ownBuckets is a guard of an installation that has all buckets.
type ownBuckets struct{}

func (ownBuckets) Beat(context.Context) error { return nil }
func (ownBuckets) Writable() error            { return nil }
func (ownBuckets) CheckBucket(context.Context, installation.Bucket) (installation.Marker, error) {
	return installation.Marker{}, nil
}
