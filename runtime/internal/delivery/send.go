package delivery

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/minrate"
	"mediastack.dev/runtime/splice"
)

// inlineTypes are the types that a browser may display, beside images. All others are downloaded: SVG,
// HTML, XML and PDF can contain scripts.
var inlineTypes = map[string]bool{
	"video/mp4": true, "video/webm": true, "video/ogg": true,
	"audio/mpeg": true, "audio/mp4": true, "audio/ogg": true, "audio/wav": true, "audio/webm": true, "audio/flac": true,
	"text/plain": true,
}

// IsInline reports whether a browser may display a type.
func IsInline(mimeType string) bool {
	format, isImage := imageformat.ByType(mimeType)
	return inlineTypes[mimeType] || isImage && format.Inline() && mimeType == format.MIMEType()
}

// contentType returns the Content-Type of a file. Without a charset, plain text would be
// decoded by the reader's locale; nearly all of it is UTF-8, and a byte order mark takes
// precedence over the header. Other text types declare their encoding themselves.
func contentType(mimeType string) string {
	if mimeType == "text/plain" {
		return "text/plain; charset=utf-8"
	}
	return mimeType
}

// contentSecurityPolicy keeps a file that is opened as a page from running or loading
// anything.
const contentSecurityPolicy = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; sandbox"

// send sends the file, ranges of it, or 304.
func (d *Delivery) send(w http.ResponseWriter, r *http.Request, file resolvedFile) {
	header := w.Header()
	header.Set("Content-Type", contentType(file.object.MimeType))
	header.Set("Content-Disposition", disposition(file))
	header.Set("ETag", `"`+hex.EncodeToString(file.object.SHA256)+`"`)
	purged := d.setCaching(header, r, file)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	header.Set("Referrer-Policy", "no-referrer")
	r = sanitizeRange(r, file.object.Bytes)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	pipe := pipeFor(w, r, file)
	if pipe != nil {
		defer d.releasePipe(pipe) // after the connection to the object store is closed
		ctx = splice.WithPipe(ctx, pipe)
	}
	content := &content{ctx: ctx, objects: d.objects, small: d.small, bucket: file.owner.Bucket, object: file.object, data: file.data}
	sender := &sender{ResponseWriter: w, content: content, downloads: d.downloads, client: ratelimit.ClientPrefix(httpapi.FromContext(ctx).ClientIP), hasBody: r.Method == http.MethodGet, pipe: pipe}
	if purged {
		sender.beforeHeader = func() {
			if file.isLate() {
				d.keepFromCDN(header)
			}
		}
	}
	if file.result.Data != nil {
		control := http.NewResponseController(w)
		sender.pace = minrate.NewPace(paceRate, paceStall, file.result.Contended, func() { _ = control.SetWriteDeadline(time.Now()) })
	}
	defer sender.release() // after the connection to the object store is closed
	defer content.close()
	var modified time.Time // of a picture, and of a file that may become a conversion, it is not known: it may have changed since the upload
	if file.picture == nil && file.variant != media.Shown {
		modified = file.item.CreatedAt
	}
	http.ServeContent(sender, r, "", modified, content)
	switch {
	case sender.rangeNotSatisfiable:
		d.deleteHeaders(header, "Content-Disposition", "ETag", "Last-Modified")
		header.Set("Content-Range", "bytes */"+strconv.FormatInt(file.object.Bytes, 10))
		httpapi.WriteErrorStatus(w, r, http.StatusRequestedRangeNotSatisfiable,
			fault.New(fault.Invalid, "the file has %d bytes", file.object.Bytes))
	case sender.preconditionFailed:
		// Without the Cache-Control of the file: a cache could send this response to others.
		d.deleteHeaders(header, "Content-Disposition")
		httpapi.WriteErrorStatus(w, r, http.StatusPreconditionFailed, fault.New(fault.Invalid, "precondition failed"))
	case isLost(sender.err) && d.sendAgain(w, r, file, sender):
	case sender.err != nil:
		d.deleteHeaders(header, "Content-Disposition", "ETag", "Last-Modified", "Accept-Ranges", "Content-Range")
		httpapi.WriteError(w, r, d.missingObjectError(ctx, file, sender.err))
	case content.failed() != nil:
		// The headers were sent: only a closed connection shows that the body is incomplete.
		httpapi.SetError(ctx, fmt.Errorf("sending the body failed: %w", content.failed()))
		panic(http.ErrAbortHandler)
	}
}

