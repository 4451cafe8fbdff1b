package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/upload"
)

// keysOf are the keys of an upload's objects.
func keysOf(id uuid.UUID) []string { return []string{media.ObjectKey(id, media.Original), "second"} }

// Only a process that renewed its lease for as long as a lease lasts declares others dead: after an
// outage of the database all leases have ended, and the first process that is back is not the only
// one that lives.
func TestRuntimeInstance_IsDeclaredDeadByOneThatRenewedItsLease(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	own, other := uuid.New(), uuid.New()
	touch := func(wantLapsed, wantDead bool) {
		t.Helper()
		got, err := store.Installations.TouchRuntime(t.Context(), own, "v1", time.Minute)
		must(t, err)
		if got.Lapsed != wantLapsed || got.Dead != wantDead {
			t.Errorf("%+v, want lapsed %v, dead %v", got, wantLapsed, wantDead)
		}
	}
	_, err := store.Installations.TouchRuntime(t.Context(), other, "v1", time.Minute)
	must(t, err)
	touch(true, false)
	touch(false, false)
	statement(t, url, lapse, other)
	touch(false, false) // it has not renewed its lease for long enough
	statement(t, url, "UPDATE runtime_instance SET alive_since = now() - interval '2 minutes' WHERE id = $1", own)
	touch(false, true)
	statement(t, url, lapse, own) // an outage
	touch(true, false)
	touch(false, false)
	must(t, store.Installations.RemoveDeadRuntimes(t.Context()))
	statement(t, url, "UPDATE runtime_instance SET alive_since = now() - interval '2 minutes' WHERE id = $1", own)
	touch(false, false)
}

// A replica that was killed counts until its lease ends: the others pause for it until then.
func TestRuntimeInstance_DeadReplicaIsPausedForUntilItsLeaseEnds(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	own, other := uuid.New(), uuid.New()
	wantPause := func(want time.Duration) {
		t.Helper()
		must(t, touch(t, store, own, "v1"))
		if got := postgres.BatchPause(store, time.Millisecond); got != want {
			t.Errorf("the pause after a batch of 1 ms is %s, want %s", got, want)
		}
	}
	wantPause(0)
	must(t, touch(t, open(t, url), other, "v1"))
	wantPause(time.Millisecond)
	statement(t, url, lapse, other)
	wantPause(0)
}

// The uploads of a dead process end, with their reservation, and cannot be committed; those of others
// and resumable ones stay.
func TestEndUploads_EndsThoseOfDeadProcessesOnly(t *testing.T) {
	t.Parallel()
	dead, url := setup(t)
	alive, none := open(t, url), open(t, url)
	scopes := tenants(t, dead, 3, 1000)
	deadID := uuid.New()
	must(t, touch(t, dead, deadID, "v1"))
	must(t, touch(t, alive, uuid.New(), "v1"))
	var ended, kept []uploading
	for i, scope := range scopes {
		for range 3 {
			ended = append(ended, newUploading(scope, int64(10+i)))
			must(t, ended[len(ended)-1].open(dead))
		}
		kept = append(kept, newUploading(scope, 100), newUploading(scope, 200))
		must(t, kept[len(kept)-2].open(alive))
		must(t, kept[len(kept)-1].open(none)) // of a process that is not recorded
	}
	resumable := uuid.Must(uuid.NewV7())
	must(t, dead.Uploads.OpenResumable(t.Context(), upload.ResumableState{ItemID: resumable, Scope: scopes[0], Length: 5, Reserved: 5,
		Fields: media.Fields{Access: media.Private}, Expires: time.Now().Add(time.Hour)}))
	end := func(batch, want int) {
		t.Helper()
		if n, err := alive.Uploads.EndUploadsOfDeadProcesses(t.Context(), batch, keysOf, time.Now()); err != nil || n != want {
			t.Errorf("%d uploads were ended, want %d: %v", n, want, err)
		}
	}
	end(100, 0)
	must(t, ended[0].commit(dead)) // it lives
	statement(t, url, lapse, deadID)
	end(5, 5)
	must(t, alive.Installations.RemoveDeadRuntimes(t.Context()))
	end(5, 3) // the rest, so its row is still there
	end(5, 0)
	counts(t, url, 3*300+5+10, "bytes are reserved or used", `SELECT sum(bytes)::bigint FROM account_usage`)
	counts(t, url, 8, "removals are queued", `SELECT count(*) FROM object_removal WHERE keys[2] = 'second' AND abort_multipart`)
	// The process was only paused: it can commit nothing of what was ended.
	must(t, touch(t, dead, deadID, "v1"))
	for _, u := range ended[1:] {
		if err := u.commit(dead); !fault.Is(err, fault.NotFound) {
			t.Errorf("a commit after the end: %v", err)
		}
	}
	counts(t, url, 1, "items", `SELECT count(*) FROM item`)
	for _, u := range kept {
		must(t, u.commit(alive))
	}
	again := newUploading(scopes[0], 1)
	must(t, again.open(dead))
	end(5, 0)
	must(t, again.commit(dead))
}

