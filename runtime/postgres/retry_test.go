package postgres_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/upload"
)

// retrying is a store that retries, with an account.
type retrying struct {
	*postgres.Store
	account account.Account
	scope   media.Scope
	url     string
}

// newRetrying opens a store at storeURL, with an account in the database at url.
func newRetrying(t *testing.T, url, storeURL string, configure ...func(*postgres.Config)) retrying {
	t.Helper()
	config := postgres.Config{DatabaseURL: storeURL, DatabaseConns: 4, RetryTimeout: time.Hour} // no test waits for it
	for _, change := range configure {
		change(&config)
	}
	store, err := postgres.Open(context.Background(), config)
	must(t, err)
	t.Cleanup(store.Close)
	r := registry(store)
	made, err := r.Ensure(t.Context(), account.Spec{Namespace: "team", Name: "retry", MaxStorage: 1 << 40, MaxUploadSize: 1 << 20})
	must(t, err)
	apps, _, err := r.OpenApps(t.Context(), made.ID, nil)
	must(t, err)
	return retrying{Store: store, account: made, scope: media.Scope{AccountID: made.ID, AppID: apps[0].ID, Bucket: made.Bucket}, url: url}
}

// upload makes a resumable upload.
func (r retrying) upload(t *testing.T) uuid.UUID {
	t.Helper()
	state := upload.ResumableState{ItemID: uuid.Must(uuid.NewV7()), Scope: r.scope, Fields: media.Fields{Access: media.Private}, Length: 1, Reserved: 1, Expires: time.Now().Add(time.Hour)}
	must(t, r.Uploads.OpenResumable(t.Context(), state))
	return state.ItemID
}

// executed returns what reports whether the server has executed a statement since.
func (r retrying) executed(t *testing.T, statement string) func() bool {
	t.Helper()
	began := float64(number(t, r.url, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`)) / 1e6
	return func() bool {
		return number(t, r.url, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '-- name: ' || $1 || ' %' AND state = 'idle' AND query_start > to_timestamp($2)`, statement, began) > 0
	}
}

// idempotent calls every idempotent method of a request once: the item id is sealed and deleted.
func (r retrying) idempotent(ctx context.Context, id, upload uuid.UUID) map[string]error {
	failed := map[string]error{}
	_, failed["Item"] = r.Items.Item(ctx, r.scope, id)
	_, failed["Seal"] = r.Items.Seal(ctx, r.scope, id, time.Now())
	_, _, failed["ItemForDelivery"] = r.Items.ItemForDelivery(ctx, id)
	_, failed["ListItems"] = r.Items.ListItems(ctx, r.scope, media.Filter{}, 10, 0)
	_, failed["ListItems by index"] = r.Items.ListItems(ctx, r.scope, media.Filter{}, 10, 1_000_000)
	_, failed["CountItems"] = r.Items.CountItems(ctx, r.scope, media.Filter{})
	_, failed["Totals"] = r.Items.Totals(ctx, r.scope)
	_, failed["FindResumable"] = r.Uploads.FindResumable(ctx, r.scope, upload)
	_, _, failed["AvailableBytes"] = r.Items.AvailableBytes(ctx, r.scope)
	_, failed["Layers"] = r.Settings.Layers(ctx, r.account.ID)
	_, failed["DeleteItem"] = r.Items.DeleteItem(ctx, r.scope, id, time.Now())
	for name, missing := range map[string]error{
		"FindPrincipal":        second(r.Credentials.FindPrincipal(ctx, account.Hash{})),
		"FindPrincipalByKeyID": second(r.Credentials.FindPrincipalByKeyID(ctx, uuid.Nil)),
		"FindSession":          second(r.Credentials.FindSession(ctx, account.Hash{})),
		"FindSessionOfGrant":   second(r.Credentials.FindSessionOfGrant(ctx, uuid.Nil)),
		"FindClient":           second(r.Logins.FindClient(ctx, "none")),
		"FindPrincipalOfOwner": second(r.Logins.FindPrincipalOfOwner(ctx, "none@example.org", r.account.ID, account.DefaultApp, time.Now())),
	} {
		if !fault.Is(missing, fault.NotFound) {
			failed[name] = missing
		}
	}
	return failed
}

