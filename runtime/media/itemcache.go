package media

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
)

// ItemReader reads an item of a principal's app: NotFound for any other app's item. The caller must not
// change what it returns. Service reads it from the database, itemcache.Cache from a cache that is
// never stale.
type ItemReader interface {
	Get(ctx context.Context, p account.Principal, id uuid.UUID) (Item, error)
}

// ItemCache is a process's cache of items, as the database calls it. The process registers the cache
// there, and serves from it for the time of a lease after each confirmation of the registration:
// a change of an item waits until every registered cache has acknowledged it. The methods return
// quickly.
type ItemCache interface {
	// Lease is how long the cache serves after the beginning of a confirmation.
	Lease() time.Duration
	// InUse reports whether a registration is worth its queries. InUseAgain has a value when that
	// became true.
	InUse() bool
	InUseAgain() <-chan struct{}
	// Confirming is called before the registration, or a confirmation of it, is requested, and
	// Confirmed after it succeeded.
	Confirming()
	Confirmed()
	// Unregistered is called when changes may be missed from now on. The cache drops its entries.
	Unregistered()
	// ItemChanged is called when an item was changed or deleted.
	ItemChanged(id uuid.UUID)
}
