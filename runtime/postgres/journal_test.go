package postgres_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/upload"
)

// journaled returns an account with a journal, as an actor uses it.
func journaled(t *testing.T, store *postgres.Store, actor account.Actor) media.Scope {
	t.Helper()
	with := spec
	with.Name, with.ObjectUID, with.Journal = "journaled", "uid of journaled", 7*24*time.Hour
	made, err := registry(store).Ensure(t.Context(), with)
	must(t, err)
	apps, _, err := registry(store).OpenApps(t.Context(), made.ID, nil)
	must(t, err)
	return media.Scope{AccountID: made.ID, AppID: apps[0].ID, Bucket: made.Bucket, Actor: actor}
}

// events returns what the journal tells of an account, without events of keys.
func events(t *testing.T, store *postgres.Store, accountID uuid.UUID) []journal.Event {
	t.Helper()
	state, err := store.Journal.JournalState(t.Context(), accountID)
	must(t, err)
	read, err := store.Journal.Events(t.Context(), journal.Query{AccountID: accountID, Epoch: state.Epoch, Oldest: state.Oldest, Limit: 1000, Examined: 1000})
	must(t, err)
	return slices.DeleteFunc(read.Events, func(e journal.Event) bool { return e.Type == journal.KeyIssued })
}

// told returns events in a short form.
func told(all []journal.Event) string {
	lines := make([]string, len(all))
	for i, e := range all {
		lines[i] = fmt.Sprintf("%s %d %s", strings.TrimPrefix(string(e.Type), "media."), e.Sequence, e.Actor.Kind)
		if len(e.Fields) > 0 {
			lines[i] += " " + strings.Join(e.Fields, ",")
		}
	}
	return strings.Join(lines, "; ")
}

// newDraft returns an item that is not committed.
func newDraft(scope media.Scope) media.Item {
	id := uuid.Must(uuid.NewV7())
	return media.Item{ID: id, AccountID: scope.AccountID, AppID: scope.AppID, FileName: "a.jpg", Access: media.Private, Group: "album", CreatedAt: time.Now(),
		Objects: media.Objects{{Variant: media.Original, Key: media.ObjectKey(id, media.Original), Bytes: 10, MimeType: "image/jpeg"}}}
}

// commitDraft commits an item that a writer has stored.
func commitDraft(t *testing.T, store *postgres.Store, scope media.Scope, change func(*media.Item)) media.Item {
	t.Helper()
	writer, err := store.Uploads.RegisterWriter(t.Context(), scope.AccountID, scope.Bucket, uuid.New())
	must(t, err)
	item := newDraft(scope)
	if change != nil {
		change(&item)
	}
	must(t, store.Uploads.CommitStored(t.Context(), item, scope.Actor, writer, uuid.Nil))
	return item
}

