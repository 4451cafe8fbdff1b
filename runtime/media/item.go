// Package media holds the domain of the service: what an item is and what happens to it. It has the use cases seal, get, find, list,
// count, totals, change, delete, restore and purge, which REST, TUS and MCP call by Service. Package upload makes items of files. The
// package does not depend on HTTP, Kubernetes or libvips; it reaches PostgreSQL and S3 through the interfaces Store and ObjectStore.
package media

import (
	"encoding/hex"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/imageformat"
)

// Access is who may read a sealed item's file.
type Access string

// The values of Access. Private is the default everywhere.
const (
	Public  Access = "public"
	Private Access = "private"
)

// Variant names one stored object of an item.
type Variant string

// The variants of an item. Only Original is always there.
const (
	Original  Variant = "original"
	WebP      Variant = "webp"
	Thumbnail Variant = "thumbnail"
)

// Shown is not stored: in an address it is the object that Item.File returns at the time of the request. The underscore keeps it apart from
// the names of presets.
const Shown Variant = "_file"

// The variants of the incomplete part of a resumable upload. They alternate, so that the one that counts is never overwritten.
const (
	Incomplete0 Variant = "incomplete-0"
	Incomplete1 Variant = "incomplete-1"
)

// SHA256 is the hash of an object's bytes. Its JSON form is hexadecimal.
type SHA256 []byte

// String returns the lower-case hexadecimal form.
func (h SHA256) String() string { return hex.EncodeToString(h) }

// MarshalText returns the lower-case hexadecimal form.
func (h SHA256) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses the hexadecimal form.
func (h *SHA256) UnmarshalText(text []byte) error {
	sum, err := hex.DecodeString(string(text))
	*h = sum
	return err
}

// Object is one durably stored object of an item.
type Object struct {
	Variant  Variant `json:"variant"`
	Key      string  `json:"key"`
	Bytes    int64   `json:"bytes"`
	MimeType string  `json:"mimeType"`
	SHA256   SHA256  `json:"sha256"`
}

// Objects are the objects of an item, the original first.
type Objects []Object

// Find returns the object of a variant.
func (o Objects) Find(variant Variant) (Object, bool) {
	for _, object := range o {
		if object.Variant == variant {
			return object, true
		}
	}
	return Object{}, false
}

// Bytes returns the total size of the objects, which counts towards the cap and the totals.
func (o Objects) Bytes() int64 {
	var sum int64
	for _, object := range o {
		sum += object.Bytes
	}
	return sum
}

// ErrItemNotFound is the fault of an item that does not exist or belongs to another app: callers
// cannot tell the two apart.
var ErrItemNotFound = fault.New(fault.NotFound, "media item not found")

// Item is a stored media file with its metadata.
type Item struct {
	ID        uuid.UUID // see package cell; ids sort by the time of creation
	AccountID uuid.UUID
	AppID     uuid.UUID
	FileName  string // as the client sent it, cleaned by CleanFileName
	Access    Access
	Caption   string
	Group     string // empty = none
	Ref       string // of the upload signature; empty = none
	Metadata  Metadata
	Objects   Objects
	// Derivatives is when the thumbnail and the conversion are made.
	Derivatives DerivativesState
	// Check is what is known of the file in an account that checks files before they are sealed.
	Check CheckState
	Facts Facts
	// Capture is what the file says of how it was made. A new item has it in its facts.
	Capture capture.Capture
	// Focus is nil unless a client has set it.
	Focus *FocusPoint
	// Version increases with every change of the item, from 1.
	Version   int
	CreatedAt time.Time
	// SealedAt is nil while the item is a draft.
	SealedAt *time.Time
}

// DerivativesState is when the thumbnail and the conversion of an item are made. It is stored.
type DerivativesState int16

// The states.
const (
	// DerivativesWithUpload is an item whose derivatives were made before its upload was answered, or that has none.
	DerivativesWithUpload DerivativesState = iota
	// DerivativesPending is an item whose derivatives are to be made. Its file is the original until then.
	DerivativesPending
	// DerivativesLater is an item whose derivatives were made after its upload was answered. The address of its file is the same as before.
	DerivativesLater
)

