package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/tracing"
)

// toolError returns the result of a tool that failed: the text of the fault as on every
// interface, with a hint for the model, and its code in _meta. It records the error for the log,
// the metric and the trace.
func (a *API) toolError(ctx context.Context, tool string, err error) *sdk.CallToolResult {
	stateFromContext(ctx).addError(fmt.Errorf("%s: %w", tool, err))
	a.count(ctx, tool, err)
	tracing.Fail(trace.SpanFromContext(ctx), fault.From(err).Kind.String())
	described := httpapi.Describe(err)
	meta := sdk.Meta{metaCode: described.Body.Code}
	if described.RetryAfter > 0 {
		meta[metaRetryAfter] = httpapi.Seconds(described.RetryAfter)
	}
	return &sdk.CallToolResult{IsError: true, Meta: meta,
		Content: []sdk.Content{&sdk.TextContent{Text: errorText(ctx, a.viewOf(auth.FromContext(ctx)), described, err)}}}
}

// The keys of the _meta of a tool's result: the error code, and the seconds after which a client can try again, if it can.
const (
	metaCode       = "mediastack.dev/code"
	metaRetryAfter = "mediastack.dev/retryAfter"
)

// errorText returns the text of a fault, followed by what the model can do about it.
func errorText(ctx context.Context, v view, described httpapi.ErrorResponse, err error) string {
	text := described.Body.Detail
	if text == "" {
		text = described.Body.Error
	}
	retry := fmt.Sprintf("try again in %d seconds", httpapi.Seconds(described.RetryAfter))
	switch fault.From(err).Kind { //nolint:exhaustive // the text of all others says what to change
	case fault.Internal:
		return "The service failed; this is not the fault of the arguments. Try once more. If it fails again, tell the user the request id " + httpapi.FromContext(ctx).RequestID + "."
	case fault.Unavailable:
		return text + ": nothing was changed, " + retry
	case fault.Busy:
		return text + ": " + retry
	case fault.QuotaExceeded:
		return text + ": " + v.when(account.DeleteMedia, "delete items that are not needed any more with delete_media, or ") + "have the user ask for more storage"
	case fault.NotFound:
		if errors.Is(err, fetch.ErrNotFound) || errors.Is(err, handover.ErrNotFound) || errors.Is(err, approval.ErrNotFound) { // no item
			return text
		}
		return text + ": it may be deleted, or a draft that was not sealed in time" +
			v.when(account.ListMedia, "; list_media lists what there is") + v.when(account.ListDeletedMedia, "; list_deleted_media lists deleted items that can be restored")
	case fault.Forbidden:
		return text + ": use the tools that are listed, or have the user ask the account's administrator"
	}
	return text
}

// writeRPCError answers a request that does not reach the SDK with a JSON-RPC error, and records
// the error for the log.
func writeRPCError(w http.ResponseWriter, r *http.Request, err error) {
	if known := new(rpcError); !errors.As(err, known) {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.SetError(r.Context(), err)
	errorResponse(err).write(w, r)
}

// response is a JSON-RPC response, and its HTTP status outside of a batch.
type response struct {
	status int
	body   []byte
}

// errorResponse returns the JSON-RPC error response for a fault. A nil id is null.
func errorResponse(err error) response {
	rejected := rpcError{error: err, code: jsonrpc.CodeInvalidRequest}
	_ = errors.As(err, &rejected)
	described := httpapi.Describe(err)
	if rejected.status != 0 {
		described = httpapi.DescribeStatus(rejected.status, err)
	}
	rpc := described.RPC()
	rpc.ID, rpc.Error.Code = rejected.id, rejected.code
	if rejected.data != nil {
		rpc.Error.Data = rejected.data
	}
	body, _ := json.Marshal(rpc) // of strings and JSON that was read
	return response{status: described.Status, body: body}
}

// write sends the response. A client that has left does not receive it: the error of a tool, which has the status 200, is an error
// of the client then, as in REST.
func (r response) write(w http.ResponseWriter, request *http.Request) {
	if errors.Is(request.Context().Err(), context.Canceled) {
		r.status = httpapi.StatusClientClosedRequest
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // if the client is gone, the log line has the number of bytes written
}
