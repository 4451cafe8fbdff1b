package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/rendition"
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

// A request that waits for the server holds its share: when the server is back, one account must not get the whole pool.
func TestShares_AreHeldWhileCallsAreRepeated(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServerWithPassword(t, "secret")
	url := testenv.Database(t, server)
	proxy, proxied := testenv.PostgresProxy(t, url)
	scope := newRetrying(t, url, url).scope // without the short timeout, which a busy server exceeds
	// An account may hold one of the four connections. A call that waits for it longer than the timeout is rejected as Busy.
	store, err := postgres.Open(context.Background(), postgres.Config{DatabaseURL: proxied, DatabaseConns: 4, RetryTimeout: time.Hour, StatementTimeout: 200 * time.Millisecond})
	must(t, err)
	t.Cleanup(store.Close)
	proxy.Set(testenv.ProxyCut)
	for name, call := range map[string]func(ctx context.Context) error{
		"one statement": func(ctx context.Context) error { return second(store.Items.Totals(ctx, scope)) },
		"two statements": func(ctx context.Context) error {
			return second(store.Items.Seal(ctx, scope, uuid.New(), time.Now()))
		},
		"rows": func(ctx context.Context) error {
			return second(store.Items.ListItems(ctx, scope, media.Filter{}, 10, 0))
		},
		"a transaction": func(ctx context.Context) error {
			return store.Pictures.FinishRendition(ctx, rendition.Claim{AccountID: scope.AccountID}, rendition.Result{})
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		rejected := make(chan struct{}, 1)
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() {
				for ctx.Err() == nil {
					if fault.Is(call(ctx), fault.Busy) {
						select {
						case rejected <- struct{}{}:
						default:
						}
					}
				}
			})
		}
		wait.Receive(t, name+": the call that has no share is rejected while the other one is repeated", rejected)
		cancel()
		callers.Wait()
	}
}
