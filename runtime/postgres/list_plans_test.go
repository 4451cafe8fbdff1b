package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// Bounds of the pages of 8 KiB that a list of ten items reads: near an end of the list, and anywhere,
// where up to two blocks of the pagination index are scanned. All rows have more than 4,000.
const (
	maxNearPages = 60
	maxDeepPages = 400
)

// planDatabase is a database for tests of plans, with a small app, a sibling of it in the same account, and
// the app of another account.
type planDatabase struct {
	server                *testenv.PostgresRestartable
	url                   string
	store                 *postgres.Store
	small, sibling, large media.Scope
	conn, explaining      *pgx.Conn
}

func newPlanDatabase(t *testing.T) *planDatabase {
	t.Helper()
	p := &planDatabase{server: testenv.PostgresServer(t)} // of its own: only a superuser may change statistics
	p.url = testenv.Database(t, p.server)
	p.store = open(t, p.url)
	p.small = provisioned(t, p.store)
	apps, _, err := registry(p.store).OpenApps(t.Context(), p.small.AccountID, []string{"sibling"})
	must(t, err)
	p.sibling = p.small
	for _, app := range apps {
		if app.ID != p.small.AppID {
			p.sibling.AppID = app.ID
		}
	}
	of := spec
	of.Name, of.ObjectUID = "large", "uid of large"
	other, err := registry(p.store).Ensure(t.Context(), of)
	must(t, err)
	apps, _, err = registry(p.store).OpenApps(t.Context(), other.ID, nil)
	must(t, err)
	p.large = media.Scope{AccountID: other.ID, AppID: apps[0].ID}
	for _, conn := range []**pgx.Conn{&p.conn, &p.explaining} {
		*conn, err = pgx.Connect(t.Context(), p.url)
		must(t, err)
		t.Cleanup(func() { _ = (*conn).Close(context.Background()) })
	}
	return p
}

// foreignListed are the items of a large app beside those that a list or a search is about.
const foreignListed = 40_000

// multiplyRows lets the statistics say that each page has 25 times as many rows: over a million.
func (p *planDatabase) multiplyRows(t *testing.T) {
	t.Helper()
	database, err := pgx.ParseConfig(p.url)
	must(t, err)
	exec(t, p.server.Server.AdminURL(database.Database), `UPDATE pg_class SET reltuples = 25 * reltuples WHERE relname IN ('item', 'stored_item') OR relname LIKE 'item\_%'`)
}

// A list reads its own rows, and few of them, whatever else is in the table and whatever the
// statistics say of it: rows of other tenants, of another app of the account, of other groups and
// access, and drafts. Before, a list was planned over the rows of all tenants, or over all rows of the
// app, when the statistics were old.
func TestListPlans_ReadTheirPageOnly(t *testing.T) {
	t.Parallel()
	p := newPlanDatabase(t)
	lists := func(statistics string) {
		t.Helper()
		countLists(t, p.conn, p.store)
		for name, scope := range map[string]media.Scope{"small": p.small, "sibling": p.sibling, "large": p.large} {
			for _, filter := range []media.Filter{
				{}, {Access: media.Public}, {Access: media.Private}, {Group: "rare"}, {Group: "common"},
				{Group: "common", Access: media.Public}, {Group: "common", Access: media.Private}, {Group: "none", Access: media.Public},
			} {
				checkListPlans(t, p.explaining, p.store, scope, filter, statistics+", "+name)
			}
		}
	}

	// The statistics say that the small app has all rows.
	seedItemRows(t, p.conn, p.small, "01900000-0000-7000-8000-", 40, "public", "rare", true)
	seedItemRows(t, p.conn, p.small, "01910000-0000-7000-8000-", ownDrafts, "private", "", false)
	exec(t, p.url, `ALTER TABLE stored_item SET (autovacuum_enabled = false)`)
	exec(t, p.url, `ANALYZE`)
	seedItemRows(t, p.conn, p.large, "01900000-0000-7000-8001-", 20, "public", "rare", true)
	seedItemRows(t, p.conn, p.large, "01900000-0000-7000-8002-", 20, "public", "common", true)
	seedItemRows(t, p.conn, p.large, "01920000-0000-7000-8000-", foreignListed, "private", "common", true)
	lists("of the small app only")

	// They say nothing of the sibling.
	exec(t, p.url, `ANALYZE`)
	seedItemRows(t, p.conn, p.sibling, "01930000-0000-7000-8001-", 20, "public", "rare", true)
	seedItemRows(t, p.conn, p.sibling, "01940000-0000-7000-8000-", foreignListed/5, "private", "common", true)
	lists("without the sibling")
	exec(t, p.url, `ANALYZE`)
	lists("current")

	p.multiplyRows(t)
	lists("of a million rows")
}

