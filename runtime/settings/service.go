// Package settings resolves the image settings of an account from three layers, field by
// field: what a MediaSettings object pins, what the tenant set, and the defaults. The operator
// pins; tenants read and update over REST and MCP; uploads are processed with the result.
package settings

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// Store keeps layers. PostgreSQL implements it.
type Store interface {
	// Layers returns what is set for the account; the zero Layers when nothing is.
	Layers(ctx context.Context, accountID uuid.UUID) (Layers, error)
	// State returns what is set for the account and its version; NotFound without the account.
	State(ctx context.Context, accountID uuid.UUID) (State, error)
	// UpdateTenant passes what is set for the account to decide, and sets the tenant's fields
	// that decide returns. It writes nothing when decide fails or returns no field. It is one
	// transaction, during which no pin changes. The journal says that by has made the change.
	UpdateTenant(ctx context.Context, accountID uuid.UUID, by account.Actor, decide func(Layers) (Layer, error)) (Layers, error)
	// UpdateTenantOnce is UpdateTenant for a change that an owner has allowed: it ends the step in its transaction, and makes no change of other
	// settings than those of the step's version.
	UpdateTenantOnce(ctx context.Context, accountID uuid.UUID, by account.Actor, step account.ApprovedStep, decide func(Layers) (Layer, error)) (Layers, error)
	// Pin replaces the account's pins; it writes nothing when they are equal already.
	Pin(ctx context.Context, accountID uuid.UUID, pins Layer, by Object) error
	// Unpin removes the pins of the object with this UID, whatever the account is.
	Unpin(ctx context.Context, uid string) error
	// PinnedBy returns the objects that have pins in effect: those of accounts that are bound to a
	// MediaAccount.
	PinnedBy(ctx context.Context) ([]Object, error)
}

// State is what is set for an account, as it was at one moment.
type State struct {
	Layers
	// ObjectUID is the UID of the MediaAccount that the account is bound to.
	ObjectUID string
	// Version stands for all of it: see account.Version; 0 for a closed account.
	Version int64
}

// Object is a MediaSettings object.
type Object struct {
	Name string // "namespace/name"
	UID  string
}

// Service implements the use cases of settings.
type Service struct{ store Store }

// NewService returns a Service that uses store.
func NewService(store Store) *Service { return &Service{store: store} }

// Get returns the layers of an account. It never returns NotFound: an account with nothing
// set has the zero Layers.
func (s *Service) Get(ctx context.Context, accountID uuid.UUID) (Layers, error) {
	return s.store.Layers(ctx, accountID)
}

// State returns the layers of an account with their version.
func (s *Service) State(ctx context.Context, accountID uuid.UUID) (State, error) {
	return s.store.State(ctx, accountID)
}

// Outcome is the result of an update: what is set afterwards, and which fields changed.
type Outcome struct {
	Layers
	Changed []string // names, in the order of Fields, and of Pictures; empty when nothing changed
}

// Update applies a tenant's change, which by makes, all or nothing. The presets of the change replace all that the tenant has; none
// of them may have the name of a pinned one, unless it equals that. Fields that already have the
// requested value are ignored, so a document that was read can be written back with one
// field changed: the other fields keep their source, and pinned fields are accepted.
// Another value for a pinned field is a Conflict that names the MediaSettings object.
func (s *Service) Update(ctx context.Context, accountID uuid.UUID, by account.Actor, change Layer) (Outcome, error) {
	return s.update(change, func(decide func(Layers) (Layer, error)) (Layers, error) {
		return s.store.UpdateTenant(ctx, accountID, by, decide)
	})
}

// UpdateFor is Update for a principal, whose changes may have to wait for the yes of an owner: account.ErrApprovalRequired.
func (s *Service) UpdateFor(ctx context.Context, p account.Principal, change Layer) (Outcome, error) {
	guard := p.Guard
	switch {
	case guard == nil:
	case guard.Approved != nil:
		return s.update(change, func(decide func(Layers) (Layer, error)) (Layers, error) {
			return s.store.UpdateTenantOnce(ctx, p.Account.ID, p.Actor, *guard.Approved, decide)
		})
	case guard.Approval.Settings == account.RuleAlways:
		return Outcome{}, s.askFor(ctx, p.Account.ID, change)
	}
	return s.Update(ctx, p.Account.ID, p.Actor, change)
}

// askFor returns account.ErrApprovalRequired for a change that waits for an owner, and the error of one that could not be carried out: he is
// not asked about what is known to fail.
func (s *Service) askFor(ctx context.Context, accountID uuid.UUID, change Layer) error {
	if err := change.Validate(); err != nil {
		return err
	}
	current, err := s.Get(ctx, accountID)
	if err != nil {
		return err
	}
	if _, _, err := current.decide(change); err != nil {
		return err
	}
	return account.ErrApprovalRequired
}

// update applies a change by store.
func (s *Service) update(change Layer, store func(decide func(Layers) (Layer, error)) (Layers, error)) (Outcome, error) {
	if err := change.Validate(); err != nil {
		return Outcome{}, err
	}
	var changed []string
	layers, err := store(func(current Layers) (effective Layer, err error) {
		effective, changed, err = current.decide(change)
		return effective, err
	})
	return Outcome{Layers: layers, Changed: changed}, err
}

// decide returns what a change of the tenant amounts to, with the names of what it changes. It is an error if that is pinned.
func (l Layers) decide(change Layer) (effective Layer, changed []string, err error) {
	effective = change.without(l.Effective())
	pinned := l.Pinned.Fields()
	rejected := slices.DeleteFunc(effective.Fields(), func(name string) bool { return !slices.Contains(pinned, name) })
	pictures, changedPictures, rejectedPictures, err := l.changePictures(change.Pictures)
	if err != nil {
		return Layer{}, nil, err
	}
	effective.Pictures = pictures
	changed = append(effective.Fields(), changedPictures...)
	if rejected = append(rejected, rejectedPictures...); len(rejected) > 0 {
		return Layer{}, nil, fault.New(fault.Conflict, "%s: pinned by MediaSettings %s", strings.Join(rejected, ", "), l.PinnedBy)
	}
	return effective, changed, nil
}

// Pin fixes fields on behalf of a MediaSettings object.
func (s *Service) Pin(ctx context.Context, accountID uuid.UUID, pins Layer, by Object) error {
	if by.UID == "" {
		return fault.New(fault.Internal, "pins need the UID of their MediaSettings")
	}
	if err := pins.Validate(); err != nil {
		return err
	}
	return s.store.Pin(ctx, accountID, pins, by)
}

// Unpin removes the pins of the MediaSettings object with this UID.
func (s *Service) Unpin(ctx context.Context, uid string) error { return s.store.Unpin(ctx, uid) }

// PinnedBy returns the MediaSettings objects that have pins in effect.
func (s *Service) PinnedBy(ctx context.Context) ([]Object, error) { return s.store.PinnedBy(ctx) }
