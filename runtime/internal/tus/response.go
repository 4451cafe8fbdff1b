package tus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// What clients are told in this package's own words.
var (
	errNoUpload  = fault.New(fault.NotFound, "there is no such upload")
	errTakenOver = fault.New(fault.Busy, "another request went on with this upload: ask for its offset")
	errDraining  = fault.New(fault.Unavailable, "the service is restarting: ask for the offset and go on")
	errMismatch  = fault.New(fault.Invalid, "the bytes do not fit Upload-Checksum: nothing of this request is kept")
)

// missing describes every upload that can\'t be had in the same words.
func missing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return errNoUpload
	}
	return err
}

// refusal is what an error of tusd's own becomes.
type refusal struct {
	status int
	public string
}

// refusals are tusd's errors by their codes. TUS asks for 415 where tusd says 400. Any
// other error of it is a failure of the service.
var refusals = map[string]refusal{
	"ERR_INVALID_CONTENT_TYPE":        {http.StatusUnsupportedMediaType, "the body must be application/offset+octet-stream"},
	"ERR_INVALID_UPLOAD_LENGTH":       {http.StatusBadRequest, "Upload-Length is missing, is not a number, or is not the upload's"},
	"ERR_INVALID_UPLOAD_LENGTH_DEFER": {http.StatusBadRequest, "Upload-Defer-Length must be 1"},
	"ERR_AMBIGUOUS_UPLOAD_LENGTH":     {http.StatusBadRequest, "send Upload-Length or Upload-Defer-Length"},
	"ERR_INVALID_OFFSET":              {http.StatusBadRequest, "Upload-Offset is missing or is not a number"},
	"ERR_MISMATCHED_OFFSET":           {http.StatusConflict, "Upload-Offset is not where the upload is: ask for its offset"},
	"ERR_UPLOAD_SIZE_EXCEEDED":        {http.StatusRequestEntityTooLarge, "the body is longer than what is left of the upload"},
}

// maxDocument is the longest media document that is sent in a header. Clients and
// proxies bound the header of an answer at some 16 KiB.
const maxDocument = 8 << 10

// answer is what tusd writes to: refusals come out in the service's own form, and
// successes with what tusd does not know.
type answer struct {
	http.ResponseWriter
	api     *API
	call    *call
	request *http.Request
	refused int // the status of a refusal, which finish sends
	words   []byte
}

// WriteHeader sends the header of a success. A refusal waits for finish.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		a.refused = status
		return
	}
	header := a.Header()
	// tusd tells HEAD the length that a download would have; there is none.
	header.Del("Content-Length")
	if err := a.describe(header); err != nil {
		a.call.err = err
		a.refused = http.StatusInternalServerError
		return
	}
	a.hangUp()
	a.ResponseWriter.WriteHeader(status)
}

// Write takes what tusd says of a refusal. Its successes have no body.
func (a *answer) Write(p []byte) (int, error) {
	if len(a.words)+len(p) <= 1<<10 {
		a.words = append(a.words, p...)
	}
	return len(p), nil
}

// SetReadDeadline keeps tusd from the deadlines, which are package server's: tusd would
// set one after the last byte, and net/http would take it for the client's departure.
func (a *answer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is as SetReadDeadline.
func (a *answer) SetWriteDeadline(time.Time) error { return nil }

// hangUp ends a connection whose body was not read to its end: a deadline that has
// passed would break the next request on it.
func (a *answer) hangUp() {
	if a.call.reason() != nil {
		a.Header().Set("Connection", "close")
	}
}

// finish sends a refusal, if there is one to send.
func (a *answer) finish() {
	switch {
	case a.refused == 0:
	case a.call.err != nil:
		a.fail(a.call.err)
	default:
		code, _, _ := strings.Cut(string(a.words), ":")
		if known, ok := refusals[code]; ok {
			a.failStatus(known.status, fault.New(fault.Invalid, "%s", known.public))
			return
		}
		a.fail(fmt.Errorf("tusd: status %d: %s", a.refused, a.words))
	}
}

// fail answers with a fault.
func (a *answer) fail(err error) {
	switch {
	case errors.Is(err, errMismatch):
		a.failStatus(httpapi.StatusChecksumMismatch, err)
	case errors.Is(err, errTakenOver), a.call.locked:
		// Not 429: clients try again after 423 by themselves.
		a.Header().Set("Retry-After", "1")
		a.failStatus(http.StatusLocked, err)
	case fault.Is(err, fault.Busy):
		// Clients try again after 503 by themselves, and take 429 for the end.
		a.failStatus(http.StatusServiceUnavailable, err)
	default:
		a.prepare()
		httpapi.WriteError(a.ResponseWriter, a.awaited(err), err)
	}
}

func (a *answer) failStatus(status int, err error) {
	a.prepare()
	httpapi.WriteErrorStatus(a.ResponseWriter, a.awaited(err), status, err)
}

// awaited is the request as one whose client is there: net/http takes a deadline that
// passed, be it ours or the client's, for the client's departure.
func (a *answer) awaited(err error) *http.Request {
	if a.call.reason() == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return a.request
	}
	return a.request.WithContext(context.WithoutCancel(a.request.Context()))
}

// prepare makes the header that of a refusal. An upload that was made before its first
// bytes were refused can be gone on with.
func (a *answer) prepare() {
	header := a.Header()
	for _, name := range []string{"Upload-Offset", "Content-Length", "Upload-Metadata"} {
		header.Del(name)
	}
	if a.call.upload != nil && a.request.Method == http.MethodPost {
		header.Set("Location", a.api.base+a.call.upload.State().ItemID.String())
	}
	a.hangUp()
}

// describe says when the upload expires or, once it is complete, what it became. HEAD also
// returns the metadata as the client sent it (TUS 1.0.0, Creation).
func (a *answer) describe(header http.Header) error {
	if a.call.upload == nil || a.call.ending {
		return nil
	}
	state := a.call.upload.State()
	if a.request.Method == http.MethodHead && state.Metadata != "" {
		header.Set("Upload-Metadata", state.Metadata)
	}
	if state.Item == nil {
		// The one promise of this interface, whatever tusd does: nobody is told an offset
		// equal to the length before the draft is there.
		if header.Get("Upload-Offset") == strconv.FormatInt(state.Length, 10) || state.Length == 0 {
			return errors.New("an upload that is not committed would have been called complete")
		}
		header.Set("Upload-Expires", state.Expires.UTC().Format(http.TimeFormat))
		return nil
	}
	brand := "X-" + a.api.deps.Brand + "-Media"
	header.Set(brand+"-Id", state.ItemID.String())
	if !mayRead(a.call, *state.Item) {
		return nil
	}
	document, err := a.document(*state.Item)
	if err != nil {
		return err
	}
	if len(document) <= maxDocument {
		header.Set(brand, document)
	}
	return nil
}

// mayRead reports whether the client may have the item's document, with its signed
// addresses. A signature is a permission to upload: what it brought about it may see
// until it is sealed, as in the answer of POST /media/create, and not for ever.
func mayRead(c *call, item media.Item) bool { return !c.grant.Signed || item.Draft() }

// document is the item in JSON, in ASCII as headers must be.
func (a *answer) document(item media.Item) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(api.NewMediaItem(item, a.api.deps.URLs)); err != nil {
		return "", fmt.Errorf("encode the document: %w", err)
	}
	return ascii(strings.TrimSuffix(text.String(), "\n")), nil
}

// ascii escapes what is not ASCII in a JSON text.
func ascii(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r < 0x7f:
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
