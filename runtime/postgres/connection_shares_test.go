package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/media"
)

// A tenant that deletes many items at once held every connection of the pool, each waiting for the lock
// of the same row: requests of others failed, and the process could not renew its lease.
func TestShares_AnAccountLeavesConnectionsToOthersAndToTheProcess(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scopes := tenants(t, store, 2, 1000)
	flooding, other := scopes[0], scopes[1]
	var items []uuid.UUID
	for range 30 {
		u := newUploading(flooding, 1)
		must(t, u.open(store))
		must(t, u.commit(store))
		items = append(items, u.id)
	}
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(tx.Exec(t.Context(), `SELECT FROM account_usage WHERE account_id = $1 FOR UPDATE`, flooding.AccountID)))
	deleted := make(chan error, len(items))
	for _, id := range items {
		go func() {
			_, err := store.Items.DeleteItem(context.WithoutCancel(t.Context()), flooding, id, time.Now())
			deleted <- err
		}()
	}
	wait.Until(t, "a delete waits", func() bool { return waiting(t, url) > 0 })
	// The deletes wait as long as the row is locked, so that what follows ends meanwhile or never.
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout(t))
	defer cancel()
	must(t, store.Ping(ctx))
	must(t, check.ErrorOf(store.Installations.TouchRuntime(ctx, uuid.New(), "test", time.Minute)))
	u := newUploading(other, 1)
	must(t, u.open(store))
	must(t, u.commit(store))
	must(t, check.ErrorOf(store.Items.Seal(ctx, other, u.id, time.Now())))
	list, err := store.Items.ListItems(ctx, other, media.Filter{}, 10, 0)
	must(t, err)
	if len(list.Items) != 1 {
		t.Errorf("the other account lists %d items", len(list.Items))
	}
	must(t, check.ErrorOf(store.Items.DeleteItem(ctx, other, u.id, time.Now())))
	must(t, tx.Commit(t.Context()))
	for range items {
		must(t, <-deleted)
	}
}