func second[T any](_ T, err error) error { return err }

// A restart of the database is not seen by a client that reads, seals or deletes.
func TestStore_BridgesARestartForIdempotentCalls(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	store := newRetrying(t, url, url)
	upload := store.upload(t)
	stop := make(chan struct{})
	var rounds atomic.Int64
	var workers sync.WaitGroup
	for n := range 6 {
		items := drafts(t, url, store.scope, 3000)
		workers.Go(func() {
			for _, id := range items {
				select {
				case <-stop:
					return
				default:
				}
				for name, err := range store.idempotent(t.Context(), id, upload) {
					if err != nil {
						t.Errorf("worker %d: %s: %v", n, name, err)
					}
				}
				rounds.Add(1)
			}
			t.Errorf("worker %d has no items left", n)
		})
	}
	for name, restart := range map[string]func(){
		"killed":  func() { server.Kill(); server.Start() },
		"stopped": func() { server.Stop(); server.Start() },
		"disconnecting its clients": func() {
			conn, err := pgx.Connect(t.Context(), server.Server.AdminURL("postgres"))
			must(t, err)
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mediastack'`)
			must(t, err)
		},
	} {
		for range 2 {
			restart()
			before := rounds.Load()
			wait.Until(t, "calls succeed after the server was "+name, func() bool { return rounds.Load() > before+12 })
		}
	}
	close(stop)
	workers.Wait()
}

