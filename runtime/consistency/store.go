package consistency

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
)

// AccountStore finds the accounts to check; Package postgres implements it.
type AccountStore interface {
	// FindAccount returns the open account of a MediaAccount; NotFound without one.
	FindAccount(ctx context.Context, namespace, name string) (account.Account, error)
	// AccountByID returns an open or closed account; NotFound without one.
	AccountByID(ctx context.Context, id uuid.UUID) (account.Account, error)
	// OpenAccountsAfter returns up to limit open accounts with ids after the given one, in the order of ids.
	OpenAccountsAfter(ctx context.Context, after uuid.UUID, limit int32) ([]account.Account, error)
}

// RestoreCounts are rows of an account that a restore of the database may have turned back.
type RestoreCounts struct {
	// ExpiredDrafts are drafts that the purge would remove, with their bytes; some of them may have
	// been sealed after the backup.
	ExpiredDrafts      int64 `json:"expiredDrafts"`
	ExpiredDraftsBytes int64 `json:"expiredDraftsBytes"`
	// Keys are the API keys that are valid. A key that ended after the backup is valid again.
	Keys int64 `json:"keys"`
}

// RestoreStore counts for a report after a restore; Package postgres implements it.
type RestoreStore interface {
	AccountStore
	// CountRestored counts rows of an account. Drafts created before cutoff are expired.
	CountRestored(ctx context.Context, accountID uuid.UUID, cutoff time.Time) (RestoreCounts, error)
}

// Store reads and repairs the rows of an account; Package postgres implements it.
type Store interface {
	// Installation returns when a restore of the database was confirmed.
	Installation(ctx context.Context) (installation.State, error)
	// ItemsAfter returns up to limit items, drafts included, with their objects, renditions included, and with ids after the given one, in the order of ids.
	ItemsAfter(ctx context.Context, accountID, after uuid.UUID, limit int32) ([]ItemObjects, error)
	// ItemsByID returns the objects, renditions included, of those of the items that exist.
	ItemsByID(ctx context.Context, accountID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]media.Objects, error)
	// SizeMismatchesAfter returns up to limit size mismatches of items with ids after the given one, in the order of ids.
	SizeMismatchesAfter(ctx context.Context, accountID, after uuid.UUID, limit int32) ([]SizeMismatch, error)
	// OverdueItemsAfter returns up to limit deleted items whose time was over before the cutoff, with ids
	// after the given one, in the order of ids.
	OverdueItemsAfter(ctx context.Context, accountID, after uuid.UUID, cutoff time.Time, limit int32) ([]OverdueItem, error)
	// EndOverdueItems ends those of the deleted items whose time was still over before the cutoff, as the
	// purge does, and returns them: row and counters change, and the removal of the objects is queued, in one
	// transaction.
	EndOverdueItems(ctx context.Context, accountID uuid.UUID, ids []uuid.UUID, cutoff time.Time) ([]uuid.UUID, error)
	// FindReferences returns what refers to keys, which belong to the items with these ids, in their order, in one snapshot.
	FindReferences(ctx context.Context, accountID uuid.UUID, bucket string, ids []uuid.UUID, keys []string) (References, error)
	// CountPending counts running uploads and queued removals of the account.
	CountPending(ctx context.Context, accountID uuid.UUID) (uploads, removals int64, err error)
	// FindDrift compares the counters with a recount, in one snapshot.
	FindDrift(ctx context.Context, accountID uuid.UUID) ([]Drift, error)
	// RepairCounters corrects the counters beside a running service, and returns the drift that it corrected.
	RepairCounters(ctx context.Context, accountID uuid.UUID) ([]Drift, error)
	// RepairItemBytes sets the bytes of an item to the sum of its objects'. It changes no counter.
	RepairItemBytes(ctx context.Context, accountID, itemID uuid.UUID) error
	// DropObject removes a derivative, or a rendition, from an item: it changes row and counters and queues
	// the removal in one transaction. It returns nil if the item does not refer to the object.
	DropObject(ctx context.Context, accountID uuid.UUID, bucket string, itemID uuid.UUID, object media.Object) (*media.Removal, error)
	// FinishRemovals deletes removals from the queue.
	FinishRemovals(ctx context.Context, ids []int64) error
}

