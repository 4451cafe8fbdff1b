package media_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

func TestRestore_ReturnsTheItemAsItWas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.UndoTenant(10_000, account.UndoEveryone)
	older := b.Sealed(p, random(100), media.Fields{Group: "g"})
	b.Clock.Advance(time.Minute)
	item := b.Sealed(p, random(200), media.Fields{Group: "g", Access: media.Public, Caption: "a"})
	b.Clock.Advance(time.Minute)
	newer := b.Sealed(p, random(300), media.Fields{Group: "g"})
	b.Clock.Advance(time.Hour)

	until, err := b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{})
	must(t, err)
	if until == nil || !until.Equal(b.Clock.Now().Add(24*time.Hour)) {
		t.Errorf("the item can be restored until %v", until)
	}
	if _, err := b.Items.Get(t.Context(), p, item.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted item is read: %v", err)
	}
	if _, _, err := b.Items.ForDelivery(t.Context(), item.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted item is served: %v", err)
	}
	if _, err := b.Items.Seal(t.Context(), p, item.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted item is sealed: %v", err)
	}
	if _, err := b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted item is deleted: %v", err)
	}
	for _, filter := range []media.Filter{{}, {Group: "g"}} {
		list, err := b.Items.List(t.Context(), p, filter, 1, 10)
		must(t, err)
		count, err := b.Items.Count(t.Context(), p, filter)
		must(t, err)
		if len(list.Items) != 2 || list.Total != 2 || count != 2 {
			t.Errorf("filter %+v lists %d of %d items, and counts %d", filter, len(list.Items), list.Total, count)
		}
	}
	if totals, err := b.Items.Totals(t.Context(), p); err != nil || totals.Storage != 400 {
		t.Errorf("the totals contain a deleted item: %+v, %v", totals, err)
	}
	b.Counts(600, "bytes count against the cap, want those of the deleted item, too", `SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID)
	page, err := b.Items.ListDeleted(t.Context(), p, 1, 10)
	must(t, err)
	if len(page.Items) != 1 || page.Items[0].ID != item.ID || !page.Items[0].DeletedAt.Equal(b.Clock.Now()) || !page.Items[0].RestorableUntil.Equal(*until) || !page.Items[0].SealedAt.Equal(*item.SealedAt) {
		t.Errorf("deleted: %+v", page.Items)
	}
	b.Balanced(p)

	restored, err := b.Items.Restore(t.Context(), p, item.ID)
	must(t, err)
	if restored.ID != item.ID || !restored.SealedAt.Equal(*item.SealedAt) || restored.Access != media.Public || restored.Caption != "a" || !bytes.Equal(b.BytesOf(p, restored.File()), random(200)) {
		t.Errorf("restored: %+v, was %+v", restored, item)
	}
	list, err := b.Items.List(t.Context(), p, media.Filter{Group: "g"}, 1, 10)
	must(t, err)
	if got := []uuid.UUID{list.Items[0].ID, list.Items[1].ID, list.Items[2].ID}; !slices.Equal(got, []uuid.UUID{newer.ID, item.ID, older.ID}) {
		t.Errorf("the list has another order: %v", got)
	}
	if again, err := b.Items.Restore(t.Context(), p, item.ID); err != nil || again.ID != item.ID {
		t.Errorf("a second restore: %+v, %v", again, err)
	}
	if _, err := b.Items.Restore(t.Context(), p, uuid.New()); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing item is restored: %v", err)
	}
	other := b.UndoTenant(10_000, account.UndoEveryone)
	must(t, check.ErrorOf(b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
	if _, err := b.Items.Restore(t.Context(), other, item.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("another tenant restores the item: %v", err)
	}
	if ids := b.DeletedIDs(other); len(ids) != 0 {
		t.Errorf("another tenant sees deleted items: %v", ids)
	}
	if _, err := b.Items.Delete(t.Context(), other, item.ID, media.DeleteOptions{Permanent: true}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another tenant deletes the item: %v", err)
	}
	b.Balanced(p)
}

func TestDelete_IsPermanentUnlessTheAccountSaysOtherwise(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		name       string
		undoFor    string
		options    media.DeleteOptions
		restorable bool
	}{
		{name: "no undo, key"},
		{name: "no undo, agent", options: media.DeleteOptions{Agent: true}},
		{name: "agents, key", undoFor: account.UndoAgents},
		{name: "agents, agent", undoFor: account.UndoAgents, options: media.DeleteOptions{Agent: true}, restorable: true},
		{name: "everyone, key", undoFor: account.UndoEveryone, restorable: true},
		{name: "everyone, agent", undoFor: account.UndoEveryone, options: media.DeleteOptions{Agent: true}, restorable: true},
		{name: "everyone, key, permanent", undoFor: account.UndoEveryone, options: media.DeleteOptions{Permanent: true}},
	} {
		p := b.Tenant(10_000)
		if c.undoFor != "" {
			b.SetUndo(&p, account.Undo{Window: time.Hour, For: c.undoFor})
		}
		item, draft := b.Sealed(p, random(100), media.Fields{}), b.Upload(p, random(50), media.Fields{})
		until, err := b.Items.Delete(t.Context(), p, item.ID, c.options)
		must(t, err)
		if (until != nil) != c.restorable || len(b.DeletedIDs(p)) == 1 != c.restorable {
			t.Errorf("%s: until %v, deleted items %v", c.name, until, b.DeletedIDs(p))
		}
		if until, err := b.Items.Delete(t.Context(), p, draft.ID, c.options); err != nil || until != nil {
			t.Errorf("%s: a draft can be restored until %v, %v", c.name, until, err)
		}
		want := 0
		if c.restorable {
			want = 1
		}
		if stored := b.Stored(p); len(stored) != want {
			t.Errorf("%s: %d objects are left", c.name, len(stored))
		}
		// What was deleted can be restored, whatever the account says now.
		b.SetUndo(&p, account.Undo{})
		if _, err := b.Items.Restore(t.Context(), p, item.ID); fault.Is(err, fault.NotFound) == c.restorable {
			t.Errorf("%s: restore: %v", c.name, err)
		}
		b.Balanced(p)
	}
	p := b.UndoTenant(10_000, account.UndoEveryone)
	item := b.Sealed(p, random(100), media.Fields{})
	if _, err := b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{Agent: true, Permanent: true}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("an agent deletes permanently: %v", err)
	}
	_, err := b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{Agent: true})
	must(t, err)
	must(t, check.ErrorOf(b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{Permanent: true})))
	if left := b.DeletedIDs(p); len(left) != 0 || len(b.Stored(p)) != 0 {
		t.Errorf("a permanent delete of a deleted item leaves %v, %v", left, b.Stored(p))
	}
	b.Balanced(p)
}

func TestPurge_EndsDeletedItemsWhenTheirTimeIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.UndoTenant(10_000, account.UndoEveryone)
	first, second := b.Sealed(p, random(100), media.Fields{}), b.Sealed(p, random(100), media.Fields{})
	_, err := b.Items.Delete(t.Context(), p, first.ID, media.DeleteOptions{})
	must(t, err)
	b.Clock.Advance(time.Hour)
	b.SetUndo(&p, account.Undo{Window: time.Hour, For: account.UndoEveryone}) // for later deletes only
	must(t, check.ErrorOf(b.Items.Delete(t.Context(), p, second.ID, media.DeleteOptions{})))
	for _, step := range []struct {
		after time.Duration
		left  []uuid.UUID
	}{{59 * time.Minute, []uuid.UUID{second.ID, first.ID}}, {2 * time.Minute, []uuid.UUID{first.ID}}, {22 * time.Hour, nil}} {
		b.Clock.Advance(step.after)
		summary, err := b.Purger.Run(t.Context())
		must(t, err)
		if left := b.DeletedIDs(p); !slices.Equal(left, step.left) || summary.DraftsPurged != 0 {
			t.Errorf("after another %s %v are left: %+v", step.after, left, summary)
		}
		b.Balanced(p)
	}
	if _, err := b.Items.Restore(t.Context(), p, first.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a purged item is restored: %v", err)
	}
}

// Deletes, restores, permanent deletes, the purge, seals, and uploads that need room race on the same
// items: of each, exactly one wins. The cap is never exceeded.
func TestUndo_ExactlyOneWins(t *testing.T) {
	t.Parallel()
	const size, items, drafts, workers, rounds = 1000, 24, 6, 8, 60
	b := setup(t)
	replicas := b.Replicas()
	p := b.UndoTenant((items+4)*size, account.UndoEveryone)
	ids := make([]uuid.UUID, items)
	var sealed [items]*time.Time // of the seal that won
	for i := range ids {
		item := b.Upload(p, random(size), media.Fields{Group: "g"})
		if ids[i] = item.ID; i >= drafts {
			item, err := b.Items.Seal(t.Context(), p, item.ID)
			must(t, err)
			sealed[i] = item.SealedAt
		}
	}
	var permanent [items]atomic.Int64
	var evictions, restores, undoable atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex
	for w := range workers {
		all.Go(func() {
			random, service := rand.New(rand.NewPCG(7, uint64(w))), replicas[w%2]
			for range rounds {
				i := random.IntN(items)
				var err error
				switch choice := random.IntN(10); {
				case choice < 2:
					var item media.Item
					if item, err = service.Items.Seal(t.Context(), p, ids[i]); err == nil {
						mu.Lock()
						if sealed[i] == nil {
							sealed[i] = item.SealedAt
						} else if !sealed[i].Equal(*item.SealedAt) {
							t.Errorf("item %d was sealed at %s and at %s", i, sealed[i], item.SealedAt)
						}
						mu.Unlock()
					}
				case choice < 5:
					var until *time.Time
					if until, err = service.Items.Delete(t.Context(), p, ids[i], media.DeleteOptions{}); err == nil && until == nil {
						permanent[i].Add(1) // a draft
					} else if err == nil {
						undoable.Add(1)
					}
				case choice < 8:
					if _, err = service.Items.Restore(t.Context(), p, ids[i]); err == nil {
						restores.Add(1)
					}
				case choice == 8 && random.IntN(8) > 0 || choice == 9 && random.IntN(4) > 0:
					_, err = service.Items.Get(t.Context(), p, ids[i])
				case choice == 8:
					if _, err = service.Items.Delete(t.Context(), p, ids[i], media.DeleteOptions{Permanent: true}); err == nil {
						permanent[i].Add(1)
					}
				default:
					var item media.Item
					if item, err = uploadFile(t.Context(), service.Uploads, p, bytes.NewReader(make([]byte, 3*size)), media.Fields{}); err == nil {
						evictions.Add(1)
						_, err = service.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{})
					} else if fault.Is(err, fault.QuotaExceeded) {
						err = nil
					}
				}
				if err != nil && !fault.Is(err, fault.NotFound) {
					t.Errorf("%v", err)
				}
				if held := b.Number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID); held > p.Account.MaxStorage {
					t.Errorf("the account uses %d bytes of %d", held, p.Account.MaxStorage)
				}
			}
		})
	}
	purging := make(chan struct{})
	purged := make(chan int64)
	go func() { // ends items right after their delete
		store, ended := b.Open(), 0
		for {
			select {
			case <-purging:
				purged <- int64(ended)
				return
			default:
				if rand.IntN(20) > 0 {
					_ = b.Number(`SELECT count(*) FROM item`)
					continue
				}
				n, err := store.Items.EndTombstones(t.Context(), b.Clock.Now().Add(48*time.Hour), 1)
				if ended += n; err != nil {
					t.Errorf("purge: %v", err)
				}
			}
		}
	}()
	all.Wait()
	close(purging)
	ended := <-purged
	for i, id := range ids {
		left := b.Number(`SELECT count(*) FROM stored_item WHERE id = $1`, id)
		if n := permanent[i].Load(); n > 1 || n+left > 1 {
			t.Errorf("item %d was deleted %d times for good, and %d are left", i, n, left)
		}
	}
	b.Clock.Advance(48 * time.Hour) // what this test purged is due then
	b.RemoveEnded()
	b.Balanced(p)
	t.Logf("%d uploads, %d deletes that can be undone, %d restores, %d purged", evictions.Load(), undoable.Load(), restores.Load(), ended)
}

// What a page shows as used is what an upload cannot have.
func TestUsage_IsWhatAnUploadCannotHave(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.UndoTenant(10_000, account.UndoEveryone)
	usage := func(want int64) {
		t.Helper()
		got, err := b.Items.Usage(t.Context(), p)
		if err != nil || got != (media.Usage{Used: want, MaxStorage: 10_000}) {
			t.Errorf("%+v, %v, want %d", got, err, want)
		}
	}
	usage(0)
	item := b.Sealed(p, random(1000), media.Fields{})
	usage(1000)
	b.Upload(p, random(500), media.Fields{})
	usage(1500)
	_, err := b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{})
	must(t, err)
	usage(500)
	must(t, check.ErrorOf(b.Items.Restore(t.Context(), p, item.ID)))
	usage(1500)
}
