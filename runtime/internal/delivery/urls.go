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

// URLs builds the URLs of files. It is safe for concurrent use.
type URLs struct {
	base   string
	ttl    time.Duration // minimum validity of a signed URL
	step   time.Duration // expiries are multiples of it
	signer *keys.Signer
	now    func() time.Time
}

// isPublic reports whether a variant of an item is served without a signature: the file and
// the thumbnail of a public sealed item. An original that was converted is not public: its
// metadata may contain where and by whom a photo was taken.
func isPublic(item media.Item, variant media.Variant) bool {
	if item.Access != media.Public || item.Draft() {
		return false
	}
	return variant != media.Original || item.File().Variant == media.Original
}

// URL returns the URL of an object. It is signed and expires unless the object is public.
func (u *URLs) URL(item media.Item, object media.Object) string {
	plain := u.base + api.FilePath + item.ID.String() + "/" + string(object.Variant) + "/" + url.PathEscape(downloadName(item, object))
	if isPublic(item, object.Variant) {
		return plain
	}
	expires := u.expiry().Unix()
	mac := u.signer.Sign(signedPayload(item.ID, object.Variant, expires))
	return plain + "?expires=" + strconv.FormatInt(expires, 10) + "&signature=" + base64.RawURLEncoding.EncodeToString(mac)
}

// expiry returns the expiry of a URL that is built now: the first multiple of step at which
// ttl has passed. Within a step a file has one URL, so that browsers use their cached copy.
func (u *URLs) expiry() time.Time {
	earliest := u.now().Add(u.ttl)
	expires := earliest.Truncate(u.step)
	if expires.Before(earliest) {
		expires = expires.Add(u.step)
	}
	return expires
}

// verify checks a signed URL and returns how much longer it is valid.
func (u *URLs) verify(id uuid.UUID, variant media.Variant, expires, signature string) (time.Duration, error) {
	rejected := fault.New(fault.InvalidSignature, "invalid URL signature")
	until, err := strconv.ParseInt(expires, 10, 64)
	if err != nil || strconv.FormatInt(until, 10) != expires {
		return 0, rejected
	}
	mac, ok := keys.Decode(signature)
	if !ok || !u.signer.Verify(signedPayload(id, variant, until), mac) {
		return 0, rejected
	}
	left := time.Unix(until, 0).Sub(u.now())
	if left <= 0 {
		return 0, fault.New(fault.InvalidSignature, "the URL has expired")
	}
	return left, nil
}

// signedPayload returns what the signature of a URL covers: one object until a time.
func signedPayload(id uuid.UUID, variant media.Variant, expires int64) []byte {
	return fmt.Appendf(nil, "read\n%s\n%s\n%d", id, variant, expires)
}

// downloadName returns the file name of a download: the item's own, with the extension of the
// derivative's type.
func downloadName(item media.Item, object media.Object) string {
	if object.Variant == media.Original {
		return item.FileName
	}
	kind := mimetype.Lookup(object.MimeType)
	if kind == nil {
		return item.FileName
	}
	return strings.TrimSuffix(item.FileName, path.Ext(item.FileName)) + kind.Extension()
}