func TestJournal_TellsEveryChangeOfAnItem(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	_, err := store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Minute)
	must(t, err)
	scope := journaled(t, store, account.Actor{Kind: account.ActorLogin, ID: "grant", Name: "Photos", Email: "a***@example.org"})
	caption := func(item media.Item, _ bool) (media.Item, bool, error) {
		item.Caption, item.Focus = "new", &media.FocusPoint{X: 1, Y: 2}
		return item, true, nil
	}
	window := func() media.UndoWindow { return media.UndoWindow{From: time.Now(), Until: time.Now().Add(time.Hour)} }
	for name, c := range map[string]struct {
		do   func(t *testing.T) uuid.UUID
		want string
	}{
		"a small upload": {func(t *testing.T) uuid.UUID {
			item := commitDraft(t, store, scope, nil)
			must(t, check.ErrorOf(store.Items.Seal(t.Context(), scope, item.ID, time.Now())))
			must(t, check.ErrorOf(store.Items.Seal(t.Context(), scope, item.ID, time.Now()))) // again
			must(t, check.ErrorOf(store.Items.UpdateItem(t.Context(), scope, item.ID, caption)))
			must(t, check.ErrorOf(store.Items.DeleteItem(t.Context(), scope, item.ID, time.Now())))
			return item.ID
		}, "uploaded 1 login; sealed 2 login; updated 3 login caption,focus; deleted 4 login"},
		"a large upload": {func(t *testing.T) uuid.UUID {
			item := newDraft(scope)
			must(t, store.Uploads.OpenUpload(t.Context(), item.ID, scope, 10, time.Now().Add(time.Hour)))
			must(t, store.Uploads.CommitUpload(t.Context(), item, scope.Actor))
			must(t, check.ErrorOf(store.Items.DeleteItem(t.Context(), scope, item.ID, time.Now())))
			return item.ID
		}, "uploaded 1 login; deleted 2 login"},
		"an upload of another size that is sealed": {func(t *testing.T) uuid.UUID {
			item := newDraft(scope)
			must(t, store.Uploads.OpenUpload(t.Context(), item.ID, scope, 5, time.Now().Add(time.Hour)))
			now := time.Now()
			item.SealedAt = &now
			must(t, store.Uploads.CommitUpload(t.Context(), item, scope.Actor))
			return item.ID
		}, "uploaded 1 login; sealed 2 login"},
		"a delete that is undone": {func(t *testing.T) uuid.UUID {
			item := commitDraft(t, store, scope, nil)
			must(t, check.ErrorOf(store.Items.Seal(t.Context(), scope, item.ID, time.Now())))
			must(t, check.ErrorOf(store.Items.DeleteItemUndoably(t.Context(), scope, item.ID, window(), time.Now())))
			_, restored, err := store.Items.RestoreItem(t.Context(), scope, item.ID)
			must(t, err)
			if !restored {
				t.Error("it is not restored")
			}
			_, again, err := store.Items.RestoreItem(t.Context(), scope, item.ID)
			must(t, err)
			if again {
				t.Error("it is restored twice")
			}
			must(t, check.ErrorOf(store.Items.DeleteItemUndoably(t.Context(), scope, item.ID, window(), time.Now())))
			must(t, check.ErrorOf(store.Items.DeleteItemPermanently(t.Context(), scope, item.ID, time.Now())))
			return item.ID
		}, "uploaded 1 login; sealed 2 login; deleted 3 login; restored 4 login; deleted 5 login; purged 6 login"},
		"a draft that expires": {func(t *testing.T) uuid.UUID {
			item := commitDraft(t, store, scope, func(item *media.Item) { item.CreatedAt = time.Now().Add(-48 * time.Hour) })
			must(t, check.ErrorOf(store.Items.PurgeDrafts(t.Context(), time.Now().Add(-24*time.Hour), 10)))
			return item.ID
		}, "uploaded 1 login; purged 2 purge"},
		"a deleted draft": {func(t *testing.T) uuid.UUID {
			item := commitDraft(t, store, scope, nil)
			must(t, check.ErrorOf(store.Items.DeleteItemUndoably(t.Context(), scope, item.ID, window(), time.Now())))
			return item.ID
		}, "uploaded 1 login; deleted 2 login"},
		"derivatives that are made later": {func(t *testing.T) uuid.UUID {
			item := commitDraft(t, store, scope, func(item *media.Item) { item.Derivatives = media.DerivativesPending })
			writer, err := store.Uploads.RegisterWriter(t.Context(), scope.AccountID, scope.Bucket, uuid.New())
			must(t, err)
			must(t, store.Uploads.FinishDerivatives(t.Context(), upload.MadeDerivatives{AccountID: scope.AccountID, ItemID: item.ID, Writer: writer,
				Objects: media.Objects{{Variant: media.Thumbnail, Key: "t", Bytes: 1}, {Variant: media.WebP, Key: "w", Bytes: 1}}}))
			return item.ID
		}, "uploaded 1 login; updated 2 service thumbnail,file"},
	} {
		t.Run(name, func(t *testing.T) {
			id := c.do(t)
			var of []journal.Event
			for _, e := range events(t, store, scope.AccountID) {
				if e.ItemID == id {
					of = append(of, e)
				}
			}
			if got := told(of); got != c.want {
				t.Errorf("the journal tells %s\nwant %s", got, c.want)
			}
			for _, e := range of {
				if e.AppID != scope.AppID || e.Group != "album" || e.At.IsZero() || e.Actor.Kind == account.ActorLogin && e.Actor != scope.Actor {
					t.Errorf("an event is %+v", e)
				}
			}
		})
	}
}