// An upload of before a restore may have become an item that the restore lost: its objects stay.
func TestEndUploads_KeepsObjectsOfBeforeARestore(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := tenants(t, store, 1, 1000)[0]
	id := uuid.New()
	must(t, touch(t, store, id, "v1"))
	must(t, newUploading(scope, 10).open(store))
	statement(t, url, "UPDATE installation SET resumed_at = now()")
	later := newUploading(scope, 20)
	must(t, later.open(store))
	statement(t, url, lapse, id)
	if n, err := open(t, url).Uploads.EndUploadsOfDeadProcesses(t.Context(), 5, keysOf, time.Now()); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	if number(t, url, `SELECT count(*) FROM object_removal WHERE keys[1] = $1`, media.ObjectKey(later.id, media.Original)) != 1 {
		t.Error("the removal is not that of the later upload")
	}
	if removals, bytes := number(t, url, `SELECT count(*) FROM object_removal`), number(t, url, `SELECT bytes FROM account_usage`); removals != 1 || bytes != 0 {
		t.Errorf("%d removals, %d bytes", removals, bytes)
	}
}

// A draft of before a restore may have been sealed in what the restore lost: it is purged only when the restore
// itself is older than the cutoff.
func TestPurgeDrafts_KeepsDraftsOfBeforeARestore(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	drafts(t, url, tenants(t, store, 1, 1000)[0], 1)
	restored := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)
	statement(t, url, "UPDATE item SET created_at = $1", restored.Add(-time.Hour))
	statement(t, url, "UPDATE installation SET resumed_at = $1", restored)
	if purged, err := store.Items.PurgeDrafts(t.Context(), restored, 10); err != nil || purged != 0 {
		t.Errorf("purged %d drafts of before the restore, %v", purged, err)
	}
	if purged, err := store.Items.PurgeDrafts(t.Context(), restored.Add(time.Second), 10); err != nil || purged != 1 {
		t.Errorf("purged %d drafts when the restore was old, %v", purged, err)
	}
}

// A process that ends while it still has uploads, because it could not abandon them, leaves its row.
func TestRuntimeInstance_LeavesItsRowWithItsUploads(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	u := newUploading(tenants(t, store, 1, 1000)[0], 10)
	id := uuid.New()
	must(t, touch(t, store, id, "v1"))
	must(t, u.open(store))
	must(t, store.Installations.RemoveRuntime(t.Context(), id))
	if found, err := store.Installations.ServingRuntimes(t.Context()); err != nil || found.Replicas != 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if n, err := open(t, url).Uploads.EndUploadsOfDeadProcesses(t.Context(), 5, keysOf, time.Now()); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	must(t, store.Installations.RemoveDeadRuntimes(t.Context()))
	counts(t, url, 0, "rows", `SELECT count(*) FROM runtime_instance`)
}
