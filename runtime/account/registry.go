package account

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/fault"
)

// Store stores accounts. Package postgres implements it. Every method is safe for concurrent use
// and returns faults (NotFound, Conflict, Unavailable).
type Store interface {
	ErasureStore
	RetentionStore
	// Cell returns the number of the installation, which ids and keys contain.
	Cell() cell.Number
	VersionStore
	// UpdateAccount updates the open account that is bound to the MediaAccount with want's
	// namespace, name and ObjectUID; NotFound without one. It writes nothing if nothing differs,
	// and returns Conflict if want names another bucket.
	UpdateAccount(ctx context.Context, want Account) (Account, error)
	// BindAccount binds an account to the MediaAccount of want and updates it: the open account
	// of want's namespace and name, a closed one that binding chooses, or a new one with the id
	// of want and what provision says. An open account that belongs to another namespace of that name is
	// closed. It writes nothing if nothing differs, and returns Conflict if binding does, if want
	// names another bucket, or if the bucket belongs to another open account.
	BindAccount(ctx context.Context, want Account, provision Provision, binding Binding) (Account, error)
	// FindAccount returns the open account of a MediaAccount.
	FindAccount(ctx context.Context, namespace, name string) (Account, error)
	// SetBucketOwned records whether the bucket belongs to the account. It writes nothing if the
	// value is the same.
	SetBucketOwned(ctx context.Context, accountID uuid.UUID, owned bool) error
	// OpenApps opens the named apps, and returns them in the order of names, and the other open
	// apps of the account. It writes nothing if all are open.
	OpenApps(ctx context.Context, accountID uuid.UUID, names []string) (open, others []App, err error)
	// CloseApps closes apps of the account and revokes their keys.
	CloseApps(ctx context.Context, accountID uuid.UUID, apps []App) error
	KeyStore
	// CloseAccount closes the account, revokes its keys and plans the deletion of its media. An
	// account that is closed already is returned as it is.
	CloseAccount(ctx context.Context, accountID uuid.UUID, options CloseOptions) (Account, error)
	// HasItems reports whether the account has an item, sealed or not.
	HasItems(ctx context.Context, accountID uuid.UUID) (bool, error)
	// SampleFiles returns the keys of the originals of some of the oldest and of the newest items.
	SampleFiles(ctx context.Context, accountID uuid.UUID) ([]string, error)
	// Usage returns what the account holds, from counters.
	Usage(ctx context.Context, accountID uuid.UUID) (Usage, error)
}

// Registry implements the operator's use cases of accounts.
type Registry struct {
	store        Store
	bucketPrefix string
	now          func() time.Time
}

// NewRegistry returns a Registry that uses store. Derived bucket names begin with bucketPrefix.
func NewRegistry(store Store, bucketPrefix string, now func() time.Time) *Registry {
	return &Registry{store: store, bucketPrefix: bucketPrefix, now: now}
}

// Update updates the account that is bound to the MediaAccount of spec and returns it; NotFound
// if the MediaAccount is not bound yet. A second call with the same spec writes nothing. If the fault is that of origins, the
// account keeps those it had, and has the rest of the spec: nothing may keep an owner or a suspension from being in force.
func (r *Registry) Update(ctx context.Context, spec Spec) (Account, error) {
	want, err := spec.account()
	if err != nil {
		return Account{}, err
	}
	invalid := checkOrigins(spec.Origins)
	if invalid != nil {
		current, err := r.store.FindAccount(ctx, spec.Namespace, spec.Name)
		if err != nil {
			return Account{}, err
		}
		want.Origins = current.Origins
	}
	updated, err := r.store.UpdateAccount(ctx, want)
	if err == nil && invalid != nil {
		err = fault.New(fault.Invalid, "%v. The origins of before stay in force", invalid)
	}
	return updated, err
}

// Ensure binds the MediaAccount of spec to an account and returns it with its id and bucket:
// the one that it had, a retained one that spec.Binding permits, or a new one. A second call with
// the same spec writes nothing.
func (r *Registry) Ensure(ctx context.Context, spec Spec) (Account, error) {
	want, err := spec.account()
	if err != nil {
		return Account{}, err
	}
	if err := checkOrigins(spec.Origins); err != nil {
		return Account{}, fault.New(fault.Invalid, "%v", err)
	}
	if want.ID = spec.Provision.AccountID; want.ID == uuid.Nil {
		if want.ID, err = r.store.Cell().NewID(); err != nil {
			return Account{}, err
		}
	}
	provision := spec.Provision
	provision.Bucket = cmp.Or(spec.Bucket, BucketName(r.bucketPrefix, spec.Namespace, spec.Name, want.ID))
	return r.store.BindAccount(ctx, want, provision, spec.Binding)
}

// account returns the account that the spec describes; its bucket is empty unless the spec names
// one.
func (spec Spec) account() (Account, error) {
	owners, err := parseOwners(spec.Owners)
	if err != nil {
		return Account{}, err
	}
	if spec.MaxStorage <= 0 || spec.MaxUploadSize <= 0 {
		return Account{}, fault.New(fault.Invalid, "maxStorage and maxUploadSize must be positive")
	}
	return Account{
		Namespace: spec.Namespace, Name: spec.Name, NamespaceUID: spec.NamespaceUID, ObjectUID: spec.ObjectUID, DisplayName: spec.DisplayName, Owners: owners,
		MaxStorage: spec.MaxStorage, MaxUploadSize: spec.MaxUploadSize, Bucket: spec.Bucket, Suspended: spec.Suspended, ToolPolicy: spec.ToolPolicy, Origins: spec.Origins, Undo: spec.Undo,
		Journal: spec.Journal, FullAddresses: spec.FullAddresses, Gate: spec.Gate, Search: spec.Search, KeepLocation: spec.KeepLocation,
	}, nil
}

// Find returns the open account of a MediaAccount; NotFound when there is none.
func (r *Registry) Find(ctx context.Context, namespace, name string) (Account, error) {
	return r.store.FindAccount(ctx, namespace, name)
}

// SetBucketOwned records whether the marker in the account's bucket names the account. Uploads
// are rejected while it does not.
func (r *Registry) SetBucketOwned(ctx context.Context, accountID uuid.UUID, owned bool) error {
	return r.store.SetBucketOwned(ctx, accountID, owned)
}

// OpenApps opens the Default App and the named apps of the account, and returns them, and the open
// apps that are not named.
func (r *Registry) OpenApps(ctx context.Context, accountID uuid.UUID, names []string) (open, others []App, err error) {
	all := append([]string{DefaultApp}, names...)
	return r.store.OpenApps(ctx, accountID, all)
}

// CloseApps closes apps of the account: their keys are revoked, their items are kept.
func (r *Registry) CloseApps(ctx context.Context, accountID uuid.UUID, apps []App) error {
	return r.store.CloseApps(ctx, accountID, apps)
}

// Usage returns what the account holds.
func (r *Registry) Usage(ctx context.Context, accountID uuid.UUID) (Usage, error) {
	return r.store.Usage(ctx, accountID)
}

// HasItems reports whether the account has an item, sealed or not.
func (r *Registry) HasItems(ctx context.Context, accountID uuid.UUID) (bool, error) {
	return r.store.HasItems(ctx, accountID)
}

// SampleFiles returns the keys of some files of the account: a bucket that has none of them is not
// the one that the account used.
func (r *Registry) SampleFiles(ctx context.Context, accountID uuid.UUID) ([]string, error) {
	return r.store.SampleFiles(ctx, accountID)
}
