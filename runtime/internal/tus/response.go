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
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// Errors of the protocol that no other interface has.
var (
	errUploadNotFound   = fault.New(fault.NotFound, "there is no such upload")
	errUploadEnded      = fault.New(fault.NotFound, "the upload was ended while its bytes arrived")
	errLockPreempted    = fault.New(fault.Busy, "the upload is locked by another request; fetch the offset and retry")
	errShuttingDown     = fault.New(fault.Unavailable, "the service is restarting; fetch the offset and continue")
	errChecksumMismatch = fault.New(fault.Invalid, "checksum mismatch; the chunk was discarded")
)

// maxDocument is the longest media document that is sent in a header. Clients and
// proxies bound the header of a response at some 16 KiB.
const maxDocument = 8 << 10

// responseInterceptor is the response writer of tusd. It adds to successes the headers that
// tusd does not know, and sends the error of the request state instead of tusd's.
type responseInterceptor struct {
	http.ResponseWriter
	api         *API
	state       *requestState
	request     *http.Request
	errorStatus int    // of the error response that tusd wrote, 0 = none
	errorBody   []byte // its text, for the log
}

// WriteHeader sends the header of a success. An error waits for finish.
func (i *responseInterceptor) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		i.errorStatus = status
		return
	}
	header := i.Header()
	// tusd responds to HEAD with the length of a download, which there is not.
	header.Del("Content-Length")
	if err := i.describe(header); err != nil {
		i.state.err, i.errorStatus = err, http.StatusInternalServerError
		return
	}
	i.closeConnection()
	i.ResponseWriter.WriteHeader(status)
}

// Write takes the text of tusd's error response. Its successes have no body.
func (i *responseInterceptor) Write(p []byte) (int, error) {
	if len(i.errorBody)+len(p) <= 1<<10 {
		i.errorBody = append(i.errorBody, p...)
	}
	return len(p), nil
}

// SetReadDeadline keeps tusd from setting deadlines, which belong to package server: tusd
// would set one after the last byte, and net/http would take it for a disconnect.
func (i *responseInterceptor) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, as SetReadDeadline.
func (i *responseInterceptor) SetWriteDeadline(time.Time) error { return nil }

// closeConnection closes the connection after the response if the body was not read to its
// end: a deadline that has passed would break the next request on it.
func (i *responseInterceptor) closeConnection() {
	if i.state.interruption() != nil {
		i.Header().Set("Connection", "close")
	}
}

// finish sends the error of the request, if there is one. An error of tusd's own is a failure
// of the service: the headers were checked before.
func (i *responseInterceptor) finish() {
	switch {
	case i.errorStatus == 0:
	case i.state.err != nil:
		i.writeError(i.state.err)
	default:
		i.writeError(fmt.Errorf("tusd: status %d: %s", i.errorStatus, i.errorBody))
	}
}

// writeError responds with a fault, by the mapping of package httpapi.
func (i *responseInterceptor) writeError(err error) {
	header := i.Header()
	for _, name := range []string{"Upload-Offset", "Content-Length", "Upload-Metadata"} {
		header.Del(name)
	}
	if i.state.upload != nil && i.request.Method == http.MethodPost {
		// The upload was created before its first bytes were rejected: it can be continued.
		header.Set("Location", i.api.baseURL+i.state.upload.State().ItemID.String())
	}
	i.closeConnection()
	status := i.status(err)
	if status == http.StatusLocked {
		header.Set("Retry-After", "1")
	}
	httpapi.WriteErrorStatus(i.ResponseWriter, i.detachedRequest(err), status, err)
}

// status returns the status of an error, where TUS or its clients need another one than
// other interfaces.
func (i *responseInterceptor) status(err error) int {
	switch {
	case errors.Is(err, errChecksumMismatch):
		return httpapi.StatusChecksumMismatch
	case errors.Is(err, errLockPreempted), i.state.lockTimedOut:
		return http.StatusLocked // clients retry after 423, and not after 429
	case fault.Is(err, fault.Busy):
		return http.StatusServiceUnavailable // clients retry after 503, and not after 429
	}
	return httpapi.StatusOf(fault.From(err).Kind)
}

// detachedRequest returns the request as one whose client is present, if a deadline has
// passed: net/http takes that for a disconnect.
func (i *responseInterceptor) detachedRequest(err error) *http.Request {
	if i.state.interruption() == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return i.request
	}
	return i.request.WithContext(context.WithoutCancel(i.request.Context()))
}

// describe adds the headers that tusd does not know: when the upload expires or, once it is
// complete, its item. HEAD also returns the metadata as the client sent it (TUS 1.0.0,
// Creation).
func (i *responseInterceptor) describe(header http.Header) error {
	if i.state.upload == nil || i.request.Method == http.MethodDelete {
		return nil
	}
	state := i.state.upload.State()
	if i.request.Method == http.MethodHead && state.Metadata != "" {
		header.Set("Upload-Metadata", state.Metadata)
	}
	if state.Item == nil {
		// The main guarantee of this interface, independent of tusd: no response has an offset
		// equal to the length before the draft exists.
		if header.Get("Upload-Offset") == strconv.FormatInt(state.Length, 10) || state.Length == 0 {
			return errors.New("an upload that is not committed would have been reported complete")
		}
		header.Set("Upload-Expires", state.Expires.UTC().Format(http.TimeFormat))
		return nil
	}
	brand := "X-" + i.api.deps.Brand + "-Media"
	header.Set(brand+"-Id", state.ItemID.String())
	if !i.state.canRead(*state.Item) {
		return nil
	}
	document, err := i.document(*state.Item)
	if err != nil {
		return err
	}
	if len(document) <= maxDocument {
		header.Set(brand, document)
	}
	return nil
}

// canRead reports whether the caller may see the item's document, with its signed URLs. A
// signature is a permission to upload: its holder sees what it uploaded until it is sealed,
// as in the response of POST /media/create. If the signature seals, the response to the last byte
// has the document.
func (s *requestState) canRead(item media.Item) bool {
	return !s.identity.Signed || item.Draft() || s.completed && s.identity.Capability != nil
}

// document returns the media document as JSON, in ASCII as headers must be.
func (i *responseInterceptor) document(item media.Item) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(i.api.deps.Documents.Of(i.request.Context(), item.AccountID).Item(item)); err != nil {
		return "", fmt.Errorf("encode the document: %w", err)
	}
	return ascii(strings.TrimSuffix(text.String(), "\n")), nil
}

// ascii escapes the characters of a JSON text that are not ASCII.
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
