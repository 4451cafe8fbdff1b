package settings

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/internal/lru"
)

// maxCachedAccounts bounds the entries of a Cache.
const maxCachedAccounts = 10_000

// Cache is a Store that also caches layers, for uploads: Get returns cached layers, the
// methods of Store use the store. An account's entry is dropped when this process updates
// the account's settings, and when the database notifies of a change. While notifications
// are not delivered, nothing is cached. It is safe for concurrent use.
type Cache struct {
	Store
	ttl time.Duration
	now func() time.Time

	mu        sync.Mutex
	connected bool
	epoch     uint64 // incremented by every change: layers read before it are not cached
	entries   *lru.Map[uuid.UUID, cacheEntry]
}

type cacheEntry struct {
	layers    Layers
	expiresAt time.Time
}

// NewCache returns a Cache in front of store whose entries live for ttl at most. It caches
// nothing before Connected is called.
func NewCache(store Store, ttl time.Duration, now func() time.Time) *Cache {
	return &Cache{Store: store, ttl: ttl, now: now, entries: lru.New[uuid.UUID, cacheEntry](maxCachedAccounts)}
}

// Get returns the layers of an account.
func (c *Cache) Get(ctx context.Context, accountID uuid.UUID) (Layers, error) {
	c.mu.Lock()
	entry, ok := c.entries.Get(accountID)
	epoch := c.epoch
	c.mu.Unlock()
	if ok && c.now().Before(entry.expiresAt) {
		return entry.layers, nil
	}
	layers, err := c.Layers(ctx, accountID)
	if err != nil {
		return Layers{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connected && c.epoch == epoch {
		c.entries.Put(accountID, cacheEntry{layers: layers, expiresAt: c.now().Add(c.ttl)})
	}
	return layers, nil
}

// UpdateTenant implements Store. The next upload through this process uses the new settings,
// whenever the notification arrives.
func (c *Cache) UpdateTenant(ctx context.Context, accountID uuid.UUID, decide func(Layers) (Layer, error)) (Layers, error) {
	defer c.AccountChanged(accountID)
	return c.Store.UpdateTenant(ctx, accountID, decide)
}

// Connected enables the cache: changes are delivered from now on.
func (c *Cache) Connected() { c.reset(true) }

// Disconnected disables the cache: changes are no longer delivered.
func (c *Cache) Disconnected() { c.reset(false) }

func (c *Cache) reset(connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected = connected
	c.epoch++
	c.entries.Clear()
}

// AccountChanged drops the entry of an account.
func (c *Cache) AccountChanged(accountID uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.entries.Drop(accountID)
}
