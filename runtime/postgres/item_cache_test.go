package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// blockingCache is a cache of items whose handling of a change ends when the test says so.
type blockingCache struct {
	lease                             time.Duration
	confirmed, unregistered, proceeds chan struct{}
	changed                           chan uuid.UUID
}

func newBlockingCache(lease time.Duration) *blockingCache {
	return &blockingCache{lease: lease, confirmed: make(chan struct{}, 1), unregistered: make(chan struct{}, 1), proceeds: make(chan struct{}), changed: make(chan uuid.UUID, 10)}
}

// Lease implements media.ItemCache.
func (c *blockingCache) Lease() time.Duration { return c.lease }

// InUse implements media.ItemCache.
func (c *blockingCache) InUse() bool { return true }

// InUseAgain implements media.ItemCache.
func (c *blockingCache) InUseAgain() <-chan struct{} { return nil }

// Confirming implements media.ItemCache.
func (c *blockingCache) Confirming() {}

// Confirmed signals.
func (c *blockingCache) Confirmed() { signal(c.confirmed) }

// Unregistered signals.
func (c *blockingCache) Unregistered() { signal(c.unregistered) }

// ItemChanged signals, and waits for the test.
func (c *blockingCache) ItemChanged(id uuid.UUID) { c.changed <- id; <-c.proceeds }

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// follow registers a cache of a process with this database until the test ends. A change of an account
// is handled like one of an item.
func follow(t *testing.T, url string, cache *blockingCache) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	store := open(t, url)
	go func() {
		defer close(ended)
		_ = store.Items.Follow(ctx, cache, func() {}, cache.ItemChanged, func(error) {})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	<-cache.confirmed
}

// cached is a database with an account that has sealed items and a draft.
type cached struct {
	*testing.T
	store  *postgres.Store
	url    string
	scope  media.Scope
	sealed []uuid.UUID
	draft  uuid.UUID
}

func newCached(t *testing.T, url string) *cached {
	t.Helper()
	c := &cached{T: t, store: open(t, url), url: url}
	made, err := registry(c.store).Ensure(t.Context(), spec)
	must(t, err)
	apps, _, err := registry(c.store).OpenApps(t.Context(), made.ID, nil)
	must(t, err)
	c.scope = media.Scope{AccountID: made.ID, AppID: apps[0].ID, Bucket: made.Bucket}
	fill(t, c.store, c.scope, 4, 3)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(t.Context())
	must(t, conn.QueryRow(t.Context(), "SELECT array_agg(id) FILTER (WHERE sealed_at IS NOT NULL), (array_agg(id) FILTER (WHERE sealed_at IS NULL))[1] FROM item").Scan(&c.sealed, &c.draft))
	return c
}

func (c *cached) delete(id uuid.UUID) error {
	_, err := c.store.Items.DeleteItem(c.Context(), c.scope, id, time.Now())
	return err
}

// caches returns the number of registered caches.
func (c *cached) caches() (n int) {
	c.Helper()
	conn, err := pgx.Connect(c.Context(), c.url)
	must(c.T, err)
	defer conn.Close(c.Context())
	must(c.T, conn.QueryRow(c.Context(), "SELECT count(*) FROM item_cache").Scan(&n))
	return n
}

// wantWait checks that change returns after every cache has handled the change of id, and not before.
func (c *cached) wantWait(name string, id uuid.UUID, caches []*blockingCache, change func() error) {
	c.Helper()
	done := make(chan error, 1)
	go func() { done <- change() }()
	for _, cache := range caches {
		if got := <-cache.changed; got != id {
			c.Errorf("%s: notified of %s, not of %s", name, got, id)
		}
		c.caches() // a change that waits for nobody returns meanwhile
		select {
		case err := <-done:
			c.Fatalf("%s: it returned (%v) before every cache acknowledged it", name, err)
		default:
		}
		cache.proceeds <- struct{}{}
	}
	must(c.T, <-done)
}

