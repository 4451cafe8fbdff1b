package itemcache

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// rows are items as the database has them.
type rows struct {
	items  map[uuid.UUID]media.Item
	reads  int
	during func() // called while an item is read
}

// Get reads an item of an app.
func (r *rows) Get(ctx context.Context, p account.Principal, id uuid.UUID) (media.Item, error) {
	item, _, err := r.ForDelivery(ctx, id)
	if err == nil && (item.AppID != p.App.ID || item.AccountID != p.Account.ID) {
		return media.Item{}, fault.New(fault.NotFound, "no such item")
	}
	return item, err
}

// ForDelivery reads an item.
func (r *rows) ForDelivery(_ context.Context, id uuid.UUID) (media.Item, media.Owner, error) {
	r.reads++
	item, ok := r.items[id]
	if r.during != nil {
		r.during()
	}
	if !ok {
		return media.Item{}, media.Owner{}, fault.New(fault.NotFound, "no such item")
	}
	return item, media.Owner{Bucket: "bucket"}, nil
}

func (r *rows) add(sealed bool, accountID uuid.UUID) uuid.UUID {
	item := media.Item{ID: uuid.New(), AccountID: accountID, FileName: "a.png", Objects: media.Objects{{Variant: media.Original, Key: "k"}}}
	if sealed {
		item.SealedAt = &time.Time{}
	}
	r.items[item.ID] = item
	return item.ID
}

// clock is a clock that a test advances.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func newCache(t *testing.T, cfg Config) (*Cache, *rows, *clock) {
	t.Helper()
	store, at := &rows{items: map[uuid.UUID]media.Item{}}, &clock{time.Unix(1e9, 0)}
	cache, err := New(cfg, store, nil, at.now)
	if err != nil {
		t.Fatal(err)
	}
	return cache, store, at
}

func defaults() Config { return Config{Entries: 10, Bytes: minBytes, Lease: time.Second} }

// registered returns a cache that may be used.
func registered(t *testing.T, cfg Config) (*Cache, *rows, *clock) {
	t.Helper()
	cache, store, at := newCache(t, cfg)
	cache.Connected()
	cache.Confirming()
	cache.Confirmed()
	return cache, store, at
}

// wantReads looks an item up twice, and checks how often the database was read.
func wantReads(t *testing.T, cache *Cache, store *rows, id uuid.UUID, want int) {
	t.Helper()
	before := store.reads
	for range 2 {
		_, _, _ = cache.ForDelivery(t.Context(), id)
	}
	if n := store.reads - before; n != want {
		t.Errorf("two look-ups read the database %d times, want %d", n, want)
	}
}

func TestCache_ServesOnlyWhileItIsRegistered(t *testing.T) {
	t.Parallel()
	cache, store, at := newCache(t, defaults())
	id := store.add(true, uuid.New())
	wantReads(t, cache, store, id, 2) // nobody notifies
	cache.Connected()
	wantReads(t, cache, store, id, 2) // nobody waits
	if !cache.InUse() {
		t.Error("a cache that is looked up is not in use")
	}
	cache.Confirming()
	at.Time = at.Add(300 * time.Millisecond) // the confirmation is on its way
	cache.Confirmed()
	wantReads(t, cache, store, id, 1)
	wantReads(t, cache, store, id, 0)
	at.Time = at.Add(700 * time.Millisecond) // a second after the confirmation began
	wantReads(t, cache, store, id, 2)
	cache.Confirming()
	cache.Confirmed()
	wantReads(t, cache, store, id, 0) // nobody has changed it: the registration exists
	cache.Unregistered()
	wantReads(t, cache, store, id, 2)
	cache.Confirming()
	cache.Confirmed()
	wantReads(t, cache, store, id, 1)
	cache.Disconnected()
	wantReads(t, cache, store, id, 2)
	at.Time = at.Add(idle)
	if cache.InUse() {
		t.Error("the cache is in use for ever")
	}
}

func TestCache_DropsWhatChanged(t *testing.T) {
	t.Parallel()
	cache, store, _ := registered(t, defaults())
	account := uuid.New()
	one, two, foreign := store.add(true, account), store.add(true, account), store.add(true, uuid.New())
	for _, id := range []uuid.UUID{one, two, foreign} {
		wantReads(t, cache, store, id, 1)
	}
	cache.ItemChanged(one)
	wantReads(t, cache, store, two, 0)
	delete(store.items, one)
	wantReads(t, cache, store, one, 2) // an item that is missing is not cached
	cache.AccountChanged(account)
	wantReads(t, cache, store, two, 1)
	wantReads(t, cache, store, foreign, 0)
}