// A page far from both ends of its list skips the items before it by the index: it reads their rows from no block of the table. Before, it
// read up to 2,048 rows, each in a block of its own where the rows of many accounts are stored in turns: with a database ten times larger
// than the memory of PostgreSQL, a deep page took 20 times as long as with a small one.
func TestListPlans_SkipItemsWithoutTheirRows(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	store := open(t, url)
	scope := provisioned(t, store)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	const items = 6000
	seedItemRows(t, conn, scope, "01920000-0000-7000-8000-", items, "private", "common", true)
	// Rows that follow each other in a list lie in other blocks of the table.
	for _, statement := range []string{
		`CREATE TEMPORARY TABLE seeded AS SELECT * FROM stored_item`,
		`TRUNCATE stored_item CASCADE`,
		`INSERT INTO stored_item SELECT * FROM seeded ORDER BY md5(id::text)`,
		`VACUUM ANALYZE stored_item`, // so the index tells which rows are visible
	} {
		_, err := conn.Exec(t.Context(), statement)
		must(t, err)
	}
	countLists(t, conn, store)
	const most = 60 // of indexes and blocks of the pagination index, and ten rows
	for _, filter := range []media.Filter{{}, {Access: media.Private}, {Group: "common"}} {
		for _, offset := range []int{items / 2, items / 3, items / 5, items - 400} {
			sql, args := postgres.ListStatement(scope, filter, 10, offset)
			explained := &explainer{conn: conn, mode: "force_generic_plan"}
			explained.explain(t.Context(), sql, args)
			switch {
			case !errors.Is(explained.err, errExplained):
				t.Fatal(explained.err)
			case explained.pages > most:
				t.Errorf("%+v at %d: %d pages are read, not at most %d\n%s", filter, offset, explained.pages, most, explained.outline)
			}
		}
	}
}

// countLists sets the totals and the pagination index as seals and the purge do it.
func countLists(t *testing.T, conn *pgx.Conn, store *postgres.Store) {
	t.Helper()
	for _, statement := range []string{
		`UPDATE app_total SET public_items = n.public, private_items = n.private FROM (SELECT app_id, count(*) FILTER (WHERE access = 'public') AS public, count(*) FILTER (WHERE access = 'private') AS private
			FROM item WHERE sealed_at IS NOT NULL GROUP BY 1) AS n WHERE app_total.app_id = n.app_id AND slot = 0`,
		`DELETE FROM group_total`,
		`INSERT INTO group_total (app_id, group_label, slot, public_items, private_items)
			SELECT app_id, group_label, 0, count(*) FILTER (WHERE access = 'public'), count(*) FILTER (WHERE access = 'private') FROM item WHERE group_label <> '' AND sealed_at IS NOT NULL GROUP BY 1, 2`,
		`INSERT INTO item_page_delta (app_id, id, group_label, delta, public) SELECT DISTINCT app_id, '00000000-0000-0000-0000-000000000000'::uuid, group_label, 0, false FROM item WHERE sealed_at IS NOT NULL`,
	} {
		_, err := conn.Exec(t.Context(), statement)
		must(t, err)
	}
	must(t, store.Items.CompactPageIndex(t.Context()))
}

// checkListPlans explains the first and the last page of a list, and some between.
func checkListPlans(t *testing.T, conn *pgx.Conn, store *postgres.Store, scope media.Scope, filter media.Filter, name string) {
	t.Helper()
	n, err := store.Items.CountItems(t.Context(), scope, filter)
	must(t, err)
	total := int(n)
	for offset, most := range map[int]int{0: maxNearPages, total - 10: maxNearPages, total / 2: maxDeepPages, total / 3: maxDeepPages, total - 600: maxDeepPages, total + 1000: maxNearPages} {
		if offset < 0 {
			continue
		}
		sql, args := postgres.ListStatement(scope, filter, 10, offset)
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			explained := &explainer{conn: conn, mode: mode}
			explained.explain(t.Context(), sql, args)
			switch {
			case !errors.Is(explained.err, errExplained):
				t.Fatalf("%s: %v", name, explained.err)
			case explained.pages > most:
				t.Errorf("statistics %s, %+v at %d of %d, %s: %d pages are read, not at most %d\n%.3000s", name, filter, offset, total, mode, explained.pages, most, explained.plan)
			}
		}
	}
}

// A list and its total are one statement: one round trip, and one snapshot.
func TestListItems_IsOneStatement(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	store := newRetrying(t, url, url, func(c *postgres.Config) { c.DatabaseConns = 1 })
	for _, offset := range []int{0, 10, 501, 1_000_000} {
		for _, filter := range filters {
			before := measured(t, store.Store, "mediastack_database_statement_duration_seconds")
			list, err := store.Items.ListItems(t.Context(), store.scope, filter, 10, offset)
			if err != nil || len(list.Items) != 0 || list.Total != 0 {
				t.Errorf("%+v at %d: %+v, %v", filter, offset, list, err)
			}
			if n := measured(t, store.Store, "mediastack_database_statement_duration_seconds") - before; n != 1 {
				t.Errorf("%+v at %d: %v statements", filter, offset, n)
			}
		}
	}
}
