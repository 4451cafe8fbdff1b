package account

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// DefaultEraseAfter is how long the media of an account with sealed items is kept after the
// account was closed for deletion.
const DefaultEraseAfter = 24 * time.Hour

// CloseOptions say what happens to the media of an account that is closed. The zero value
// retains it.
type CloseOptions struct {
	// Erase plans the deletion of the media.
	Erase bool
	// EraseAfter is how long the media is kept until then, by the database's clock. nil is
	// DefaultEraseAfter for an account with sealed items, and 0 for one without.
	EraseAfter *time.Duration
}

// ErasureStore deletes the media of closed accounts. Nothing of an open account is ever deleted:
// every statement checks it.
type ErasureStore interface {
	// FindAccountOfObject returns the account of a MediaAccount, closed or not: the open account
	// that is bound to this object, or will be after a take-over, else the account of this object
	// that was closed last. NotFound when there is none.
	FindAccountOfObject(ctx context.Context, namespace, name, objectUID string) (Account, error)
	// BeginErasure decides that the media of the account is deleted, if the account is closed and
	// its EraseAfter has passed. It is Conflict otherwise, and NotFound when the account is gone.
	// Repeating it is no error.
	BeginErasure(ctx context.Context, accountID uuid.UUID) (Account, error)
	// SetBucketRemoved records that an erasure that has begun is done with the bucket.
	SetBucketRemoved(ctx context.Context, accountID uuid.UUID) error
	// ItemsToErase returns how many items the account still has.
	ItemsToErase(ctx context.Context, accountID uuid.UUID) (int64, error)
	// EraseRows deletes the rows of an account whose bucket was removed, in bounded batches until
	// more returns false, and the account last. done reports whether the account is gone.
	EraseRows(ctx context.Context, accountID uuid.UUID, more func() bool) (done bool, err error)
	// AbandonErasure retains a closed account, even if its erasure has begun. It is Conflict once
	// the bucket was removed, or if the account is open.
	AbandonErasure(ctx context.Context, accountID uuid.UUID) (Account, error)
}

// Close closes the account: its keys are revoked and uploads are rejected. It returns the closed
// account with its EraseAfter. An account that is closed already is not changed.
func (r *Registry) Close(ctx context.Context, accountID uuid.UUID, options CloseOptions) (Account, error) {
	return r.store.CloseAccount(ctx, accountID, options)
}

// FindOfObject returns the account of a MediaAccount that is being deleted, closed or not.
func (r *Registry) FindOfObject(ctx context.Context, namespace, name, objectUID string) (Account, error) {
	return r.store.FindAccountOfObject(ctx, namespace, name, objectUID)
}

// BeginErasure decides that the media of a closed account is deleted.
func (r *Registry) BeginErasure(ctx context.Context, accountID uuid.UUID) (Account, error) {
	return r.store.BeginErasure(ctx, accountID)
}

// SetBucketRemoved records that an erasure is done with the bucket.
func (r *Registry) SetBucketRemoved(ctx context.Context, accountID uuid.UUID) error {
	return r.store.SetBucketRemoved(ctx, accountID)
}

// ItemsToErase returns how many items the account still has.
func (r *Registry) ItemsToErase(ctx context.Context, accountID uuid.UUID) (int64, error) {
	return r.store.ItemsToErase(ctx, accountID)
}

// EraseRows deletes rows of an account whose bucket was removed, while more returns true.
func (r *Registry) EraseRows(ctx context.Context, accountID uuid.UUID, more func() bool) (done bool, err error) {
	return r.store.EraseRows(ctx, accountID, more)
}

// Abandon retains a closed account, even if its erasure has begun.
func (r *Registry) Abandon(ctx context.Context, accountID uuid.UUID) (Account, error) {
	return r.store.AbandonErasure(ctx, accountID)
}
