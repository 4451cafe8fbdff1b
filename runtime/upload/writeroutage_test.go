package upload_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
)

// outage is a process that reaches PostgreSQL through a proxy.
type outage struct {
	*runtimetest.Env
	mediatest.Replica
	t      *testing.T
	server interface {
		Kill()
		Start()
	}
	direct *pgxpool.Pool // connections of the test
	p      account.Principal
}

// newOutage returns a process that has uploaded a file: it has a writer, and its statement is prepared, so that the server needs no
// response to execute the next one.
func newOutage(t *testing.T, retryTimeout time.Duration, through func(databaseURL string) (proxied string), change ...func(*upload.Deps)) *outage {
	t.Helper()
	server := testenv.PostgresServerWithPassword(t, "secret")
	databaseURL := testenv.Database(t, server)
	o := &outage{Env: runtimetest.NewWith(t, databaseURL, testenv.S3(t)), t: t, server: server, direct: testenv.Connections(t, databaseURL)}
	o.p = o.Principal(t, o.Tenant(t, account.Spec{Name: "outage", MaxStorage: 1 << 20, MaxUploadSize: 1 << 20}))
	store, err := postgres.Open(context.Background(), postgres.Config{DatabaseURL: through(databaseURL), DatabaseConns: 2, RetryTimeout: retryTimeout})
	must(t, err)
	t.Cleanup(store.Close)
	deps := upload.Deps{Store: store.Uploads, Objects: o.Objects, Settings: settings.NewService(store.Settings), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	for _, apply := range change {
		apply(&deps)
	}
	o.Replica = mediatest.NewReplica(t, mediatest.Config, deps, store.Items)
	wait.Until(t, "a file is uploaded with a writer", func() bool {
		if err := check.ErrorOf(store.Installations.TouchRuntime(t.Context(), o.p.Account.ID, "test", time.Hour)); err != nil {
			return false
		}
		item, err := o.upload(t.Context())
		_, _, stored := media.WriterOfKey(item.File().Key)
		return err == nil && stored
	})
	return o
}

func (o *outage) upload(ctx context.Context) (media.Item, error) {
	return uploadFile(ctx, o.Uploads, o.p, bytes.NewReader(random(100)), media.Fields{})
}

// begin uploads a file, and returns how it ends.
func (o *outage) begin(ctx context.Context) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- check.ErrorOf(o.upload(ctx)) }()
	return ended
}

func (o *outage) items() int64 { return o.QueryInt(o.t, `SELECT count(*) FROM stored_item`) }

