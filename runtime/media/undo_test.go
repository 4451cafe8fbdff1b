package media_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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
	"mediastack.dev/runtime/settings"
)

// undoTenant is tenant with deletes that can be undone for a day.
func (b *harness) undoTenant(maxStorage int64, undoFor string) account.Principal {
	b.t.Helper()
	p := b.tenant(maxStorage)
	b.setUndo(&p, account.Undo{Window: 24 * time.Hour, For: undoFor})
	return p
}

func (b *harness) setUndo(p *account.Principal, undo account.Undo) {
	b.t.Helper()
	a, err := b.registry.Ensure(b.t.Context(), account.Spec{Namespace: p.Account.Namespace, Name: p.Account.Name, MaxStorage: p.Account.MaxStorage, MaxUploadSize: p.Account.MaxUploadSize, Undo: undo})
	must(b.t, err)
	if p.Account.Undo = a.Undo; a.Undo != undo {
		b.t.Fatalf("the account has %+v, want %+v", a.Undo, undo)
	}
}

// replicas returns two services that share only the database and the object store.
func (b *harness) replicas() []*media.Service {
	b.t.Helper()
	second, err := media.New(config, media.Deps{Store: b.open().Items, Objects: b.objects, Settings: settings.NewService(b.store.Settings), Now: b.clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(b.t, err)
	return []*media.Service{b.service, second}
}

// removeEnded removes the objects of deleted items that were ended for an upload: at once, by the clock of
// the database.
func (b *harness) removeEnded() {
	b.t.Helper()
	b.clock.advance(time.Minute)
	must(b.t, check.ErrorOf(b.purger.Run(b.t.Context())))
}

// deletedIDs returns the ids of the deleted items, the latest delete first.
func (b *harness) deletedIDs(p account.Principal) []uuid.UUID {
	b.t.Helper()
	page, err := b.service.ListDeleted(b.t.Context(), p, 1, media.MaxLimit)
	must(b.t, err)
	ids := make([]uuid.UUID, 0, len(page.Items))
	for _, item := range page.Items {
		ids = append(ids, item.ID)
	}
	if page.Total != int64(len(ids)) {
		b.t.Errorf("the total is %d, and %d items are listed", page.Total, len(ids))
	}
	return ids
}

func TestRestore_ReturnsTheItemAsItWas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.undoTenant(10_000, account.UndoEveryone)
	older := b.sealed(p, random(100), media.Fields{Group: "g"})
	b.clock.advance(time.Minute)
	item := b.sealed(p, random(200), media.Fields{Group: "g", Access: media.Public, Caption: "a"})
	b.clock.advance(time.Minute)
	newer := b.sealed(p, random(300), media.Fields{Group: "g"})
	b.clock.advance(time.Hour)

	until, err := b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{})
	must(t, err)
	if until == nil || !until.Equal(b.clock.Now().Add(24*time.Hour)) {
		t.Errorf("the item can be restored until %v", until)
	}
	if _, err := b.service.Get(t.Context(), p, item.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted item is read: %v", err)
	}
	if _, _, err := b.service.ForDelivery(t.Context(), item.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted item is served: %v", err)
	}
	if _, err := b.service.Seal(t.Context(), p, item.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted item is sealed: %v", err)
	}
	if _, err := b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted item is deleted: %v", err)
	}
	for _, filter := range []media.Filter{{}, {Group: "g"}} {
		list, err := b.service.List(t.Context(), p, filter, 1, 10)
		must(t, err)
		count, err := b.service.Count(t.Context(), p, filter)
		must(t, err)
		if len(list.Items) != 2 || list.Total != 2 || count != 2 {
			t.Errorf("filter %+v lists %d of %d items, and counts %d", filter, len(list.Items), list.Total, count)
		}
	}
	if totals, err := b.service.Totals(t.Context(), p); err != nil || totals.Storage != 400 {
		t.Errorf("the totals contain a deleted item: %+v, %v", totals, err)
	}
	b.counts(600, "bytes count against the cap, want those of the deleted item, too", `SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID)
	page, err := b.service.ListDeleted(t.Context(), p, 1, 10)
	must(t, err)
	if len(page.Items) != 1 || page.Items[0].ID != item.ID || !page.Items[0].DeletedAt.Equal(b.clock.Now()) || !page.Items[0].RestorableUntil.Equal(*until) || !page.Items[0].SealedAt.Equal(*item.SealedAt) {
		t.Errorf("deleted: %+v", page.Items)
	}
	b.balanced(p)

	restored, err := b.service.Restore(t.Context(), p, item.ID)
	must(t, err)
	if restored.ID != item.ID || !restored.SealedAt.Equal(*item.SealedAt) || restored.Access != media.Public || restored.Caption != "a" || !bytes.Equal(b.bytesOf(p, restored.File()), random(200)) {
		t.Errorf("restored: %+v, was %+v", restored, item)
	}
	list, err := b.service.List(t.Context(), p, media.Filter{Group: "g"}, 1, 10)
	must(t, err)
	if got := []uuid.UUID{list.Items[0].ID, list.Items[1].ID, list.Items[2].ID}; !slices.Equal(got, []uuid.UUID{newer.ID, item.ID, older.ID}) {
		t.Errorf("the list has another order: %v", got)
	}
	if again, err := b.service.Restore(t.Context(), p, item.ID); err != nil || again.ID != item.ID {
		t.Errorf("a second restore: %+v, %v", again, err)
	}
	if _, err := b.service.Restore(t.Context(), p, uuid.New()); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing item is restored: %v", err)
	}
	other := b.undoTenant(10_000, account.UndoEveryone)
	must(t, check.ErrorOf(b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
	if _, err := b.service.Restore(t.Context(), other, item.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("another tenant restores the item: %v", err)
	}
	if ids := b.deletedIDs(other); len(ids) != 0 {
		t.Errorf("another tenant sees deleted items: %v", ids)
	}
	if _, err := b.service.Delete(t.Context(), other, item.ID, media.DeleteOptions{Permanent: true}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another tenant deletes the item: %v", err)
	}
	b.balanced(p)
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
		p := b.tenant(10_000)
		if c.undoFor != "" {
			b.setUndo(&p, account.Undo{Window: time.Hour, For: c.undoFor})
		}
		item, draft := b.sealed(p, random(100), media.Fields{}), b.upload(p, random(50), media.Fields{})
		until, err := b.service.Delete(t.Context(), p, item.ID, c.options)
		must(t, err)
		if (until != nil) != c.restorable || len(b.deletedIDs(p)) == 1 != c.restorable {
			t.Errorf("%s: until %v, deleted items %v", c.name, until, b.deletedIDs(p))
		}
		if until, err := b.service.Delete(t.Context(), p, draft.ID, c.options); err != nil || until != nil {
			t.Errorf("%s: a draft can be restored until %v, %v", c.name, until, err)
		}
		want := 0
		if c.restorable {
			want = 1
		}
		if stored := b.stored(p); len(stored) != want {
			t.Errorf("%s: %d objects are left", c.name, len(stored))
		}
		// What was deleted can be restored, whatever the account says now.
		b.setUndo(&p, account.Undo{})
		if _, err := b.service.Restore(t.Context(), p, item.ID); fault.Is(err, fault.NotFound) == c.restorable {
			t.Errorf("%s: restore: %v", c.name, err)
		}
		b.balanced(p)
	}
	p := b.undoTenant(10_000, account.UndoEveryone)
	item := b.sealed(p, random(100), media.Fields{})
	if _, err := b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{Agent: true, Permanent: true}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("an agent deletes permanently: %v", err)
	}
	_, err := b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{Agent: true})
	must(t, err)
	must(t, check.ErrorOf(b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{Permanent: true})))
	if left := b.deletedIDs(p); len(left) != 0 || len(b.stored(p)) != 0 {
		t.Errorf("a permanent delete of a deleted item leaves %v, %v", left, b.stored(p))
	}
	b.balanced(p)
}

func TestPurge_EndsDeletedItemsWhenTheirTimeIsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.undoTenant(10_000, account.UndoEveryone)
	first, second := b.sealed(p, random(100), media.Fields{}), b.sealed(p, random(100), media.Fields{})
	_, err := b.service.Delete(t.Context(), p, first.ID, media.DeleteOptions{})
	must(t, err)
	b.clock.advance(time.Hour)
	b.setUndo(&p, account.Undo{Window: time.Hour, For: account.UndoEveryone}) // for later deletes only
	must(t, check.ErrorOf(b.service.Delete(t.Context(), p, second.ID, media.DeleteOptions{})))
	for _, step := range []struct {
		after time.Duration
		left  []uuid.UUID
	}{{59 * time.Minute, []uuid.UUID{second.ID, first.ID}}, {2 * time.Minute, []uuid.UUID{first.ID}}, {22 * time.Hour, nil}} {
		b.clock.advance(step.after)
		summary, err := b.purger.Run(t.Context())
		must(t, err)
		if left := b.deletedIDs(p); !slices.Equal(left, step.left) || summary.DraftsPurged != 0 {
			t.Errorf("after another %s %v are left: %+v", step.after, left, summary)
		}
		b.balanced(p)
	}
	if _, err := b.service.Restore(t.Context(), p, first.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a purged item is restored: %v", err)
	}
}

// An upload ends as many deleted items as it needs, the oldest first, and none if all of them are not
// enough.
func TestUpload_TakesTheRoomOfTheOldestDeletedItems(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.undoTenant(10_000, account.UndoEveryone)
	kept := b.sealed(p, random(2000), media.Fields{})
	var deleted []uuid.UUID
	for i := range 4 {
		item := b.sealed(p, random(1990+i), media.Fields{})
		b.clock.advance(time.Second)
		must(t, check.ErrorOf(b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
		deleted = append([]uuid.UUID{item.ID}, deleted...) // the latest first
	}
	if _, err := upload(t.Context(), b.service, p, bytes.NewReader(make([]byte, 8001)), media.Fields{}); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("an upload over the cap: %v", err)
	}
	if left := b.deletedIDs(p); !slices.Equal(left, deleted) {
		t.Errorf("an upload that was rejected left %v", left)
	}
	b.upload(p, random(3000), media.Fields{})
	if left := b.deletedIDs(p); !slices.Equal(left, deleted[:2]) {
		t.Errorf("after an upload that needed the room of two, %v are left of %v", left, deleted)
	}
	b.upload(p, random(5000), media.Fields{})
	if left := b.deletedIDs(p); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	if _, err := b.service.Restore(t.Context(), p, deleted[0]); !fault.Is(err, fault.NotFound) {
		t.Errorf("an ended item is restored: %v", err)
	}
	if _, err := b.service.Get(t.Context(), p, kept.ID); err != nil {
		t.Errorf("an item that was not deleted: %v", err)
	}
	b.removeEnded()
	b.balanced(p)
}

// Objects of items that made room stayed in the bucket until the next purge: an account with a cap of 10 kB could store what it
// uploaded in an hour.
func TestUpload_EmptiesTheBucketOfWhatMadeRoom(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.store.Items.OnRoomMade(b.service.RemoveForRoom)
	p := b.undoTenant(10_000, account.UndoEveryone)
	for range 12 {
		item := b.sealed(p, random(4000), media.Fields{})
		must(t, check.ErrorOf(b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
		b.clock.advance(time.Second)
		sum := int64(0)
		for _, size := range b.stored(p) {
			sum += size
		}
		if sum > 10_000 {
			t.Fatalf("the bucket has %d bytes", sum)
		}
	}
	b.counts(0, "removals are left to the purge", "SELECT count(*) FROM object_removal WHERE account_id = $1", p.Account.ID)
	b.balanced(p)
}

// What the object store does not remove is left to the purge, and the upload succeeds.
func TestUpload_LeavesWhatMadeRoomToThePurgeIfTheStoreFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	called := 0
	b.store.Items.OnRoomMade(func(ctx context.Context, removals []media.Removal) {
		called += len(removals)
		b.replicaOver(failingRemover{b.objects}, config).RemoveForRoom(ctx, removals)
	})
	p := b.undoTenant(10_000, account.UndoEveryone)
	for range 3 {
		item := b.sealed(p, random(4000), media.Fields{})
		must(t, check.ErrorOf(b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
		b.clock.advance(time.Second)
	}
	if left := b.number("SELECT count(*) FROM object_removal WHERE account_id = $1", p.Account.ID); called != 1 || left != 1 {
		t.Errorf("%d removals were attempted, and %d are left to the purge", called, left)
	}
	b.removeEnded()
	b.balanced(p)
}

// failingRemover removes nothing.
type failingRemover struct{ media.ObjectStore }

func (failingRemover) Remove(context.Context, string, []string) error {
	return errors.New("the object store is down")
}

// A file of several parts reserves its bytes while it arrives, and a commit may need more than was reserved.
func TestUpload_TakesTheRoomOfDeletedItemsWhileItGrows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const size = 12 << 20
	p := b.undoTenant(40<<20, account.UndoEveryone)
	for range 3 {
		item := b.sealed(p, random(size), media.Fields{})
		must(t, check.ErrorOf(b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
		b.clock.advance(time.Second)
	}
	b.upload(p, random(2*size), media.Fields{})
	if left := b.deletedIDs(p); len(left) != 1 {
		t.Errorf("%v are left", left)
	}
	b.removeEnded()
	b.balanced(p)
}

// Undo never makes an upload fail: accounts whose cap is full of deleted items accept uploads up to the cap,
// in batches of several accounts, on two replicas.
func TestUploads_FillTheRoomOfDeletedItemsConcurrently(t *testing.T) {
	t.Parallel()
	const size, items, accounts = 1000, 40, 3
	b := setup(t)
	replicas := b.replicas()
	tenants := make([]account.Principal, accounts)
	for i := range tenants {
		tenants[i] = b.undoTenant(items*size, account.UndoEveryone)
		for range items {
			item := b.sealed(tenants[i], random(size), media.Fields{})
			must(t, check.ErrorOf(b.service.Delete(t.Context(), tenants[i], item.ID, media.DeleteOptions{})))
		}
	}
	var all sync.WaitGroup
	for i := range accounts * items {
		all.Go(func() {
			if _, err := upload(t.Context(), replicas[i%2], tenants[i%accounts], bytes.NewReader(random(size)), media.Fields{}); err != nil {
				t.Errorf("an upload: %v", err)
			}
		})
	}
	all.Wait()
	for _, p := range tenants {
		if _, err := upload(t.Context(), b.service, p, bytes.NewReader(random(1)), media.Fields{}); !fault.Is(err, fault.QuotaExceeded) {
			t.Errorf("an upload over the cap: %v", err)
		}
		if left := b.deletedIDs(p); len(left) != 0 {
			t.Errorf("%d deleted items are left", len(left))
		}
	}
	b.removeEnded()
	for _, p := range tenants {
		b.balanced(p)
	}
}

// Deletes, restores, permanent deletes, the purge, seals, and uploads that need room race on the same
// items: of each, exactly one wins. The cap is never exceeded.
func TestUndo_ExactlyOneWins(t *testing.T) {
	t.Parallel()
	const size, items, drafts, workers, rounds = 1000, 24, 6, 8, 60
	b := setup(t)
	replicas := b.replicas()
	p := b.undoTenant((items+4)*size, account.UndoEveryone)
	ids := make([]uuid.UUID, items)
	var sealed [items]*time.Time // of the seal that won
	for i := range ids {
		item := b.upload(p, random(size), media.Fields{Group: "g"})
		if ids[i] = item.ID; i >= drafts {
			item, err := b.service.Seal(t.Context(), p, item.ID)
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
					if item, err = service.Seal(t.Context(), p, ids[i]); err == nil {
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
					if until, err = service.Delete(t.Context(), p, ids[i], media.DeleteOptions{}); err == nil && until == nil {
						permanent[i].Add(1) // a draft
					} else if err == nil {
						undoable.Add(1)
					}
				case choice < 8:
					if _, err = service.Restore(t.Context(), p, ids[i]); err == nil {
						restores.Add(1)
					}
				case choice == 8 && random.IntN(8) > 0 || choice == 9 && random.IntN(4) > 0:
					_, err = service.Get(t.Context(), p, ids[i])
				case choice == 8:
					if _, err = service.Delete(t.Context(), p, ids[i], media.DeleteOptions{Permanent: true}); err == nil {
						permanent[i].Add(1)
					}
				default:
					var item media.Item
					if item, err = upload(t.Context(), service, p, bytes.NewReader(make([]byte, 3*size)), media.Fields{}); err == nil {
						evictions.Add(1)
						_, err = service.Delete(t.Context(), p, item.ID, media.DeleteOptions{})
					} else if fault.Is(err, fault.QuotaExceeded) {
						err = nil
					}
				}
				if err != nil && !fault.Is(err, fault.NotFound) {
					t.Errorf("%v", err)
				}
				if held := b.number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID); held > p.Account.MaxStorage {
					t.Errorf("the account uses %d bytes of %d", held, p.Account.MaxStorage)
				}
			}
		})
	}
	purging := make(chan struct{})
	purged := make(chan int64)
	go func() { // ends items right after their delete
		store, ended := b.open(), 0
		for {
			select {
			case <-purging:
				purged <- int64(ended)
				return
			default:
				if rand.IntN(20) > 0 {
					_ = b.number(`SELECT count(*) FROM item`)
					continue
				}
				n, err := store.Items.EndTombstones(t.Context(), b.clock.Now().Add(48*time.Hour), 1)
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
		left := b.number(`SELECT count(*) FROM stored_item WHERE id = $1`, id)
		if n := permanent[i].Load(); n > 1 || n+left > 1 {
			t.Errorf("item %d was deleted %d times for good, and %d are left", i, n, left)
		}
	}
	b.clock.advance(48 * time.Hour) // what this test purged is due then
	b.removeEnded()
	b.balanced(p)
	t.Logf("%d uploads, %d deletes that can be undone, %d restores, %d purged", evictions.Load(), undoable.Load(), restores.Load(), ended)
}

// What a page shows as used is what an upload cannot have.
func TestUsage_IsWhatAnUploadCannotHave(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.undoTenant(10_000, account.UndoEveryone)
	usage := func(want int64) {
		t.Helper()
		got, err := b.service.Usage(t.Context(), p)
		if err != nil || got != (media.Usage{Used: want, MaxStorage: 10_000}) {
			t.Errorf("%+v, %v, want %d", got, err, want)
		}
	}
	usage(0)
	item := b.sealed(p, random(1000), media.Fields{})
	usage(1000)
	b.upload(p, random(500), media.Fields{})
	usage(1500)
	_, err := b.service.Delete(t.Context(), p, item.ID, media.DeleteOptions{})
	must(t, err)
	usage(500)
	must(t, check.ErrorOf(b.service.Restore(t.Context(), p, item.ID)))
	usage(1500)
}