// Thumbnail returns the thumbnail of the item. One that is to be made has a type only.
func (i Item) Thumbnail() (Object, bool) {
	if i.Derivatives == DerivativesPending {
		return Object{Variant: Thumbnail, MimeType: imageformat.WebP.MIMEType()}, true
	}
	return i.Objects.Find(Thumbnail)
}

// FileVariant returns the variant in the address of File: Shown if the file may change from the original to a conversion, and else that of
// the object.
func (i Item) FileVariant() Variant {
	if i.Derivatives != DerivativesWithUpload {
		return Shown
	}
	return i.File().Variant
}

// Object returns the object that an address with a variant names.
func (i Item) Object(variant Variant) (Object, bool) {
	if variant == Shown && i.Derivatives != DerivativesWithUpload {
		return i.File(), true
	}
	return i.Objects.Find(variant)
}

// Draft reports whether the item is still unsealed.
func (i Item) Draft() bool { return i.SealedAt == nil }

// File returns the object that `file`, `mimeType` and `size` of the media document
// describe: the WebP conversion if there is one, else the original.
func (i Item) File() Object {
	if converted, ok := i.Objects.Find(WebP); ok {
		return converted
	}
	return i.original()
}

func (i Item) original() Object {
	original, _ := i.Objects.Find(Original)
	return original
}

// isImage reports whether the file is an image, whether or not this service can read it.
func (i Item) isImage() bool { return strings.HasPrefix(i.original().MimeType, "image/") }

// Owner is the account that an item belongs to: its name, and the bucket of the item's objects.
type Owner struct{ Namespace, Name, Bucket string }

// KeyPrefix is the beginning of the keys of all objects of items. The id of the item follows, so keys sort as ids do.
const KeyPrefix = "media/"

// ObjectKey returns the key of an item's object in the bucket of its account.
func ObjectKey(itemID uuid.UUID, variant Variant) string {
	return KeyPrefix + itemID.String() + "/" + string(variant)
}

// WriterKey returns the key of an item's object that a writer stores before anything is recorded of the item. number is that of the
// writer.
func WriterKey(itemID uuid.UUID, variant Variant, number int64) string {
	return ObjectKey(itemID, variant) + "." + strconv.FormatInt(number, 10)
}

// DerivativeKey returns the key of a derivative that a writer stores in one attempt, after the upload. Another attempt stores it under another
// key: a removal that is carried out late cannot hit what it has stored.
func DerivativeKey(itemID uuid.UUID, variant Variant, attempt uuid.UUID, number int64) string {
	return WriterKey(itemID, variant+"-"+Variant(hex.EncodeToString(attempt[8:])), number)
}

// WriterOfKey returns the item and the number of the writer in a key; false for a key that WriterKey never returns.
func WriterOfKey(key string) (itemID uuid.UUID, number int64, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 {
		return uuid.UUID{}, 0, false
	}
	variant, digits, _ := strings.Cut(parts[2], ".")
	itemID, err := uuid.Parse(parts[1])
	if err == nil {
		number, err = strconv.ParseInt(digits, 10, 64)
	}
	if err != nil || WriterKey(itemID, Variant(variant), number) != key {
		return uuid.UUID{}, 0, false
	}
	return itemID, number, true
}

// VariantOfKey returns the variant of the object with this key, which ObjectKey or WriterKey has returned; with the attempt, of a key of
// DerivativeKey.
func VariantOfKey(key string) Variant {
	name, _, _ := strings.Cut(path.Base(key), ".")
	return Variant(name)
}

// Totals are the totals of an account. Storage counts the bytes of sealed items' objects.
type Totals struct {
	Storage    int64
	MaxStorage int64
}

// Usage is what counts against the cap of an account, in bytes.
type Usage struct {
	// Used is what an upload cannot have: sealed items, drafts, and the reservations of running
	// uploads. Deleted items are not in it: they end for an upload that needs their room.
	Used       int64
	MaxStorage int64
}

// Filter restricts lists and counts. Empty fields match everything.
type Filter struct {
	Access Access
	Group  string // exact match
}

// List is a part of a list.
type List struct {
	Items []Item
	Total int64 // items that match the filter, in the whole list
}

// Page is one page of a list.
type Page struct {
	List
	Number int // from 1
	Limit  int
}