// A deleted item that ends for an upload, or by its time, is told.
func TestJournal_TellsWhatEndsByItself(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	_, err := store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Minute)
	must(t, err)
	scope := journaled(t, store, account.Actor{Kind: account.ActorKey, ID: "key"})
	deleted := func(until time.Time) uuid.UUID {
		item := commitDraft(t, store, scope, func(item *media.Item) { item.Objects[0].Bytes = 600 })
		must(t, check.ErrorOf(store.Items.Seal(t.Context(), scope, item.ID, time.Now())))
		must(t, check.ErrorOf(store.Items.DeleteItemUndoably(t.Context(), scope, item.ID, media.UndoWindow{From: time.Now(), Until: until}, time.Now())))
		return item.ID
	}
	first := deleted(time.Now().Add(time.Hour))
	second := deleted(time.Now().Add(-time.Hour)) // the cap is 1,000 bytes
	must(t, check.ErrorOf(store.Items.EndTombstones(t.Context(), time.Now(), 10)))
	var purged []uuid.UUID
	for _, e := range events(t, store, scope.AccountID) {
		if e.Type == journal.MediaPurged {
			purged = append(purged, e.ItemID)
			if e.Actor.Kind != account.ActorPurge || e.Sequence != 4 {
				t.Errorf("an event is %+v", e)
			}
		}
	}
	if !slices.Equal(purged, []uuid.UUID{first, second}) {
		t.Errorf("purged are %v, want %v", purged, []uuid.UUID{first, second})
	}
}

func TestJournal_IsEmptyWithoutOne(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	_, err := store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Minute)
	must(t, err)
	scope := provisioned(t, store)
	item := commitDraft(t, store, scope, nil)
	must(t, check.ErrorOf(store.Items.Seal(t.Context(), scope, item.ID, time.Now())))
	must(t, check.ErrorOf(store.Items.DeleteItem(t.Context(), scope, item.ID, time.Now())))
	counts(t, url, 0, "events", "SELECT count(*) FROM journal")
	if state, err := store.Journal.JournalState(t.Context(), scope.AccountID); err != nil || state.Retention != 0 || state.Oldest == 0 {
		t.Errorf("the state is %+v, %v", state, err)
	}
}

// What a statement does to items without an event must have a reason here.
func TestJournal_StatementsThatChangeItemsTellIt(t *testing.T) {
	t.Parallel()
	silent := map[string]string{
		"SetFacts":           "it records what the file has had all the time",
		"SkipFacts":          "it marks the item as read",
		"EraseItems":         "the journal of the account is erased, too",
		"PostponeTombstones": "the time at which it ends is in no event",
		"RepairItemBytes":    "the sum is in no document",
		"PassItem":           "the seal that follows is an event of its own",
		"SetItemObjects":     "the check names what it repairs to the administrator",
	}
	changes := regexp.MustCompile(`(?i)\b(INSERT INTO|UPDATE|DELETE FROM)\s+(stored_)?item\s`)
	files, err := filepath.Glob("queries/*.sql")
	must(t, err)
	telling := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, query := range strings.Split(string(text), "-- name: ")[1:] {
			name, _, _ := strings.Cut(query, " ")
			switch {
			case !changes.MatchString(query):
			case strings.Contains(query, "INSERT INTO journal"):
				telling++
			case silent[name] == "":
				t.Errorf("%s: %s changes items and tells nothing", file, name)
			default:
				delete(silent, name)
			}
		}
	}
	if telling < 9 || len(silent) > 0 {
		t.Errorf("%d statements tell something; these change no item: %v", telling, silent)
	}
}

// days returns the partitions of the journal.
func days(t *testing.T, url string) (names []string) {
	t.Helper()
	rows, err := connect(t, url).Query(t.Context(), `SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'journal'::regclass ORDER BY 1`)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		must(t, rows.Scan(&name))
		names = append(names, name)
	}
	must(t, rows.Err())
	return names
}

