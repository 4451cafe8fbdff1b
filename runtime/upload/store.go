package upload

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/media"
)

// Store keeps uploads. PostgreSQL implements it. Errors are faults.
type Store interface {
	// Cell returns the number of the installation, which ids contain.
	Cell() cell.Number

	// OpenUpload durably records that objects of this item may reach S3 from now on, and
	// reserves bytes for them under the cap. Deleted items that could be restored end where their room
	// is needed. QuotaExceeded when the upload exceeds the cap.
	OpenUpload(ctx context.Context, itemID uuid.UUID, scope media.Scope, bytes int64, leaseEnds time.Time) error
	// OpenCountedUpload is OpenUpload within a capability that has a count, of which it takes one use in
	// the same transaction. Capability.Used when none is left. The use is given back when the upload
	// ends without an item.
	OpenCountedUpload(ctx context.Context, itemID uuid.UUID, scope media.Scope, capability Capability, bytes int64, leaseEnds time.Time) error
	// Reserve reserves more bytes for the upload and renews its lease. QuotaExceeded when the
	// upload exceeds the cap; NotFound when the purge has expired the upload.
	Reserve(ctx context.Context, itemID uuid.UUID, scope media.Scope, bytes int64, leaseEnds time.Time) error
	// CommitUpload makes the draft, seals it if the item is sealed, and ends the upload in one
	// transaction, and adjusts the reservation to the item's bytes. NotFound when the purge has expired the upload.
	CommitUpload(ctx context.Context, item media.Item, by account.Actor) error
	// AbandonUpload ends the upload, releases its reservation and queues the removal of what
	// may be stored under keys, due at notBefore. It returns nil without keys, and when the item
	// has been committed: then it changes nothing.
	AbandonUpload(ctx context.Context, itemID uuid.UUID, scope media.Scope, keys []string, notBefore time.Time) (*media.Removal, error)

	// SpendBytes counts bytes of a connection towards its ceilings, before they are stored; a Busy fault if they do not permit them. release
	// subtracts them again, if no item has come of them; after a crash they stay counted. Without ceilings it does nothing.
	SpendBytes(ctx context.Context, scope media.Scope, bytes int64) (release func(context.Context), err error)

	// RegisterWriter durably records that this process stores objects of an account in a bucket from now on, of items whose ids are
	// not smaller than since. nil if the process has no lease: it can store nothing before it is recorded.
	RegisterWriter(ctx context.Context, accountID uuid.UUID, bucket string, since uuid.UUID) (*Writer, error)
	// RemoveWriters removes writers all of whose objects have an item, or a queued removal.
	RemoveWriters(ctx context.Context, numbers []int64) error
	// CommitStored makes the draft of objects that a writer has stored, and takes their bytes under the cap, in one transaction. keyID is the key of the caller, which must still be valid; zero = it is not looked at. Deleted items that could be restored end where their room is needed. QuotaExceeded when the account
	// has no room, and a fault of ErrKeyEnded or ErrWriterEnded: nothing was committed then. After any other error the item may have
	// been committed, or may still be.
	CommitStored(ctx context.Context, item media.Item, by account.Actor, writer *Writer, keyID uuid.UUID) error
	// AbandonStored queues the removal of what a writer may have stored under keys, due at notBefore. uncertain is set
	// after a commit whose outcome is not known: it returns nil and changes nothing if the item has been committed, and ensures that
	// it cannot be anymore if not.
	AbandonStored(ctx context.Context, itemID uuid.UUID, scope media.Scope, writer *Writer, uncertain bool, keys []string, notBefore time.Time) (*media.Removal, error)

	// EndUploadsOfDeadProcesses ends up to batch uploads of processes whose lease has ended, as
	// AbandonUpload does. keysOf returns the keys of the objects that an upload may have stored; their
	// removal is due at notBefore.
	EndUploadsOfDeadProcesses(ctx context.Context, batch int, keysOf func(itemID uuid.UUID) []string, notBefore time.Time) (ended int, err error)

	// OpenResumable durably records the upload and reserves its bytes, and a use of its capability if
	// that has a count. QuotaExceeded when the account has no room, Capability.Used when no use is left.
	OpenResumable(ctx context.Context, upload ResumableState) error
	// FindResumable returns an upload that is running or committed, expired or not. NotFound
	// when there never was one, when it belongs to another app, was ended or purged, and
	// when its item is gone.
	FindResumable(ctx context.Context, scope media.Scope, itemID uuid.UUID) (ResumableState, error)
	// ListResumables returns uploads of the app that are running and have not expired, the newest first. A part
	// examines at most MaxExamined of the app.
	ListResumables(ctx context.Context, scope media.Scope, q RunningQuery, now time.Time) (RunningPage, error)
	// SetLength declares a length that was unknown. Conflict when it is known.
	SetLength(ctx context.Context, scope media.Scope, itemID uuid.UUID, length int64) error
	// SaveProgress replaces the progress and renews the lease. Conflict when the upload was
	// ended, when it has not received exactly before bytes, and when it has another multipart
	// upload; replacing it by none is allowed.
	SaveProgress(ctx context.Context, itemID uuid.UUID, before int64, progress Progress, expires time.Time) error
	// CommitResumable makes the draft as CommitUpload does, and queues the removal of the
	// incomplete parts in the same transaction. It returns that removal, due at notBefore.
	CommitResumable(ctx context.Context, item media.Item, by account.Actor, incompleteParts []string, notBefore time.Time) (*media.Removal, error)
}