// The response to a delete and to a seal may be lost after they were executed.
func TestStore_RepeatsAChangeWhoseResponseWasLost(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServerWithPassword(t, "secret")
	url := testenv.Database(t, server)
	proxy, proxied := testenv.PostgresProxy(t, url)
	store := newRetrying(t, url, proxied, func(c *postgres.Config) { c.DatabaseConns = 1 })
	direct := open(t, url)
	items := drafts(t, url, store.scope, 3)
	id, upload := items[0], store.upload(t)

	lose := func(what string, call func() error, done func() bool) {
		t.Helper()
		// A statement that was executed before is prepared, so that no response is needed to execute it.
		items = items[1:]
		for name, err := range store.idempotent(t.Context(), items[0], upload) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		proxy.Set(testenv.ProxyMute)
		failed := make(chan error, 1)
		go func() { failed <- call() }()
		wait.Until(t, "the server has executed: "+what, done)
		proxy.Set(testenv.ProxyOpen)
		if err := <-failed; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	lose("seal", func() error { _, err := store.Items.Seal(t.Context(), store.scope, id, time.Now()); return err }, func() bool {
		item, err := direct.Items.Item(t.Context(), store.scope, id)
		must(t, err)
		return item.SealedAt != nil
	})
	var removal media.Removal
	lose("delete", func() (err error) {
		removal, err = store.Items.DeleteItem(t.Context(), store.scope, id, time.Now().Add(time.Hour))
		return err
	}, func() bool {
		_, err := direct.Items.Item(t.Context(), store.scope, id)
		return fault.Is(err, fault.NotFound)
	})
	if removal.ID == 0 || removal.Bucket != store.scope.Bucket || len(removal.Keys) == 0 {
		t.Errorf("the removal is %+v", removal)
	}
	if _, err := store.Items.DeleteItem(t.Context(), store.scope, id, time.Now()); !fault.Is(err, fault.NotFound) {
		t.Errorf("a second delete: %v, want NotFound", err)
	}
	// The removal that the first delete has queued is not that of a second one, whose response is lost.
	executed := store.executed(t, "DeleteItem")
	proxy.Set(testenv.ProxyMute)
	failed := make(chan error, 1)
	go func() {
		_, err := store.Items.DeleteItem(t.Context(), store.scope, id, time.Now())
		failed <- err
	}()
	wait.Until(t, "the server has executed the second delete", executed)
	proxy.Set(testenv.ProxyOpen)
	if err := <-failed; !fault.Is(err, fault.NotFound) {
		t.Errorf("a second delete whose response was lost: %v, want NotFound", err)
	}
}

// The response to a read may be lost, too: that of one row, and the rows of many, which are read after the statement was sent.
func TestStore_RepeatsAReadWhoseResponseWasLost(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServerWithPassword(t, "secret")
	url := testenv.Database(t, server)
	proxy, proxied := testenv.PostgresProxy(t, url)
	store := newRetrying(t, url, proxied, func(c *postgres.Config) { c.DatabaseConns = 1 })
	resumable := store.upload(t)
	for statement, read := range map[string]func() error{
		"Totals":        func() error { return second(store.Items.Totals(t.Context(), store.scope)) },
		"FindResumable": func() error { return second(store.Uploads.FindResumable(t.Context(), store.scope, resumable)) },
		"Principals": func() error {
			if err := second(store.Credentials.FindPrincipal(t.Context(), account.Hash{})); !fault.Is(err, fault.NotFound) {
				return err
			}
			return nil
		},
		"ListTombstones": func() error { return second(store.Items.ListDeleted(t.Context(), store.scope, 10, 0)) },
		"ListItems":      func() error { return second(store.Items.ListItems(t.Context(), store.scope, media.Filter{}, 10, 0)) },
		"ListResumables": func() error {
			return second(store.Uploads.ListResumables(t.Context(), store.scope, upload.RunningQuery{Limit: 10}, time.Now()))
		},
	} {
		must(t, read()) // the statement is prepared, so that no response is needed to execute it
		executed := store.executed(t, statement)
		proxy.Set(testenv.ProxyMute)
		failed := make(chan error, 1)
		go func() { failed <- read() }()
		wait.Until(t, "the server has executed "+statement, executed)
		proxy.Set(testenv.ProxyOpen)
		if err := <-failed; err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// An upload must not be opened twice, and a writer must not be registered twice: the outcome is not known.
func TestStore_DoesNotRepeatAChangeWhoseOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServerWithPassword(t, "secret")
	url := testenv.Database(t, server)
	proxy, proxied := testenv.PostgresProxy(t, url)
	store := newRetrying(t, url, proxied, func(c *postgres.Config) { c.DatabaseConns = 1 })
	must(t, check.ErrorOf(store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour))) // a writer is that of a process
	for _, change := range []struct {
		name, rows string
		do         func() error
	}{
		{"OpenUpload", `SELECT count(*) FROM upload`, func() error {
			return store.Uploads.OpenUpload(t.Context(), uuid.Must(uuid.NewV7()), store.scope, 10, time.Now().Add(time.Hour))
		}},
		{"RegisterWriter", `SELECT count(*) FROM upload_writer`, func() error {
			return second(store.Uploads.RegisterWriter(t.Context(), store.account.ID, store.account.Bucket, uuid.Must(uuid.NewV7())))
		}},
	} {
		must(t, change.do()) // the statement is prepared, so that no response is needed to execute it
		proxy.Set(testenv.ProxyMute)
		failed := make(chan error, 1)
		go func() { failed <- change.do() }()
		wait.Until(t, "the server has executed "+change.name, func() bool { return number(t, url, change.rows) > 1 })
		proxy.Set(testenv.ProxyOpen)
		if err := <-failed; !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v, want Unavailable", change.name, err)
		}
		counts(t, url, 2, "rows of "+change.name, change.rows)
	}
}