func TestJournal_HasAPartitionForEachDay(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := journaled(t, store, account.Actor{})
	add := func(at string) {
		t.Helper()
		exec(t, url, `INSERT INTO journal (account_id, type, at) VALUES ($1, 'media.sealed', now() + $2::interval)`, scope.AccountID, at)
	}
	exec(t, url, `DELETE FROM journal`)
	add("1 day") // no partition is there yet
	made, err := store.Journal.PrepareJournal(t.Context(), 3)
	must(t, err)
	if made != 3 {
		t.Errorf("%d partitions are made, want those of today, and of the third and fourth day", made)
	}
	if made, err := store.Journal.PrepareJournal(t.Context(), 3); err != nil || made != 0 {
		t.Errorf("again: %d, %v", made, err)
	}
	today := "journal_" + time.Now().UTC().Format("20060102")
	if names := days(t, url); len(names) != 4 || names[0] != today || names[3] != "journal_rest" {
		t.Errorf("the partitions are %v", names)
	}
	add("0")
	add("-8 days")
	counts(t, url, 1, "events of today", "SELECT count(*) FROM "+today)
	counts(t, url, 2, "other events", "SELECT count(*) FROM journal_rest")

	// What nobody can read is deleted. The longest retention of any account counts.
	exec(t, url, `CREATE TABLE journal_20250101 (LIKE journal INCLUDING DEFAULTS); ALTER TABLE journal ATTACH PARTITION journal_20250101 FOR VALUES FROM ('2025-01-01 00:00Z') TO ('2025-01-02 00:00Z')`)
	old := "journal_" + time.Now().UTC().AddDate(0, 0, -7).Format("20060102") // its last event is younger than 7 days
	exec(t, url, fmt.Sprintf(`CREATE TABLE %s (LIKE journal INCLUDING DEFAULTS); ALTER TABLE journal ATTACH PARTITION %[1]s FOR VALUES FROM ('%s') TO ('%s')`, old,
		time.Now().UTC().AddDate(0, 0, -7).Format(time.DateOnly+" 00:00Z"), time.Now().UTC().AddDate(0, 0, -6).Format(time.DateOnly+" 00:00Z")))
	if dropped, err := store.Journal.DropJournal(t.Context()); err != nil || dropped != 1 {
		t.Errorf("%d partitions are dropped: %v", dropped, err)
	}
	if expired, err := store.Journal.ExpireJournal(t.Context(), 10); err != nil || expired != 1 {
		t.Errorf("%d other events have expired: %v", expired, err)
	}
	if names := days(t, url); slices.Contains(names, "journal_20250101") || !slices.Contains(names, old) {
		t.Errorf("the partitions are %v", names)
	}
	counts(t, url, 2, "events", "SELECT count(*) FROM journal")
}

// A statement that uses the journal for long makes the purge leave its work to the next run.
func TestJournal_ThatIsInUseIsLeftToTheNextPurge(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	exec(t, url, `CREATE TABLE journal_20250101 (LIKE journal INCLUDING DEFAULTS); ALTER TABLE journal ATTACH PARTITION journal_20250101 FOR VALUES FROM ('2025-01-01 00:00Z') TO ('2025-01-02 00:00Z')`)
	tx, err := connect(t, url).Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(tx.Exec(t.Context(), `INSERT INTO journal (account_id, type) VALUES ($1, 'media.sealed')`, uuid.New())))
	if made, err := store.Journal.PrepareJournal(t.Context(), 0); err != nil || made != 0 {
		t.Errorf("%d partitions are made: %v", made, err)
	}
	if dropped, err := store.Journal.DropJournal(t.Context()); err != nil || dropped != 0 {
		t.Errorf("%d partitions are dropped: %v", dropped, err)
	}
	must(t, tx.Rollback(t.Context()))
	if made, err := store.Journal.PrepareJournal(t.Context(), 0); err != nil || made != 1 {
		t.Errorf("afterwards %d partitions are made: %v", made, err)
	}
	if dropped, err := store.Journal.DropJournal(t.Context()); err != nil || dropped != 1 {
		t.Errorf("afterwards %d partitions are dropped: %v", dropped, err)
	}
}

