package media

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/installation"
)

// Scope is the app that a call acts for. A credential gives access to the items of its own app
// only, so every method that names an item takes a Scope.
type Scope struct {
	AccountID uuid.UUID
	AppID     uuid.UUID
	Bucket    string
	// Actor is who makes the change.
	Actor account.Actor
	// Gated is set if files are checked before they are sealed.
	Gated bool
	// Guard is what the change has to pass in its transaction; nil = nothing.
	Guard *account.Guard
}

// Store keeps items and counters. PostgreSQL implements it. Errors are faults. An item
// of another app is NotFound, like a missing one.
type Store interface {
	// Item returns a draft or a sealed item.
	Item(ctx context.Context, scope Scope, id uuid.UUID) (Item, error)
	// ItemForDelivery returns an item by id alone, with its owner. NotFound also when
	// the account is suspended or closed.
	ItemForDelivery(ctx context.Context, id uuid.UUID) (Item, Owner, error)
	// Seal makes a draft visible and permanent. It returns a sealed item unchanged. A draft whose file is to be checked before stays one, and
	// is returned with CheckSealWanted: it is sealed once it may be. Rejected if it may not be.
	Seal(ctx context.Context, scope Scope, id uuid.UUID, now time.Time) (Item, error)
	// UpdateItem changes a draft or a sealed item in one transaction with the counters and lists that it is
	// in, and increments its version. It returns when no process has the former item in a cache. decide
	// returns what the item becomes, and whether that is another one; with an error, nothing is changed
	// and UpdateItem returns the item as it is. decide is called while no other call can change the item;
	// repeated is set when an earlier attempt may have been committed.
	UpdateItem(ctx context.Context, scope Scope, id uuid.UUID, decide func(item Item, repeated bool) (changed Item, differs bool, err error)) (Item, error)
	// DeleteItem deletes the row and queues the removal of its objects in one transaction. The
	// removal is due at notBefore, so that the caller can attempt it first.
	DeleteItem(ctx context.Context, scope Scope, id uuid.UUID, notBefore time.Time) (Removal, error)
	// DeleteItemPermanently is DeleteItem also for an item that was deleted and can be restored.
	DeleteItemPermanently(ctx context.Context, scope Scope, id uuid.UUID, notBefore time.Time) (Removal, error)
	// DeleteItemUndoably deletes a sealed item so that it can be restored. It deletes a draft as DeleteItem
	// does; the removal is nil otherwise.
	DeleteItemUndoably(ctx context.Context, scope Scope, id uuid.UUID, window UndoWindow, notBefore time.Time) (*Removal, error)
	// RestoreItem restores a deleted item, and reports whether it did: an item that is not deleted is
	// returned unchanged.
	RestoreItem(ctx context.Context, scope Scope, id uuid.UUID) (item Item, restored bool, err error)
	// Deleted returns a deleted item that can be restored; ErrItemNotFound.
	Deleted(ctx context.Context, scope Scope, id uuid.UUID) (DeletedItem, error)
	// ListDeleted returns deleted items that can be restored, the latest delete first, and how many there are.
	ListDeleted(ctx context.Context, scope Scope, limit, offset int) (DeletedList, error)
	// ListItems returns sealed items, newest first, and how many there are, in one snapshot.
	ListItems(ctx context.Context, scope Scope, filter Filter, limit, offset int) (List, error)
	// Groups returns up to limit groups after a name, which have sealed items of the access.
	Groups(ctx context.Context, scope Scope, access Access, after string, limit int) (GroupList, error)
	// MetadataKeys returns up to limit keys of the metadata of sealed items, those of most items first.
	MetadataKeys(ctx context.Context, scope Scope, limit int) (KeyCounts, error)
	// Stems returns the stem of each word in a language: the beginning that its forms have in common, or another form of it.
	Stems(ctx context.Context, scope Scope, language string, words []string) ([]string, error)
	// CountItems counts sealed items in constant time.
	CountItems(ctx context.Context, scope Scope, filter Filter) (int64, error)
	// FindItems returns up to wanted items of the list of a query, in its order, after a position or from
	// its start, and from the page of the query on. It examines a bounded number of items.
	FindItems(ctx context.Context, scope Scope, q Query, after *Position, wanted int) (Found, error)
	// CountMatches counts sealed items that match a search. It examines a bounded number of items.
	CountMatches(ctx context.Context, scope Scope, search Search) (Matches, error)
	// AvailableBytes returns how many bytes the account can still hold, in the room of deleted items, too. It is negative when
	// the cap was lowered below what the account holds.
	AvailableBytes(ctx context.Context, scope Scope) (bytes, maxStorage int64, err error)
	// Totals returns the account's totals in constant time.
	Totals(ctx context.Context, scope Scope) (Totals, error)
	// FinishRemovals deletes removals that were carried out from the queue.
	FinishRemovals(ctx context.Context, ids []int64) error
}

