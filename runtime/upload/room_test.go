package upload_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
)

// An upload ends as many deleted items as it needs, the oldest first, and none if all of them are not
// enough.
func TestUpload_TakesTheRoomOfTheOldestDeletedItems(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.UndoTenant(10_000, account.UndoEveryone)
	kept := b.Sealed(p, random(2000), media.Fields{})
	var deleted []uuid.UUID
	for i := range 4 {
		item := b.Sealed(p, random(1990+i), media.Fields{})
		b.Clock.Advance(time.Second)
		must(t, check.ErrorOf(b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
		deleted = append([]uuid.UUID{item.ID}, deleted...) // the latest first
	}
	if _, err := uploadFile(t.Context(), b.Uploads, p, bytes.NewReader(make([]byte, 8001)), media.Fields{}); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("an upload over the cap: %v", err)
	}
	if left := b.DeletedIDs(p); !slices.Equal(left, deleted) {
		t.Errorf("an upload that was rejected left %v", left)
	}
	b.Upload(p, random(3000), media.Fields{})
	if left := b.DeletedIDs(p); !slices.Equal(left, deleted[:2]) {
		t.Errorf("after an upload that needed the room of two, %v are left of %v", left, deleted)
	}
	b.Upload(p, random(5000), media.Fields{})
	if left := b.DeletedIDs(p); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	if _, err := b.Items.Restore(t.Context(), p, deleted[0]); !fault.Is(err, fault.NotFound) {
		t.Errorf("an ended item is restored: %v", err)
	}
	if _, err := b.Items.Get(t.Context(), p, kept.ID); err != nil {
		t.Errorf("an item that was not deleted: %v", err)
	}
	b.RemoveEnded()
	b.Balanced(p)
}

// Objects of items that made room stayed in the bucket until the next purge: an account with a cap of 10 kB could store what it
// uploaded in an hour.
func TestUpload_EmptiesTheBucketOfWhatMadeRoom(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Store.Uploads.OnRoomMade(b.Items.RemoveForRoom)
	p := b.UndoTenant(10_000, account.UndoEveryone)
	for range 12 {
		item := b.Sealed(p, random(4000), media.Fields{})
		must(t, check.ErrorOf(b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
		b.Clock.Advance(time.Second)
		sum := int64(0)
		for _, size := range b.Stored(p) {
			sum += size
		}
		if sum > 10_000 {
			t.Fatalf("the bucket has %d bytes", sum)
		}
	}
	b.Counts(0, "removals are left to the purge", "SELECT count(*) FROM object_removal WHERE account_id = $1", p.Account.ID)
	b.Balanced(p)
}

// failingRemover removes nothing.
type failingRemover struct{ media.ObjectStore }

func (failingRemover) Remove(context.Context, string, []string) error {
	return errors.New("the object store is down")
}

// What the object store does not remove is left to the purge, and the upload succeeds.
func TestUpload_LeavesWhatMadeRoomToThePurgeIfTheStoreFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	called := 0
	b.Store.Uploads.OnRoomMade(func(ctx context.Context, removals []media.Removal) {
		called += len(removals)
		b.Another(mediatest.Config, mediatest.Over(failingRemover{b.Objects})).Items.RemoveForRoom(ctx, removals)
	})
	p := b.UndoTenant(10_000, account.UndoEveryone)
	for range 3 {
		item := b.Sealed(p, random(4000), media.Fields{})
		must(t, check.ErrorOf(b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
		b.Clock.Advance(time.Second)
	}
	if left := b.Number("SELECT count(*) FROM object_removal WHERE account_id = $1", p.Account.ID); called != 1 || left != 1 {
		t.Errorf("%d removals were attempted, and %d are left to the purge", called, left)
	}
	b.RemoveEnded()
	b.Balanced(p)
}

// A file of several parts reserves its bytes while it arrives, and a commit may need more than was reserved.
func TestUpload_TakesTheRoomOfDeletedItemsWhileItGrows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const size = 12 << 20
	p := b.UndoTenant(40<<20, account.UndoEveryone)
	for range 3 {
		item := b.Sealed(p, random(size), media.Fields{})
		must(t, check.ErrorOf(b.Items.Delete(t.Context(), p, item.ID, media.DeleteOptions{})))
		b.Clock.Advance(time.Second)
	}
	b.Upload(p, random(2*size), media.Fields{})
	if left := b.DeletedIDs(p); len(left) != 1 {
		t.Errorf("%v are left", left)
	}
	b.RemoveEnded()
	b.Balanced(p)
}

// Undo never makes an upload fail: accounts whose cap is full of deleted items accept uploads up to the cap,
// in batches of several accounts, on two replicas.
func TestUploads_FillTheRoomOfDeletedItemsConcurrently(t *testing.T) {
	t.Parallel()
	const size, items, accounts = 1000, 40, 3
	b := setup(t)
	replicas := b.Replicas()
	tenants := make([]account.Principal, accounts)
	for i := range tenants {
		tenants[i] = b.UndoTenant(items*size, account.UndoEveryone)
		for range items {
			item := b.Sealed(tenants[i], random(size), media.Fields{})
			must(t, check.ErrorOf(b.Items.Delete(t.Context(), tenants[i], item.ID, media.DeleteOptions{})))
		}
	}
	var all sync.WaitGroup
	for i := range accounts * items {
		all.Go(func() {
			if _, err := uploadFile(t.Context(), replicas[i%2].Uploads, tenants[i%accounts], bytes.NewReader(random(size)), media.Fields{}); err != nil {
				t.Errorf("an upload: %v", err)
			}
		})
	}
	all.Wait()
	for _, p := range tenants {
		if _, err := uploadFile(t.Context(), b.Uploads, p, bytes.NewReader(random(1)), media.Fields{}); !fault.Is(err, fault.QuotaExceeded) {
			t.Errorf("an upload over the cap: %v", err)
		}
		if left := b.DeletedIDs(p); len(left) != 0 {
			t.Errorf("%d deleted items are left", len(left))
		}
	}
	b.RemoveEnded()
	for _, p := range tenants {
		b.Balanced(p)
	}
}
