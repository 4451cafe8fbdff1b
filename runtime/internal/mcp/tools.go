package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/redact"
)

// tool is one tool: what is said of it, and what it does.
type tool struct {
	name, title, description string
	// reads is set on tools that change nothing and hand out no permission to. Whatever
	// does not say so needs the right to write.
	reads       bool
	destructive bool // something that was there is gone, or changed
	idempotent  bool // calling again changes nothing more

	input, output schema
	run           func(ctx context.Context, grant auth.Identity, args *arguments) (any, error)
}

// definition is what clients are told. All four hints are there: some clients take a
// missing one for the worst.
func (t tool) definition() *sdk.Tool {
	closed := false // the world of every tool is the account's media
	return &sdk.Tool{
		Name: t.name, Title: t.title, Description: t.description, InputSchema: t.input, OutputSchema: t.output,
		Annotations: &sdk.ToolAnnotations{Title: t.title, ReadOnlyHint: t.reads, DestructiveHint: &t.destructive,
			IdempotentHint: t.idempotent || t.reads, OpenWorldHint: &closed},
	}
}

// scope is what a credential must permit.
func (t tool) scope() auth.Scope {
	if t.reads {
		return auth.ScopeRead
	}
	return auth.ScopeWrite
}

// permitted is the one place that says whether a caller may use a tool. Lists and calls
// ask it, and whoever is not known may use none.
func permitted(grant auth.Identity, t tool) error {
	if !grant.HasScope(t.scope()) {
		return fault.New(fault.Conflict, "this connection may not use %s: it lacks the scope %s", t.name, t.scope())
	}
	if !grant.Account.ToolPolicy.Allows(account.Operation(t.name)) {
		return fault.New(fault.Conflict, "this account does not let assistants use %s: use the tools that are listed, or have the user ask the account's administrator", t.name)
	}
	return nil
}

// demand refuses a body with a call of a tool that the connection lacks the scope for, so
// that its client can ask the person for more: it looks at the status, not into results.
func (a *API) demand(ctx context.Context, w http.ResponseWriter, grant auth.Identity, messages []message) error {
	for _, m := range messages {
		var call sdk.CallToolParamsRaw
		if m.method != "tools/call" || json.Unmarshal(m.params, &call) != nil {
			continue
		}
		if t, ok := a.find(call.Name); ok {
			if err := a.parts.Auth.RequireScope(w, grant, t.scope()); err != nil {
				a.count(ctx, t.name, err)
				return invalid{error: err, code: jsonrpc.CodeInvalidRequest, id: m.id}
			}
		}
	}
	return nil
}

// maySend reports whether a file in a request of this caller's can lead to anything.
func (a *API) maySend(grant auth.Identity) bool {
	t, ok := a.find(uploadName)
	return ok && permitted(grant, t) == nil
}

func (a *API) find(name string) (tool, bool) {
	at := slices.IndexFunc(a.tools, func(t tool) bool { return t.name == name })
	if at < 0 {
		return tool{}, false
	}
	return a.tools[at], true
}

// caller makes a tool the SDK's.
func (a *API) caller(t tool) sdk.ToolHandler {
	return func(ctx context.Context, request *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		grant := auth.FromContext(ctx)
		args := readArguments(t, request.Params.Arguments)
		output, err := any(nil), args.err
		if err == nil {
			output, err = t.run(ctx, grant, args)
		}
		if err != nil {
			return a.failed(ctx, t.name, err), nil
		}
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false) // addresses of files can be copied from the text
		if err := encoder.Encode(output); err != nil {
			return a.failed(ctx, t.name, fmt.Errorf("encode the result: %w", err)), nil
		}
		a.count(ctx, t.name, nil)
		document := bytes.TrimSpace(text.Bytes())
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(document)}}, StructuredContent: json.RawMessage(document)}, nil
	}
}

// leash holds lists and calls to what the caller may use.
func (a *API) leash(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, request sdk.Request) (result sdk.Result, err error) {
		called := "" // the tool, if one is
		// The SDK's goroutines have nobody else who would survive a panic.
		defer func() {
			if problem := recover(); problem != nil {
				callOf(ctx).note(fault.Wrap(fmt.Errorf("panic: %v\n%s", problem, debug.Stack()), fault.Internal, "%s", method))
				if called != "" {
					a.calls.WithLabelValues(called, callFailed).Inc()
				}
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the service failed"}
			}
		}()
		grant := auth.FromContext(ctx)
		if method == "tools/call" {
			params, ok := request.GetParams().(*sdk.CallToolParamsRaw)
			if !ok {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the call can't be read"}
			}
			if t, ok := a.find(params.Name); !ok { // the SDK says so
				a.calls.WithLabelValues(unknownTool, callRefused).Inc()
			} else if err := permitted(grant, t); err != nil {
				return a.failed(ctx, t.name, err), nil
			} else {
				called = t.name
			}
		}
		result, err = next(ctx, method, request)
		err = masked(err)
		if list, ok := result.(*sdk.ListToolsResult); ok && err == nil {
			list.Tools = slices.DeleteFunc(list.Tools, func(listed *sdk.Tool) bool {
				t, known := a.find(listed.Name)
				return !known || permitted(grant, t) != nil
			})
		}
		return result, err
	}
}

// masked returns an error of the SDK without the credentials that it quotes, such as a key
// in the place of a tool's name.
func masked(err error) error {
	var quoting *jsonrpc.Error
	if !errors.As(err, &quoting) {
		return err
	}
	told := *quoting
	told.Message = redact.Text(told.Message)
	return &told
}
