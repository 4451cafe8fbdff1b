package mcp

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

// Revisions of the protocol that differ in what this package implements.
const (
	unnamedRevision   = "2025-03-26" // if the header is missing
	batchlessRevision = "2025-06-18" // has no batches any more
	statelessRevision = "2026-07-28" // errors have an HTTP status
)

// ProtocolVersions returns the revisions of the protocol that the endpoint speaks, newest first.
func ProtocolVersions() []string { return sdk.SupportedProtocolVersions() }

const revisionHeader = "Mcp-Protocol-Version"

// revision returns the revision of the protocol that a request is in.
func revision(header http.Header) string {
	if named := header.Get(revisionHeader); named != "" {
		return named
	}
	return unnamedRevision
}

// checkHeaders rejects a request by what is known before its body is read. The SDK
// rejects the same requests, as plain text.
func checkHeaders(w http.ResponseWriter, r *http.Request) error {
	reject := func(status int, public string) error {
		return rpcError{error: fault.New(fault.Invalid, "%s", public), code: jsonrpc.CodeInvalidRequest, status: status}
	}
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", allowedMethods)
		return reject(http.StatusMethodNotAllowed, "messages must be sent by POST; the service keeps no sessions and no streams")
	case !isJSON(r.Header.Get("Content-Type")):
		return reject(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	case !acceptsBoth(r.Header.Values("Accept")):
		return reject(http.StatusNotAcceptable, "Accept must contain application/json and text/event-stream")
	}
	return nil
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == "application/json"
}

// acceptsBoth reports whether a client accepts both content types of the protocol, as
// every revision requires of it. Parameters are ignored.
func acceptsBoth(values []string) bool {
	object, stream := false, false
	for value := range strings.SplitSeq(strings.Join(values, ","), ",") {
		kind, _, _ := strings.Cut(value, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "*/*":
			return true
		case "application/json", "application/*":
			object = true
		case "text/event-stream", "text/*":
			stream = true
		}
	}
	return object && stream
}

// checkRevision rejects a body whose revision is unknown, or has no batches.
func checkRevision(header http.Header, messages []message, batch bool) error {
	named, supported := revision(header), sdk.SupportedProtocolVersions()
	if !slices.Contains(supported, named) {
		rejected := rpcError{error: fault.New(fault.Invalid, "unsupported protocol version; supported are %s", strings.Join(supported, ", ")),
			code: sdk.CodeUnsupportedProtocolVersion, data: sdk.UnsupportedProtocolVersionData{Supported: supported, Requested: httpapi.Truncate(named)}}
		if !batch {
			rejected.id = messages[0].id
		}
		return rejected
	}
	if batch && named >= batchlessRevision {
		return invalidRequest(nil, "protocol version %s has no batches: send one message", named)
	}
	return nil
}

// dispatch answers the messages of a body. Notifications and responses have no effect,
// since the service keeps no sessions and asks its clients nothing, and are never
// answered. Requests that check rejects are answered with its error, and each of the
// others by sdkHandler, one after the other.
func dispatch(sdkHandler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := stateFromContext(r.Context())
		var responses []response
		for _, m := range c.messages {
			if m.isRequest() {
				responses = append(responses, c.respond(sdkHandler, r, m))
			}
		}
		switch {
		case len(responses) == 0:
			w.WriteHeader(http.StatusAccepted)
		case c.batch:
			bodies := make([][]byte, len(responses))
			for i, one := range responses {
				bodies[i] = one.body
			}
			body := slices.Concat([]byte{'['}, bytes.Join(bodies, []byte{','}), []byte{']'})
			response{status: http.StatusOK, body: body}.write(w, r)
		default:
			responses[0].write(w, r)
		}
	})
}

// respond answers one request.
func (c *requestState) respond(sdkHandler http.Handler, r *http.Request, m message) response {
	if err := m.validateParams(); err != nil {
		c.addError(err)
		answer := errorResponse(err)
		if _, supported := paramsOf[m.method]; !supported {
			answer.status = unknownMethodStatus(r.Header)
		}
		return answer
	}
	request := withBody(r, m.text)
	request.Header = r.Header.Clone()
	request.Header.Del("Last-Event-Id") // it has no meaning without streams
	got := recorder{header: http.Header{}}
	sdkHandler.ServeHTTP(&got, request)
	return c.checked(r, m, got)
}

// unknownMethodStatus returns the HTTP status of "method not found". Only the newest
// revisions have one: in the older ones an error is a response like any other.
func unknownMethodStatus(header http.Header) int {
	if revision(header) >= statelessRevision {
		return http.StatusNotFound
	}
	return http.StatusOK
}

// checked returns what the SDK answered. It replaces what is not JSON, as http.Error
// writes it, so that no client has to parse it: every such answer that is known is
// decided before the SDK is called.
func (c *requestState) checked(r *http.Request, m message, got recorder) response {
	if got.status == 0 {
		got.status = http.StatusOK
	}
	if isJSON(got.header.Get("Content-Type")) && got.body.Len() > 0 {
		return response{status: got.status, body: got.body.Bytes()}
	}
	if r.Context().Err() == nil { // otherwise the client disconnected, so the SDK wrote no response: see write
		c.addError(fmt.Errorf("%s: %d %.200q", notFromSDK, got.status, got.body.String()))
	}
	rejected := rpcError{error: fault.New(fault.Invalid, "the request was rejected"), code: jsonrpc.CodeInvalidRequest, id: m.id, status: got.status}
	if got.status < http.StatusBadRequest || got.status >= http.StatusInternalServerError {
		rejected.error, rejected.code, rejected.status = fault.New(fault.Internal, "the service failed"), jsonrpc.CodeInternalError, http.StatusInternalServerError
	}
	return errorResponse(rejected)
}

// notFromSDK begins the error in the log for an answer of the SDK that is not JSON.
const notFromSDK = "the MCP SDK answered with a body that is not JSON"

// recorder keeps the answer to one request.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the headers of the answer.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the first status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write keeps a part of the body.
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// withBody returns a copy of a request with another body.
func withBody(r *http.Request, body []byte) *http.Request {
	copied := r.WithContext(r.Context())
	copied.Body, copied.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return copied
}
