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
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

func TestSmallUpload_IsOneStatement(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, one := b.Tenant(1<<20), b.process()
	first := one.draft(p, 10) // registers the writer
	before := one.statements()
	for size := range 5 {
		if key := one.draft(p, size); b.writerOf(key) != b.writerOf(first) || b.writerOf(key) == 0 {
			t.Errorf("the keys are %s and %s", first, key)
		}
	}
	if n := one.statements() - before; n != 5 {
		t.Errorf("5 uploads were %d statements", n)
	}
	b.Balanced(p)
}

// A process that was paused until another one declared it dead commits nothing of before. Its client is told that, nothing is left, and
// its next upload succeeds.
func TestWriter_OfAPausedProcessThatHasEndedCommitsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		beforeThePut, searched bool
	}{
		"ended after the object was stored":     {},
		"searched after the object was stored":  {searched: true},
		"ended before the object was stored":    {beforeThePut: true},
		"searched before the object was stored": {beforeThePut: true, searched: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, paused := b.Tenant(1<<20), b.process()
			kept := paused.draft(p, 10)
			pause := func() {
				paused.objects.before, paused.objects.after = nil, nil
				if paused.dies(); c.searched {
					b.graceOver()
				}
			}
			if paused.objects.after = pause; c.beforeThePut {
				paused.objects.before, paused.objects.after = pause, nil
			}
			if _, err := paused.upload(p, 20); !errors.Is(err, upload.ErrWriterEnded) || !fault.Is(err, fault.Unavailable) {
				t.Errorf("an upload of a writer that has ended: %v", err)
			}
			b.RemoveEnded()
			if left := b.keys(p); !slices.Equal(left, []string{kept}) {
				t.Errorf("%v is left, want %s", left, kept)
			}
			if key := paused.draft(p, 30); b.writerOf(key) != 0 {
				t.Errorf("a process without a lease has stored %s before it was recorded", key)
			}
			must(t, check.ErrorOf(paused.data.Installations.TouchRuntime(t.Context(), paused.id, "test", time.Hour)))
			if key := paused.draft(p, 40); b.writerOf(key) <= b.writerOf(kept) {
				t.Errorf("after %s, the process has stored %s", kept, key)
			}
			b.Balanced(p)
			if !c.searched {
				paused.settle(true)
				b.Counts(1, "writers that have ended wait for the search", `SELECT count(*) FROM upload_writer WHERE ended_at IS NOT NULL`)
				b.graceOver()
				b.RemoveEnded()
				b.Balanced(p)
			}
		})
	}
}

// An account whose cap had no room reserves it first for a while, so that nothing is stored in vain.
// What takes several statements would hold connections while it waits for a locked account.
func TestUpload_WithinACapabilityThatCountsOrSealsIsReservedFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, one := b.Tenant(1<<20), b.process()
	expires := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		capability upload.Capability
		stored     bool // first
	}{
		"counts": {capability: upload.Capability{ID: bytes.Repeat([]byte{7}, 32), Count: 2, ExpiresAt: expires}},
		"seals":  {capability: upload.Capability{Seal: true, ExpiresAt: expires}},
		"group":  {capability: upload.Capability{Group: "g", ExpiresAt: expires}, stored: true},
	} {
		single, err := one.Uploads.BeginWith(t.Context(), p, &c.capability, 0)
		must(t, err)
		must(t, single.Receive(t.Context(), bytes.NewReader(random(100)), ""))
		item, err := single.Commit(t.Context(), media.Fields{})
		must(t, err)
		single.Close(t.Context())
		if key := item.File().Key; (b.writerOf(key) != 0) != c.stored {
			t.Errorf("%s: it has stored %s", name, key)
		}
	}
	b.Balanced(p)
}

func TestUpload_OfAFullAccountIsReservedFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	clock := behind()
	p, other, one := b.Tenant(1000), b.Tenant(1000), b.process(at(clock.Now))
	item, err := one.upload(p, 900)
	must(t, err)
	reject := func(what string, stored int64) {
		t.Helper()
		before := one.objects.stored.Load()
		if _, err := one.upload(p, 200); !fault.Is(err, fault.QuotaExceeded) {
			t.Errorf("%s: an upload over the cap: %v", what, err)
		}
		if n := one.objects.stored.Load() - before; n != stored {
			t.Errorf("%s: %d objects were stored, want %d", what, n, stored)
		}
		b.RemoveEnded()
		b.Balanced(p)
	}
	reject("at first", 1)
	reject("afterwards", 0)
	if key := one.draft(other, 10); b.writerOf(key) == 0 {
		t.Errorf("another account has stored %s", key)
	}
	clock.Advance(59 * time.Second)
	reject("a moment before the time is over", 0)
	must(t, deleteItem(t.Context(), one.Items, p, item.ID))
	if key := one.draft(p, 100); b.writerOf(key) != 0 {
		t.Errorf("with room, and before the time is over, the account has stored %s", key)
	}
	clock.Advance(2 * time.Second)
	if key := one.draft(p, 100); b.writerOf(key) != b.writerOf(item.File().Key) {
		t.Errorf("after the time is over the account has stored %s, and %s before", key, item.File().Key)
	}
	b.Balanced(p)
}

