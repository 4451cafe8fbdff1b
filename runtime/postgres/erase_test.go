package postgres_test

import (
	"context"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres"
)

// seedItems adds sealed items to every app of the account, with what the service writes beside
// them: totals, groups, entries of the pagination index, renditions and queued removals.
func seedItems(t *testing.T, url string, id uuid.UUID, items int) {
	t.Helper()
	exec(t, url, `INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, sealed_at)
		SELECT gen_random_uuid(), app.account_id, app.id, 'photo.jpg', 'private', '', 'group ' || n % 1000, '[]', 7, now(), now()
		FROM app, generate_series(1, $2) AS n WHERE app.account_id = $1`, id, items)
	exec(t, url, `INSERT INTO group_total (app_id, group_label, slot, private_items)
		SELECT app_id, group_label, 0, count(*) FROM item WHERE account_id = $1 GROUP BY 1, 2`, id)
	exec(t, url, `INSERT INTO item_page_delta (app_id, id, group_label, delta, public) SELECT app_id, id, group_label, 1, false FROM item WHERE account_id = $1`, id)
	exec(t, url, `INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
		SELECT $1, 'b', '{}', false, now() FROM generate_series(1, $2 / 10)`, id, items)
	exec(t, url, `INSERT INTO rendition (item_id, key, id, account_id, preset, recipe_id, ready, bytes, lease_ends, sha256)
		SELECT id, sha256(uuid_send(id)), gen_random_uuid(), account_id, 'a', decode(repeat('00', 16), 'hex'), true, 3, now(), '' FROM item WHERE account_id = $1`, id)
	exec(t, url, `INSERT INTO rendition_total (account_id, preset, recipe_id, items, bytes)
		SELECT account_id, preset, recipe_id, count(*), sum(bytes) FROM rendition WHERE account_id = $1 GROUP BY 1, 2, 3`, id)
	exec(t, url, `INSERT INTO journal (account_id, app_id, item_id, type) SELECT account_id, app_id, id, 'media.sealed' FROM item WHERE account_id = $1`, id)
	exec(t, url, `UPDATE account_usage u SET bytes = s.bytes + r.bytes, rendition_bytes = r.bytes FROM (SELECT coalesce(sum(bytes), 0) AS bytes FROM item WHERE account_id = $1) AS s,
		(SELECT coalesce(sum(bytes), 0) AS bytes FROM rendition WHERE account_id = $1) AS r WHERE u.account_id = $1`, id)
	exec(t, url, `UPDATE app_total t SET private_items = s.n, bytes = s.bytes FROM
		(SELECT app_id, count(*) AS n, sum(bytes) AS bytes FROM item WHERE account_id = $1 GROUP BY 1) AS s WHERE t.app_id = s.app_id AND t.slot = 3`, id)
}

// provision returns a new account with two apps.
func provision(t *testing.T, r *account.Registry, name string) account.Account {
	t.Helper()
	named := spec
	named.Name, named.ObjectUID, named.NamespaceUID = name, "object-of-"+name, "namespace"
	made, err := r.Ensure(t.Context(), named)
	must(t, err)
	_, _, err = r.OpenApps(t.Context(), made.ID, []string{"blog"})
	must(t, err)
	return made
}

// closeToErase closes an account whose media is deleted at once, and begins the erasure.
func closeToErase(t *testing.T, r *account.Registry, id uuid.UUID) {
	t.Helper()
	_, err := r.Close(t.Context(), id, account.CloseOptions{Erase: true, EraseAfter: value(time.Duration(0))})
	must(t, err)
	must(t, check.ErrorOf(r.BeginErasure(t.Context(), id)))
	must(t, r.SetBucketRemoved(t.Context(), id))
}

// itemsEnv is the number of items of the largest tables, which `make test-erasure` and `make test-migrations` set to a million.
const itemsEnv = "MEDIASTACK_TEST_ITEMS"

// itemsOr returns this number, or another one if it is not set.
func itemsOr(t *testing.T, number int) int {
	t.Helper()
	if text := os.Getenv(itemsEnv); text != "" {
		var err error
		number, err = strconv.Atoi(text)
		must(t, err)
	}
	return number
}

