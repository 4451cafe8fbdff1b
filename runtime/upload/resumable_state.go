package upload

import (
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/filehead"
	"mediastack.dev/runtime/media"
)

// UnknownLength is the length of an upload until its client declares it.
const UnknownLength = -1

// MaxMetadata bounds the metadata of a resumable upload, in bytes: a caption of full length in base64 takes 5.5 KiB of it.
const MaxMetadata = 8 << 10

// ResumableState is a resumable upload as the store keeps it.
type ResumableState struct {
	ItemID uuid.UUID
	Scope  media.Scope
	// Capability is that of the signature which created the upload; nil = none.
	Capability *Capability
	// Length of the file; UnknownLength until the client declares it.
	Length int64
	Fields media.Fields
	// Metadata is the text that Fields were read from, as the client sent it. It has
	// at most MaxMetadata bytes.
	Metadata string
	Reserved int64 // bytes held under the cap
	Progress Progress
	// Expires is the end of the lease, which everything that arrives renews. The purge
	// ends the upload some time later.
	Expires time.Time
	// Item is set once the upload is committed.
	Item *media.Item
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
	Parts       []media.Part
	// SinglePut is set when the whole file was stored with one PUT.
	SinglePut bool
	// IncompletePart is the variant that the last incomplete part was stored as, empty if
	// there was none. The part has the last IncompleteBytes bytes.
	IncompletePart  media.Variant
	IncompleteBytes int64
	// IncompleteHash is the hash of everything up to the end of the incomplete part: it continues
	// Digest, so that no byte of a file is hashed twice when it arrives.
	IncompleteHash media.SHA256
	// MimeType is the detected content type; empty until enough bytes have been received.
	MimeType string
	// Head is what the first bytes say that have been received.
	Head filehead.Head
}

// incompletePartKeys returns the keys of all incomplete parts of an upload.
func incompletePartKeys(itemID uuid.UUID) []string {
	return []string{media.ObjectKey(itemID, media.Incomplete0), media.ObjectKey(itemID, media.Incomplete1)}
}

// otherIncompletePart returns the variant for the incomplete part that follows this one.
func otherIncompletePart(variant media.Variant) media.Variant {
	if variant == media.Incomplete0 {
		return media.Incomplete1
	}
	return media.Incomplete0
}
