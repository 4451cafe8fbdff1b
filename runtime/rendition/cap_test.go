package rendition_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/rendition"
)

// The cap is never exceeded, and every counter is exact, while uploads, seals, deletes, tombstones, restores, renditions,
// evictions, lost objects and the purge race on two processes. Renditions make no upload fail: with all
// of them gone, the same bytes are free.
func TestCap_IsExactWithRenditions(t *testing.T) {
	t.Parallel()
	const room, workers, rounds, slots = 40_000, 8, 120, 24
	all := processes(t, 2, func(c *rendition.Config) { c.CacheEntries = 10 })
	one := all[0].tenant(t, room)
	var mu sync.Mutex
	var items [slots]media.Item
	var made, unstored, rejected, uploads atomic.Int64
	watching, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-watching:
				return
			default:
			}
			if held := all[0].QueryInt(t, `SELECT bytes FROM account_usage WHERE account_id = $1`, one.Account().ID); held > room {
				t.Errorf("the account uses %d bytes of %d", held, room)
			}
			if _, err := rendition.Purge(t.Context(), rendition.PurgeConfig{}, rendition.PurgeDeps{Store: all[1].Store.Pictures, Presets: presets{of("a", 1), of("a", 2), of("a", 3)}, Batches: purge.Batches{Size: 50}}, time.Now()); err != nil {
				t.Errorf("purge: %v", err)
			}
			if _, err := all[1].Store.Items.EndTombstones(t.Context(), time.Now().Add(48*time.Hour), 1); err != nil {
				t.Errorf("purge of deleted items: %v", err)
			}
		}
	}()
	concurrently(workers, func(worker int) {
		random, w := rand.New(rand.NewPCG(uint64(worker), 3)), all[worker%2]
		for range rounds {
			i := random.IntN(slots)
			mu.Lock()
			item := items[i]
			mu.Unlock()
			err := w.step(t.Context(), one, random, item, func(next media.Item) {
				mu.Lock()
				defer mu.Unlock()
				items[i] = next
			}, &made, &unstored, &uploads)
			switch {
			case fault.Is(err, fault.QuotaExceeded):
				rejected.Add(1)
			case err != nil && !fault.Is(err, fault.NotFound):
				t.Errorf("%v", err)
			}
		}
	})
	close(watching)
	<-watched
	t.Logf("%d renditions, %d of them not stored, %d uploads, %d rejected", made.Load(), unstored.Load(), uploads.Load(), rejected.Load())
	if made.Load() == 0 || unstored.Load() == made.Load() || uploads.Load() == 0 || rejected.Load() == 0 {
		t.Error("the test tests nothing")
	}
	all[0].exec(t, `UPDATE object_removal SET not_before = now()`)
	all[0].balanced(t, one)
	free, _, err := all[0].Store.Items.AvailableBytes(t.Context(), media.ScopeOf(one.Principal))
	must(t, err)
	if _, err := all[0].upload(t.Context(), one.Principal, int(free)+1); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("one byte over the cap: %v", err)
	}
	if _, err := all[0].upload(t.Context(), one.Principal, int(free)); err != nil && free > 0 {
		t.Errorf("the last %d bytes: %v", free, err)
	}
	all[0].exec(t, `UPDATE object_removal SET not_before = now()`)
	all[0].balanced(t, one)
}

// step does something with an item, or replaces it.
func (w *world) step(ctx context.Context, one tenant, random *rand.Rand, item media.Item, replace func(media.Item), made, unstored, uploads *atomic.Int64) error {
	switch choice := random.IntN(12); {
	case choice < 2 || item.AccountID != one.Account().ID:
		next, err := w.upload(ctx, one.Principal, 200+random.IntN(4000))
		if err != nil {
			return err
		}
		uploads.Add(1)
		replace(next)
	case choice < 8:
		result, err := w.service.Get(ctx, item, one.owner, of("a", 1+random.IntN(5)))
		if err != nil {
			return w.lostWithItem(ctx, one, item, err)
		}
		defer result.Release()
		if made.Add(1); !result.Stored() {
			unstored.Add(1)
		} else if random.IntN(10) == 0 {
			again, err := w.service.Lost(ctx, item, one.owner, of("a", 1), result)
			again.Release()
			return w.lostWithItem(ctx, one, item, err)
		}
		w.service.RecordUse(ctx)
	case choice < 9:
		_, err := w.core.Media.Seal(ctx, one.Principal, item.ID)
		return err
	case choice < 11:
		_, err := w.core.Media.Delete(ctx, one.Principal, item.ID, media.DeleteOptions{Agent: random.IntN(3) > 0})
		return err
	default:
		_, err := w.core.Media.Restore(ctx, one.Principal, item.ID)
		return err
	}
	return nil
}

// lostWithItem returns the error of a picture: that of the item if the original is lost, which another worker has deleted then. The original of an
// item that is there must not be lost.
func (w *world) lostWithItem(ctx context.Context, one tenant, item media.Item, err error) error {
	if !fault.Is(err, fault.FileLost) {
		return err
	}
	if _, gone := w.core.Media.Get(ctx, one.Principal, item.ID); gone != nil {
		return gone
	}
	return err
}
