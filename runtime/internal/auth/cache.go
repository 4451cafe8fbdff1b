package auth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/lru"
	"mediastack.dev/runtime/oauth"
)

// Bounds of the cache, in entries and in time.
const (
	maxCachedSessions = 10_000
	// unknownTTL is short, and unknown credentials have an LRU of their own, so that made-up
	// keys neither evict valid ones nor hide a key that was just created.
	unknownTTL = 5 * time.Second
	// loadTimeout bounds one look-up, which serves every request that waits for it.
	loadTimeout = 10 * time.Second
)

// cacheKey identifies a credential: a key by its hash or its id, a login by the hash of its
// access token or the id of its grant.
type cacheKey struct {
	hash  account.Hash
	id    uuid.UUID // set if hash is not
	login bool
}

type cacheEntry struct {
	session oauth.Session
	expires time.Time
}

// sessionCache caches the session behind each credential; that of an API key has a
// principal only. Entries of an account are invalidated when PostgreSQL notifies a change;
// while the notification connection is down, nothing is cached. It is safe for concurrent
// use.
type sessionCache struct {
	store   CredentialStore
	ttl     time.Duration
	now     func() time.Time
	flights singleflight.Group

	mu        sync.Mutex
	connected bool   // notifications arrive
	epoch     uint64 // incremented by every change: a result from before it is not cached
	found     *lru.Map[cacheKey, cacheEntry]
	unknown   *lru.Map[cacheKey, time.Time] // with their expiry
	// lastValid holds the credentials that were valid at their last look-up. It decides
	// whether a look-up is permitted and never replaces one, so neither time nor changes
	// invalidate it. Only credentials that exist are added, so guesses cannot evict any.
	lastValid *lru.Map[cacheKey, struct{}]
	reloads   map[cacheKey]*reloadQueue
}

func newSessionCache(store CredentialStore, ttl time.Duration, now func() time.Time) *sessionCache {
	return &sessionCache{store: store, ttl: ttl, now: now,
		found: lru.New[cacheKey, cacheEntry](maxCachedSessions), unknown: lru.New[cacheKey, time.Time](maxCachedSessions),
		lastValid: lru.New[cacheKey, struct{}](maxCachedSessions), reloads: map[cacheKey]*reloadQueue{}}
}

// get returns the session; NotFound if the store has none.
func (c *sessionCache) get(ctx context.Context, key cacheKey) (oauth.Session, error) {
	session, epoch, ok, err := c.cached(key)
	if ok || err != nil {
		return session, err
	}
	// Requests share one look-up, but never one that began before a change.
	flight := c.flights.DoChan(fmt.Sprintf("%d %x %s %t", epoch, key.hash, key.id, key.login), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		return c.load(ctx, key, epoch)
	})
	select {
	case <-ctx.Done():
		return oauth.Session{}, fault.Wrap(ctx.Err(), fault.Unavailable, "the request ended before its key was looked up")
	case result := <-flight:
		session, _ = result.Val.(oauth.Session)
		return session, result.Err
	}
}

// cached returns the cached session, and the epoch for a look-up if there is none.
func (c *sessionCache) cached(key cacheKey) (oauth.Session, uint64, bool, error) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry, ok := c.found.Get(key); ok && now.Before(entry.expires) {
		return entry.session, c.epoch, true, nil
	}
	if expires, ok := c.unknown.Get(key); ok && now.Before(expires) {
		return oauth.Session{}, c.epoch, false, fault.New(fault.NotFound, "no such key")
	}
	return oauth.Session{}, c.epoch, false, nil
}

// wasValid reports whether a credential was valid at its last look-up, however long ago. It
// may be revoked since.
func (c *sessionCache) wasValid(key cacheKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.lastValid.Get(key)
	return ok
}

// setValid records whether a credential that has no session was valid at its look-up.
func (c *sessionCache) setValid(key cacheKey, valid bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if valid {
		c.lastValid.Put(key, struct{}{})
	} else {
		c.lastValid.Delete(key)
	}
}

func (c *sessionCache) load(ctx context.Context, key cacheKey, epoch uint64) (oauth.Session, error) {
	var session oauth.Session
	var err error
	switch {
	case key.login && key.id != uuid.Nil:
		session, err = c.store.FindSessionOfGrant(ctx, key.id)
	case key.login:
		session, err = c.store.FindSession(ctx, key.hash)
	case key.id != uuid.Nil:
		session.Principal, err = c.store.FindPrincipalByKeyID(ctx, key.id)
	default:
		session.Principal, err = c.store.FindPrincipal(ctx, key.hash)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return oauth.Session{}, err
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && !isRevoked(session, now) {
		c.lastValid.Put(key, struct{}{})
	} else {
		c.lastValid.Delete(key)
	}
	switch {
	case !c.connected || c.epoch != epoch:
		// The result may be older than a change, notified or not.
	case err != nil:
		c.unknown.Put(key, now.Add(unknownTTL))
	default:
		c.found.Put(key, cacheEntry{session: session, expires: now.Add(c.ttl)})
	}
	return session, err
}

// Connected implements accountcache.Cache.
func (c *sessionCache) Connected() { c.reset(true) }

// Disconnected implements accountcache.Cache.
func (c *sessionCache) Disconnected() { c.reset(false) }

func (c *sessionCache) reset(connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected = connected
	c.epoch++
	c.found.Clear()
	c.unknown.Clear()
}

// AccountChanged implements accountcache.Cache.
func (c *sessionCache) AccountChanged(accountID uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.found.DeleteFunc(func(entry cacheEntry) bool { return entry.session.Account.ID == accountID })
	c.unknown.Clear()
}
