// Package itemcache caches the rows of items, for downloads and for reads of one item: the item and its
// account, not the file. The cache is never stale when a change was acknowledged (docs/decisions/0022): PostgreSQL
// notifies it of every change, it is registered there, so that a delete waits for its
// acknowledgement, and it serves only for the time of a lease after it last saw its registration.
package itemcache

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/lru"
	"mediastack.dev/runtime/media"
)

var _ media.ItemCache = (*Cache)(nil)

// idle is the time without a look-up after which the registration ends.
const idle = time.Minute

// Items finds items. media.Service implements it.
type Items interface {
	Get(ctx context.Context, p account.Principal, id uuid.UUID) (media.Item, error)
	ForDelivery(ctx context.Context, id uuid.UUID) (media.Item, media.Owner, error)
}

// Cache is a cache in front of Items. Only sealed items are cached: a draft can be sealed at any time,
// and has to be served as sealed then. It is safe for concurrent use.
type Cache struct {
	items   Items
	cfg     Config
	now     func() time.Time
	metrics *metrics
	again   chan struct{}

	mu sync.Mutex
	// connected: changes of accounts are delivered. leaseEnds is zero without a registration.
	connected  bool
	leaseEnds  time.Time
	confirming time.Time // when the confirmation that is on its way began
	lastUse    time.Time
	epoch      uint64 // incremented by every change: an item that was read before it is not cached
	entries    *lru.Map[uuid.UUID, entry]
	bytes      int64
}

// entry is a cached item. owner is nil when it was read for a principal, whose account may come from an
// older cache.
type entry struct {
	item  media.Item
	owner *media.Owner
	bytes int64
}

// New returns a cache in front of items. It is empty until it is registered.
func New(cfg Config, items Items, registry prometheus.Registerer, now func() time.Time) (*Cache, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Cache{items: items, cfg: cfg, now: now, metrics: newMetrics(), again: make(chan struct{}, 1), entries: lru.New[uuid.UUID, entry](math.MaxInt)}
	return c, c.register(registry)
}

// Get returns an item of a principal's app: NotFound for any other app's item. The caller must not
// change what it returns.
func (c *Cache) Get(ctx context.Context, p account.Principal, id uuid.UUID) (media.Item, error) {
	if c.cfg.Entries == 0 {
		return c.items.Get(ctx, p, id)
	}
	found, epoch, ok := c.lookUp(id, func(e entry) bool {
		return e.item.AppID == p.App.ID && e.item.AccountID == p.Account.ID
	})
	if ok {
		return found.item, nil
	}
	item, err := c.items.Get(ctx, p, id)
	if err == nil && !item.Draft() {
		c.put(epoch, entry{item: item, bytes: sizeOf(item)})
	}
	return item, err
}

// ForDelivery returns an item by id alone, with its account. The caller must not change what it
// returns.
func (c *Cache) ForDelivery(ctx context.Context, id uuid.UUID) (media.Item, media.Owner, error) {
	if c.cfg.Entries == 0 {
		return c.items.ForDelivery(ctx, id)
	}
	found, epoch, ok := c.lookUp(id, func(e entry) bool { return e.owner != nil })
	if ok {
		return found.item, *found.owner, nil
	}
	item, owner, err := c.items.ForDelivery(ctx, id)
	if err == nil && !item.Draft() {
		c.put(epoch, entry{item: item, owner: &owner, bytes: sizeOf(item) + sizeOfOwner(owner)})
	}
	return item, owner, err
}

// lookUp returns a cached item that the caller can use, or the epoch for put.
func (c *Cache) lookUp(id uuid.UUID, usable func(entry) bool) (entry, uint64, bool) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.lastUse) >= idle {
		select {
		case c.again <- struct{}{}:
		default:
		}
	}
	c.lastUse = now
	found, ok := c.entries.Get(id)
	if ok = ok && c.serves(now) && usable(found); ok {
		c.metrics.hits.Inc()
	} else {
		c.metrics.misses.Inc()
	}
	return found, c.epoch, ok
}

// serves reports whether changes are delivered and waited for.
func (c *Cache) serves(now time.Time) bool { return c.connected && now.Before(c.leaseEnds) }

// put caches what was read since the epoch, unless a change was notified meanwhile.
func (c *Cache) put(epoch uint64, e entry) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch || !c.serves(now) || e.bytes > c.cfg.Bytes {
		return
	}
	c.delete(e.item.ID) // another request may have read it, too
	c.entries.Put(e.item.ID, e)
	c.bytes += e.bytes
	for c.entries.Len() > c.cfg.Entries || c.bytes > c.cfg.Bytes {
		oldest, _ := c.entries.DeleteOldest()
		c.bytes -= oldest.bytes
	}
}

// delete removes an entry, and reports whether there was one.
func (c *Cache) delete(id uuid.UUID) bool {
	found, ok := c.entries.Get(id)
	if ok {
		c.entries.Delete(id)
		c.bytes -= found.bytes
	}
	return ok
}

// sizeOf returns about how much memory an item takes.
func sizeOf(item media.Item) int64 {
	const fixed, object, pair = 640, 160, 64 // with the maps and lists that hold it
	size := fixed + len(item.FileName) + len(item.Caption) + len(item.Group)
	for key, value := range item.Metadata {
		size += pair + len(key) + len(value)
	}
	for _, o := range item.Objects {
		size += object + len(o.Key) + len(o.MimeType) + len(o.SHA256)
	}
	return int64(size)
}

func sizeOfOwner(o media.Owner) int64 { return int64(len(o.Namespace) + len(o.Name) + len(o.Bucket)) }

// Lease implements media.ItemCache.
func (c *Cache) Lease() time.Duration { return c.cfg.Lease }

// InUse implements media.ItemCache.
func (c *Cache) InUse() bool {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected && now.Sub(c.lastUse) < idle
}

// InUseAgain implements media.ItemCache.
func (c *Cache) InUseAgain() <-chan struct{} { return c.again }

// Confirming implements media.ItemCache.
func (c *Cache) Confirming() {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirming = now
}

// Confirmed implements media.ItemCache. What was read before the registration is not cached: nobody
// waited for this process then.
func (c *Cache) Confirmed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaseEnds.IsZero() {
		c.epoch++
	}
	c.leaseEnds = c.confirming.Add(c.cfg.Lease)
}

// Unregistered implements media.ItemCache.
func (c *Cache) Unregistered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

// clear ends the lease, and drops the entries.
func (c *Cache) clear() {
	c.leaseEnds = time.Time{}
	c.epoch++
	c.entries.Clear()
	c.bytes = 0
}

// ItemChanged implements media.ItemCache.
func (c *Cache) ItemChanged(id uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	if c.delete(id) {
		c.metrics.dropped.Inc()
	}
}

// AccountChanged drops the items of an account: it may be suspended or closed.
func (c *Cache) AccountChanged(accountID uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.entries.DeleteFunc(func(e entry) bool {
		if e.item.AccountID != accountID {
			return false
		}
		c.bytes -= e.bytes
		c.metrics.dropped.Inc()
		return true
	})
}

// Connected enables the cache: changes of accounts are delivered from now on.
func (c *Cache) Connected() { c.reset(true) }

// Disconnected disables the cache.
func (c *Cache) Disconnected() { c.reset(false) }

func (c *Cache) reset(connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected = connected
	c.clear()
}
