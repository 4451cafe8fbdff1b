package delivery

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/gabriel-vasile/mimetype"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
)

const prefix = "/media/file/"

// Links makes the addresses of files, and the documents that carry them. It is safe
// for concurrent use.
type Links struct {
	base   string
	ttl    time.Duration // that a signed address is valid for, at least
	step   time.Duration // expiries are multiples of it
	signer *keys.Signer
	now    func() time.Time
}

// Document is how an item looks to clients, on every interface.
func (l *Links) Document(item media.Item) api.MediaItem {
	file := item.File()
	document := api.MediaItem{
		MediaId:          item.ID,
		OriginalFileName: item.FileName,
		MimeType:         file.MimeType,
		Size:             file.Bytes,
		Access:           api.Access(item.Access),
		File:             l.address(item, file),
		Caption:          item.Caption,
		Group:            item.Group,
		Temp:             item.Draft(),
	}
	if thumbnail, ok := item.Objects.Find(media.Thumbnail); ok {
		document.Thumbnail = l.address(item, thumbnail)
	}
	if original, ok := item.Objects.Find(media.Original); ok && file.Variant != media.Original {
		document.Original = l.address(item, original)
	}
	return document
}

// openToAll reports whether anybody may have a variant of an item without a signature:
// the file and the thumbnail of a public sealed one. An original that was converted is
// not what was published: it may tell where and by whom a photo was taken.
func openToAll(item media.Item, variant media.Variant) bool {
	if item.Access != media.Public || item.Draft() {
		return false
	}
	return variant != media.Original || item.File().Variant == media.Original
}

// address is plain for what is open to all, signed and expiring for the rest.
func (l *Links) address(item media.Item, object media.Object) string {
	plain := l.base + prefix + item.ID.String() + "/" + string(object.Variant) + "/" + url.PathEscape(nameOf(item, object))
	if openToAll(item, object.Variant) {
		return plain
	}
	expires := l.expiry().Unix()
	mac := l.signer.Sign(permission(item.ID, object.Variant, expires))
	return plain + "?expires=" + strconv.FormatInt(expires, 10) + "&signature=" + base64.RawURLEncoding.EncodeToString(mac)
}

// expiry returns the end of an address that is made now: the first multiple of step at
// which ttl has passed. Within a step a file has one address, so that browsers use
// their cached copy.
func (l *Links) expiry() time.Time {
	earliest := l.now().Add(l.ttl)
	expires := earliest.Truncate(l.step)
	if expires.Before(earliest) {
		expires = expires.Add(l.step)
	}
	return expires
}

// verify checks a signed address and says how much longer it is valid.
func (l *Links) verify(id uuid.UUID, variant media.Variant, expires, signature string) (time.Duration, error) {
	refused := fault.New(fault.InvalidSignature, "the address is not signed for this file")
	until, err := strconv.ParseInt(expires, 10, 64)
	if err != nil || strconv.FormatInt(until, 10) != expires {
		return 0, refused
	}
	mac, ok := keys.Decode(signature)
	if !ok || !l.signer.Verify(permission(id, variant, until), mac) {
		return 0, refused
	}
	left := time.Unix(until, 0).Sub(l.now())
	if left <= 0 {
		return 0, fault.New(fault.InvalidSignature, "the address has expired")
	}
	return left, nil
}

// permission is what a signed address signs: this object, until then, and nothing else.
func permission(id uuid.UUID, variant media.Variant, expires int64) []byte {
	return fmt.Appendf(nil, "read\n%s\n%s\n%d", id, variant, expires)
}

// nameOf is the name that a download of the object gets: the item's own, with the
// extension of what a derivative really is.
func nameOf(item media.Item, object media.Object) string {
	if object.Variant == media.Original {
		return item.FileName
	}
	kind := mimetype.Lookup(object.MimeType)
	if kind == nil {
		return item.FileName
	}
	return strings.TrimSuffix(item.FileName, path.Ext(item.FileName)) + kind.Extension()
}
