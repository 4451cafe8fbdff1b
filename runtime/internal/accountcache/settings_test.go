package accountcache_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/accountcache"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/settings"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

// countingStore counts the reads of layers.
type countingStore struct {
	settings.Store
	reads atomic.Int64
}

// Layers counts and reads.
func (s *countingStore) Layers(ctx context.Context, accountID uuid.UUID) (settings.Layers, error) {
	s.reads.Add(1)
	return s.Store.Layers(ctx, accountID)
}

// signals is a cache that forwards the calls of a feed to channels. After another cache in the
// feed, it signals that that cache was called.
type signals struct {
	connected, disconnected chan struct{}
	changed                 chan uuid.UUID
}

func newSignals() *signals {
	return &signals{connected: make(chan struct{}, 100), disconnected: make(chan struct{}, 100), changed: make(chan uuid.UUID, 100)}
}

// Connected passes on.
func (s *signals) Connected() { s.connected <- struct{}{} }

// Disconnected passes on.
func (s *signals) Disconnected() { s.disconnected <- struct{}{} }

// AccountChanged passes on.
func (s *signals) AccountChanged(id uuid.UUID) { s.changed <- id }

// replica is the cache of one process of the runtime.
type replica struct {
	t     *testing.T
	store *countingStore
	cache *accountcache.Settings
	feed  *signals
}

// newReplica returns a replica whose cache is enabled.
func newReplica(t *testing.T, databaseURL string) *replica {
	t.Helper()
	store := &countingStore{Store: open(t, databaseURL).Settings}
	r := &replica{t: t, store: store, cache: accountcache.NewSettings(store, time.Hour, time.Now), feed: newSignals()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	feed := accountcache.NewFeed(open(t, databaseURL).Items, slog.New(slog.DiscardHandler), r.cache, r.feed)
	go func() { defer close(ended); _ = feed.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	<-r.feed.connected
	return r
}

func open(t *testing.T, databaseURL string) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: databaseURL, DatabaseConns: 2})
	must(t, err)
	t.Cleanup(store.Close)
	return store
}

// width returns the effective width of thumbnails, and how many reads it took.
func (r *replica) width(id uuid.UUID) (width int, reads int64) {
	r.t.Helper()
	before := r.store.reads.Load()
	layers, err := r.cache.Get(r.t.Context(), id)
	must(r.t, err)
	return layers.Effective().ThumbnailWidth, r.store.reads.Load() - before
}

func (r *replica) wantWidth(id uuid.UUID, width int, reads int64) {
	r.t.Helper()
	if w, n := r.width(id); w != width || n != reads {
		r.t.Errorf("width %d with %d reads, want %d with %d", w, n, width, reads)
	}
}

func newAccount(t *testing.T, store account.Store) uuid.UUID {
	t.Helper()
	made, err := account.NewRegistry(store, "t", time.Now).Ensure(t.Context(), account.Spec{Namespace: "team", Name: "one", MaxStorage: 1 << 20, MaxUploadSize: 1 << 20})
	must(t, err)
	return made.ID
}

func TestSettings_ChangesOfOtherProcessesAreEffective(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	operator := open(t, database)
	id := newAccount(t, operator.Accounts)
	a, b := newReplica(t, database), newReplica(t, database)
	for _, r := range []*replica{a, b} {
		r.wantWidth(id, 320, 1)
		r.wantWidth(id, 320, 0)
	}

	hundred, fifty := 100, 50
	_, err := settings.NewService(a.cache).Update(t.Context(), id, account.Actor{}, settings.Layer{ThumbnailWidth: &hundred})
	must(t, err)
	a.wantWidth(id, 100, 1) // at once, although its notification may be on its way
	<-b.feed.changed
	b.wantWidth(id, 100, 1)
	b.wantWidth(id, 100, 0)

	<-a.feed.changed
	must(t, settings.NewService(operator.Settings).Pin(t.Context(), id, settings.Layer{ThumbnailWidth: &fifty}, settings.Object{Name: "team/pins", UID: "uid of team/pins"}))
	for _, r := range []*replica{a, b} {
		<-r.feed.changed
		r.wantWidth(id, 50, 1)
	}
	must(t, settings.NewService(operator.Settings).Unpin(t.Context(), "uid of team/pins"))
	for _, r := range []*replica{a, b} {
		<-r.feed.changed
		r.wantWidth(id, 100, 1)
		r.wantWidth(id, 100, 0)
	}
}

func TestSettings_IsDisabledWithoutNotifications(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	operator := open(t, database)
	id := newAccount(t, operator.Accounts)
	r := newReplica(t, database)
	r.wantWidth(id, 320, 1)
	r.wantWidth(id, 320, 0)

	// Existing connections remain; that of the feed is terminated, and it can't reconnect.
	config, err := pgx.ParseConfig(database)
	must(t, err)
	admin, err := pgx.Connect(t.Context(), testenv.Postgres(t)) // only another database can be closed
	must(t, err)
	defer func() { _ = admin.Close(context.Background()) }()
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := admin.Exec(t.Context(), sql, args...)
		must(t, err)
	}
	name := pgx.Identifier{config.Database}.Sanitize()
	exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false")
	exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND query LIKE 'LISTEN %'", config.Database)
	<-r.feed.disconnected
	hundred := 100
	_, err = settings.NewService(operator.Settings).Update(t.Context(), id, account.Actor{}, settings.Layer{ThumbnailWidth: &hundred})
	must(t, err)
	r.wantWidth(id, 100, 1)
	r.wantWidth(id, 100, 1)

	exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS true")
	<-r.feed.connected
	r.wantWidth(id, 100, 1)
	r.wantWidth(id, 100, 0)
}

// slowStore returns when the test sends the result.
type slowStore struct {
	settings.Store
	answer chan settings.Layers
}

// Layers waits for the result.
func (s *slowStore) Layers(context.Context, uuid.UUID) (settings.Layers, error) {
	return <-s.answer, nil
}

// Layers that were read before a change, and arrive after its notification, would otherwise
// stay in the cache.
func TestSettings_DoesNotKeepLayersReadBeforeAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{answer: make(chan settings.Layers)}
		cache := accountcache.NewSettings(store, time.Minute, time.Now)
		cache.Connected()
		id, got := uuid.New(), make(chan settings.Layers)
		get := func() { layers, _ := cache.Get(t.Context(), id); got <- layers }
		before, after := settings.Layers{PinnedBy: "before"}, settings.Layers{PinnedBy: "after"}
		go get()
		synctest.Wait()
		cache.AccountChanged(id)
		store.answer <- before
		<-got
		go get()
		synctest.Wait()
		store.answer <- after // blocks if the cache answered
		if layers := <-got; layers != after {
			t.Errorf("the cache has %+v", layers)
		}
		go get()
		if layers := <-got; layers != after {
			t.Errorf("the cache has %+v", layers)
		}
		<-time.After(time.Minute) //nolint:forbidigo // the clock of synctest
		go get()
		synctest.Wait()
		store.answer <- before
		if layers := <-got; layers != before {
			t.Errorf("after its time the cache has %+v", layers)
		}
	})
}
