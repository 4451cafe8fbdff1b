package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
)

// JSON answers with a document. Signed addresses in it stay as they are ("&", not
// "\u0026"), so that they can be copied from a terminal.
func JSON(w http.ResponseWriter, r *http.Request, status int, document any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		Fail(w, r, fmt.Errorf("encode the answer: %w", err))
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(body.Len()))
	header.Set("X-Content-Type-Options", "nosniff")
	if header.Get("Cache-Control") == "" {
		header.Set("Cache-Control", "private, no-store")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client is gone, and the log line says how much it got
}

// StatusOf is the one mapping of faults to HTTP.
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
	case fault.TooLarge, fault.QuotaExceeded:
		return http.StatusRequestEntityTooLarge
	case fault.UnsupportedType:
		return http.StatusUnsupportedMediaType
	case fault.Busy:
		return http.StatusTooManyRequests
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

// StatusChecksumMismatch is what TUS answers when bytes do not fit their checksum.
const StatusChecksumMismatch = 460

// clientGone is what the log and the metrics say of a request whose client left: what
// broke off because of that is no failure of the service. Nobody reads the answer.
const clientGone = 499

// Texts of the specification that no status code spells.
const (
	badSignatureText = "Invalid signature"
	internalDetail   = "The service failed; the request id says where to look."
)

// pause is what Retry-After says when the fault does not.
const pause = 5 * time.Second

// Fail answers with a fault, and notes it for the log.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	f := fault.From(err)
	FailStatus(w, r, StatusOf(f.Kind), err)
}

// FailStatus is Fail with a status code that no kind of fault has, such as 405.
func FailStatus(w http.ResponseWriter, r *http.Request, status int, err error) {
	record, f := Of(r.Context()), fault.From(err)
	record.Err = err
	if status >= http.StatusInternalServerError && errors.Is(r.Context().Err(), context.Canceled) {
		status = clientGone
	}
	body := api.Error{Error: errorText(status, f.Kind, record.fewTexts), Code: codeOf(status, f.Kind), Detail: f.Public}
	if status == http.StatusInternalServerError {
		body.Detail = internalDetail
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		RetryAfter(w.Header(), f)
	}
	w.Header().Set("Cache-Control", "no-store")
	if record.rpc {
		JSON(w, r, status, rpcError(status, body))
		return
	}
	JSON(w, r, status, body)
}

// RetryAfter says when to come back after 429 or 503: when the fault says, else after a
// pause.
func RetryAfter(header http.Header, f *fault.Error) {
	wait := f.RetryAfter
	if wait <= 0 {
		wait = pause
	}
	header.Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}

// codes are the error codes of statuses, as far as the kind of a fault does not say more.
var codes = map[int]api.ErrorCode{
	http.StatusBadRequest:                   api.ErrorCodeInvalidRequest,
	http.StatusUnauthorized:                 api.ErrorCodeUnauthorized,
	http.StatusForbidden:                    api.ErrorCodeForbidden,
	http.StatusNotFound:                     api.ErrorCodeNotFound,
	http.StatusMethodNotAllowed:             api.ErrorCodeMethodNotAllowed,
	http.StatusConflict:                     api.ErrorCodeConflict,
	http.StatusPreconditionFailed:           api.ErrorCodePreconditionFailed,
	http.StatusRequestEntityTooLarge:        api.ErrorCodePayloadTooLarge,
	http.StatusUnsupportedMediaType:         api.ErrorCodeUnsupportedMediaType,
	http.StatusRequestedRangeNotSatisfiable: api.ErrorCodeRangeNotSatisfiable,
	http.StatusLocked:                       api.ErrorCodeLocked,
	http.StatusTooManyRequests:              api.ErrorCodeTooManyRequests,
	StatusChecksumMismatch:                  api.ErrorCodeChecksumMismatch,
	clientGone:                              api.ErrorCodeClientClosedRequest,
	http.StatusServiceUnavailable:           api.ErrorCodeUnavailable,
}

// codeOf returns the stable code of an error, for programs.
func codeOf(status int, kind fault.Kind) api.ErrorCode {
	switch {
	case kind == fault.InvalidSignature && status == http.StatusForbidden:
		return api.ErrorCodeInvalidSignature
	case kind == fault.QuotaExceeded && status == http.StatusRequestEntityTooLarge:
		return api.ErrorCodeStorageCapExceeded
	}
	if code, ok := codes[status]; ok {
		return code
	}
	return api.ErrorCodeInternalError
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

// rpcError returns the JSON-RPC form of an answer that was given before a message was read.
func rpcError(status int, body api.Error) RPCResponse {
	told := RPCError{Code: rpcInvalidRequest, Message: body.Detail}
	if status >= http.StatusInternalServerError {
		told.Code = rpcInternalError
	}
	if told.Message == "" {
		told.Message = body.Error
	}
	return RPCResponse{Version: "2.0", Error: told}
}

func errorText(status int, kind fault.Kind, few bool) string {
	switch {
	case kind == fault.InvalidSignature:
		return badSignatureText
	case status == StatusChecksumMismatch:
		return "Checksum Mismatch"
	case status == http.StatusUnauthorized, !few:
		return http.StatusText(status)
	case status < http.StatusInternalServerError:
		return http.StatusText(http.StatusBadRequest)
	}
	return http.StatusText(http.StatusInternalServerError)
}