func TestSettle_RemovesIdleWriters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	clock := behind()
	p, other, one := b.Tenant(1<<20), b.Tenant(1<<20), b.process(at(clock.Now))
	idle := one.draft(p, 10)
	one.draft(other, 10)
	clock.Advance(59 * time.Minute)
	one.draft(other, 10)
	if one.settle(false); b.registered(p) != 1 || b.registered(other) != 1 {
		t.Errorf("a moment before the time is over, %d and %d writers are registered", b.registered(p), b.registered(other))
	}
	clock.Advance(time.Minute)
	if one.settle(false); b.registered(p) != 0 || b.registered(other) != 1 {
		t.Errorf("%d idle writers are registered, and %d that are used", b.registered(p), b.registered(other))
	}
	if key := one.draft(p, 10); b.writerOf(key) <= b.writerOf(idle) {
		t.Errorf("after %s, the process has stored %s", idle, key)
	}
	if one.settle(true); b.registered(p) != 0 || b.registered(other) != 0 {
		t.Errorf("at the end of the process, %d and %d writers are registered", b.registered(p), b.registered(other))
	}
	b.Balanced(p)
	b.Balanced(other)
}

// A writer is replaced after 10 minutes and a thousand uploads, so that a search is short.
func TestWriter_ThatIsUsedUpIsReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	clock := behind()
	p, one := b.Tenant(1<<20), b.process(at(clock.Now))
	first := one.draft(p, 1)
	clock.Advance(10 * time.Minute)
	if key := one.draft(p, 1); b.writerOf(key) != b.writerOf(first) {
		t.Errorf("an old writer with few uploads was replaced: %s, %s", first, key)
	}
	clock.Advance(-10 * time.Minute)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 125 {
				if _, err := one.upload(p, 1); err != nil {
					t.Errorf("an upload: %v", err)
				}
			}
		})
	}
	all.Wait()
	if key := one.draft(p, 1); b.writerOf(key) != b.writerOf(first) {
		t.Errorf("a new writer with many uploads was replaced: %s, %s", first, key)
	}
	clock.Advance(10 * time.Minute)
	if key := one.draft(p, 1); b.writerOf(key) <= b.writerOf(first) {
		t.Errorf("a writer that is used up was not replaced: %s, %s", first, key)
	}
	if n := b.registered(p); n != 2 {
		t.Errorf("%d writers are registered", n)
	}
	if one.settle(false); b.registered(p) != 1 {
		t.Errorf("%d writers are registered", b.registered(p))
	}
	b.Balanced(p)
}

// A search lists from the first item on that a writer can have: one that was made up to a minute before. An upload that was received for
// longer, or on a machine whose clock was set back, is recorded first.
func TestWriter_IsUsedForNoItemThatIsMuchOlder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 20)
	for ahead, used := range map[time.Duration]bool{30 * time.Second: true, 5 * time.Minute: false} {
		clock := &runtimetest.Clock{}
		clock.Freeze()
		clock.Advance(ahead)
		one := b.process(at(clock.Now))
		key := one.draft(p, 10)
		if number := b.writerOf(key); (number != 0) != used {
			t.Errorf("%s after an item was made, the process has stored %s", ahead, key)
		}
	}
	b.Balanced(p)
}

// A writer with an upload that is neither recorded nor abandoned is what finds its object if the process dies.
func TestSettle_KeepsTheWriterOfAnUnsettledUpload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, one := b.Tenant(1<<20), b.process()
	kept, lost := one.draft(p, 10), one.unrecorded(p, 20)
	one.store.cut.Store(true)
	for _, last := range []bool{false, true} {
		if err := one.Uploads.Settle(t.Context(), last); !errors.Is(err, errNoDatabase) || b.registered(p) != 1 {
			t.Errorf("%v, %d writers are registered", err, b.registered(p))
		}
	}
	if left := b.keys(p); !slices.Equal(left, sorted(kept, lost)) {
		t.Errorf("%v is left", left)
	}
	one.store.cut.Store(false)
	if one.settle(true); b.registered(p) != 0 {
		t.Errorf("%d writers are registered", b.registered(p))
	}
	if queued := b.queued(p); !slices.Equal(queued, []string{lost}) {
		t.Errorf("the removal of %v is queued, want %s", queued, lost)
	}
	b.RemoveEnded()
	b.Balanced(p)
}

