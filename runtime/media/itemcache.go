package media

import (
	"time"

	"github.com/google/uuid"
)

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
