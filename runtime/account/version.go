package account

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Version says what state an open account is in. A number changes with every change of what it
// stands for, and says nothing else.
type Version struct {
	ID        uuid.UUID
	Namespace string // of the MediaAccount
	Name      string // of the MediaAccount
	// Account stands for the account, its apps and its keys.
	Account int64
	// Settings stands for the pins, the tenant's settings and the binding of the account.
	Settings int64
}

// Holding is what an open account holds.
type Holding struct {
	ID        uuid.UUID
	Namespace string // of the MediaAccount
	Name      string // of the MediaAccount
	Usage     Usage
	// LastUsedAt is when a key of the account was last used; 1970 if none was.
	LastUsedAt time.Time
}

// VersionStore reads the state of many accounts with one statement. Package postgres implements it.
type VersionStore interface {
	// Versions returns the versions of the open accounts with these ids.
	Versions(ctx context.Context, ids []uuid.UUID) ([]Version, error)
	// VersionsAfter returns up to limit open accounts of the namespaces (nil = all) with an id after
	// the given one, in the order of their ids.
	VersionsAfter(ctx context.Context, namespaces []string, after uuid.UUID, limit int) ([]Version, error)
	// HoldingsAfter is VersionsAfter for what the accounts hold.
	HoldingsAfter(ctx context.Context, namespaces []string, after uuid.UUID, limit int) ([]Holding, error)
}

// versionPage is the number of accounts that one statement returns: it bounds the memory.
const versionPage = 10_000

// Versions returns the versions of the open accounts with these ids.
func (r *Registry) Versions(ctx context.Context, ids []uuid.UUID) ([]Version, error) {
	return r.store.Versions(ctx, ids)
}

// EachVersion calls visit for every open account of the namespaces (nil = all).
func (r *Registry) EachVersion(ctx context.Context, namespaces []string, visit func(Version)) error {
	return eachPage(versionPage, func(after uuid.UUID) ([]Version, error) {
		return r.store.VersionsAfter(ctx, namespaces, after, versionPage)
	},
		func(v Version) uuid.UUID { return v.ID }, visit)
}

// EachHolding calls visit for every open account of the namespaces (nil = all).
func (r *Registry) EachHolding(ctx context.Context, namespaces []string, visit func(Holding)) error {
	return eachPage(versionPage, func(after uuid.UUID) ([]Holding, error) {
		return r.store.HoldingsAfter(ctx, namespaces, after, versionPage)
	},
		func(h Holding) uuid.UUID { return h.ID }, visit)
}