// A statement that was not sent is sent once the server is back, whatever it is.
func TestStore_SendsAChangeAfterARestart(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	store := newRetrying(t, url, url)
	server.Stop()
	// Connections that were just used are not pinged, so that a statement finds them closed.
	wait.Until(t, "no connection is left", func() bool { return errors.As(store.Ping(t.Context()), new(*pgconn.ConnectError)) })
	failed := make(chan error, 2)
	go func() {
		failed <- store.Uploads.OpenUpload(t.Context(), uuid.Must(uuid.NewV7()), store.scope, 10, time.Now().Add(time.Hour))
	}()
	go func() {
		failed <- store.Uploads.OpenResumable(t.Context(), upload.ResumableState{ItemID: uuid.Must(uuid.NewV7()), Scope: store.scope, Length: 1, Reserved: 1,
			Fields: media.Fields{Access: media.Private}, Expires: time.Now().Add(time.Hour)})
	}()
	server.Start()
	for range 2 {
		must(t, <-failed)
	}
	if got := measured(t, store.Store, "mediastack_database_retries_total"); got < 2 {
		t.Errorf("the metric has %v retries", got)
	}
}

// Neither a server that is away nor one that does not answer holds a request.
func TestStore_EndsACallWithoutAServer(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServerWithPassword(t, "secret")
	url := testenv.Database(t, server)
	proxy, proxied := testenv.PostgresProxy(t, url)
	store := newRetrying(t, url, url) // without the short timeouts, which a busy server exceeds
	resumable := store.upload(t)
	short, err := postgres.Open(context.Background(), postgres.Config{DatabaseURL: proxied, DatabaseConns: 4, RetryTimeout: 300 * time.Millisecond, StatementTimeout: 500 * time.Millisecond})
	must(t, err)
	t.Cleanup(short.Close)
	store.Store = short
	for _, mode := range []struct {
		name string
		set  func()
	}{
		{"away", func() { proxy.Set(testenv.ProxyCut) }},
		{"hanging", func() { proxy.Set(testenv.ProxyStall) }},
	} {
		wait.Until(t, "the server is reached", func() bool { return store.Ping(t.Context()) == nil })
		mode.set()
		for name, err := range store.idempotent(t.Context(), uuid.New(), resumable) {
			if !fault.Is(err, fault.Unavailable) {
				t.Errorf("%s: %s: %v, want Unavailable", mode.name, name, err)
			}
		}
		for name, err := range map[string]error{
			"SaveProgress": store.Uploads.SaveProgress(t.Context(), resumable, 0, upload.Progress{}, time.Now()),
			"OpenResumable": store.Uploads.OpenResumable(t.Context(), upload.ResumableState{ItemID: uuid.Must(uuid.NewV7()), Scope: store.scope, Length: 1,
				Fields: media.Fields{Access: media.Private}, Expires: time.Now()}),
		} {
			if !fault.Is(err, fault.Unavailable) {
				t.Errorf("%s: %s: %v, want Unavailable", mode.name, name, err)
			}
		}
		proxy.Set(testenv.ProxyOpen)
		wait.Until(t, "the server is back", func() bool { return store.Ping(t.Context()) == nil })
	}
}

// The rows of a statement of many are lost after it was sent, and its share of the pool has ended: only repeat retries them.
func TestIdempotentStatements_ReturnOneRowOrNone(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	must(t, err)
	queries, found := reflect.TypeFor[*sqlgen.Queries](), 0
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must(t, err)
		ast.Inspect(source, func(node ast.Node) bool {
			call, is := node.(*ast.SelectorExpr)
			if !is {
				return true
			}
			of := call.X
			if made, is := of.(*ast.CallExpr); is {
				of = made.Fun
			}
			if from, is := of.(*ast.SelectorExpr); !is || from.Sel.Name != "idempotent" && from.Sel.Name != "idempotentFor" {
				return true
			}
			method, known := queries.MethodByName(call.Sel.Name)
			if !known { // statements.retry
				return true
			}
			found++
			if row := method.Type.Out(0); row.Kind() == reflect.Slice && row.Elem().Kind() != reflect.Uint8 {
				t.Errorf("%s: %s returns many rows", file, call.Sel.Name)
			}
			return true
		})
	}
	if found < 15 {
		t.Errorf("only %d statements were found", found)
	}
}