// Every batch once counted the items that were left, and scanned those that were deleted before:
// 100,000 items took 15 minutes.
func TestErasure_IsLinearInItems(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	tables := []string{"stored_item", "item_page_delta", "group_total", "object_removal", "rendition", "rendition_total", "journal"}
	withoutAutovacuum(t, database) // what it reads would be counted
	many := itemsOr(t, 50_000)
	few := many / 10
	rows := map[int]int{}
	for _, items := range []int{few, many} {
		start := time.Now()
		id := closedWithItems(t, database, items)
		before := touched(t, database)
		// As long as a transaction is open that began before, index entries of deleted rows are read again. Autovacuum has such
		// transactions now and then: with this one, each run reads the same. A million would take a statement longer than a second.
		older := connect(t, database)
		if os.Getenv(itemsEnv) == "" {
			must(t, check.ErrorOf(older.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM account`)))
		}
		// A statement over a second fails.
		limited, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: withSetting(t, database, "statement_timeout", "1000")})
		must(t, err)
		t.Logf("seeded in %s", time.Since(start))
		start = time.Now()
		for done := false; !done; {
			batches := 0
			done, err = limited.Accounts.EraseRows(t.Context(), id, func() bool { batches++; return batches < 200 })
			must(t, err)
		}
		limited.Close()
		must(t, older.Close(t.Context()))
		t.Logf("%d items: erased in %s", items, time.Since(start))
		rows[items] = touched(t, database) - before
		for _, table := range append([]string{"account", "app", "app_total", "account_usage"}, tables...) {
			if n := number(t, database, "SELECT count(*) FROM "+table); n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
	}
	ratio := float64(rows[many]) / float64(rows[few])
	t.Logf("rows and index entries: %v, %.1f times as many", rows, ratio)
	if ratio > 12 {
		t.Errorf("the erasure of %d items read %.1f times as many rows and index entries as that of %d", many, ratio, few)
	}
}

// closedWithItems returns an account that is to be erased.
func closedWithItems(t *testing.T, database string, items int) uuid.UUID {
	t.Helper()
	store, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: database})
	must(t, err)
	defer store.Close()
	r := registry(store)
	made := provision(t, r, "demo")
	seedItems(t, database, made.ID, items/2)
	closeToErase(t, r, made.ID)
	exec(t, database, "ANALYZE") // as autovacuum does: the planner knows that all rows are of one account
	return made.ID
}

// touched returns how many rows and index entries were read since the database was created. It waits
// until no other session exists: a session reports what it read when it ends.
func touched(t *testing.T, url string) int {
	t.Helper()
	testenv.Connections(t, url).Reset() // it ends those of the test's own statements
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	for others := 1; others > 0; {
		must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others))
	}
	var read int
	must(t, conn.QueryRow(t.Context(), `SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes) + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)`).Scan(&read))
	return read
}

// withSetting returns the URL of a database with a setting of the sessions.
func withSetting(t *testing.T, text, name, value string) string {
	t.Helper()
	u, err := url.Parse(text)
	must(t, err)
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

// A statement of an erasure that took too long was Unavailable, so that the operator declared PostgreSQL away for all accounts.
func TestErasure_AStatementThatTakesTooLongIsNoOutage(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	store, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: database, DatabaseConns: 1})
	must(t, err)
	t.Cleanup(store.Close)
	r := registry(store)
	made := provision(t, r, "demo")
	seedItems(t, database, made.ID, 3)
	closeToErase(t, r, made.ID)
	blocking, err := pgx.Connect(t.Context(), database)
	must(t, err)
	defer func() { _ = blocking.Close(context.Background()) }()
	tx, err := blocking.Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(tx.Exec(t.Context(), `SELECT FROM stored_item FOR UPDATE`)))
	postgres.EraseTimeout(store, 50*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout(t))
	defer cancel()
	if done, err := r.EraseRows(ctx, made.ID, always); done || !fault.Is(err, fault.Busy) {
		t.Errorf("while a row is locked: %t, %v, want Busy", done, err)
	}
	must(t, tx.Rollback(t.Context()))
	postgres.EraseTimeout(store, time.Minute)
	if done, err := r.EraseRows(ctx, made.ID, always); !done || err != nil {
		t.Errorf("afterwards: %t, %v", done, err)
	}
	// The connection, which is the only one, has the settings of before.
	for name, want := range map[string]string{"statement_timeout": "0", "plan_cache_mode": "auto", "enable_seqscan": "on", "enable_bitmapscan": "on", "jit": "off"} {
		if got, err := postgres.Setting(ctx, store, name); err != nil || got != want {
			t.Errorf("%s is %q afterwards, want %q: %v", name, got, want, err)
		}
	}
}

func TestErasure_RequiresAClosedAccountWhoseTimeHasCome(t *testing.T) {
	t.Parallel()
	store, database := setup(t)
	r := registry(store)
	rejects := func(id uuid.UUID, when string) {
		t.Helper()
		rows := version(t, database, "stored_item")
		if _, err := r.BeginErasure(t.Context(), id); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", when, err)
		}
		must(t, r.SetBucketRemoved(t.Context(), id))
		if done, err := r.EraseRows(t.Context(), id, always); done || !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: the rows: %t, %v", when, done, err)
		}
		if version(t, database, "stored_item") != rows {
			t.Errorf("%s: items are gone", when)
		}
	}
	open := provision(t, r, "open")
	seedItems(t, database, open.ID, 3)
	rejects(open.ID, "an open account")
	closeAccount(t, r, open.ID)
	rejects(open.ID, "a retained account")

	later := provision(t, r, "later")
	seedItems(t, database, later.ID, 3)
	closed, err := r.Close(t.Context(), later.ID, account.CloseOptions{Erase: true, EraseAfter: value(time.Hour)})
	must(t, err)
	if got := closed.EraseAfter.Sub(*closed.ClosedAt); got != time.Hour {
		t.Errorf("the media is kept for %s, want 1h", got)
	}
	rejects(later.ID, "an account that is erased later")

	now := provision(t, r, "now")
	seedItems(t, database, now.ID, 3)
	must(t, check.ErrorOf(r.Close(t.Context(), now.ID, account.CloseOptions{Erase: true, EraseAfter: value(time.Duration(0))})))
	first, err := r.BeginErasure(t.Context(), now.ID)
	must(t, err)
	again, err := r.BeginErasure(t.Context(), now.ID)
	must(t, err)
	if first.ErasingAt == nil || !again.ErasingAt.Equal(*first.ErasingAt) {
		t.Errorf("begun at %v, and again at %v", first.ErasingAt, again.ErasingAt)
	}
	if done, err := r.EraseRows(t.Context(), now.ID, always); done || !fault.Is(err, fault.Conflict) || number(t, database, "SELECT count(*) FROM item WHERE account_id = $1", now.ID) != 6 {
		t.Errorf("rows are deleted before the bucket: %t, %v", done, err)
	}
	if left, err := r.ItemsToErase(t.Context(), now.ID); err != nil || left != 6 {
		t.Errorf("items left %d, %v", left, err)
	}
	must(t, r.SetBucketRemoved(t.Context(), now.ID))
	if done, err := r.EraseRows(t.Context(), now.ID, always); !done || err != nil {
		t.Errorf("erase: %t, %v", done, err)
	}
	if _, err := r.BeginErasure(t.Context(), now.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("an account that is gone: %v", err)
	}
	if n := number(t, database, "SELECT count(*) FROM item"); n != 12 {
		t.Errorf("the other accounts have %d items", n)
	}
}

// Re-applying a MediaAccount opens its account again until the erasure has begun.
func TestErasure_ExcludesOpeningTheAccountAgain(t *testing.T) {
	t.Parallel()
	store, database := setup(t)
	r := registry(store)
	for name, begin := range map[string]bool{"before": false, "after": true} {
		made := provision(t, r, name)
		seedItems(t, database, made.ID, 2)
		must(t, check.ErrorOf(r.Close(t.Context(), made.ID, account.CloseOptions{Erase: true, EraseAfter: value(time.Duration(0))})))
		if begin {
			must(t, check.ErrorOf(r.BeginErasure(t.Context(), made.ID)))
		}
		applied := spec
		applied.Name, applied.ObjectUID, applied.NamespaceUID = name, "another object", "namespace"
		opened, err := r.Ensure(t.Context(), applied)
		if begin {
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("opened while it is erased: %v", err)
			}
			continue
		}
		must(t, err)
		if opened.ID != made.ID || opened.EraseAfter != nil {
			t.Errorf("opened %+v, want %s", opened, made.ID)
		}
		if _, err := r.BeginErasure(t.Context(), made.ID); !fault.Is(err, fault.Conflict) {
			t.Errorf("the erasure of an account that was opened again: %v", err)
		}
	}
}

func TestClose_KeepsSealedItemsForADayByDefault(t *testing.T) {
	t.Parallel()
	store, database := setup(t)
	r := registry(store)
	for name, items := range map[string]int{"with-items": 1, "without": 0} {
		made := provision(t, r, name)
		seedItems(t, database, made.ID, items)
		closed, err := r.Close(t.Context(), made.ID, account.CloseOptions{Erase: true})
		must(t, err)
		want := time.Duration(0)
		if items > 0 {
			want = 24 * time.Hour
		}
		if closed.EraseAfter == nil || closed.EraseAfter.Sub(*closed.ClosedAt) != want {
			t.Errorf("%s: closed %v, erased after %v, want %s", name, closed.ClosedAt, closed.EraseAfter, want)
		}
	}
}

func TestAbandon_RetainsUntilTheBucketIsGone(t *testing.T) {
	t.Parallel()
	store, database := setup(t)
	r := registry(store)
	made := provision(t, r, "demo")
	seedItems(t, database, made.ID, 2)
	if _, err := r.Abandon(t.Context(), made.ID); !fault.Is(err, fault.Conflict) {
		t.Errorf("an open account: %v", err)
	}
	_, err := r.Close(t.Context(), made.ID, account.CloseOptions{Erase: true, EraseAfter: value(time.Duration(0))})
	must(t, err)
	must(t, check.ErrorOf(r.BeginErasure(t.Context(), made.ID)))
	if kept, err := r.Abandon(t.Context(), made.ID); err != nil || kept.ErasingAt != nil || kept.EraseAfter != nil || kept.ClosedAt == nil {
		t.Errorf("abandoned as %+v, %v", kept, err)
	}
	if _, err := r.BeginErasure(t.Context(), made.ID); !fault.Is(err, fault.Conflict) {
		t.Errorf("the erasure of an abandoned account: %v", err)
	}
	gone := provision(t, r, "gone")
	closeToErase(t, r, gone.ID)
	if _, err := r.Abandon(t.Context(), gone.ID); !fault.Is(err, fault.Conflict) {
		t.Errorf("an account without a bucket: %v", err)
	}
}

// A status with the id of another tenant's account once erased that tenant's items.
func TestFindOfObject_RequiresTheObject(t *testing.T) {
	t.Parallel()
	store, database := setup(t)
	r := registry(store)
	made := provision(t, r, "demo")
	is := func(uid, when string, want bool) {
		t.Helper()
		found, err := r.FindOfObject(t.Context(), spec.Namespace, "demo", uid)
		if want && (err != nil || found.ID != made.ID) || !want && !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %s, %v", when, found.ID, err)
		}
	}
	is("object-of-demo", "its object", true)
	is("another", "another object of that name", false)
	exec(t, database, `UPDATE account SET namespace_uid = '', object_uid = ''`)
	is("another", "the object after a take-over", true)
	exec(t, database, `UPDATE account SET namespace_uid = 'namespace', object_uid = 'object-of-demo'`)
	closeAccount(t, r, made.ID)
	is("object-of-demo", "its object, closed", true)
	is("another", "another object, closed", false)
}
