package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

// failed is the one mapping of faults to results of tools: a sentence that a model can
// act on, and nothing from within. The log and the metric are told which tool it was.
func (a *API) failed(ctx context.Context, tool string, err error) *sdk.CallToolResult {
	callOf(ctx).note(fmt.Errorf("%s: %w", tool, err))
	a.count(ctx, tool, err)
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: sentence(ctx, err)}}}
}

// pause is how long a model is told to wait when the fault does not say.
const pause = 5 * time.Second

func sentence(ctx context.Context, err error) string {
	f := fault.From(err)
	public := f.Public
	switch f.Kind {
	case fault.Internal:
		return "The service failed; this is not the fault of the arguments. Try once more. If it fails again, tell the user the request id " + httpapi.FromContext(ctx).RequestID + "."
	case fault.Unavailable:
		if public == "" {
			public = "the service can't reach its stores"
		}
		public += ": nothing was changed, try again " + in(f.RetryAfter)
	case fault.Busy:
		if public == "" {
			public = "the service is busy"
		}
		public += ": try again " + in(f.RetryAfter)
	case fault.QuotaExceeded:
		public += ": delete items that are not needed any more with delete_media, or have the user ask for more storage"
	}
	if public == "" {
		public = "the call was refused: " + f.Kind.String()
	}
	return public
}

func in(wait time.Duration) string {
	if wait <= 0 {
		wait = pause
	}
	return fmt.Sprintf("in %d seconds", int(math.Ceil(wait.Seconds())))
}

// refuse answers a request that does not reach the SDK, in the protocol's form.
// The fault's own mapping (httpapi.Fail) is for REST: its 403 means a signature.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if fault.Is(err, fault.Busy) || fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Unavailable) {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.SetError(r.Context(), err)
	errorResponse(err).write(w)
}

// response is a JSON-RPC response, with the HTTP status that it has outside of a batch.
type response struct {
	status int
	body   []byte
}

// errorResponse returns the JSON-RPC error response for a fault. A nil id is null.
func errorResponse(err error) response {
	told := invalid{error: err, code: jsonrpc.CodeInvalidRequest}
	_ = errors.As(err, &told)
	status, public := http.StatusBadRequest, fault.From(err).Public
	switch {
	case told.status != 0:
		status = told.status
	case errors.Is(err, errForeignHost) || errors.Is(err, errForeignOrigin):
		status, public = http.StatusForbidden, err.Error()
	case fault.Is(err, fault.Forbidden):
		status = http.StatusForbidden
	case fault.Is(err, fault.TooLarge):
		status = http.StatusRequestEntityTooLarge
	}
	body, _ := json.Marshal(httpapi.RPCResponse{Version: "2.0", ID: told.id,
		Error: httpapi.RPCError{Code: told.code, Message: public, Data: told.data}}) // of strings and JSON that was read
	return response{status: status, body: body}
}

func (answer response) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.body)))
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body) // the client is gone, and the log line says how much it got
}