// An item that was read before a change, or before the registration, and arrives after it, would
// otherwise stay in the cache.
func TestCache_DoesNotKeepWhatWasReadBeforeAChange(t *testing.T) {
	t.Parallel()
	cache, store, _ := registered(t, defaults())
	id := store.add(true, uuid.New())
	for name, change := range map[string]func(){
		"an item":           func() { cache.ItemChanged(id) },
		"an account":        func() { cache.AccountChanged(uuid.New()) },
		"a registration":    func() { cache.Unregistered(); cache.Confirming(); cache.Confirmed() },
		"another":           func() { cache.Disconnected(); cache.Connected(); cache.Confirming(); cache.Confirmed() },
		"none, for a while": cache.Unregistered,
	} {
		store.during = change
		_, _, _ = cache.ForDelivery(t.Context(), id)
		store.during = nil
		cache.Confirming()
		cache.Confirmed()
		if cache.entries.Len() != 0 {
			t.Errorf("%s: the item is cached", name)
		}
	}
}

func TestCache_DoesNotCacheDrafts(t *testing.T) {
	t.Parallel()
	cache, store, _ := registered(t, defaults())
	wantReads(t, cache, store, store.add(false, uuid.New()), 2)
}

func TestCache_ServesAnItemToItsOwnAppOnly(t *testing.T) {
	t.Parallel()
	cache, store, _ := registered(t, defaults())
	own := account.Principal{Account: account.Account{ID: uuid.New()}, App: account.App{ID: uuid.New()}}
	id := store.add(true, own.Account.ID)
	item := store.items[id]
	item.AppID = own.App.ID
	store.items[id] = item
	for _, wantReads := range []int{1, 1} {
		if _, err := cache.Get(t.Context(), own, id); err != nil || store.reads != wantReads {
			t.Errorf("the own app: %v after %d reads, want %d", err, store.reads, wantReads)
		}
	}
	otherApp, otherAccount := own, own
	otherApp.App.ID, otherAccount.Account.ID = uuid.New(), uuid.New()
	for name, p := range map[string]account.Principal{"another app": otherApp, "another account": otherAccount} {
		if _, err := cache.Get(t.Context(), p, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v, want not found", name, err)
		}
	}
}

func TestCache_TakesTheOwnerFromTheDatabase(t *testing.T) {
	t.Parallel()
	cache, store, _ := registered(t, defaults())
	id := store.add(true, uuid.New())
	p := account.Principal{Account: account.Account{ID: store.items[id].AccountID, Bucket: "of an older cache"}}
	if _, err := cache.Get(t.Context(), p, id); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, owner, err := cache.ForDelivery(t.Context(), id); err != nil || owner.Bucket != "bucket" {
			t.Errorf("owner %+v, %v", owner, err)
		}
	}
	if store.reads != 2 {
		t.Errorf("%d reads, want one for the principal and one for the downloads", store.reads)
	}
}

func TestCache_IsBoundedInEntriesAndBytes(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cache, store, _ := registered(t, cfg)
	for range 3 * cfg.Entries {
		wantReads(t, cache, store, store.add(true, uuid.New()), 1)
	}
	if n := cache.entries.Len(); n != cfg.Entries {
		t.Errorf("%d entries, want %d", n, cfg.Entries)
	}
	large := func(bytes int) uuid.UUID {
		id := store.add(true, uuid.New())
		item := store.items[id]
		item.Caption = strings.Repeat("x", bytes)
		store.items[id] = item
		return id
	}
	last := uuid.Nil
	for range 10 {
		last = large(minBytes / 4)
		wantReads(t, cache, store, last, 1)
		if cache.bytes > cfg.Bytes {
			t.Fatalf("%d bytes, allowed are %d", cache.bytes, cfg.Bytes)
		}
	}
	if n := cache.entries.Len(); n != 3 {
		t.Errorf("%d large entries, want 3", n)
	}
	wantReads(t, cache, store, large(minBytes), 2) // larger than the cache
	wantReads(t, cache, store, last, 0)
	cache.ItemChanged(last)
	cache.Unregistered()
	if cache.bytes != 0 {
		t.Errorf("an empty cache has %d bytes", cache.bytes)
	}
	off, store, _ := registered(t, Config{Bytes: minBytes, Lease: time.Second})
	wantReads(t, off, store, store.add(true, uuid.New()), 2)
}

func TestConfig_IsBounded(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"":                           func(*Config) {},
		"SERVICE_ITEM_CACHE_ENTRIES": func(c *Config) { c.Entries = -1 },
		"SERVICE_ITEM_CACHE_BYTES":   func(c *Config) { c.Bytes = minBytes - 1 },
		"SERVICE_ITEM_CACHE_LEASE":   func(c *Config) { c.Lease = maxLease + 1 },
	} {
		cfg := defaults()
		change(&cfg)
		if err := cfg.Validate(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
