package mcp

import (
	"context"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/runtime/internal/auth"
)

// opensURLs reports whether the client of a call shows an address to its user when the service asks for that (elicitation in URL mode). Only
// revisions without sessions name the capabilities of the client in each call.
func opensURLs(request *sdk.CallToolRequest) bool {
	if request.Session == nil {
		return false
	}
	client := request.Session.InitializeParams()
	return client != nil && client.ProtocolVersion >= statelessRevision && client.Capabilities != nil && client.Capabilities.Elicitation != nil && client.Capabilities.Elicitation.URL != nil
}

// elicitation returns the result by which a client opens the page of an approval. nil: the result of the call says it, as to a client
// that cannot open an address, or has done so. What the client answers is no yes: only the page takes one.
func elicitation(request *sdk.CallToolRequest, output any) *sdk.CallToolResult {
	waits, ok := output.(asked)
	if !ok || request.Params.InputResponses != nil || request.Params.RequestState != "" || !opensURLs(request) {
		return nil
	}
	id := waits.ApprovalID.String()
	return &sdk.CallToolResult{RequestState: id, InputRequests: sdk.InputRequestMap{id: &sdk.ElicitParams{Mode: "url", URL: waits.URL, ElicitationID: id,
		Message: "The owner of the media account has to allow this: " + waits.Summary + ". Open the page to decide."}}}
}

// repeated returns the result of a call that the client repeats after it has opened the page: the approval that it waits for. Such a call is not
// carried out, whatever its answers are: the service does that once the owner has allowed it. ok is unset for any other call.
func (a *API) repeated(ctx context.Context, identity auth.Identity, request *sdk.CallToolRequest) (output any, ok bool) {
	if request.Params.RequestState == "" || a.deps.Approvals == nil {
		return nil, false
	}
	id, err := uuid.Parse(request.Params.RequestState)
	if err != nil {
		return nil, false
	}
	found, err := a.deps.Approvals.OfConnection(ctx, identity.Principal, id)
	if err != nil {
		return nil, false // the call waits as any other one
	}
	return a.waiting(found), true
}