// PurgeStore is the part of the database that only the purge uses. PostgreSQL implements it.
type PurgeStore interface {
	// WithPurgeLock calls purge unless another process does; then it returns false.
	WithPurgeLock(ctx context.Context, purge func(ctx context.Context) error) (ran bool, err error)
	// PurgeDrafts deletes up to batch drafts created before cutoff and queues the removal
	// of their objects.
	PurgeDrafts(ctx context.Context, cutoff time.Time, batch int) (purged int, err error)
	// EndTombstones ends up to batch deleted items that could be restored until before cutoff, and queues the
	// removal of their objects. The next run ends those that another transaction has locked.
	EndTombstones(ctx context.Context, cutoff time.Time, batch int) (ended int, err error)
	// ExpireUploads ends up to batch uploads whose lease ended before cutoff, as
	// AbandonUpload does. keysOf returns the keys of the objects that an upload may have stored.
	ExpireUploads(ctx context.Context, cutoff time.Time, batch int, keysOf func(itemID uuid.UUID) []string) (expired int, err error)
	// DeleteExpiredResumables deletes the state of up to batch uploads that were committed or
	// ended and that expired before cutoff.
	DeleteExpiredResumables(ctx context.Context, cutoff time.Time, batch int) (int, error)
	// DeleteExpiredCapabilities deletes up to batch counts of capabilities that expired before cutoff.
	DeleteExpiredCapabilities(ctx context.Context, cutoff time.Time, batch int) (int, error)
	// InspectRemovals returns what is left in the queue of removals, with up to so many failing buckets.
	InspectRemovals(ctx context.Context, buckets int) (RemovalQueue, error)
	// CompactPageIndex updates the pagination index of every app whose lists changed.
	CompactPageIndex(ctx context.Context) error

	RemovalStore
}

// RemovalQueue is what is left in the queue of removals.
type RemovalQueue struct {
	Pending int64
	// MaxAttempts is the largest number of failed attempts at one removal.
	MaxAttempts int
	// FailingBuckets are the buckets of removals that have failed.
	FailingBuckets []installation.Bucket
}

// Removal is a queued removal of objects.
type Removal struct {
	ID        int64
	AccountID uuid.UUID
	Bucket    string
	Keys      []string
	// AbortMultipart is set when incomplete multipart uploads of the keys are to be aborted as well.
	AbortMultipart bool
	// Attempts counts the failed attempts.
	Attempts int
}

// ObjectStore stores objects in S3. objectstore.Store implements it.
type ObjectStore interface {
	// Put stores size bytes of body under key. It may read body again from its
	// start, and after an error for a while after it returned.
	Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error
	StartMultipart(ctx context.Context, bucket, key, contentType string) (Multipart, error)
	// ResumeMultipart returns a multipart upload that StartMultipart began.
	ResumeMultipart(bucket, key, id string, parts []Part) Multipart
	Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error)
	ObjectRemover
}

// ObjectRemover removes objects from S3. A missing object, and a missing bucket, are success.
type ObjectRemover interface {
	Remove(ctx context.Context, bucket string, keys []string) error
	// AbortIncomplete aborts every incomplete multipart upload of exactly this key.
	AbortIncomplete(ctx context.Context, bucket, key string) error
}

// ObjectInfo describes an object in the object store.
type ObjectInfo struct {
	Key      string
	Bytes    int64
	Modified time.Time
}

// IncompleteUpload is a multipart upload that was neither completed nor aborted.
type IncompleteUpload struct {
	Key       string
	Initiated time.Time
}

// ErrPartsLost is wrapped by the errors of a Multipart whose parts the store has lost or
// replaced, so that a retry can't succeed.
var ErrPartsLost = errors.New("multipart parts are missing")

// Part is a stored part of a multipart upload.
type Part struct {
	ETag  string `json:"etag"`
	Bytes int64  `json:"bytes"`
}

// Multipart is an object that is stored part by part. All parts but the last have 5 MiB or more.
type Multipart interface {
	// ID and Parts are the arguments of ResumeMultipart.
	ID() string
	Parts() []Part
	Part(ctx context.Context, body io.ReadSeeker, size int64) error
	// Complete makes the object of the parts, and checks that it exists. It can be repeated.
	Complete(ctx context.Context, contentType string) error
	// Abort removes the parts. It succeeds if there are none.
	Abort(ctx context.Context) error
}
