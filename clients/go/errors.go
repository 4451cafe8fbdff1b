package mediastack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"mediastack.dev/clients/go/api"
)

// CodeUnknown is the code of an answer that is not of the service, such as that of a proxy.
const CodeUnknown api.ErrorCode = "unknown"

// Error is what the service, or a proxy in front of it, answered to a request that failed.
type Error struct {
	// Code is the stable name of the error, for programs.
	Code api.ErrorCode
	// Status is the HTTP status code.
	Status int
	// Detail is what the client can change; empty if the service said nothing.
	Detail string
	// RequestID is the id of the request in the log of the service.
	RequestID string
	// RetryAfter is the time to wait before the next attempt; zero if the answer does not say it.
	RetryAfter time.Duration
	// Repeated reports whether the connection of an earlier attempt failed, which the service may have
	// carried out.
	Repeated bool
}

// Error returns the status, the code and the detail.
func (e *Error) Error() string {
	text := fmt.Sprintf("mediastack: %d %s", e.Status, e.Code)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// MissingDocumentError reports an upload that is complete, but whose document is too long for a header. The
// draft is stored. An upload signature cannot read it; a client with an API key or an access token can.
type MissingDocumentError struct{ MediaID string }

// Error names the draft.
func (e *MissingDocumentError) Error() string {
	return fmt.Sprintf("mediastack: the draft %s is stored, but its document is too long for the answer to an upload", e.MediaID)
}

// NotSealedError reports an upload with Seal whose upload signature was not created with Seal. The draft is stored: a
// client with an API key or an access token can seal it.
type NotSealedError struct{ MediaID string }

// Error names the draft.
func (e *NotSealedError) Error() string {
	return fmt.Sprintf("mediastack: the draft %s is stored, but the upload signature does not seal", e.MediaID)
}

// UploadFromURLError reports an upload from a URL that failed. Nothing of it is stored.
type UploadFromURLError struct {
	// JobID is the id of the upload in the service.
	JobID string
	// Code is the stable name of the reason, for programs, such as unreachable. status_404 is the status of the other
	// server.
	Code string
	// Detail is the reason in words.
	Detail string
}

// Error returns the reason.
func (e *UploadFromURLError) Error() string {
	return fmt.Sprintf("mediastack: the upload %s from a URL failed: %s: %s", e.JobID, e.Code, e.Detail)
}

var codes = map[int]api.ErrorCode{
	http.StatusBadRequest: api.ErrorCodeInvalidRequest, http.StatusUnauthorized: api.ErrorCodeUnauthorized, http.StatusForbidden: api.ErrorCodeForbidden,
	http.StatusNotFound: api.ErrorCodeNotFound, http.StatusConflict: api.ErrorCodeConflict, http.StatusPreconditionFailed: api.ErrorCodePreconditionFailed, http.StatusGone: api.ErrorCodeGone,
	http.StatusRequestEntityTooLarge: api.ErrorCodePayloadTooLarge, http.StatusRequestedRangeNotSatisfiable: api.ErrorCodeRangeNotSatisfiable,
	http.StatusLocked: api.ErrorCodeLocked, http.StatusTooManyRequests: api.ErrorCodeTooManyRequests,
	http.StatusInternalServerError: api.ErrorCodeInternalError, http.StatusServiceUnavailable: api.ErrorCodeUnavailable,
}

// newError returns the error of an answer. An answer without a body, as that to HEAD, has the code of its status.
func newError(response *http.Response, body []byte, now time.Time) *Error {
	e := &Error{Code: CodeUnknown, Status: response.StatusCode, RequestID: response.Header.Get("X-Request-Id"), RetryAfter: retryAfter(response.Header.Get("Retry-After"), now)}
	var document api.Error
	if len(body) == 0 {
		document.Code = codes[e.Status]
	} else if json.Unmarshal(body, &document) != nil {
		return e // the page of a proxy
	}
	if document.Code != "" {
		e.Code, e.Detail = document.Code, document.Detail
	}
	return e
}

// retryAfter returns the time of a Retry-After header, which is a number of seconds or a date.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}

// connectionError returns the error of a request that had no answer, without its URL: that of a file contains
// a signature.
func connectionError(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return &connectionFailure{err}
}

// connectionFailure is a request that had no answer.
type connectionFailure struct{ cause error }

// Error returns the cause.
func (e *connectionFailure) Error() string {
	return "mediastack: the connection to the service failed: " + e.cause.Error()
}

// Unwrap returns the cause.
func (e *connectionFailure) Unwrap() error { return e.cause }
