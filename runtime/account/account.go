// Package account is the domain package of tenants: accounts, their apps and API keys, and the
// operations on their media. The operator calls Registry with the desired state; the runtime
// looks up principals. The package depends on neither HTTP nor Kubernetes, and reaches
// PostgreSQL through Store.
package account

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
)

// DefaultApp is the name of the app that every account has.
const DefaultApp = "default"

// Account is one tenant.
type Account struct {
	ID        uuid.UUID // see package cell; never reused
	Namespace string    // of the MediaAccount
	Name      string    // of the MediaAccount
	// NamespaceUID and ObjectUID are the UIDs of the namespace and of the MediaAccount that the
	// account is bound to. An empty NamespaceUID binds to the next MediaAccount of that
	// namespace and name.
	NamespaceUID string
	ObjectUID    string
	DisplayName  string
	Owners       []string // e-mail addresses that may log in, as ParseEmail returns them, sorted
	// MaxStorage is the cap in bytes: used + reserved never exceed it.
	MaxStorage int64
	// MaxUploadSize is the largest single file in bytes.
	MaxUploadSize int64
	Bucket        string
	// BucketOwned is set while the marker in the bucket names this account. Otherwise uploads
	// are rejected: the bucket may belong to another account.
	BucketOwned bool
	// BucketClaimed is set once the marker was written; it is never reset.
	BucketClaimed bool
	// Suspended is set while the account's requests are rejected. Nothing is deleted.
	Suspended bool
	// ToolPolicy restricts assistants and connected applications.
	ToolPolicy ToolPolicy
	// Origins are the web origins whose pages may call for the account: nil = those of the
	// installation, empty = none.
	Origins []string
	// Undo says which deletes can be undone.
	Undo Undo
	// Journal is how long the events of the account can be read; zero = it has no journal.
	Journal time.Duration
	// FullAddresses is set if its events have the whole e-mail addresses of people.
	FullAddresses bool
	// Gate checks files before they are sealed.
	Gate Gate
	// KeepLocation is set if the places at which files were made are kept.
	KeepLocation bool
	// Search says what searches by words look in.
	Search Search
	// ClosedAt is set when the MediaAccount was deleted, which ends the keys.
	ClosedAt *time.Time
	// EraseAfter is when the media of a closed account is deleted; nil = never.
	EraseAfter *time.Time
	// ErasingAt is when the deletion of the media began: the account cannot be opened again.
	ErasingAt *time.Time
	// BucketRemovedAt is when the deletion was done with the bucket: the rows are deleted next.
	BucketRemovedAt *time.Time
}

// Spec is the desired state of an account, which the operator passes to Registry.
type Spec struct {
	Namespace     string
	Name          string
	NamespaceUID  string
	ObjectUID     string
	DisplayName   string
	Owners        []string // in any spelling that ParseEmail accepts
	MaxStorage    int64
	MaxUploadSize int64
	// Bucket is derived by BucketName if it is empty. It cannot change after the first Ensure.
	Bucket     string
	Suspended  bool
	ToolPolicy ToolPolicy
	Origins    []string // nil = those of the installation
	Undo       Undo
	Journal    time.Duration // how long events can be read, in whole seconds; zero = there is no journal
	// FullAddresses has events with whole e-mail addresses of people.
	FullAddresses bool
	Gate          Gate
	KeepLocation  bool
	Search        Search
	// Binding is used by Ensure, while the MediaAccount has no account.
	Binding Binding
	// Provision is what Ensure creates with a new account.
	Provision Provision
}

// App is a namespace of items inside an account.
type App struct {
	ID        uuid.UUID
	AccountID uuid.UUID
	Name      string
}

// Key is the record of an API key. The key itself is not stored, see KeySecret.
type Key struct {
	ID         uuid.UUID
	AppID      uuid.UUID
	Hash       Hash
	Generation int64
	// Sequence orders the keys of an app.
	Sequence int64
	// ObjectUID is the UID of the MediaAccount whose Secret holds the key.
	ObjectUID string
	// Overlap is how long the older keys of the app stay valid after the delivery of this one.
	Overlap time.Duration
	// ReplacesSecret is set while the operator replaces an immutable Secret to write this key: that
	// the Secret is missing is no revocation then. A delivery resets it.
	ReplacesSecret bool
	CreatedAt      time.Time
	// DeliveredAt is when its Secret was written; nil while the key is pending.
	DeliveredAt *time.Time
	// ExpiresAt is set when a newer key replaces this one, which is valid until then.
	ExpiresAt *time.Time
	// LastUsedAt may lag by minutes.
	LastUsedAt *time.Time
}

// Pending reports whether the key is valid, but its delivery has not been recorded.
func (k Key) Pending() bool { return k.DeliveredAt == nil && k.ExpiresAt == nil }

// AccountKeys are the valid keys of an account, as the database sees them.
type AccountKeys struct {
	// Account is the account, and Version stands for it, its apps and its keys as they are here; 0 for a
	// closed one.
	Account Account
	Version int64
	// Now is the time of the database, whose clock decides when a key ends.
	Now time.Time
	// ProofKey makes and checks the proofs of the account's Secrets.
	ProofKey ProofKey
	// Apps are the open apps.
	Apps map[uuid.UUID]AppKeys
}

// AppKeys are the keys of an app.
type AppKeys struct {
	App App
	// Sequence is the sequence number of the newest key that the app ever had.
	Sequence int64
	// Valid are the valid keys, newest first.
	Valid []Key
}

// Principal identifies the app that a request acts for, with its account and its key.
type Principal struct {
	Account Account
	App     App
	Key     Key
	// Actor is who makes the changes of the request: the journal names it.
	Actor Actor
	// Guard is what its changes have to pass; nil = nothing.
	Guard *Guard
}

// By returns the principal of a request that another actor than the key makes.
func (p Principal) By(actor Actor) Principal {
	p.Actor = actor
	return p
}

// Usage is what an account holds, in bytes and items.
type Usage struct {
	// Used is what counts against the cap: sealed items, drafts, deleted items that can be restored,
	// renditions, and reservations, in bytes.
	Used        int64
	SealedItems int64
	SealedBytes int64
	DraftBytes  int64
	// DeletedBytes are those of deleted items that can be restored.
	DeletedBytes int64
	// RenditionBytes are those of renditions, which end where an upload needs their room.
	RenditionBytes int64
	// Reserved is the sum of the reservations of running uploads.
	Reserved int64
}

var invalidBucketChars = regexp.MustCompile(`[^a-z0-9-]+`)

// BucketName returns the bucket of an account: a readable part from prefix, namespace and name,
// and a suffix from the id that makes it unique. It has at most 63 characters of [a-z0-9-], which
// every S3 implementation accepts.
func BucketName(prefix, namespace, name string, id uuid.UUID) string {
	sum := sha256.Sum256(id[:])
	tail := hex.EncodeToString(sum[:5])
	head := invalidBucketChars.ReplaceAllString(strings.ToLower(fmt.Sprintf("%s-%s-%s", prefix, namespace, name)), "-")
	if maxHead := 63 - len(tail) - 1; len(head) > maxHead {
		head = head[:maxHead]
	}
	return strings.Trim(head, "-") + "-" + tail
}