// sendAgain sends a picture whose object the object store has lost, after it was made again. It reports whether it has answered.
func (d *Delivery) sendAgain(w http.ResponseWriter, r *http.Request, file resolvedFile, failed *sender) bool {
	found, err := d.findAgain(r, &file)
	file.limit.show(w.Header())
	if !found {
		failed.err = cmp.Or(err, failed.err)
		return false
	}
	defer file.result.Release()
	if err := d.authorizeAgain(r, &file); err != nil {
		failed.err = err
		return false
	}
	failed.release()
	failed.acquired = false
	d.deleteHeaders(w.Header(), "Content-Length", "Content-Range", "Accept-Ranges")
	d.send(w, r, file)
	return true
}

// deleteHeaders deletes headers of a file when none is sent, and those for caches.
func (d *Delivery) deleteHeaders(header http.Header, names ...string) {
	if names = append(names, "Cache-Control", cdnCacheControl, surrogateControl); d.cdn != nil {
		names = append(names, d.cdn.Header)
	}
	for _, name := range names {
		header.Del(name)
	}
}

// isLost reports whether an object is missing in a bucket that is there: of a bucket that is missing, each object would be.
func isLost(err error) bool {
	return fault.Is(err, fault.NotFound) && !errors.Is(err, installation.ErrNoBucket)
}

// missingObjectError classifies an object that is missing: its item was just deleted, the bucket is not there, or the file is
// lost. A lost file is no 404, which clients take for a deletion, and no 503, which they repeat.
func (d *Delivery) missingObjectError(ctx context.Context, file resolvedFile, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	if d.isDeleted(ctx, file.item) {
		return errFileNotFound
	}
	if errors.Is(err, installation.ErrNoBucket) { // wrong settings, or a mistake that an administrator can undo
		return fault.Wrap(err, fault.Unavailable, "the bucket of the account is missing")
	}
	d.lost.Inc()
	d.log.ErrorContext(ctx, "inconsistency: the object store has lost an object of an item", "account", file.item.AccountID, "item", file.item.ID, "variant", file.object.Variant,
		"bucket", file.owner.Bucket, "key", file.object.Key)
	return fault.Wrap(err, fault.FileLost, "the object store has lost this file of the item: an administrator can restore it from a backup")
}

// orDeleted returns the error of a picture: NotFound if the object store has lost the original because the item was deleted meanwhile.
func (d *Delivery) orDeleted(ctx context.Context, item media.Item, err error) error {
	if fault.Is(err, fault.FileLost) && d.isDeleted(ctx, item) {
		return errFileNotFound
	}
	return err
}

// isDeleted reports whether an item that was there is deleted.
func (d *Delivery) isDeleted(ctx context.Context, item media.Item) bool {
	_, _, err := d.current.ForDelivery(ctx, item.ID)
	return fault.Is(err, fault.NotFound)
}

func cacheControl(file resolvedFile) string {
	if file.substitute != "" {
		return "no-store"
	}
	scope := "private"
	if file.public {
		scope = "public"
	}
	return scope + ", max-age=" + seconds(file.maxAge)
}

// disposition returns the Content-Disposition (RFC 6266): inline or attachment, with the
// file name in ASCII for old clients, and in UTF-8.
func disposition(file resolvedFile) string {
	kind := "attachment"
	if IsInline(file.object.MimeType) {
		kind = "inline"
	}
	name := downloadName(file.item, file.object)
	var ascii, utf8 strings.Builder
	for _, r := range name {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' {
			r = '_'
		}
		ascii.WriteRune(r)
	}
	for _, b := range []byte(name) {
		if isAttrChar(b) {
			utf8.WriteByte(b)
		} else {
			fmt.Fprintf(&utf8, "%%%02X", b)
		}
	}
	return kind + `; filename="` + ascii.String() + `"; filename*=UTF-8''` + utf8.String()
}

