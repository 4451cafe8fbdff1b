package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/inventory"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/upload"
)

// fill makes drafts of an account, of 10 bytes each, and seals some of them.
func fill(t *testing.T, store *postgres.Store, scope media.Scope, drafts, seals int) {
	t.Helper()
	for i := range drafts {
		id := uuid.Must(uuid.NewV7())
		must(t, store.Uploads.OpenUpload(t.Context(), id, scope, 10, time.Now().Add(time.Hour)))
		must(t, store.Uploads.CommitUpload(t.Context(), media.Item{ID: id, AccountID: scope.AccountID, AppID: scope.AppID, Access: media.Public, CreatedAt: time.Now().Add(-time.Hour),
			Objects: media.Objects{{Variant: media.Original, Key: media.ObjectKey(id, media.Original), Bytes: 10}}}, account.Actor{}))
		if i < seals {
			must(t, check.ErrorOf(store.Items.Seal(t.Context(), scope, id, time.Now())))
		}
	}
}

func TestInventory_SumsUpEveryAccount(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	accounts := registry(store)
	found, err := store.Installations.Inventory(t.Context(), 2)
	must(t, err)
	if len(found.Stored) != 0 || found.OldestDraft != nil || found.Accounts != (inventory.Accounts{}) {
		t.Errorf("an empty installation: %+v", found)
	}
	var ids []uuid.UUID
	for i := range 4 {
		of := spec
		of.Name, of.MaxStorage = fmt.Sprintf("a%d", i), 1000
		made, err := accounts.Ensure(t.Context(), of)
		must(t, err)
		apps, _, err := accounts.OpenApps(t.Context(), made.ID, nil)
		must(t, err)
		scope := media.Scope{AccountID: made.ID, AppID: apps[0].ID}
		fill(t, store, scope, i+1, i)
		ids = append(ids, made.ID)
		must(t, store.Uploads.OpenResumable(t.Context(), upload.ResumableState{ItemID: uuid.Must(uuid.NewV7()), Scope: scope, Fields: media.Fields{Access: media.Private}, Length: 1, Reserved: 1, Expires: time.Now().Add(time.Hour)}))
	}
	closeAccount(t, accounts, ids[3]) // it still stores what it has
	suspended := spec
	suspended.Name, suspended.Suspended = "a1", true
	must(t, check.ErrorOf(accounts.Ensure(t.Context(), suspended)))
	statement(t, url, "INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before, last_error) VALUES ($1, 'b', '{}', false, now(), ''), ($1, 'b', '{}', false, now(), 'denied')", ids[0])
	statement(t, url, `INSERT INTO work (kind, key, due_at, failure) VALUES ('email', gen_random_uuid(), now() - interval '1 hour', ''), ('email', gen_random_uuid(), now() + interval '1 hour', 'down')`)

	for i, state := range []string{"running", "queued", "queued"} {
		statement(t, url, `INSERT INTO fetch_job (id, account_id, app_id, key_id, url, file_name, access, caption, group_label, metadata, seal, created_at, not_before, state, instance_id)
			SELECT gen_random_uuid(), account_id, id, gen_random_uuid(), 'https://a', '', 'private', '', '', '{}', false, now(), now() - interval '1 hour', $2, CASE $2 WHEN 'running' THEN gen_random_uuid() END
			FROM app WHERE account_id = $1 LIMIT 1`, ids[i/2], state)
	}

	for i, state := range []string{"active", "failing", "suspended", "ended"} {
		statement(t, url, `WITH made AS (
				INSERT INTO webhook (id, namespace, name, object_uid, generation, types, apps, groups, format, suspended, target, target_digest, public_key, test, replay, replay_events)
				VALUES (gen_random_uuid(), 'n', $1::text, $1::text, 1, '{}', '{}', '{}', 'standard', $2::int = 2, '', '', '', '', '', '{}') RETURNING id
			) INSERT INTO webhook_progress (webhook_id, epoch, xid, event_id, ended_generation, failing_since)
			SELECT id, 0, 0, 0, CASE $2::int WHEN 3 THEN 1 END, CASE WHEN $2::int > 0 THEN now() - interval '2 hours' END FROM made`, state, i)
	}

	found, err = store.Installations.Inventory(t.Context(), 2)
	must(t, err)
	got := map[string]inventory.Stored{}
	for _, stored := range found.Stored {
		name := stored.Name
		stored.AccountID, stored.Namespace, stored.Name = uuid.Nil, "", ""
		got[name] = stored
	}
	want := map[string]inventory.Stored{
		"a3": {MaxStorage: 1000, UsedBytes: 41, Bytes: 30, Items: 3, Drafts: 1},
		"a2": {MaxStorage: 1000, UsedBytes: 31, Bytes: 20, Items: 2, Drafts: 1},
		"":   {MaxStorage: 2000, UsedBytes: 32, Bytes: 10, Items: 1, Drafts: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if want := (inventory.Accounts{Open: 2, Suspended: 1, Closed: 1}); found.Accounts != want {
		t.Errorf("accounts: %+v", found.Accounts)
	}
	if want := (inventory.Queues{Uploads: 4, ResumableUploads: 4, Removals: 2, RemovalsFailed: 1, Fetches: 2, FetchWaitSeconds: found.Queues.FetchWaitSeconds}); found.Queues != want || found.Queues.FetchWaitSeconds < 3600 {
		t.Errorf("queues: %+v", found.Queues)
	}
	if want := (inventory.Webhooks{Active: 2, Suspended: 1, Ended: 1, Failing: 1}); found.Webhooks != want {
		t.Errorf("webhooks: %+v", found.Webhooks)
	}
	// Kinds without tasks are reported, too.
	for i, want := range []inventory.Work{{Kind: "capture"}, {Kind: "captures"}, {Kind: "cdn_purge"}, {Kind: "derivatives"}, {Kind: "email", Tasks: 2, Failing: 1}, {Kind: "facts"}, {Kind: "fetch"}, {Kind: "locations"}, {Kind: "notice"}, {Kind: "picture"}, {Kind: "removal"}, {Kind: "scan"}, {Kind: "unrecorded_objects"}, {Kind: "webhook"}} {
		if len(found.Work) != 14 || (want.Tasks > 0) != (found.Work[i].WaitSeconds >= 3600) || found.Work[i].WaitSeconds > 3660 {
			t.Fatalf("tasks: %+v", found.Work)
		}
		if found.Work[i].WaitSeconds = 0; found.Work[i] != want {
			t.Errorf("tasks: %+v", found.Work)
		}
	}
	if found.OldestDraft == nil || time.Since(*found.OldestDraft) < time.Hour {
		t.Errorf("the oldest draft is of %v", found.OldestDraft)
	}
	statement(t, url, "UPDATE installation SET resumed_at = now() - interval '1 minute'")
	resumed, err := store.Installations.Inventory(t.Context(), 2)
	must(t, err)
	if resumed.OldestDraft == nil || time.Since(*resumed.OldestDraft) > time.Hour {
		t.Errorf("after a restore, the age of the oldest draft counts from %v", resumed.OldestDraft)
	}
	all, err := store.Installations.Inventory(t.Context(), 0)
	must(t, err)
	if len(all.Stored) != 1 || all.Stored[0].Bytes != 60 || all.Stored[0].Drafts != 4 {
		t.Errorf("without accounts on their own: %+v", all.Stored)
	}
}

func TestRecordPurge_SumsUpTheRuns(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	counts := inventory.PurgeCounts{Drafts: 1, Uploads: 2, Removals: 3, RemovalsFailed: 4, OAuthRows: 5, APIKeys: 6}
	for i, outcome := range []inventory.PurgeOutcome{inventory.Completed, inventory.Completed, inventory.Failed, inventory.Held} {
		at := start.Add(time.Duration(i) * time.Hour)
		must(t, store.Installations.RecordPurge(t.Context(), inventory.PurgeRun{Started: at, Ended: at.Add(time.Minute), Outcome: outcome, NeedsAttention: outcome == inventory.Held, BucketsSkipped: int64(i), PurgeCounts: counts}))
	}
	found, err := store.Installations.Inventory(t.Context(), 0)
	must(t, err)
	want := inventory.Purge{Started: value(start.Add(3 * time.Hour)), Ended: value(start.Add(3*time.Hour + time.Minute)), Succeeded: value(start.Add(time.Hour + time.Minute)),
		NeedsAttention: true, BucketsSkipped: 3, Runs: map[inventory.PurgeOutcome]int64{inventory.Completed: 2, inventory.Failed: 1, inventory.Held: 1},
		PurgeCounts: inventory.PurgeCounts{Drafts: 4, Uploads: 8, Removals: 12, RemovalsFailed: 16, OAuthRows: 20, APIKeys: 24}}
	if diff := cmp.Diff(want, found.Purge, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFirstRuntime_IsTheOneThatHasServedForTheLongestTime(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	first := func(want uuid.UUID) {
		t.Helper()
		if got, err := store.Installations.FirstRuntime(t.Context()); err != nil || got != want {
			t.Errorf("%s %v, want %s", got, err, want)
		}
	}
	first(uuid.Nil)
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	for _, id := range ids {
		must(t, touch(t, store, id, "v1"))
	}
	must(t, touch(t, store, ids[0], "v1"))
	first(ids[0])
	statement(t, url, lapse, ids[0]) // it was killed
	first(ids[1])
	must(t, store.Installations.RemoveRuntime(t.Context(), ids[1])) // it ended
	first(ids[2])
}
