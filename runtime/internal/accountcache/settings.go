package accountcache

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/lru"
	"mediastack.dev/runtime/settings"
)

// maxAccounts bounds the entries of Settings.
const maxAccounts = 10_000

// Settings is a settings.Store that also caches layers, for uploads: Get returns cached
// layers, the methods of settings.Store do not use the cache. An account's entry is dropped
// when this process updates the account's settings, and when the database notifies of a
// change. While notifications are not delivered, nothing is cached. It is safe for concurrent
// use.
type Settings struct {
	settings.Store
	ttl time.Duration
	now func() time.Time

	mu        sync.Mutex
	connected bool
	epoch     uint64 // incremented by every change: layers read before it are not cached
	entries   *lru.Map[uuid.UUID, settingsEntry]
}

type settingsEntry struct {
	layers    settings.Layers
	expiresAt time.Time
}

// NewSettings returns a cache in front of store whose entries live for ttl at most. It caches
// nothing before Connected is called.
func NewSettings(store settings.Store, ttl time.Duration, now func() time.Time) *Settings {
	return &Settings{Store: store, ttl: ttl, now: now, entries: lru.New[uuid.UUID, settingsEntry](maxAccounts)}
}

// Get returns the layers of an account.
func (c *Settings) Get(ctx context.Context, accountID uuid.UUID) (settings.Layers, error) {
	c.mu.Lock()
	entry, ok := c.entries.Get(accountID)
	epoch := c.epoch
	c.mu.Unlock()
	if ok && c.now().Before(entry.expiresAt) {
		return entry.layers, nil
	}
	layers, err := c.Layers(ctx, accountID)
	if err != nil {
		return settings.Layers{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connected && c.epoch == epoch {
		c.entries.Put(accountID, settingsEntry{layers: layers, expiresAt: c.now().Add(c.ttl)})
	}
	return layers, nil
}

// UpdateTenant implements settings.Store. The next upload through this process uses the new settings,
// whenever the notification arrives.
func (c *Settings) UpdateTenant(ctx context.Context, accountID uuid.UUID, by account.Actor, decide func(settings.Layers) (settings.Layer, error)) (settings.Layers, error) {
	defer c.AccountChanged(accountID)
	return c.Store.UpdateTenant(ctx, accountID, by, decide)
}

// UpdateTenantOnce implements settings.Store, as UpdateTenant does.
func (c *Settings) UpdateTenantOnce(ctx context.Context, accountID uuid.UUID, by account.Actor, step account.ApprovedStep, decide func(settings.Layers) (settings.Layer, error)) (settings.Layers, error) {
	defer c.AccountChanged(accountID)
	return c.Store.UpdateTenantOnce(ctx, accountID, by, step, decide)
}

// Connected enables the cache: changes are delivered from now on.
func (c *Settings) Connected() { c.reset(true) }

// Disconnected disables the cache: changes are no longer delivered.
func (c *Settings) Disconnected() { c.reset(false) }

func (c *Settings) reset(connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected = connected
	c.epoch++
	c.entries.Clear()
}

// AccountChanged drops the entry of an account.
func (c *Settings) AccountChanged(accountID uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.entries.Delete(accountID)
}
