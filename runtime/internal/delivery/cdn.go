package delivery

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/runtime/cdn"
	"mediastack.dev/runtime/media"
)

// CDN is a CDN in front of the service that purges what has changed, so it may keep public files for long.
type CDN struct {
	// Header is the name of the header with the tags of a file, and Separator is between two of them.
	Header, Separator string
	// Tags returns the tags of a file of an item, with that of a preset unless it is empty; none = the CDN must not keep it for longer than other
	// caches. cdn.Service implements it.
	Tags func(item media.Item, preset string) []string
}

// cacheYear is how long a cache may keep what never changes at its address, or what is purged when it changes.
const cacheYear = 365 * 24 * time.Hour

const (
	// versionCacheControl is for what is at the address of its version.
	versionCacheControl = "public, max-age=31536000, immutable"
	// cdnCacheControl is for the caches of CDNs (RFC 9213). Those that read tags from Surrogate-Key read surrogateControl instead (Edge Architecture
	// Specification 1.0).
	cdnCacheControl  = "CDN-Cache-Control"
	surrogateKey     = "Surrogate-Key"
	surrogateControl = "Surrogate-Control"
)

// versionBytes is how much of the hash of a file is in its address.
const versionBytes = 6

// appendVersion appends the version of an object, which its public address has as the parameter v: the first 12 hexadecimal digits of the SHA-256 of
// its bytes.
func appendVersion(dst []byte, object media.Object) []byte {
	return hex.AppendEncode(dst, object.SHA256[:versionBytes])
}

// isVersion reports whether a request names the version of the public object that it gets. All other parameters of the address of a public file
// mean nothing.
func (f *resolvedFile) isVersion(r *http.Request) bool {
	if !f.public || f.picture != nil || f.substitute != "" || len(f.object.SHA256) < versionBytes || f.item.Derivatives == media.DerivativesPending && f.variant != media.Thumbnail {
		return false
	}
	return r.URL.Query().Get("v") == string(appendVersion(nil, f.object))
}

// setCaching sets the headers that say how long which cache may keep a file, and reports whether a CDN may for long.
func (d *Delivery) setCaching(header http.Header, r *http.Request, file resolvedFile) (purged bool) {
	tags := d.tagsOf(file)
	switch {
	case !file.isVersion(r):
		header.Set("Cache-Control", cacheControl(file))
	case len(tags) > 0:
		header.Set("Cache-Control", versionCacheControl)
	default: // shared caches would keep a deleted file for a year, and nothing could reach them
		header.Set("Cache-Control", versionCacheControl+", s-maxage="+seconds(file.maxAge))
	}
	if len(tags) == 0 {
		return false
	}
	kept := "max-age=" + seconds(file.maxAgeOf(cacheYear))
	header.Set(d.cdn.Header, strings.Join(tags, d.cdn.Separator))
	header.Set(cdnCacheControl, kept)
	if d.cdn.Header == surrogateKey {
		header.Set(surrogateControl, kept)
	}
	return true
}

// tagsOf returns the tags of a file that a CDN may keep for long; none if it must not.
func (d *Delivery) tagsOf(file resolvedFile) []string {
	if d.cdn == nil || !file.public || file.substitute != "" {
		return nil
	}
	preset := ""
	if file.picture != nil {
		preset = file.picture.preset.Name
	}
	return d.cdn.Tags(file.item, preset)
}

// keepFromCDN changes the headers of an answer that is late: what it tells may have changed since it was looked up, and the CDN may have carried out
// the purges of that already.
func (d *Delivery) keepFromCDN(header http.Header) {
	header.Del(d.cdn.Header)
	header.Del(surrogateControl)
	header.Set(cdnCacheControl, "no-store")
	header.Set("Cache-Control", "no-cache")
}

// isLate reports whether an answer whose header is sent now is too late for a CDN.
func (f *resolvedFile) isLate() bool { return time.Since(f.resolved) > cdn.MaxAnswerDelay }

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