// activity reports whether the server has a backend of this kind.
func (o *outage) activity(condition string) bool {
	return o.QueryInt(o.t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND `+condition) > 0
}

// settled checks that each item has its object, and that no object is left without an item.
func (o *outage) settled() {
	o.t.Helper()
	wait.Until(o.t, "the uploads are settled", func() bool { return o.Uploads.Settle(o.t.Context(), true) == nil })
	guard := o.Guard()
	wait.Until(o.t, "PostgreSQL is used again", func() bool { return guard.Check(o.t.Context()) == nil })
	later := func() time.Time { return time.Now().Add(2 * media.RemovalGrace) }
	purger, err := media.NewPurger(mediatest.PurgeConfig, media.PurgeDeps{Store: o.Store.Items, Tasks: o.Store.Tasks, Objects: o.Objects, Guard: guard, Now: later, Log: slog.New(slog.DiscardHandler)})
	must(o.t, err)
	must(o.t, check.ErrorOf(purger.Run(o.t.Context())))
	var stored, named []string
	must(o.t, o.Objects.List(o.t.Context(), o.p.Account.Bucket, media.KeyPrefix, func(object media.ObjectInfo) error {
		stored = append(stored, object.Key)
		return nil
	}))
	must(o.t, o.direct.QueryRow(o.t.Context(), `SELECT array_agg(o ->> 'key' ORDER BY o ->> 'key') FROM stored_item, jsonb_array_elements(objects) AS o`).Scan(&named))
	if !slices.Equal(stored, named) {
		o.t.Errorf("the bucket has %v, the items have %v", stored, named)
	}
	if n := o.QueryInt(o.t, `SELECT (SELECT sum(bytes) FROM stored_item) - (SELECT bytes FROM account_usage)`); n != 0 {
		o.t.Errorf("the usage differs from a recount by %d", n)
	}
	if n := o.QueryInt(o.t, `SELECT count(*) FROM upload_writer`); n != 0 {
		o.t.Errorf("%d writers are registered", n)
	}
}

// A commit whose connection is lost ends with an item and its object, or without both. If the server has executed it and is back in time,
// its client notices nothing.
func TestCommit_WhoseConnectionIsLostHasAnItemWithItsObjectOrNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// executed: the server executes the statement, and only the answer is lost.
		executed, back bool
	}{
		"the statement is lost":                            {back: true},
		"the answer is lost":                               {executed: true, back: true},
		"the statement is lost, and the server stays away": {},
		"the answer is lost, and the server stays away":    {executed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			retryTimeout := time.Duration(0)
			if c.back {
				retryTimeout = runtimetest.Long
			}
			var proxy *testenv.TCPProxy
			o := newOutage(t, retryTimeout, func(databaseURL string) (proxied string) {
				proxy, proxied = testenv.PostgresProxy(t, databaseURL)
				return proxied
			})
			before := o.items()
			statement := proxy.Await(1)
			ended := o.begin(t.Context())
			wait.Receive(t, "the commit is sent", statement.Passing)
			if c.executed {
				proxy.Set(testenv.ProxyMute)
				close(statement.Pass)
				wait.Until(t, "the commit is executed", func() bool { return o.items() == before+1 })
				proxy.Set(testenv.ProxyCut)
			} else {
				proxy.Set(testenv.ProxyCut)
				close(statement.Pass)
			}
			if c.back {
				proxy.Set(testenv.ProxyOpen)
			}
			err := wait.Receive(t, "the upload has ended", ended)
			proxy.Set(testenv.ProxyOpen)
			if known := c.back && c.executed; known && err != nil || !known && !fault.Is(err, fault.Unavailable) {
				t.Errorf("the upload ended with %v", err)
			}
			if n := o.items() - before; (n == 1) != c.executed {
				t.Errorf("%d items were made", n)
			}
			o.settled()
			if n := o.items() - before; (n == 1) != c.executed {
				t.Errorf("in the end, %d items were made", n)
			}
		})
	}
}

// killMargin is how long after an object was stored the server is killed at most: its commit is executed within that time.
const killMargin = 5 * time.Millisecond

// The server is killed after the object of an upload was stored, before its commit, or while it is executed.
func TestCommit_WhoseServerIsKilledHasAnItemWithItsObjectOrNone(t *testing.T) {
	t.Parallel()
	kills := 5
	if os.Getenv(fullEnv) != "" {
		kills = 300
	}
	var stored atomic.Pointer[func()] // is called once an object is stored
	objects := &processObjects{after: func() {
		if call := stored.Swap(nil); call != nil {
			(*call)()
		}
	}}
	o := newOutage(t, runtimetest.Long, func(databaseURL string) string { return databaseURL }, func(deps *upload.Deps) {
		objects.Store, deps.Objects = deps.Objects.(*objectstore.Store), objects
	})
	made := o.items()
	for range kills {
		var ends sync.WaitGroup
		kill := func() {
			ends.Add(1)
			time.AfterFunc(rand.N(killMargin), func() {
				defer ends.Done()
				o.server.Kill()
				o.server.Start()
			})
		}
		stored.Store(&kill)
		var acknowledged atomic.Int64
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				switch err := check.ErrorOf(o.upload(t.Context())); {
				case err == nil:
					acknowledged.Add(1)
				case !fault.Is(err, fault.Unavailable):
					t.Errorf("an upload ended with %v", err)
				}
			})
		}
		clients.Wait()
		ends.Wait()
		wait.Until(t, "the server is back", func() bool { return o.direct.Ping(t.Context()) == nil })
		if made += acknowledged.Load(); o.items() < made {
			t.Fatalf("%d items are there, %d uploads were acknowledged", o.items(), made)
		}
		made = o.items()
	}
	o.settled()
}

// lateProxy is a proxy in front of PostgreSQL that ends connections of clients while the server still executes what they have sent. It
// passes no request to cancel that.
type lateProxy struct {
	target string
	armed  atomic.Bool   // the next request is held back, and the connection of its client ends
	held   chan struct{} // receives once a request is held back
	late   chan struct{} // the request is passed on once this is closed

	mu      sync.Mutex
	clients []net.Conn
}

// newLateProxy starts a proxy in front of a database, and returns the URL of the database through it.
func newLateProxy(t *testing.T, databaseURL string) (p *lateProxy, proxied string) {
	t.Helper()
	target, err := url.Parse(databaseURL)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p = &lateProxy{target: target.Host, held: make(chan struct{}, 1), late: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.pass(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	target.Host = listener.Addr().String()
	return p, target.String()
}

// endClients ends the connections of all clients.
func (p *lateProxy) endClients() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, client := range p.clients {
		_ = client.Close()
	}
}

func (p *lateProxy) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.clients = append(p.clients, client)
	p.mu.Unlock()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = io.Copy(client, server)
		_ = client.Close()
		_, _ = io.Copy(io.Discard, server)
	}()
	defer func() {
		_ = server.(*net.TCPConn).CloseWrite() // it ends when it has executed what it was asked
		<-answered
		_ = server.Close()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil || n == 16 && binary.BigEndian.Uint32(buffer[4:]) == cancelRequest {
			return
		}
		if p.armed.CompareAndSwap(true, false) {
			_ = client.Close()
			p.held <- struct{}{}
			<-p.late
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cancelRequest is the code of a connection that cancels the statement of another one.
const cancelRequest = 80877102

// A commit that the server receives when its process has given it up is rejected by the fence: its object is removed.
func TestCommit_ThatArrivesLateMakesNoItemWithoutItsObject(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"the client waits": false, "the client has gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var proxy *lateProxy
			o := newOutage(t, runtimetest.Long, func(databaseURL string) (proxied string) {
				proxy, proxied = newLateProxy(t, databaseURL)
				return proxied
			})
			before := o.items()
			backend := o.QueryInt(t, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '-- name: CommitStored%'`)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			proxy.armed.Store(true)
			ended := o.begin(ctx)
			wait.Receive(t, "the commit is held back", proxy.held)
			if gone {
				leave()
			}
			if err := wait.Receive(t, "the upload has ended", ended); err == nil {
				t.Error("the upload is acknowledged")
			}
			wait.Until(t, "the upload is settled", func() bool { return o.Uploads.Settle(t.Context(), false) == nil })
			close(proxy.late)
			wait.Until(t, "the late commit has ended", func() bool {
				return o.QueryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, backend) == 0
			})
			if n := o.items() - before; n != 0 {
				t.Errorf("%d items were made", n)
			}
			o.settled()
		})
	}
}

