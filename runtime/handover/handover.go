// Package handover has an assistant request one file of a person, who hands it over on a page of the service without an account
// (docs/decisions/0059). The permission is an upload capability with a count of one. The address of the page has a token, of which the
// capability is derived, and the row of the request has everything else, so neither of them is worth anything alone. Packages mcp and
// webupload call Service.
package handover

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// Paths of the page of a request: the token follows PagePath, and a suffix may follow the token.
const (
	PagePath = "/upload/"
	// FileSuffix is where a file is posted as multipart/form-data, and ResumableSuffix where uploads by TUS are created.
	FileSuffix      = "/file"
	ResumableSuffix = "/resumable"
)

// Config bounds requests. The tags are flag and environment names.
type Config struct {
	TTL time.Duration `name:"handover-ttl" env:"SERVICE_HANDOVER_TTL" default:"1h" help:"How long a person can begin to hand over a file that an assistant has requested (request_upload), from 1m to 24h. A pinned maxSignatureSeconds shortens it."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if c.TTL < upload.MinCapabilityLifetime || c.TTL > upload.MaxCapabilityLifetime {
		return fmt.Errorf("SERVICE_HANDOVER_TTL must be from %s to %s, not %s", upload.MinCapabilityLifetime, upload.MaxCapabilityLifetime, c.TTL)
	}
	return nil
}

const (
	// MaxOpen is how many requests of one connection can wait for their file.
	MaxOpen = 100
	// Retention is how long a request can be read after its expiry: as long as the count of its capability, which reports whether it was used.
	Retention = media.CapabilityRetention
)

// Request is a file that an assistant has requested.
type Request struct {
	ID        uuid.UUID
	AccountID uuid.UUID
	AppID     uuid.UUID
	KeyID     uuid.UUID
	// GrantID is the authorization of an application; zero for an assistant with a key.
	GrantID uuid.UUID
	// Capability is what the upload may be. Its ExpiresAt is when uploads may no longer begin.
	Capability upload.Capability
	CreatedAt  time.Time
}

// Connection returns the connection that has requested the file.
func (r Request) Connection() string {
	if r.GrantID != uuid.Nil {
		return account.ConnectionOfGrant(r.GrantID)
	}
	return account.ConnectionOfKey(r.KeyID)
}

// State is what has become of a request.
type State string

// The states.
const (
	Waiting   State = "waiting"   // nobody has handed a file over
	Uploading State = "uploading" // a file is on its way
	Uploaded  State = "uploaded"  // the file is an item
	Rejected  State = "rejected"  // the scanner of the account has found something in the file
	Deleted   State = "deleted"   // the file was an item, which is deleted
	Expired   State = "expired"   // nobody has handed a file over in time
)

// Final reports whether the state stays, but for a delete.
func (s State) Final() bool { return s != Waiting && s != Uploading }

// Found is a request with what has become of it.
type Found struct {
	Request
	State State
	// ItemID is the item, of the state Uploaded; of Uploading it is the id of the upload.
	ItemID uuid.UUID
	// Received and Length are bytes of a resumable upload that is on its way; Length is 0 while it is not known.
	Received, Length int64
	// Resumable is set if the upload that is on its way is resumable.
	Resumable bool
}

// Store keeps requests. Package postgres implements it.
type Store interface {
	// CreateRequest adds a request. Busy if most of the connection wait already.
	CreateRequest(ctx context.Context, request Request, most int) error
	// FindRequest returns a request, by its id; NotFound if there is none. Of a state that depends on the time, the store returns Waiting.
	FindRequest(ctx context.Context, id uuid.UUID) (Found, error)
	// RequestOf returns the id of the request that has a capability; NotFound if there is none.
	RequestOf(ctx context.Context, capability media.SHA256) (uuid.UUID, error)
}

// PurgeStore deletes requests. Package postgres implements it.
type PurgeStore interface {
	// ExpireRequests deletes up to batch requests that expired before cutoff.
	ExpireRequests(ctx context.Context, cutoff time.Time, batch int) (int, error)
}

// ErrNotFound is the fault of a request that does not exist, and of one of another connection.
var ErrNotFound = fault.New(fault.NotFound, "there is no such request for a file, or it has expired long ago")
