package account

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// Store keeps accounts. PostgreSQL implements it. Every method is safe for
// concurrent use and returns faults (NotFound, Conflict, Unavailable).
type Store interface {
	// EnsureAccount creates the account (namespace, name) with candidate's id and
	// bucket, or brings the existing open one to the candidate's other fields. It
	// writes nothing when nothing differs. Conflict: the bucket is another open account's.
	EnsureAccount(ctx context.Context, candidate Account) (Account, error)
	// FindAccount returns the open account of a MediaAccount.
	FindAccount(ctx context.Context, namespace, name string) (Account, error)
	// SetBucketOwned notes whether the account's bucket is its own. It writes nothing
	// when that is known already.
	SetBucketOwned(ctx context.Context, accountID uuid.UUID, owned bool) error
	// SetApps opens the named apps and closes all others of the account, revoking
	// their keys. It writes nothing when they are already so.
	SetApps(ctx context.Context, accountID uuid.UUID, names []string, now time.Time) ([]App, error)
	// Keys returns the keys of the account's open apps that are valid at now, newest first.
	Keys(ctx context.Context, accountID uuid.UUID, now time.Time) ([]Key, error)
	// AddKey makes key the newest of its app; every other valid key of the app
	// expires at othersExpire at the latest, or at once when that has passed.
	AddKey(ctx context.Context, key Key, othersExpire time.Time) error
	// CloseAccount closes the account and revokes its keys. Closing twice is no error.
	CloseAccount(ctx context.Context, accountID uuid.UUID, now time.Time) error
	// EraseAccount removes up to batch item rows of a closed account and says how
	// many are left. When none is left, the account and all that hangs on it is
	// removed too. An account that is open, or was never this MediaAccount's, is not
	// touched and has nothing left. The objects are the caller's: it empties the
	// bucket afterwards.
	EraseAccount(ctx context.Context, namespace, name string, accountID uuid.UUID, batch int) (left int64, err error)
	// Usage adds up what the account holds. It counts drafts row by row, so call it at a slow pace.
	Usage(ctx context.Context, accountID uuid.UUID) (Usage, error)
}

// Registry is what the operator does with accounts.
type Registry struct {
	store        Store
	bucketPrefix string
	now          func() time.Time
}

// NewRegistry joins the use cases to their store. Buckets that are derived begin with bucketPrefix.
func NewRegistry(store Store, bucketPrefix string, now func() time.Time) *Registry {
	return &Registry{store: store, bucketPrefix: bucketPrefix, now: now}
}

// Ensure makes the account exist as spec says, and gives it with its id and bucket.
// Calling it again with the same spec writes nothing.
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
		ID: id, Namespace: spec.Namespace, Name: spec.Name, DisplayName: spec.DisplayName, Owners: owners,
		MaxStorage: spec.MaxStorage, MaxUploadSize: spec.MaxUploadSize, Bucket: bucket, Suspended: spec.Suspended, ToolPolicy: spec.ToolPolicy,
	})
}

// Find returns the open account of a MediaAccount; NotFound when there is none.
func (r *Registry) Find(ctx context.Context, namespace, name string) (Account, error) {
	return r.store.FindAccount(ctx, namespace, name)
}

// SetBucketOwned notes whether the account's bucket carries its marker. Uploads are
// refused while it does not.
func (r *Registry) SetBucketOwned(ctx context.Context, accountID uuid.UUID, owned bool) error {
	return r.store.SetBucketOwned(ctx, accountID, owned)
}

// SetApps makes the account's apps exactly the Default App and the named ones. An
// app that is no longer named is closed: its keys stop, its items stay.
func (r *Registry) SetApps(ctx context.Context, accountID uuid.UUID, names []string) ([]App, error) {
	all := append([]string{DefaultApp}, names...)
	return r.store.SetApps(ctx, accountID, all, r.now())
}

// Keys returns the valid keys of the account, newest first.
func (r *Registry) Keys(ctx context.Context, accountID uuid.UUID) ([]Key, error) {
	return r.store.Keys(ctx, accountID, r.now())
}

// IssueKey makes a new key for the app and gives it in clear, once. Older keys of
// the app stay valid for overlap; 0 ends them at once.
func (r *Registry) IssueKey(ctx context.Context, appID uuid.UUID, generation int64, overlap time.Duration) (Token, Key, error) {
	token, err := NewToken()
	if err != nil {
		return Token{}, Key{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Token{}, Key{}, err
	}
	now := r.now()
	key := Key{ID: id, AppID: appID, Hash: token.Hash(), Generation: generation, CreatedAt: now}
	if err := r.store.AddKey(ctx, key, now.Add(overlap)); err != nil {
		return Token{}, Key{}, err
	}
	return token, key, nil
}

// Close ends the account: its keys are revoked for good, its items and bucket stay.
func (r *Registry) Close(ctx context.Context, accountID uuid.UUID) error {
	return r.store.CloseAccount(ctx, accountID, r.now())
}

// EraseBatch is how many items one Erase call removes.
const EraseBatch = 500

// Erase removes the rows of the next batch of a closed account's items and says
// how many are left. Call it until left is 0; the account's own row is then gone
// too, and the bucket can be emptied. The account must have been that of the named
// MediaAccount: any other is as if it were gone already.
func (r *Registry) Erase(ctx context.Context, namespace, name string, accountID uuid.UUID) (left int64, err error) {
	return r.store.EraseAccount(ctx, namespace, name, accountID, EraseBatch)
}

// Usage adds up what the account holds.
func (r *Registry) Usage(ctx context.Context, accountID uuid.UUID) (Usage, error) {
	return r.store.Usage(ctx, accountID)
}