// isAttrChar reports whether b needs no escaping (RFC 8187, attr-char).
func isAttrChar(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("!#$&+-.^_`|~", b) >= 0
}

// While others wait for the memory of a picture, its client must read paceRate bytes per second, and may stall for paceStall in total.
const (
	paceRate  = 64 << 10
	paceStall = 5 * time.Second
)

// sender is the http.ResponseWriter of http.ServeContent. It opens the object before it
// sends the headers, and drops the plain-text errors of http.ServeContent. A response with
// a body holds a download slot.
type sender struct {
	http.ResponseWriter
	content   *content
	downloads *downloadLimiter
	client    netip.Prefix
	hasBody   bool          // the method is GET
	pace      *minrate.Pace // nil unless the bytes are in memory
	pipe      *splice.Pipe  // nil = the bytes are copied
	// beforeHeader is called before the header of a file is sent; nil = nothing is.
	beforeHeader func()

	acquired    bool // a download slot is held
	wroteHeader bool
	// Set instead of wroteHeader, if no response was sent:
	rangeNotSatisfiable bool
	preconditionFailed  bool
	err                 error
}

// WriteHeader opens the object where the body begins, and sends the header if that
// succeeded.
func (s *sender) WriteHeader(status int) {
	if s.wroteHeader || s.rangeNotSatisfiable || s.preconditionFailed || s.err != nil {
		return
	}
	switch {
	case status == http.StatusRequestedRangeNotSatisfiable:
		s.rangeNotSatisfiable = true
		return
	case status == http.StatusPreconditionFailed:
		s.preconditionFailed = true
		return
	case status == http.StatusNotModified:
		s.Header().Del("Content-Disposition") // RFC 9110: not in a 304
	case !s.hasBody:
	case status == http.StatusOK:
		s.err = s.open(s.content.object.Bytes)
	case status == http.StatusPartialContent && s.Header().Get("Content-Range") != "":
		length, err := strconv.ParseInt(s.Header().Get("Content-Length"), 10, 64)
		if s.err = err; err == nil {
			s.err = s.open(length)
		}
	case status == http.StatusPartialContent:
		s.err = s.open(-1)
	}
	if s.err == nil {
		s.wroteHeader = true
		if s.beforeHeader != nil {
			s.beforeHeader()
		}
		s.ResponseWriter.WriteHeader(status)
	}
}

// open acquires a download slot and opens the object. length is that of preopen.
func (s *sender) open(length int64) error {
	if length == 0 {
		return nil
	}
	if err := s.downloads.Acquire(s.client); err != nil {
		s.content.fail(err)
		return err
	}
	s.acquired = true
	return s.content.preopen(length)
}

// release releases the download slot, if one is held.
func (s *sender) release() {
	if s.acquired {
		s.downloads.Release(s.client)
	}
}

// Write sends data of the body, unless the response was replaced by an error.
func (s *sender) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	switch {
	case s.err != nil:
		return 0, s.err
	case s.rangeNotSatisfiable, s.preconditionFailed:
		return len(p), nil
	}
	if s.pace == nil {
		return s.ResponseWriter.Write(p)
	}
	n, err := s.pace.Write(s.ResponseWriter, p)
	if errors.Is(err, minrate.ErrTooSlow) {
		s.content.fail(err)
	}
	return n, err
}

// copyBuffers are larger than those of io.Copy, for fewer writes to the connection.
var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

const copyBuffer = 128 << 10

// ReadFrom copies body with a buffer of copyBuffers.
func (s *sender) ReadFrom(body io.Reader) (int64, error) {
	if s.pipe != nil {
		return s.splice(body)
	}
	buffer, _ := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buffer)
	return io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{body}, buffer[:])
}

// Unwrap lets http.ResponseController reach the connection.
func (s *sender) Unwrap() http.ResponseWriter { return s.ResponseWriter }
