package delivery

import (
	"encoding/base64"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/gabriel-vasile/mimetype"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// URLs builds the URLs of files. It is safe for concurrent use.
type URLs struct {
	base   string
	ttl    time.Duration // minimum validity of a signed URL
	step   time.Duration // expiries are multiples of it
	signer *keys.Signer
	now    func() time.Time
}

// isPublic reports whether a variant of an item is served without a signature: the file, the thumbnail and the
// pictures of a public sealed item. An original that was converted is not public: its
// metadata may contain where and by whom a photo was taken. No original is if originals are signed.
func isPublic(item media.Item, variant media.Variant, originals settings.Originals) bool {
	if item.Access != media.Public || item.Draft() {
		return false
	}
	if variant == media.Shown {
		variant = item.File().Variant
	}
	return variant != media.Original || item.File().Variant == media.Original && originals == settings.OriginalsPublic
}

// URL returns the URL of an object. It is signed and expires unless the object is public; then it has the version of the bytes, with which caches
// keep them for a year. originals is that of the account of the item.
func (u *URLs) URL(item media.Item, object media.Object, originals settings.Originals) string {
	return u.url(item, object.Variant, downloadName(item, object), object, isPublic(item, object.Variant, originals))
}

// FileURL returns the URL of the object that item.File returns at the time of a request. It is that of the object unless that may change.
func (u *URLs) FileURL(item media.Item, originals settings.Originals) string {
	variant, file := item.FileVariant(), item.File()
	name := item.FileName
	if variant != media.Shown {
		name = downloadName(item, file)
	}
	if item.Derivatives == media.DerivativesPending {
		file.SHA256 = nil
	}
	return u.url(item, variant, name, file, isPublic(item, variant, originals))
}

// LinkUntil returns the URL of the object that item.File returns at the time of a request. It is signed and expires at a time, whatever the
// access of the item is.
func (u *URLs) LinkUntil(item media.Item, until time.Time) string {
	variant, name := item.FileVariant(), item.FileName
	if variant != media.Shown {
		name = downloadName(item, item.File())
	}
	return u.sign(u.appendAddress(nil, item, variant, name), item.ID, variant, until)
}

// url returns the address of a variant. object has the bytes that it names now; without a hash they are not known, or may change.
func (u *URLs) url(item media.Item, variant media.Variant, name string, object media.Object, public bool) string {
	var buffer [512]byte
	address := u.appendAddress(buffer[:0], item, variant, name)
	if public {
		if len(object.SHA256) >= versionBytes {
			address = appendVersion(append(address, "?v="...), object)
		}
		return string(address)
	}
	return u.sign(address, item.ID, variant, u.expiry())
}

// appendAddress appends the address of a variant without parameters.
func (u *URLs) appendAddress(address []byte, item media.Item, variant media.Variant, name string) []byte {
	address = append(append(address, u.base...), api.FilePath...)
	address = api.AppendUUID(address, item.ID)
	address = append(append(append(address, '/'), variant...), '/')
	return append(address, url.PathEscape(name)...)
}

// sign returns an address with its expiry and its signature.
func (u *URLs) sign(address []byte, id uuid.UUID, variant media.Variant, until time.Time) string {
	expires := until.Unix()
	var message, mac [128]byte
	address = strconv.AppendInt(append(address, "?expires="...), expires, 10)
	address = append(address, "&signature="...)
	return string(base64.RawURLEncoding.AppendEncode(address, u.signer.AppendSign(mac[:0], appendSignedPayload(message[:0], id, variant, expires))))
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
	if !ok || !u.signer.Verify(appendSignedPayload(nil, id, variant, until), mac) {
		return 0, rejected
	}
	left := time.Unix(until, 0).Sub(u.now())
	if left <= 0 {
		return 0, fault.New(fault.InvalidSignature, "the URL has expired")
	}
	return left, nil
}

// appendSignedPayload appends what the signature of a URL covers: one object until a time.
func appendSignedPayload(dst []byte, id uuid.UUID, variant media.Variant, expires int64) []byte {
	dst = api.AppendUUID(append(dst, "read\n"...), id)
	dst = append(append(append(dst, '\n'), variant...), '\n')
	return strconv.AppendInt(dst, expires, 10)
}

// downloadName returns the file name of a download: the item's own, with the extension of the
// derivative's type.
func downloadName(item media.Item, object media.Object) string {
	if object.Variant == media.Original {
		return item.FileName
	}
	var extension string
	if format, ok := imageformat.ByType(object.MimeType); ok { // mimetype.Lookup compares with all types that it knows
		extension = format.Extension()
	} else if kind := mimetype.Lookup(object.MimeType); kind != nil {
		extension = kind.Extension()
	} else {
		return item.FileName
	}
	return strings.TrimSuffix(item.FileName, path.Ext(item.FileName)) + extension
}
