package postgres_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres"
)

// seedItems adds sealed items to every app of the account, with what the service writes beside
// them: totals, groups, entries of the pagination index and queued removals.
func seedItems(t *testing.T, url string, id uuid.UUID, items int) {
	t.Helper()
	exec(t, url, `INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, sealed_at)
		SELECT gen_random_uuid(), app.account_id, app.id, 'photo.jpg', 'private', '', 'group ' || n % 1000, '[]', 7, now(), now()
		FROM app, generate_series(1, $2) AS n WHERE app.account_id = $1`, id, items)
	exec(t, url, `INSERT INTO group_total (app_id, group_label, slot, private_items)
		SELECT app_id, group_label, 0, count(*) FROM item WHERE account_id = $1 GROUP BY 1, 2`, id)
	exec(t, url, `INSERT INTO item_page_delta (app_id, id, delta, public) SELECT app_id, id, 1, false FROM item WHERE account_id = $1`, id)
	exec(t, url, `INSERT INTO object_removal (account_id, bucket, keys, abort_multipart, not_before)
		SELECT $1, 'b', '{}', false, now() FROM generate_series(1, $2 / 10)`, id, items)
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
	_, err = r.SetApps(t.Context(), made.ID, []string{"blog"})
	must(t, err)
	return made
}

// closeToErase closes an account whose media is deleted at once, and begins the erasure.
func closeToErase(t *testing.T, r *account.Registry, id uuid.UUID) {
	t.Helper()
	_, err := r.Close(t.Context(), id, account.CloseOptions{Erase: true, EraseAfter: value(time.Duration(0))})
	must(t, err)
	_, err = r.BeginErasure(t.Context(), id)
	must(t, err)
	must(t, r.SetBucketRemoved(t.Context(), id))
}

// Every batch once counted the items that were left, and scanned those that were deleted before:
// 100,000 items took 15 minutes.
func TestErasure_IsLinearInItems(t *testing.T) {
	t.Parallel()
	store, database := setup(t)
	r := registry(store)
	const few, many = 100_000, 1_000_000
	pages := map[int]int{}
	for _, items := range []int{few, many} {
		start := time.Now()
		made := provision(t, r, "demo")
		seedItems(t, database, made.ID, items/2)
		closeToErase(t, r, made.ID)
		exec(t, database, "ANALYZE") // as autovacuum does: the planner knows that all rows are of one account
		before := touched(t, database)
		// A statement over a second fails.
		limited, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: withSetting(t, database, "statement_timeout", "1000")})
		must(t, err)
		t.Logf("seeded in %s", time.Since(start))
		start = time.Now()
		for done := false; !done; {
			batches := 0
			done, err = limited.EraseRows(t.Context(), made.ID, func() bool { batches++; return batches < 200 })
			must(t, err)
		}
		limited.Close()
		pages[items] = touched(t, database) - before
		t.Logf("%d items: %d pages in %s", items, pages[items], time.Since(start))
		for _, table := range []string{"account", "app", "item", "item_page_delta", "group_total", "object_removal", "app_total", "account_usage"} {
			if n := number(t, database, "SELECT count(*) FROM "+table); n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
	}
	if ratio := float64(pages[many]) / float64(pages[few]); ratio > 12 {
		t.Errorf("%d items touched %.1f times as many pages as %d", many, ratio, few)
	}
}

// touched returns how many pages were read since the database was created. Sessions that ended
// are counted.
func touched(t *testing.T, url string) int {
	t.Helper()
	return int(number(t, url, `SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()`))
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

var _ = testenv.Postgres
var _ = fault.Is
