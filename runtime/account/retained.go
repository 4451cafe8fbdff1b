package account

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Retained is a closed account that is not erased.
type Retained struct {
	Account
	// InstallationID is the id of the installation that stores the account.
	InstallationID uuid.UUID
	// Items is the number of sealed items.
	Items int64
	// Bytes is the size of all items, drafts included.
	Bytes int64
	// Due is set once EraseAfter has passed, by the clock of the database.
	Due bool
}

// Closing returns the closing of the account.
func (a Retained) Closing() Closing {
	return Closing{InstallationID: a.InstallationID, AccountID: a.ID, ClosedAt: *a.ClosedAt}
}

// Bound is an open account and the MediaAccount that it is bound to.
type Bound struct {
	ID        uuid.UUID
	Namespace string
	Name      string
	ObjectUID string
}

// RetentionStore stores closed accounts. Package postgres implements it.
type RetentionStore interface {
	// InstallationID returns the id of the installation that the database belongs to.
	InstallationID(ctx context.Context) (uuid.UUID, error)
	// RetainedAccounts returns up to limit closed accounts with an id after the given one, in
	// the order of their ids.
	RetainedAccounts(ctx context.Context, after uuid.UUID, limit int) ([]Retained, error)
	// RetainedAccount returns one closed account; NotFound if it is open, or is erased.
	RetainedAccount(ctx context.Context, accountID uuid.UUID) (Retained, error)
	// SetErasure makes the account due for erasure at once, or keeps it. It returns NotFound if
	// the closing is not the current one, and Conflict if the erasure has begun and erase is not
	// set. It writes nothing if nothing differs.
	SetErasure(ctx context.Context, closing Closing, erase bool) error
	// BoundAccounts returns up to limit open accounts of the namespaces (nil = all) with an id
	// after the given one, in the order of their ids. Accounts that a take-over has unbound are
	// left out until takeOverGrace after it, by the clock of the database.
	BoundAccounts(ctx context.Context, namespaces []string, takeOverGrace time.Duration, after uuid.UUID, limit int) ([]Bound, error)
	// CloseOrphan closes the account as Retain does, if it is still bound to the same object,
	// and reports whether it did.
	CloseOrphan(ctx context.Context, orphan Bound) (closed bool, err error)
}

// retainedPage is the number of accounts that one query of RetainedAccounts or BoundAccounts
// returns.
const retainedPage = 1000

// EachRetained calls visit for every retained account.
func (r *Registry) EachRetained(ctx context.Context, visit func(Retained)) error {
	return eachPage(retainedPage, func(after uuid.UUID) ([]Retained, error) { return r.store.RetainedAccounts(ctx, after, retainedPage) },
		func(a Retained) uuid.UUID { return a.ID }, visit)
}

// EachBound calls visit for every open account of the namespaces (nil = all) that must have a
// MediaAccount. An account that a take-over has unbound must have one takeOverGrace after it.
func (r *Registry) EachBound(ctx context.Context, namespaces []string, takeOverGrace time.Duration, visit func(Bound)) error {
	return eachPage(retainedPage, func(after uuid.UUID) ([]Bound, error) {
		return r.store.BoundAccounts(ctx, namespaces, takeOverGrace, after, retainedPage)
	}, func(a Bound) uuid.UUID { return a.ID }, visit)
}

// eachPage visits the rows of all pages of size rows. A page that is not full is the last.
func eachPage[T any](size int, read func(after uuid.UUID) ([]T, error), id func(T) uuid.UUID, visit func(T)) error {
	for after := uuid.Nil; ; {
		page, err := read(after)
		if err != nil {
			return err
		}
		for _, row := range page {
			visit(row)
		}
		if len(page) < size {
			return nil
		}
		after = id(page[len(page)-1])
	}
}

// InstallationID returns the id of the installation.
func (r *Registry) InstallationID(ctx context.Context) (uuid.UUID, error) {
	return r.store.InstallationID(ctx)
}

// Retained returns a retained account; NotFound if the account is open, or is erased.
func (r *Registry) Retained(ctx context.Context, accountID uuid.UUID) (Retained, error) {
	return r.store.RetainedAccount(ctx, accountID)
}

// SetErasure makes a retained account due for erasure at once, or keeps its media.
func (r *Registry) SetErasure(ctx context.Context, closing Closing, erase bool) error {
	return r.store.SetErasure(ctx, closing, erase)
}

// CloseOrphan closes an account whose MediaAccount does not exist, and reports whether it did:
// the account may have been bound to another MediaAccount meanwhile.
func (r *Registry) CloseOrphan(ctx context.Context, orphan Bound) (closed bool, err error) {
	return r.store.CloseOrphan(ctx, orphan)
}
