package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
)

// StatusOf returns the HTTP status of a kind of fault.
func StatusOf(kind fault.Kind) int {
	switch kind {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.Unauthenticated:
		return http.StatusUnauthorized
	case fault.InvalidSignature, fault.Forbidden:
		return http.StatusForbidden
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.PreconditionFailed:
		return http.StatusPreconditionFailed
	case fault.Gone:
		return http.StatusGone
	case fault.TooLarge, fault.QuotaExceeded:
		return http.StatusRequestEntityTooLarge
	case fault.UnsupportedType:
		return http.StatusUnsupportedMediaType
	case fault.Rejected:
		return http.StatusUnprocessableEntity
	case fault.Busy:
		return http.StatusTooManyRequests
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Internal, fault.FileLost:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

// StatusChecksumMismatch is the status of TUS for bytes that do not match their checksum.
const StatusChecksumMismatch = 460

// StatusClientClosedRequest is the status in the log and the metrics if the client disconnected:
// an error that follows from it is not an error of the service. The client does not receive it.
const StatusClientClosedRequest = 499

// Texts of the specification that no status code has.
const (
	invalidSignatureText = "Invalid signature"
	internalDetail       = "The service failed; see its log for the request id."
)

// defaultRetryAfter is the value of Retry-After if the fault has none.
const defaultRetryAfter = 5 * time.Second

// ErrorResponse is an error as every interface presents it. REST and TUS send Body, OAuth
// and JSON-RPC its code and detail in objects of their own.
type ErrorResponse struct {
	Status int
	Body   api.Error
	// RetryAfter is when the client may try again, for 429 and 503: whole seconds, spread; 0 for any other status.
	RetryAfter time.Duration
}

// Describe returns the response for an error: the only mapping of faults to status codes,
// error codes and texts.
func Describe(err error) ErrorResponse {
	return DescribeStatus(StatusOf(fault.From(err).Kind), err)
}

// DescribeStatus is Describe with a status that no kind of fault has, such as 405.
func DescribeStatus(status int, err error) ErrorResponse {
	f := fault.From(err)
	response := ErrorResponse{Status: status, Body: api.Error{Error: errorText(status, f.Kind), Code: codeOf(status, f.Kind), Detail: f.Public}}
	if status == http.StatusInternalServerError && f.Kind != fault.FileLost {
		response.Body.Detail = internalDetail
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		response.RetryAfter = retryAfter(f)
	}
	return response
}

// maxSpread bounds what is added to the time after which a request may succeed.
const maxSpread = 10 * time.Second

// retryAfter returns how long to wait before the next attempt, spread for the clients that were answered at the same time.
func retryAfter(f *fault.Error) time.Duration {
	if f.RetryAfter <= 0 {
		return Spread(defaultRetryAfter)
	}
	return Spread(f.RetryAfter)
}

// Spread returns a random number of whole seconds, from wait to twice as long, and at most maxSpread longer. After an
// absence, all clients would otherwise come back in the same second, and the first replica would answer most of them 429.
func Spread(wait time.Duration) time.Duration {
	seconds := Seconds(wait)
	return time.Duration(seconds+rand.IntN(min(seconds, int(maxSpread.Seconds()))+1)) * time.Second
}

// Seconds rounds a time to wait up to whole seconds.
func Seconds(wait time.Duration) int { return int(math.Ceil(wait.Seconds())) }

// WriteError answers with the response for an error, and records it for the log.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	WriteErrorStatus(w, r, StatusOf(fault.From(err).Kind), err)
}

// WriteErrorStatus is WriteError with a status that no kind of fault has, such as 405.
func WriteErrorStatus(w http.ResponseWriter, r *http.Request, status int, err error) {
	info := FromContext(r.Context())
	status = record(r, status, err)
	response := DescribeStatus(status, err)
	if status == StatusClientClosedRequest { // it reads this if it has closed its side of the connection only
		response.Body.Detail = "the client closed the connection before the response: keep it open until the response has arrived"
	}
	if response.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(Seconds(response.RetryAfter)))
	}
	w.Header().Set("Cache-Control", "no-store")
	if info.rpc {
		WriteJSON(w, r, status, response.RPC())
		return
	}
	if info.legacyErrorText {
		response.Body.Error = legacyErrorText(status, response.Body.Error)
	}
	WriteJSON(w, r, status, response.Body)
}

// Fail is WriteError for an answer that the caller writes, such as a page: it records the error for the log, sets Retry-After, and returns the status
// of the answer.
func Fail(w http.ResponseWriter, r *http.Request, err error) int {
	f := fault.From(err)
	if f.Kind == fault.Busy || f.Kind == fault.Unavailable {
		w.Header().Set("Retry-After", strconv.Itoa(Seconds(retryAfter(f))))
	}
	return record(r, StatusOf(f.Kind), err)
}

// record records an error, and returns the status that it has in the log and the metrics: what follows from a client that left is no error of the
// service.
func record(r *http.Request, status int, err error) int {
	SetError(r.Context(), err)
	if status >= http.StatusInternalServerError && errors.Is(r.Context().Err(), context.Canceled) {
		return StatusClientClosedRequest
	}
	return status
}

// answerTimeout bounds what an answer reads after the body of its request has failed. It is longer than the statements of a request may take, so a
// database that is busy delays the answer and does not change it.
const answerTimeout = time.Minute

// AfterBody returns a request for the answer to a form whose body could not be read to its end. net/http ends the context of such a request, although
// a client that was too slow is still there: the page that says so could not be made.
func AfterBody(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), answerTimeout)
	return r.WithContext(ctx), cancel
}

