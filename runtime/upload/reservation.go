package upload

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
)

// reservation is the row of an upload in the database: the bytes that the upload reserves
// under the account's cap, and its lease. The row is there before any byte of the upload
// is sent to the object store, and it holds at least the bytes that are sent.
type reservation struct {
	store  Store
	now    func() time.Time
	itemID uuid.UUID
	scope  media.Scope
	lease  time.Duration
	// capability is that of the upload; nil = none.
	capability *Capability

	// opened is set once there may be a row, even if the store reported an error.
	opened  bool
	bytes   int64
	expires time.Time // end of the lease
}

// reserve makes the reservation hold at least total bytes. The first call creates the row.
func (r *reservation) reserve(ctx context.Context, total int64) error {
	if r.opened {
		if total <= r.bytes {
			return nil
		}
		return r.extend(ctx, total-r.bytes)
	}
	r.opened = true
	expires := r.now().Add(r.lease)
	if err := r.open(ctx, total, expires); err != nil {
		return err
	}
	r.bytes, r.expires = total, expires
	return nil
}

// open creates the row, with a use of the capability if that has a count.
func (r *reservation) open(ctx context.Context, bytes int64, expires time.Time) error {
	if !r.capability.counted() {
		return r.store.OpenUpload(ctx, r.itemID, r.scope, bytes, expires)
	}
	if r.now().After(r.capability.ExpiresAt.Add(openGrace)) {
		return r.capability.expired()
	}
	return r.store.OpenCountedUpload(ctx, r.itemID, r.scope, *r.capability, bytes, expires)
}

// extend reserves more bytes and renews the lease.
func (r *reservation) extend(ctx context.Context, more int64) error {
	expires := r.now().Add(r.lease)
	if err := r.store.Reserve(ctx, r.itemID, r.scope, more, expires); err != nil {
		return err
	}
	r.bytes, r.expires = r.bytes+more, expires
	return nil
}

// renew renews a lease of which half has passed, for an upload that makes progress slowly.
func (r *reservation) renew(ctx context.Context) error {
	if !r.opened || r.now().Before(r.expires.Add(-r.lease/2)) {
		return nil
	}
	return r.extend(ctx, 0)
}
