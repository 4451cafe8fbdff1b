package media

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/filehead"
)

// UnknownLength is the length of an upload until its client declares it.
const UnknownLength = -1

// ResumableState is a resumable upload as the store keeps it.
type ResumableState struct {
	ItemID uuid.UUID
	Scope  Scope
	// Capability is that of the signature which created the upload; nil = none.
	Capability *Capability
	// Length of the file; UnknownLength until the client declares it.
	Length int64
	Fields Fields
	// Metadata is the text that Fields were read from, as the client sent it. It has
	// at most MaxMetadata bytes.
	Metadata string
	Reserved int64 // bytes held under the cap
	Progress Progress
	// Expires is the end of the lease, which everything that arrives renews. The purge
	// ends the upload some time later.
	Expires time.Time
	// Item is set once the upload is committed.
	Item *Item
}

// Phase returns the state of the upload in the state machine that the comment of Resumable shows.
func (s ResumableState) Phase() Phase {
	switch {
	case s.Item != nil:
		return Committed
	case s.Length != UnknownLength && s.Progress.Received == s.Length:
		return Received
	}
	return Receiving
}

// expired reports whether the upload has expired. Responses have the expiry in whole
// seconds, so every replica rounds it down.
func (s ResumableState) expired(now time.Time) bool {
	return !now.Before(s.Expires.Truncate(time.Second))
}

// Progress is what a resumable upload has received, and where: all that any replica needs
// to continue it. It is durable before Received is sent to a client.
//
//	0                                                              Received
//	|--- Parts[0] ---|--- Parts[1] ---| ... |--- incomplete part ---|
//	'---------- hashed in Digest -----------'
type Progress struct {
	Received int64
	// Digest is the state of the hash over everything before the incomplete part.
	Digest []byte
	// MultipartID and Parts are those of the multipart upload.
	MultipartID string
	Parts       []Part
	// SinglePut is set when the whole file was stored with one PUT.
	SinglePut bool
	// IncompletePart is the variant that the last incomplete part was stored as, empty if
	// there was none. The part has the last IncompleteBytes bytes.
	IncompletePart  Variant
	IncompleteBytes int64
	// IncompleteHash is the hash of everything up to the end of the incomplete part: it continues
	// Digest, so that no byte of a file is hashed twice when it arrives.
	IncompleteHash SHA256
	// MimeType is the detected content type; empty until enough bytes have been received.
	MimeType string
	// Head is what the first bytes say that have been received.
	Head filehead.Head
}

// Part is a stored part of a multipart upload.
type Part struct {
	ETag  string `json:"etag"`
	Bytes int64  `json:"bytes"`
}

// incompletePartVariants are the names of incomplete parts. They alternate, so that the
// one that counts is never overwritten.
var incompletePartVariants = [...]Variant{"incomplete-0", "incomplete-1"}

// incompletePartKeys returns the keys of all incomplete parts of an upload.
func incompletePartKeys(itemID uuid.UUID) []string {
	return []string{ObjectKey(itemID, incompletePartVariants[0]), ObjectKey(itemID, incompletePartVariants[1])}
}

// otherIncompletePart returns the variant for the incomplete part that follows this one.
func otherIncompletePart(variant Variant) Variant {
	if variant == incompletePartVariants[0] {
		return incompletePartVariants[1]
	}
	return incompletePartVariants[0]
}

// ResumableStore keeps resumable uploads. PostgreSQL implements it.
type ResumableStore interface {
	// OpenResumable durably records the upload and reserves its bytes, and a use of its capability if
	// that has a count. QuotaExceeded when the account has no room, ErrCapabilityUsed when no use is left.
	OpenResumable(ctx context.Context, upload ResumableState) error
	// FindResumable returns an upload that is running or committed, expired or not. NotFound
	// when there never was one, when it belongs to another app, was ended or purged, and
	// when its item is gone.
	FindResumable(ctx context.Context, scope Scope, itemID uuid.UUID) (ResumableState, error)
	// ListResumables returns uploads of the app that are running and have not expired, the newest first. A part
	// examines at most ExaminedUploads of the app.
	ListResumables(ctx context.Context, scope Scope, q RunningQuery, now time.Time) (RunningPage, error)
	// SetLength declares a length that was unknown. Conflict when it is known.
	SetLength(ctx context.Context, scope Scope, itemID uuid.UUID, length int64) error
	// SaveProgress replaces the progress and renews the lease. Conflict when the upload was
	// ended, when it has not received exactly before bytes, and when it has another multipart
	// upload; replacing it by none is allowed.
	SaveProgress(ctx context.Context, itemID uuid.UUID, before int64, progress Progress, expires time.Time) error
	// CommitResumable makes the draft as CommitUpload does, and queues the removal of the
	// incomplete parts in the same transaction. It returns that removal, due at notBefore.
	CommitResumable(ctx context.Context, item Item, incompleteParts []string, notBefore time.Time) (*Removal, error)
}
