package delivery

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/limit"
)

// inline are the types that a browser may show on its own. All others download:
// SVG, HTML, XML and PDF can carry scripts.
var inline = map[string]bool{
	"image/jpeg": true, "image/png": true, "image/gif": true, "image/webp": true, "image/avif": true,
	"video/mp4": true, "video/webm": true, "video/ogg": true,
	"audio/mpeg": true, "audio/mp4": true, "audio/ogg": true, "audio/wav": true, "audio/webm": true, "audio/flac": true,
	"text/plain": true,
}

// contentType is what a file is sent as. Text without an encoding would be read in
// whatever the reader's locale suggests; nearly all of it is UTF-8, and a byte order
// mark stands above the header. Other types than plain text say it themselves.
func contentType(mimeType string) string {
	if mimeType == "text/plain" {
		return "text/plain; charset=utf-8"
	}
	return mimeType
}

// policy keeps a file that is opened as a page from running or loading anything.
const policy = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; sandbox"

// send answers with the file, a part of it, or 304.
func (d *Delivery) send(w http.ResponseWriter, r *http.Request, file found) {
	header := w.Header()
	header.Set("Content-Type", contentType(file.object.MimeType))
	header.Set("Content-Disposition", disposition(file))
	header.Set("ETag", `"`+hex.EncodeToString(file.object.SHA256)+`"`)
	header.Set("Cache-Control", cacheControl(file))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	header.Set("Referrer-Policy", "no-referrer")
	r = withRange(r, file.object.Bytes)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	content := &content{ctx: ctx, objects: d.objects, bucket: file.bucket, object: file.object}
	sender := &sender{ResponseWriter: w, content: content, downloads: d.downloads, from: limit.ClientPrefix(httpapi.FromContext(ctx).ClientIP), wanted: r.Method == http.MethodGet}
	defer sender.leave() // once the object store's connection is closed
	defer content.close()
	http.ServeContent(sender, r, "", file.item.CreatedAt, content)
	switch {
	case sender.outside:
		forget(header, "Content-Disposition", "ETag", "Last-Modified", "Cache-Control")
		header.Set("Content-Range", "bytes */"+strconv.FormatInt(file.object.Bytes, 10))
		httpapi.WriteErrorStatus(w, r, http.StatusRequestedRangeNotSatisfiable,
			fault.New(fault.Invalid, "the file has %d bytes", file.object.Bytes))
	case sender.unmet:
		// Not with the file's Cache-Control: a cache could answer others with it.
		forget(header, "Content-Disposition", "Cache-Control")
		httpapi.WriteErrorStatus(w, r, http.StatusPreconditionFailed, fault.New(fault.Invalid, "the file is not as the request's condition says"))
	case sender.refused != nil:
		forget(header, "Content-Disposition", "ETag", "Last-Modified", "Cache-Control", "Accept-Ranges", "Content-Range")
		httpapi.WriteError(w, r, d.explain(ctx, file, sender.refused))
	case content.failed() != nil:
		// The headers are out: a cut connection tells the client that the body is not whole.
		httpapi.SetError(ctx, fmt.Errorf("the body was cut short: %w", content.failed()))
		panic(http.ErrAbortHandler)
	}
}

// forget takes back headers that speak of a file when none is sent.
func forget(header http.Header, names ...string) {
	for _, name := range names {
		header.Del(name)
	}
}

// explain turns an object store that has no such object into what it means: the
// item was just deleted, or bytes are lost.
func (d *Delivery) explain(ctx context.Context, file found, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	if _, _, gone := d.items.ForDelivery(ctx, file.item.ID); fault.Is(gone, fault.NotFound) {
		return fault.New(fault.NotFound, "there is no such file")
	}
	d.log.ErrorContext(ctx, "an item's object is missing", "item", file.item.ID, "bucket", file.bucket, "key", file.object.Key)
	return fault.Wrap(err, fault.Internal, "")
}

func cacheControl(file found) string {
	scope := "private"
	if file.public {
		scope = "public"
	}
	return scope + ", max-age=" + strconv.Itoa(int(file.maxAge/time.Second))
}

// disposition is inline or attachment with the file's name, twice: in ASCII for old
// clients, and whole (RFC 6266).
func disposition(file found) string {
	kind := "attachment"
	if inline[file.object.MimeType] {
		kind = "inline"
	}
	name := downloadName(file.item, file.object)
	var plain, whole strings.Builder
	for _, r := range name {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' {
			r = '_'
		}
		plain.WriteRune(r)
	}
	for _, b := range []byte(name) {
		if isAttrChar(b) {
			whole.WriteByte(b)
		} else {
			fmt.Fprintf(&whole, "%%%02X", b)
		}
	}
	return kind + `; filename="` + plain.String() + `"; filename*=UTF-8''` + whole.String()
}

// isAttrChar tells what RFC 8187 lets stand as it is.
func isAttrChar(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("!#$&+-.^_`|~", b) >= 0
}

// sender makes sure that the first bytes can be read before the headers go out, and
// keeps plain-text errors in. Only who gets bytes takes a place.
type sender struct {
	http.ResponseWriter
	content   *content
	downloads *downloadLimiter
	from      netip.Prefix
	inside    bool  // there is a place, to be given back
	wanted    bool  // the body is
	began     bool  // the headers are out
	outside   bool  // the range is: nothing went out
	unmet     bool  // the precondition is: nothing went out
	refused   error // why nothing went out
}

// WriteHeader opens the object where the body begins, and lets the header through
// only when that worked.
func (s *sender) WriteHeader(status int) {
	if s.began || s.outside || s.unmet || s.refused != nil {
		return
	}
	switch {
	case status == http.StatusRequestedRangeNotSatisfiable:
		s.outside = true
		return
	case status == http.StatusPreconditionFailed:
		s.unmet = true
		return
	case status == http.StatusNotModified:
		s.Header().Del("Content-Disposition") // RFC 9110: the client has it with the file
	case !s.wanted:
	case status == http.StatusOK:
		s.refused = s.open(s.content.object.Bytes)
	case status == http.StatusPartialContent && s.Header().Get("Content-Range") != "":
		length, err := strconv.ParseInt(s.Header().Get("Content-Length"), 10, 64)
		if s.refused = err; err == nil {
			s.refused = s.open(length)
		}
	case status == http.StatusPartialContent:
		s.refused = s.open(-1)
	}
	if s.refused == nil {
		s.began = true
		s.ResponseWriter.WriteHeader(status)
	}
}

// open takes a place before the object store is asked. length is as prime has it.
func (s *sender) open(length int64) error {
	if length == 0 {
		return nil
	}
	if err := s.downloads.Acquire(s.from); err != nil {
		s.content.refuse(err)
		return err
	}
	s.inside = true
	return s.content.prime(length)
}

// leave releases the place, if there is one.
func (s *sender) leave() {
	if s.inside {
		s.downloads.Release(s.from)
	}
}

// Write sends a piece of the body, unless nothing may go out.
func (s *sender) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	switch {
	case s.refused != nil:
		return 0, s.refused
	case s.outside, s.unmet:
		return len(p), nil
	}
	return s.ResponseWriter.Write(p)
}

// copyBuffers are larger than io.Copy's: fewer and larger writes to the connection.
var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

const copyBuffer = 128 << 10

// ReadFrom copies with a buffer of its own.
func (s *sender) ReadFrom(body io.Reader) (int64, error) {
	buffer, _ := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buffer)
	return io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{body}, buffer[:])
}

// Unwrap lets http.ResponseController reach the connection.
func (s *sender) Unwrap() http.ResponseWriter { return s.ResponseWriter }
