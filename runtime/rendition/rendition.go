// Package rendition is the domain package of renditions: pictures that are made of an image on demand, as a preset of its
// account says (docs/decisions/0031). A rendition is made once by all replicas, stored in the bucket of the account as
// long as its storage cap has room, and ended when it was not used for the longest time, when its preset has
// changed, and with its item. Packages delivery and rest call Service.Get; the runtime's program runs Service.Run, and its
// purge Purger. Nothing here decides who may read an item: that is done before, as for the item's file.
package rendition

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// Request is what an address asks for: a recipe that the preset of this name allows.
type Request struct {
	Preset string
	Recipe media.Recipe
	// Admit is called before a job of the image workers begins for the request, once; its error, which is that of the
	// request then, keeps it from beginning. It is not called for a rendition that is stored, or that another request
	// has made. It may be called after Get has returned, by another goroutine. nil = every job begins.
	Admit func() error

	// again makes the rendition without asking the database, which has it: its object is missing, and nothing may be written.
	again bool
}

// Result is a rendition. It has a stored object, Data, or both. Who gets one releases it.
type Result struct {
	// Object is the stored object, of which the key is empty if there was no room to store it. Bytes, MimeType
	// and SHA256 are always set; Variant is empty.
	Object media.Object
	// Width and Height are in pixels.
	Width, Height int
	// Data are the bytes of a rendition that was just made, if it was not stored or has up to 256 KiB; nil = read them
	// from the object. They are shared between requests, must not be changed, and not be used after Release.
	Data []byte

	hold *hold // nil if nothing has to be released
}

// Stored reports whether the object store has the rendition.
func (r Result) Stored() bool { return r.Object.Key != "" }

// RedirectTTL is how long a URL of the object of a result may be valid. The object of a rendition that ends, other than with its
// item, is kept for 5 minutes (migration 00020), of which the row may have been in a cache for cacheTTL; a minute is left
// for slow requests and clocks that differ.
const RedirectTTL = 5*time.Minute - cacheTTL - time.Minute

// Ref names a rendition.
type Ref struct {
	ItemID uuid.UUID
	Key    media.RenditionKey
}

// State is what the database has of a rendition.
type State int

// The states.
const (
	Absent State = iota // nobody makes it
	Making              // a process makes it
	Ready               // it is stored
)

// Stored is the row of a stored rendition.
type Stored struct {
	Result // without Data
	// UsedAt is when it was last used, to within touchAfter and the time of the next batch.
	UsedAt time.Time
}

// Claim is the right of a process to make a rendition, a row of the database. ID is the fence, and names the object:
// nothing is ever stored twice under one name, so that a removal which is carried out late cannot hit
// an object that was made again.
type Claim struct {
	ID uuid.UUID
	Ref
	AccountID uuid.UUID
	Preset    string
	RecipeID  media.RecipeID
	// Lease is after which time another process may make the rendition. It may earlier if the process of the claim
	// was declared dead.
	Lease time.Duration
	// Eager is true for a rendition that nobody has asked for: none is ended to make room for it, and it is the first
	// that makes room.
	Eager bool
}

// ObjectKey returns the key of a rendition's object in the bucket of the account of its item.
func ObjectKey(itemID, id uuid.UUID) string {
	return media.ObjectKey(itemID, media.Variant(objectPrefix+id.String()))
}

// IDOfObject returns the id of the rendition that an object of an item is; false for another object.
func IDOfObject(key string) (uuid.UUID, bool) {
	name, found := strings.CutPrefix(path.Base(key), objectPrefix)
	id, err := uuid.Parse(name)
	return id, found && err == nil && id.String() == name
}

// objectPrefix begins the last element of the keys of renditions. The database makes keys of it, too (migration 00020).
const objectPrefix = "rendition-"

// Store keeps the rows of renditions. PostgreSQL implements it. Errors are faults.
type Store interface {
	// FindRendition returns the state of a rendition of an account's item, and its row if it is stored.
	FindRendition(ctx context.Context, accountID uuid.UUID, ref Ref) (Stored, State, error)
	// NearestRendition returns the stored rendition of an account's item that is the most like a picture of this size,
	// and its preset; NotFound if there is none. It is no view. One of the same shape comes first, then one that is not smaller.
	NearestRendition(ctx context.Context, accountID, itemID uuid.UUID, width, height int) (result Result, preset string, err error)
	// EndRendition ends a stored rendition whose object is missing.
	EndRendition(ctx context.Context, accountID uuid.UUID, ref Ref, id uuid.UUID) error
	// TouchRenditions records that renditions were used now, unless they were used after before.
	TouchRenditions(ctx context.Context, used []Ref, now, before time.Time) error
}

// Claims keeps the claims of renditions. PostgreSQL implements it. Errors are faults.
type Claims interface {
	// ClaimRendition claims a rendition, unless it is stored or another process makes it: then it returns
	// false. It ends the claim of a process that died or took too long. NotFound if the item does not exist.
	ClaimRendition(ctx context.Context, claim Claim) (claimed bool, err error)
	// ReserveRendition reserves bytes for the object of a claim under the storage cap, and durably records that the
	// object may be stored from now on. To make room it ends renditions of the account that were not used for the
	// longest time. It returns false, and ends none, if there is no room even so; ErrLost if the claim was lost; Unavailable if the
	// account is locked for longer than a moment.
	ReserveRendition(ctx context.Context, claim Claim, bytes int64) (reserved bool, err error)
	// FinishRendition records that the object of a claim is stored. ErrLost if the claim was lost, or the item or the
	// rendition was ended meanwhile: the removal of the object is queued then; Unavailable if the account is locked for longer
	// than a moment.
	FinishRendition(ctx context.Context, claim Claim, result Result) error
	// AbandonRendition ends a claim that is not finished. If bytes are reserved for it, it releases them, and queues the
	// removal of the object.
	AbandonRendition(ctx context.Context, claim Claim) error
}

// ErrLost is the error of a claim that has ended.
var ErrLost = fault.New(fault.Conflict, "the rendition was ended, or is made by another process")

// PresetCount is what is stored of one recipe of a preset.
type PresetCount struct {
	Preset   string
	RecipeID media.RecipeID
	Items    int64 // renditions
	Bytes    int64
}

// PresetTotal is what is stored of a preset of an account, stale or not.
type PresetTotal struct {
	Namespace, Account string // of the MediaAccount
	Preset             string
	Items              int64 // renditions
	Bytes              int64
}

// Counts returns what is stored of the presets of an account. PostgreSQL implements it.
type Counts interface {
	// PresetCounts reads counters: the number of renditions does not matter. Recipes that no preset of the account has
	// any more are stale.
	PresetCounts(ctx context.Context, accountID uuid.UUID) ([]PresetCount, error)
	// EagerPending returns the number of items of which pictures may still have to be made in advance: those in the queue, and,
	// while a changed preset is applied, all sealed items that were not looked at, those that are no images included.
	EagerPending(ctx context.Context, accountID uuid.UUID) (int64, error)
}

// Presets returns the recipes that the presets of an account allow.
type Presets interface {
	// Recipes returns every recipe, of each density and format, of the presets that are in effect, and those of views.
	Recipes(ctx context.Context, accountID uuid.UUID) ([]Request, error)
}
