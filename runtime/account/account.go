// Package account is the tenants' side of the heart: accounts, their apps and API
// keys, and what can be done with them. The operator calls Registry to hand over
// desired state; the runtime looks up principals. It knows no HTTP and no
// Kubernetes, and reaches PostgreSQL through Store.
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
	ID          uuid.UUID // UUIDv7, given once, never reused
	Namespace   string    // of the MediaAccount
	Name        string    // of the MediaAccount
	DisplayName string
	Owners      []string // e-mail addresses that may log in, as ParseEmail returns them, sorted
	// MaxStorage is the cap in bytes: used + reserved never exceed it.
	MaxStorage int64
	// MaxUploadSize is the largest single file in bytes.
	MaxUploadSize int64
	Bucket        string
	// BucketOwned is set while the operator knows the bucket's marker to name this
	// account. Without it nothing is uploaded: the bucket could be somebody else's.
	BucketOwned bool
	// Suspended accounts keep everything and serve nothing.
	Suspended bool
	// ToolPolicy restricts assistants and connected applications.
	ToolPolicy ToolPolicy
	// ClosedAt is set when the MediaAccount was deleted; a closed account's keys are revoked for good.
	ClosedAt *time.Time
}

// Spec is the desired state of an account, as the operator hands it over.
type Spec struct {
	Namespace     string
	Name          string
	DisplayName   string
	Owners        []string // in any spelling that ParseEmail accepts
	MaxStorage    int64
	MaxUploadSize int64
	// Bucket is derived by BucketName when empty. It is fixed at the first Ensure.
	Bucket     string
	Suspended  bool
	ToolPolicy ToolPolicy
}

// App is a namespace of items inside an account.
type App struct {
	ID        uuid.UUID
	AccountID uuid.UUID
	Name      string
}

// Key is what is known of an API key. The key itself is known to its holder only.
type Key struct {
	ID         uuid.UUID
	AppID      uuid.UUID
	Hash       Hash
	Generation int64
	CreatedAt  time.Time
	// ExpiresAt is set on a key that was rotated away: it is valid until then.
	ExpiresAt *time.Time
	// LastUsedAt is refreshed at a slow pace, so it can lag by minutes.
	LastUsedAt *time.Time
}

// Principal is who a request acts for: one app of one account, opened by one key.
type Principal struct {
	Account Account
	App     App
	Key     Key
}

// Usage is what an account holds, in bytes and items.
type Usage struct {
	SealedItems int64
	SealedBytes int64
	DraftItems  int64
	DraftBytes  int64
	// Reserved is promised to running uploads.
	Reserved int64
}

var notBucket = regexp.MustCompile(`[^a-z0-9-]+`)

// BucketName derives the bucket of an account from prefix, namespace, name and id:
// readable at the front, unique by its end, at most 63 characters of [a-z0-9-]
// (the common subset of S3 bucket naming rules).
func BucketName(prefix, namespace, name string, id uuid.UUID) string {
	sum := sha256.Sum256(id[:])
	tail := hex.EncodeToString(sum[:5])
	head := notBucket.ReplaceAllString(strings.ToLower(fmt.Sprintf("%s-%s-%s", prefix, namespace, name)), "-")
	if longest := 63 - len(tail) - 1; len(head) > longest {
		head = head[:longest]
	}
	return strings.Trim(head, "-") + "-" + tail
}