// What finds out whether there is an item waits for a commit that is still executed.
func TestCommit_ThatIsStillExecutedIsWaitedFor(t *testing.T) {
	t.Parallel()
	var proxy *lateProxy
	o := newOutage(t, runtimetest.Long, func(databaseURL string) (proxied string) {
		proxy, proxied = newLateProxy(t, databaseURL)
		return proxied
	})
	before := o.items()
	must(t, check.ErrorOf(o.direct.Exec(t.Context(), `
		CREATE FUNCTION await_test() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			WHILE NOT pg_try_advisory_xact_lock(28) LOOP
				PERFORM pg_sleep(0.01);
			END LOOP;
			RETURN NEW;
		END $$;
		CREATE TRIGGER await_test BEFORE INSERT ON stored_item FOR EACH ROW EXECUTE FUNCTION await_test()`)))
	lock, err := o.direct.Begin(t.Context())
	must(t, err)
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	must(t, check.ErrorOf(lock.Exec(t.Context(), `SELECT pg_advisory_xact_lock(28)`)))
	ended := o.begin(t.Context())
	wait.Until(t, "the commit is executed", func() bool {
		return o.activity(`state = 'active' AND query LIKE '-- name: CommitStored%' AND wait_event = 'PgSleep'`)
	})
	proxy.endClients()
	wait.Until(t, "its outcome is waited for", func() bool { return o.activity(`query LIKE '-- name: RaiseFence%' AND wait_event_type = 'Lock'`) })
	must(t, lock.Rollback(t.Context()))
	if err := wait.Receive(t, "the upload has ended", ended); err != nil {
		t.Errorf("the upload ended with %v", err)
	}
	if n := o.items() - before; n != 1 {
		t.Errorf("%d items were made", n)
	}
	o.settled()
}
