package account

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// Store stores accounts. postgres.Store implements it. Every method is safe for concurrent use
// and returns faults (NotFound, Conflict, Unavailable).
type Store interface {
	ErasureStore
	// EnsureAccount creates the account (namespace, name) with the id and the bucket of
	// candidate, or updates the other fields of the open account. It writes nothing if nothing
	// differs, and returns Conflict if the bucket belongs to another open account.
	EnsureAccount(ctx context.Context, candidate Account) (Account, error)
	// FindAccount returns the open account of a MediaAccount.
	FindAccount(ctx context.Context, namespace, name string) (Account, error)
	// SetBucketOwned records whether the bucket belongs to the account. It writes nothing if the
	// value is the same.
	SetBucketOwned(ctx context.Context, accountID uuid.UUID, owned bool) error
	// SetApps opens the named apps, and closes all others of the account and revokes their keys.
	// It writes nothing if nothing differs.
	SetApps(ctx context.Context, accountID uuid.UUID, names []string, now time.Time) ([]App, error)
	// Keys returns the keys of the account's open apps that are valid at now, newest first.
	Keys(ctx context.Context, accountID uuid.UUID, now time.Time) ([]Key, error)
	// AddKey adds the newest key of an app. Every other valid key of the app expires at
	// othersExpire at the latest, or at once if that has passed.
	AddKey(ctx context.Context, key Key, othersExpire time.Time) error
	// CloseAccount closes the account, revokes its keys and plans the deletion of its media. An
	// account that is closed already is returned as it is.
	CloseAccount(ctx context.Context, accountID uuid.UUID, options CloseOptions) (Account, error)
	// Usage returns what the account holds. It counts drafts row by row, so call it rarely.
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

// Ensure creates or updates the account of spec and returns it with its id and bucket. A second
// call with the same spec writes nothing.
func (r *Registry) Ensure(ctx context.Context, spec Spec) (Account, error) {
	owners, err := parseOwners(spec.Owners)
	if err != nil {
		return Account{}, err
	}
	if spec.MaxStorage <= 0 || spec.MaxUploadSize <= 0 {
		return Account{}, fault.New(fault.Invalid, "maxStorage and maxUploadSize must be positive")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Account{}, err
	}
	bucket := spec.Bucket
	if bucket == "" {
		bucket = BucketName(r.bucketPrefix, spec.Namespace, spec.Name, id)
	}
	return r.store.EnsureAccount(ctx, Account{
		ID: id, Namespace: spec.Namespace, Name: spec.Name, NamespaceUID: spec.NamespaceUID, ObjectUID: spec.ObjectUID, DisplayName: spec.DisplayName, Owners: owners,
		MaxStorage: spec.MaxStorage, MaxUploadSize: spec.MaxUploadSize, Bucket: bucket, Suspended: spec.Suspended, ToolPolicy: spec.ToolPolicy,
	})
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

// SetApps sets the apps of the account: the Default App and the named ones. An app that is not
// named any more is closed: its keys are revoked, its items are kept.
func (r *Registry) SetApps(ctx context.Context, accountID uuid.UUID, names []string) ([]App, error) {
	all := append([]string{DefaultApp}, names...)
	return r.store.SetApps(ctx, accountID, all, r.now())
}

// Keys returns the valid keys of the account, newest first.
func (r *Registry) Keys(ctx context.Context, accountID uuid.UUID) ([]Key, error) {
	return r.store.Keys(ctx, accountID, r.now())
}

// IssueKey creates a key of the app and returns it in plain text, which is not stored. Older keys
// of the app stay valid for overlap; with 0 they expire at once.
func (r *Registry) IssueKey(ctx context.Context, appID uuid.UUID, generation int64, overlap time.Duration) (KeySecret, Key, error) {
	token, err := NewKeySecret()
	if err != nil {
		return KeySecret{}, Key{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return KeySecret{}, Key{}, err
	}
	now := r.now()
	key := Key{ID: id, AppID: appID, Hash: token.Hash(), Generation: generation, CreatedAt: now}
	if err := r.store.AddKey(ctx, key, now.Add(overlap)); err != nil {
		return KeySecret{}, Key{}, err
	}
	return token, key, nil
}

// Usage returns what the account holds.
func (r *Registry) Usage(ctx context.Context, accountID uuid.UUID) (Usage, error) {
	return r.store.Usage(ctx, accountID)
}