// The end of a process removes no writer of an upload that runs.
func TestSettle_KeepsTheWriterOfARunningUpload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, one := b.Tenant(1<<20), b.process()
	one.objects.after = func() {
		if one.settle(true); b.registered(p) != 1 {
			t.Errorf("while an upload runs, %d writers are registered", b.registered(p))
		}
	}
	one.draft(p, 10)
	if one.settle(true); b.registered(p) != 0 {
		t.Errorf("%d writers are registered", b.registered(p))
	}
	b.Balanced(p)
}

// A fence that was raised in a transaction which is not committed is the former one.
func TestAbandonStored_ThatFailsLeavesTheFence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 20)
	one := b.process()
	writer, err := one.data.Uploads.RegisterWriter(t.Context(), p.Account.ID, p.Account.Bucket, uuid.Nil)
	must(t, err)
	if _, err := one.data.Uploads.AbandonStored(t.Context(), uuid.New(), media.Scope{AccountID: p.Account.ID, Bucket: "\x00"}, writer, true, []string{"k"}, time.Now()); err == nil {
		t.Fatal("a removal in a bucket whose name PostgreSQL rejects was queued")
	}
	row := b.Number(`SELECT fence FROM upload_writer WHERE number = $1`, writer.Number)
	if writer.Fence() != row || row != 0 {
		t.Errorf("the fence is %d, that of the row is %d", writer.Fence(), row)
	}
}

// An upload whose writer is locked delays no other one.
func TestSettle_AbandonsUploadsBesideALockedWriter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	locked, free, one := b.Tenant(1<<20), b.Tenant(1<<20), b.process()
	for _, p := range []account.Principal{locked, locked, free} {
		one.unrecorded(p, 100)
	}
	conn, err := pgx.Connect(t.Context(), b.URL)
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	must(t, check.ErrorOf(conn.Exec(t.Context(), `BEGIN`)))
	must(t, check.ErrorOf(conn.Exec(t.Context(), `SELECT FROM upload_writer WHERE account_id = $1 FOR UPDATE`, locked.Account.ID)))
	if err := one.Uploads.Settle(t.Context(), true); err == nil {
		t.Error("an upload whose writer is locked was abandoned")
	}
	if queued, waiting := b.queued(free), b.queued(locked); len(queued) != 1 || len(waiting) != 0 {
		t.Errorf("%v and %v are to be removed", queued, waiting)
	}
	must(t, check.ErrorOf(conn.Exec(t.Context(), `ROLLBACK`)))
	one.settle(true)
	if n := len(b.queued(locked)); n != 2 || b.registered(locked)+b.registered(free) != 0 {
		t.Errorf("%d objects are to be removed, %d writers are registered", n, b.registered(locked)+b.registered(free))
	}
}

// A process that was paused uses its writers only if its lease is not over: others may have ended them.
func TestUpload_OfAProcessWithoutALeaseIsReservedFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, one := b.Tenant(1<<20), b.process()
	first := b.writerOf(one.draft(p, 10))
	one.Uploads.SetLease(b.Clock.Now().Add(-time.Second), false)
	if key := one.draft(p, 10); b.writerOf(key) != 0 {
		t.Errorf("after its lease is over the process has stored %s", key)
	}
	one.Uploads.SetLease(b.Clock.Now().Add(time.Hour), false)
	if key := one.draft(p, 10); b.writerOf(key) != first {
		t.Errorf("with its lease the process has stored %s, its writer is %d", key, first)
	}
	one.Uploads.SetLease(b.Clock.Now().Add(time.Hour), true)
	if key := one.draft(p, 10); b.writerOf(key) == first || b.writerOf(key) == 0 {
		t.Errorf("after its lease had ended the process has stored %s, its former writer is %d", key, first)
	}
}

// After a restore, the number of a writer may be that of another process or account.
func TestCommitStored_RejectsAWriterOfOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, other, one, two := b.Tenant(1<<20), b.Tenant(1<<20), b.process(), b.process()
	writer, err := one.data.Uploads.RegisterWriter(t.Context(), p.Account.ID, p.Account.Bucket, uuid.Nil)
	must(t, err)
	commit := func(by *process, of account.Principal) error {
		item := media.Item{ID: uuid.New(), AccountID: of.Account.ID, AppID: of.App.ID, Access: media.Private, CreatedAt: time.Now(), Version: 1}
		return by.data.Uploads.CommitStored(t.Context(), item, account.Actor{}, upload.NewWriter(writer.Number), uuid.Nil)
	}
	if err := commit(two, p); !errors.Is(err, upload.ErrWriterEnded) {
		t.Errorf("another process: %v", err)
	}
	if err := commit(one, other); !errors.Is(err, upload.ErrWriterEnded) {
		t.Errorf("another account: %v", err)
	}
	must(t, two.data.Uploads.RemoveWriters(t.Context(), []int64{writer.Number}))
	must(t, commit(one, p))
}