// An event that is written while a restore is confirmed has the epoch in which it is committed: one of an earlier epoch would appear behind
// readers of the new one.
func TestJournal_NoEventOfAnEpochAppearsAfterItsEnd(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	must(t, store.Installations.Hold(t.Context(), "restored"))
	state, err := store.Installations.Installation(t.Context())
	must(t, err)
	accountID := journaled(t, store, account.Actor{}).AccountID
	exec(t, url, `DELETE FROM journal`)
	add := func() string {
		return `INSERT INTO journal (account_id, type) VALUES ('` + accountID.String() + `', 'media.sealed')`
	}
	before, err := connect(t, url).Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(before.Exec(t.Context(), add())))
	resumed := make(chan error, 1)
	go func() {
		next := state
		next.Epoch, next.Heartbeat, next.Token = state.Epoch+1, state.Heartbeat+1, uuid.New()
		done, err := store.Installations.Resume(t.Context(), state, next, 0)
		if err == nil && !done {
			err = fmt.Errorf("it is not resumed")
		}
		resumed <- err
	}()
	waits := func(what string, n int64) {
		t.Helper()
		wait.Until(t, what, func() bool {
			return number(t, url, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'journal'::regclass`) == n
		})
	}
	waits("the end of the hold waits for the event", 1)
	after := make(chan error, 1)
	conn := connect(t, url)
	go func() { after <- check.ErrorOf(conn.Exec(t.Context(), add())) }()
	waits("the next event waits for the end of the hold", 2)
	must(t, before.Commit(t.Context()))
	must(t, <-resumed)
	must(t, <-after)
	all := events(t, store, accountID)
	if len(all) != 2 || all[0].Epoch != state.Epoch || all[1].Epoch != state.Epoch+1 {
		t.Errorf("the events are %+v", all)
	}
}

// After a restore from a dump, the numbers of transactions of before may be above those of the server.
func TestJournal_EventsOfEpochsBeforeAreReadFirst(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	accountID := journaled(t, store, account.Actor{}).AccountID
	exec(t, url, `DELETE FROM journal`)
	exec(t, url, `INSERT INTO journal (account_id, type, epoch, xid) VALUES ($1, 'media.sealed', 0, $2), ($1, 'media.deleted', 0, $2)`, accountID, int64(math.MaxInt64))
	exec(t, url, `INSERT INTO journal (account_id, type) VALUES ($1, 'media.uploaded')`, accountID)
	if got := told(events(t, store, accountID)); got != "sealed 0 ; deleted 0 ; uploaded 0 " {
		t.Errorf("the journal tells %s", got)
	}
}

// A transaction of another database, as of another application, does not hold events back; one of this database does.
func TestJournal_WaitsForTransactionsOfItsDatabaseOnly(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	_, other := setup(t)
	accountID := journaled(t, store, account.Actor{}).AccountID
	oldest := func() int64 {
		t.Helper()
		exec(t, url, `UPDATE account SET display_name = display_name`) // a transaction that ends after those that run
		state, err := store.Journal.JournalState(t.Context(), accountID)
		must(t, err)
		return state.Oldest
	}
	open := func(url string) (tx pgx.Tx, xid int64) {
		t.Helper()
		tx, err := connect(t, url).Begin(t.Context())
		must(t, err)
		must(t, tx.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint`).Scan(&xid))
		return tx, xid
	}
	foreign, before := open(other)
	if oldest() <= before {
		t.Error("a transaction of another database holds events back")
	}
	own, xid := open(url)
	_, later := open(url)
	if got := oldest(); got != xid {
		t.Errorf("the oldest transaction is %d, want %d", got, xid)
	}
	must(t, own.Rollback(t.Context()))
	if got := oldest(); got != later {
		t.Errorf("afterwards it is %d, want %d", got, later)
	}
	must(t, foreign.Rollback(t.Context()))
}

func TestJournal_StopsAfterSoManyEventsOfOthers(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	accountID, appID := uuid.New(), uuid.New()
	exec(t, url, `INSERT INTO journal (account_id, app_id, type) SELECT $1, gen_random_uuid(), 'media.sealed' FROM generate_series(1, 25)`, accountID)
	exec(t, url, `INSERT INTO journal (account_id, app_id, type) VALUES ($1, $2, 'media.deleted')`, accountID, appID)
	state, err := store.Installations.Installation(t.Context())
	must(t, err)
	query := journal.Query{AccountID: accountID, AppID: appID, Epoch: state.Epoch, Oldest: math.MaxInt64, Limit: 10, Examined: 10}
	for part, want := range []struct {
		events  int
		stopped bool
	}{{0, true}, {0, true}, {1, false}} {
		read, err := store.Journal.Events(t.Context(), query)
		must(t, err)
		if len(read.Events) != want.events || (read.Stopped != nil) != want.stopped {
			t.Fatalf("part %d has %d events, and stops at %v", part, len(read.Events), read.Stopped)
		}
		if read.Stopped != nil {
			query.After = *read.Stopped
		}
	}
}

// The read failed if the last event that it looked at was of the account, which has no app to compare.
func TestJournal_StopsAtAnEventOfTheAccount(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	accountID, appID := uuid.New(), uuid.New()
	exec(t, url, `INSERT INTO journal (account_id, type) SELECT $1, 'settings.changed' FROM generate_series(1, 10)`, accountID)
	exec(t, url, `INSERT INTO journal (account_id, app_id, type) VALUES ($1, $2, 'media.deleted')`, accountID, appID)
	query := journal.Query{AccountID: accountID, AppID: appID, Epoch: math.MaxInt64, Oldest: math.MaxInt64, Limit: 10, Examined: 10}
	read, err := store.Journal.Events(t.Context(), query)
	must(t, err)
	if len(read.Events) != 0 || read.Stopped == nil {
		t.Fatalf("the first part has %+v, and stops at %v", read.Events, read.Stopped)
	}
	query.After = *read.Stopped
	read, err = store.Journal.Events(t.Context(), query)
	must(t, err)
	if told(read.Events) != "deleted 0 " || read.Stopped != nil {
		t.Errorf("the second part has %+v, and stops at %v", read.Events, read.Stopped)
	}
}
