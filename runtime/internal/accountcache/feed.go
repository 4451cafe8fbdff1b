// Package accountcache keeps what a process caches of accounts consistent with the database.
// Feed delivers PostgreSQL's notifications of changed accounts, over one LISTEN connection, to
// the session cache of package auth, to Settings, the cache of image settings, and to package
// itemcache, which the same connection keeps registered.
package accountcache

import (
	"context"
	"errors"
	"log/slog"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
)

// Source listens for changes. PostgreSQL implements it.
type Source interface {
	// Follow runs until ctx ends. onConnect is called when changes are delivered from then
	// on, onChange for every change of an account, and onLost when changes are missed. It also
	// registers a cache of items, and delivers their changes; nil = none.
	Follow(ctx context.Context, items media.ItemCache, onConnect func(), onChange func(accountID uuid.UUID), onLost func(error)) error
}

// Cache is a cache of what belongs to accounts. Its methods return quickly.
type Cache interface {
	// Connected is called when changes are delivered from now on. The cache is empty then.
	Connected()
	// AccountChanged is called when anything of an account changed.
	AccountChanged(accountID uuid.UUID)
	// Disconnected is called when changes are no longer delivered, also before the first
	// Connected. The cache drops its entries, and stores none until Connected.
	Disconnected()
}

// ItemCache is a Cache of items.
type ItemCache interface {
	Cache
	media.ItemCache
}

// Feed delivers changes to caches.
type Feed struct {
	source Source
	items  ItemCache // nil = none
	caches []Cache
	log    *slog.Logger
}

// NewFeed returns a Feed that delivers the changes of source to caches.
func NewFeed(source Source, log *slog.Logger, caches ...Cache) *Feed {
	return &Feed{source: source, caches: caches, log: log}
}

// WithItems adds a cache of items, and returns the Feed.
func (f *Feed) WithItems(items ItemCache) *Feed {
	f.items, f.caches = items, append(f.caches, items)
	return f
}

// Run delivers changes until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	connected := false
	err := f.source.Follow(ctx, f.items, func() {
		connected = true
		for _, cache := range f.caches {
			cache.Connected()
		}
	}, func(accountID uuid.UUID) {
		for _, cache := range f.caches {
			cache.AccountChanged(accountID)
		}
	}, func(cause error) {
		if connected { // once, not for every attempt to reconnect
			f.log.WarnContext(ctx, "account notifications disconnected; caches disabled", "error", cause)
		}
		connected = false
		f.disconnect()
	})
	f.disconnect()
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (f *Feed) disconnect() {
	for _, cache := range f.caches {
		cache.Disconnected()
	}
}