func TestItemCaches_AreWaitedForByWhatTheyServe(t *testing.T) {
	t.Parallel()
	c := newCached(t, testenv.Postgres(t))
	// Their leases are so long that no test waits for their end.
	caches := []*blockingCache{newBlockingCache(time.Hour), newBlockingCache(time.Hour)}
	for _, cache := range caches {
		follow(t, c.url, cache)
	}
	must(t, c.delete(c.draft)) // in no cache: nobody is notified
	c.wantWait("a delete", c.sealed[0], caches, func() error { return c.delete(c.sealed[0]) })
	if err := c.delete(c.sealed[0]); !fault.Is(err, fault.NotFound) { // it waits, and nothing blocks
		t.Error(err)
	}
	c.wantWait("a change of the access", c.sealed[1], caches, func() error {
		_, err := c.store.Items.UpdateItem(t.Context(), c.scope, c.sealed[1], func(item media.Item, _ bool) (media.Item, bool, error) {
			item.Access = media.Public
			return item, true, nil
		})
		return err
	})
	suspended := spec
	suspended.Suspended = true
	c.wantWait("a suspension", c.scope.AccountID, caches, func() error {
		_, err := registry(c.store).Ensure(t.Context(), suspended)
		return err
	})
	conn, err := pgx.Connect(t.Context(), c.url)
	must(t, err)
	defer conn.Close(t.Context())
	must(t, check.ErrorOf(conn.Exec(t.Context(), "UPDATE item SET access = 'private' WHERE id = $1", c.sealed[1])))
	for _, cache := range caches { // also a change that no statement of the program makes
		if got := <-cache.changed; got != c.sealed[1] {
			t.Errorf("notified of %s, not of the changed item", got)
		}
		cache.proceeds <- struct{}{}
	}
	for _, cache := range caches {
		close(cache.proceeds) // a closed account has several rows that change
	}
	closeAccount(t, registry(c.store), c.scope.AccountID)
	if n := c.caches(); n != 2 {
		t.Errorf("%d caches are registered", n)
	}
}

// A cache that does not answer is waited out: its registration goes, and it learns that when it can
// be reached again.
func TestItemCaches_AreRemovedWhenTheyDoNotAnswer(t *testing.T) {
	t.Parallel()
	c := newCached(t, testenv.Postgres(t))
	silent := newBlockingCache(100 * time.Millisecond)
	follow(t, c.url, silent)
	must(t, c.delete(c.sealed[0])) // silent holds the notification back
	if n := c.caches(); n != 0 {
		t.Errorf("%d caches are registered", n)
	}
	must(t, c.delete(c.sealed[1])) // nobody is left to wait for
	close(silent.proceeds)
	<-silent.unregistered
	<-silent.confirmed // again
	must(t, c.delete(c.sealed[2]))
}

// A process that ended a registration, and waits, does not spare others the wait.
func TestItemCaches_AreWaitedForAlsoWhenAnotherProcessHasEndedThem(t *testing.T) {
	t.Parallel()
	c := newCached(t, testenv.Postgres(t))
	conn, err := pgx.Connect(t.Context(), c.url)
	must(t, err)
	defer conn.Close(t.Context())
	id := uuid.New()
	must(t, check.ErrorOf(conn.Exec(t.Context(), "LISTEN mediastack_item")))
	must(t, check.ErrorOf(conn.Exec(t.Context(), "INSERT INTO item_cache (id, lease_ms, ended) VALUES ($1, 3600000, true)", id)))
	done := make(chan error, 1)
	go func() { done <- c.delete(c.sealed[0]) }()
	changed, err := conn.WaitForNotification(t.Context())
	must(t, err)
	request, err := conn.WaitForNotification(t.Context())
	must(t, err)
	kind, channel, _ := strings.Cut(request.Payload, " ")
	if changed.Payload != "item "+c.sealed[0].String() || kind != "acknowledge" {
		t.Fatalf("notified of %q and %q", changed.Payload, request.Payload)
	}
	select {
	case err := <-done:
		t.Fatalf("the delete returned (%v) before the acknowledgement", err)
	default:
	}
	must(t, check.ErrorOf(conn.Exec(t.Context(), "SELECT pg_notify($1, $2)", channel, id.String())))
	must(t, <-done)
}

func TestItemCaches_LeaveWithTheirConnection(t *testing.T) {
	t.Parallel()
	c := newCached(t, testenv.Postgres(t))
	cache := newBlockingCache(time.Hour)
	close(cache.proceeds)
	follow(t, c.url, cache)
	conn, err := pgx.Connect(t.Context(), c.url)
	must(t, err)
	defer conn.Close(t.Context())
	for len(cache.confirmed) > 0 {
		<-cache.confirmed
	}
	_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%item_cache%' AND pid <> pg_backend_pid()")
	must(t, err)
	<-cache.unregistered
	<-cache.confirmed
	if n := c.caches(); n != 1 { // the row of the earlier connection is gone
		t.Errorf("%d caches are registered", n)
	}
}

func TestPurgeDrafts_NotifiesNoCache(t *testing.T) {
	t.Parallel()
	c := newCached(t, testenv.Postgres(t))
	cache := newBlockingCache(time.Hour)
	follow(t, c.url, cache)
	if n, err := c.store.Items.PurgeDrafts(t.Context(), time.Now(), 100); err != nil || n != 1 {
		t.Fatalf("purged %d, %v", n, err)
	}
	c.wantWait("a delete", c.sealed[0], []*blockingCache{cache}, func() error { return c.delete(c.sealed[0]) }) // the first notification
}