// ObjectStore reads and repairs the bucket of an account; objectstore.Store implements it.
type ObjectStore interface {
	// List calls visit for every object, in the order of keys.
	List(ctx context.Context, bucket, prefix string, visit func(media.ObjectInfo) error) error
	// ListIncomplete calls visit for every incomplete multipart upload; prefix is empty or a whole key.
	ListIncomplete(ctx context.Context, bucket, prefix string, visit func(media.IncompleteUpload) error) error
	// Stat returns NotFound for an object that does not exist.
	Stat(ctx context.Context, bucket, key string) (media.ObjectInfo, error)
	Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error)
	Remove(ctx context.Context, bucket string, keys []string) error
	AbortIncomplete(ctx context.Context, bucket, key string) error
}

// Guard decides whether objects may be removed. installation.Guard and installation.ReadOnly
// implement it.
type Guard interface {
	// CheckBucket returns a fault unless the bucket's marker names the account and the
	// installation. It wraps installation.ErrNoBucket or ErrNoMarker if either is missing.
	CheckBucket(ctx context.Context, bucket installation.Bucket) (installation.Marker, error)
	// Writable returns a fault while nothing may be removed.
	Writable() error
}

// guardedObjects removes nothing while writable returns an error.
type guardedObjects struct {
	ObjectStore
	writable func() error
}

// Remove implements ObjectStore.
func (g guardedObjects) Remove(ctx context.Context, bucket string, keys []string) error {
	if err := g.writable(); err != nil {
		return err
	}
	return g.ObjectStore.Remove(ctx, bucket, keys)
}

// AbortIncomplete implements ObjectStore.
func (g guardedObjects) AbortIncomplete(ctx context.Context, bucket, key string) error {
	if err := g.writable(); err != nil {
		return err
	}
	return g.ObjectStore.AbortIncomplete(ctx, bucket, key)
}

// ItemObjects are the objects that the row of an item refers to.
type ItemObjects struct {
	ID      uuid.UUID
	Objects media.Objects
}

// SizeMismatch is an item whose recorded bytes are not the sum of its objects'.
type SizeMismatch struct {
	ItemID           uuid.UUID
	Recorded, Actual int64
}

// OverdueItem is a deleted item that could be restored until a time that is over.
type OverdueItem struct {
	ID              uuid.UUID
	RestorableUntil time.Time
}

// The counters of an account: the names of their tables. DeletedTotal is the columns of app_total for the
// deleted items that can be restored, RenditionBytes the column of account_usage for renditions.
const (
	AccountUsage   = "account_usage"
	AppTotal       = "app_total"
	GroupTotal     = "group_total"
	DeletedTotal   = "deleted_total"
	PageIndex      = "item_page_block"
	RenditionBytes = "rendition_bytes"
	RenditionTotal = "rendition_total"
)

// CounterValue is the value of a counter: AccountUsage and RenditionBytes have bytes only, GroupTotal and
// PageIndex have no bytes, and the items of DeletedTotal and RenditionTotal are in Private.
type CounterValue struct {
	Public, Private, Bytes int64
}

// Drift is a counter that differs from a recount.
type Drift struct {
	Counter          string
	AppID            uuid.UUID // zero for AccountUsage, RenditionBytes and RenditionTotal
	Group            string    // of GroupTotal, and of PageIndex unless the list is that of the app; preset and recipe of RenditionTotal
	FirstID          uuid.UUID // of a block of PageIndex
	Recorded, Actual CounterValue
}

// References are the rows that refer to object keys, all read in one snapshot.
type References struct {
	Items    map[string]bool // keys in items
	Uploads  map[string]bool // ids of items with a running upload
	Writers  map[string]bool // keys that a writer may be about to record
	Removals map[string]bool // keys in queued removals
	Aborts   map[string]bool // those of Removals whose multipart uploads are aborted too
}
