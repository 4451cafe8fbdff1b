package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// Two statements of each delete were planned again each time, for a third of the time that PostgreSQL needs for the row: a comparison
// with an array of unknown length seems to cost more than one with the array at hand, so PostgreSQL keeps no plan of it.
func TestDelete_OfOneItemIsNotPlannedEachTime(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServerWithSettings(t, map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "all", "pg_stat_statements.track_planning": "on",
	})
	url := testenv.Database(t, server)
	store := open(t, url)
	scope := tenants(t, store, 1, 1<<30)[0]
	config, err := pgx.ParseConfig(url)
	must(t, err)
	admin := server.Server.AdminURL(config.Database)
	exec(t, admin, `CREATE EXTENSION pg_stat_statements`)
	conn := connect(t, admin)
	queries := sqlgen.New(conn)
	const deletes = 12 // the first five have plans of their own
	seedItems(t, url, scope.AccountID, deletes)
	exec(t, url, `UPDATE stored_item SET objects = '[{"variant": "original", "key": "k", "bytes": 7}]'`)
	rows, err := conn.Query(t.Context(), `SELECT id FROM item`)
	must(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	must(t, err)
	for _, id := range ids {
		removal, err := queries.DeleteItem(t.Context(), sqlgen.DeleteItemParams{AppID: scope.AppID, ID: id, NotBefore: time.Now()})
		must(t, err)
		must(t, store.Items.FinishRemovals(t.Context(), []int64{removal.ID}))
	}
	counted, err := conn.Query(t.Context(), `SELECT left(query, 60), calls, plans FROM pg_stat_statements WHERE toplevel OR query LIKE 'DELETE%'`)
	must(t, err)
	found := 0
	for counted.Next() {
		var statement string
		var calls, plans int
		must(t, counted.Scan(&statement, &calls, &plans))
		if calls != deletes {
			continue
		}
		if found++; plans > deletes/2 {
			t.Errorf("%d calls of %q were planned %d times", calls, statement, plans)
		}
	}
	must(t, counted.Err())
	if want := 4; found < want { // the item, the removal, and in the trigger the queue and the task
		t.Errorf("%d statements were counted, want %d", found, want)
	}
	// The commit of a removal is not waited for. Those of other statements are.
	for range 5 { // the pool has several connections
		if value, err := postgres.Setting(t.Context(), store, "synchronous_commit"); err != nil || value != "on" {
			t.Errorf("synchronous_commit is %q after a removal, %v", value, err)
		}
	}
}

// The trigger that rejects operators of another cluster is not called for sessions of the runtime, which have no cluster.
func TestDelete_OfAnOperatorOfAnotherClusterIsRejected(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	seedItems(t, url, tenants(t, store, 1, 1<<30)[0].AccountID, 2)
	conn := connect(t, url)
	for _, c := range []struct {
		cluster string
		deleted int64
	}{{"other/1", 0}, {"", 2}} {
		must(t, check.ErrorOf(conn.Exec(t.Context(), `SELECT set_config('mediastack.cluster', $1, false)`, c.cluster)))
		done, err := conn.Exec(t.Context(), `DELETE FROM item`)
		var rejected *pgconn.PgError
		if done.RowsAffected() != c.deleted || errors.As(err, &rejected) != (c.deleted == 0) || rejected != nil && rejected.Code != "MS001" {
			t.Errorf("a session of %q deleted %d items, %v", c.cluster, done.RowsAffected(), err)
		}
	}
}

// A delete of one item and one of several look for its pictures in different ways.
func TestDelete_EndsTheRenditionsAndTasksOfItsItemsOnly(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := tenants(t, store, 1, 1<<30)[0]
	seedItems(t, url, scope.AccountID, 10)
	exec(t, url, `INSERT INTO rendition_queue (item_id, account_id) SELECT id, account_id FROM item`)
	exec(t, url, `INSERT INTO work (kind, key, account_id) SELECT 'picture', id, account_id FROM item`)
	left := int64(10)
	for _, several := range []int64{0, 1, 3} {
		exec(t, url, fmt.Sprintf(`DELETE FROM item WHERE id IN (SELECT id FROM item ORDER BY id LIMIT %d)`, several))
		left -= several
		for _, table := range []string{"rendition JOIN item ON item.id = item_id", "rendition_queue JOIN item ON item.id = item_id", "work JOIN item ON item.id = key"} {
			what := fmt.Sprintf("rows of items that are left, in %s, after a delete of %d", table, several)
			counts(t, url, left, what, `SELECT count(DISTINCT item.id) FROM `+table)
		}
		for _, table := range []string{"rendition", "rendition_queue", "work WHERE kind = 'picture'"} {
			counts(t, url, left, fmt.Sprintf("rows in %s after a delete of %d", table, several), `SELECT count(*) FROM `+table)
		}
	}
}