// WriteMethodNotAllowed answers that a route has only these methods.
func WriteMethodNotAllowed(w http.ResponseWriter, r *http.Request, methods ...string) {
	names := strings.Join(methods, ", ")
	w.Header().Set("Allow", names)
	WriteErrorStatus(w, r, http.StatusMethodNotAllowed, fault.New(fault.Invalid, "this route has the methods %s", names))
}

// errorCodes are the error codes of the statuses.
var errorCodes = map[int]api.ErrorCode{
	http.StatusBadRequest:                   api.ErrorCodeInvalidRequest,
	http.StatusUnauthorized:                 api.ErrorCodeUnauthorized,
	http.StatusForbidden:                    api.ErrorCodeForbidden,
	http.StatusNotFound:                     api.ErrorCodeNotFound,
	http.StatusMethodNotAllowed:             api.ErrorCodeMethodNotAllowed,
	http.StatusConflict:                     api.ErrorCodeConflict,
	http.StatusGone:                         api.ErrorCodeGone,
	http.StatusPreconditionFailed:           api.ErrorCodePreconditionFailed,
	http.StatusRequestEntityTooLarge:        api.ErrorCodePayloadTooLarge,
	http.StatusUnprocessableEntity:          api.ErrorCodeFileRejected,
	http.StatusUnsupportedMediaType:         api.ErrorCodeUnsupportedMediaType,
	http.StatusRequestedRangeNotSatisfiable: api.ErrorCodeRangeNotSatisfiable,
	http.StatusLocked:                       api.ErrorCodeLocked,
	http.StatusTooManyRequests:              api.ErrorCodeTooManyRequests,
	StatusChecksumMismatch:                  api.ErrorCodeChecksumMismatch,
	StatusClientClosedRequest:               api.ErrorCodeClientClosedRequest,
	http.StatusNotImplemented:               api.ErrorCodeInvalidRequest, // of net/http, for a transfer encoding
	http.StatusServiceUnavailable:           api.ErrorCodeUnavailable,
	http.StatusHTTPVersionNotSupported:      api.ErrorCodeInvalidRequest,
}

// codeOf returns the stable code of an error, for programs. Some kinds have a code of their own.
func codeOf(status int, kind fault.Kind) api.ErrorCode {
	switch {
	case kind == fault.InvalidSignature && status == http.StatusForbidden:
		return api.ErrorCodeInvalidSignature
	case kind == fault.QuotaExceeded && status == http.StatusRequestEntityTooLarge:
		return api.ErrorCodeStorageCapExceeded
	case kind == fault.FileLost && status == http.StatusInternalServerError:
		return api.ErrorCodeFileLost
	}
	code, known := errorCodes[status]
	switch {
	case known:
		return code
	case status < http.StatusInternalServerError:
		return api.ErrorCodeInvalidRequest
	}
	return api.ErrorCodeInternalError
}

// errorText returns the short text of an error, for people.
func errorText(status int, kind fault.Kind) string {
	switch {
	case kind == fault.InvalidSignature:
		return invalidSignatureText
	case status == StatusChecksumMismatch:
		return "Checksum Mismatch"
	case status == StatusClientClosedRequest:
		return "Client Closed Request"
	}
	return http.StatusText(status)
}

// legacyErrorText returns which of the specification's four texts stands for an error of POST
// /media/create.
func legacyErrorText(status int, text string) string {
	switch {
	case text == invalidSignatureText || status == http.StatusUnauthorized:
		return text
	case status < http.StatusInternalServerError:
		return http.StatusText(http.StatusBadRequest)
	}
	return http.StatusText(http.StatusInternalServerError)
}

// WriteOAuthError answers an application with an OAuth error (RFC 6749, section 5.2) and
// records it for the log. status and code are those of an error of the client. Errors of the
// service and of limits have the status that they have everywhere, and a code of their own.
func WriteOAuthError(w http.ResponseWriter, r *http.Request, status int, code string, err error) {
	SetError(r.Context(), err)
	response := Describe(err)
	switch fault.From(err).Kind { //nolint:exhaustive // all others are errors of the client
	case fault.Busy, fault.Unavailable:
		status, code = record(r, response.Status, err), "temporarily_unavailable"
		w.Header().Set("Retry-After", strconv.Itoa(Seconds(response.RetryAfter)))
	case fault.Internal:
		status, code = record(r, response.Status, err), "server_error"
	}
	body := map[string]string{"error": code}
	if response.Body.Detail != "" {
		body["error_description"] = response.Body.Detail
	}
	w.Header().Set("Cache-Control", "no-store")
	WriteJSON(w, r, status, body)
}

// RPCResponse is a JSON-RPC 2.0 error response. A nil ID is null: the request is unknown.
type RPCResponse struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   RPCError        `json:"error"`
}

// RPCError is the error object of a JSON-RPC response.
type RPCError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// Codes that JSON-RPC defines.
const (
	rpcInvalidRequest = -32600
	rpcInternalError  = -32603
)

// RPC returns the JSON-RPC form of a response for a request of which no message was read.
func (r ErrorResponse) RPC() RPCResponse {
	rpc := RPCError{Code: rpcInvalidRequest, Message: r.Body.Detail, Data: RPCErrorData{Code: r.Body.Code}}
	if r.Status >= http.StatusInternalServerError {
		rpc.Code = rpcInternalError
	}
	if rpc.Message == "" {
		rpc.Message = r.Body.Error
	}
	return RPCResponse{Version: "2.0", Error: rpc}
}

// RPCErrorData carries the stable error code in a JSON-RPC error.
type RPCErrorData struct {
	Code api.ErrorCode `json:"code"`
}
