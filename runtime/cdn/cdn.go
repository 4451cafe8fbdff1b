// Package cdn lets a CDN in front of the service keep public files for long: it names the tags of each file, and purges what has changed.
//
// The statement of a change queues its purges, by triggers, so a purge is queued if, and only if, the change is committed. A process sends it
// once no replica serves what was before, and a second time a moment later: an answer of before may have been on its way to the CDN.
package cdn

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"hash"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Purge names what the CDN has to forget: the files of an item, the pictures of a preset, or all public files of an account.
type Purge struct {
	ID        int64
	AccountID uuid.UUID
	// ItemID is uuid.Nil, and Preset empty, for another kind.
	ItemID uuid.UUID
	Preset string
	// Again is set if it was sent once already.
	Again bool
}

// TagLength is the length of a tag, in characters.
const TagLength = 12

// Tags returns the tags of files. A tag tells nothing about what it stands for. It depends on the id of the installation alone, so a rotation of
// the server secret changes none. It is safe for concurrent use.
type Tags struct{ key [16]byte }

// NewTags returns the tags of an installation.
func NewTags(installation uuid.UUID) *Tags { return &Tags{installation} }

// encoding has lower-case letters and digits: some CDNs ignore the case of tags.
var encoding = base32.HexEncoding.WithPadding(base32.NoPadding)

func (t *Tags) tag(kind string, of uuid.UUID, name string) string {
	mac := hmac.New(sha256.New, t.key[:])
	write(mac, kind, of, name)
	return strings.ToLower(encoding.EncodeToString(mac.Sum(nil)))[:TagLength]
}

func write(mac hash.Hash, kind string, of uuid.UUID, name string) {
	_, _ = mac.Write([]byte(kind + "\n")) // a hash returns no error
	_, _ = mac.Write(of[:])
	_, _ = mac.Write([]byte(name))
}

// Item returns the tag of all files and pictures of an item.
func (t *Tags) Item(id uuid.UUID) string { return t.tag("item", id, "") }

// Account returns the tag of all public files of an account.
func (t *Tags) Account(id uuid.UUID) string { return t.tag("account", id, "") }

// Group returns the tag of the files of a group of an app.
func (t *Tags) Group(appID uuid.UUID, group string) string { return t.tag("group", appID, group) }

// Preset returns the tag of the pictures of a preset of an account.
func (t *Tags) Preset(accountID uuid.UUID, preset string) string {
	return t.tag("preset", accountID, preset)
}

// of returns the tag of what a Purge names.
func (t *Tags) of(p Purge) string {
	switch {
	case p.ItemID != uuid.Nil:
		return t.Item(p.ItemID)
	case p.Preset != "":
		return t.Preset(p.AccountID, p.Preset)
	default:
		return t.Account(p.AccountID)
	}
}

// Purger sends purges to a CDN. Package cdnclient implements it.
type Purger interface {
	// Purge returns nil once everything that has one of the tags is gone from the CDN, or is not served anymore. It is called with at most
	// MaxTags tags, by several goroutines.
	Purge(ctx context.Context, tags []string) error
}

// MaxTags is how many tags are purged by one request.
const MaxTags = 30

// Store keeps the queue. Package postgres implements it.
type Store interface {
	// KeepPurger records that there is a purger, so that purges are queued from now on, and returns the id of the installation.
	KeepPurger(ctx context.Context) (installation uuid.UUID, err error)
	// EnqueueCDNPurges adds a task of PurgeWork if purges are due, and returns how many tasks were added. It does nothing while there is one that
	// is not claimed, or of which the claim lasts longer than stalled; of the others there are ten at most, more than processes can die within a lease.
	EnqueueCDNPurges(ctx context.Context, stalled time.Duration) (int, error)
	// DueCDNPurges returns up to most purges that are due, in the order in which they are.
	DueCDNPurges(ctx context.Context, most int) ([]Purge, error)
	// AwaitItemCaches returns when no process serves what was changed before the call.
	AwaitItemCaches(ctx context.Context) error
	// CDNPurgesSent makes purges that were sent for the first time due again after pause, and ends those that were sent Again. What another
	// process has sent meanwhile stays as that has left it.
	CDNPurgesSent(ctx context.Context, sent []Purge, pause time.Duration) error
	// WaitingCDNPurges returns how many purges were not sent yet, and for how long the oldest one has waited.
	WaitingCDNPurges(ctx context.Context) (purges int64, oldest time.Duration, err error)
}

// PurgeStore removes what is queued while there is no purger. Package postgres implements it.
type PurgeStore interface {
	// ForgetPurger ends the queue once no process has had a purger for a day.
	ForgetPurger(ctx context.Context) error
	// ForgetPurges removes up to size purges that no process will send, and returns how many.
	ForgetPurges(ctx context.Context, size int) (int, error)
}
