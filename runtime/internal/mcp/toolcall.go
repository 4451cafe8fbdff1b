package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/redact"
	"mediastack.dev/runtime/tracing"
)

// tool is the definition of a tool and its implementation.
type tool struct {
	operation          account.Operation // which names the tool
	title, description string
	destructive        bool // it removes or changes something that exists
	idempotent         bool // a second call changes nothing more
	openWorld          bool // it reaches other servers

	input, output schema
	extension     *extension // nil = none
	meta          sdk.Meta   // for clients that know its members
	run           func(ctx context.Context, identity auth.Identity, args *arguments) (any, error)
}

// extension changes a tool where an account has a toolset. Without it the tool is as it always was.
type extension struct {
	toolsets      []string // any of them
	without       string   // removed from the description
	description   string   // appended
	input, output properties
	optional      properties // of the output
	optionalInput string     // an argument that is not required anymore, as one of input can stand for it; empty = none
	meta          sdk.Meta   // for clients that know its members
	items         *schema    // of the member mediaItems of the output, in the place of its own; nil = its own
}

// in returns the tool as an account with this policy has it.
func (t tool) in(policy account.ToolPolicy) tool {
	if t.extension == nil || !slices.ContainsFunc(t.extension.toolsets, policy.HasToolset) {
		return t
	}
	t.description = strings.Replace(t.description, t.extension.without, "", 1) + t.extension.description
	t.input.Properties = slices.Concat(t.input.Properties, t.extension.input)
	t.input.Required = slices.DeleteFunc(slices.Clone(t.input.Required), func(name string) bool { return name == t.extension.optionalInput })
	t.meta = t.extension.meta
	t.output.Properties = slices.Concat(t.output.Properties, t.extension.output, t.extension.optional)
	t.output.Required = slices.Concat(t.output.Required, t.extension.output.names())
	for i, one := range t.output.Properties {
		if t.extension.items != nil && one.name == "mediaItems" {
			t.output.Properties[i].Items = t.extension.items
		}
	}
	return t
}

func (t tool) name() string { return string(t.operation) }

// definition returns the tool as clients see it. It has all four hints: some clients take a
// missing one for the worst value.
func (t tool) definition() *sdk.Tool {
	reads := t.operation.Reads()
	return &sdk.Tool{
		Meta: t.meta, Name: t.name(), Title: t.title, Description: t.description, InputSchema: t.input, OutputSchema: t.output,
		Annotations: &sdk.ToolAnnotations{Title: t.title, ReadOnlyHint: reads, DestructiveHint: &t.destructive,
			IdempotentHint: t.idempotent || reads, OpenWorldHint: &t.openWorld},
	}
}

// authorize rejects a caller that may not use a tool, by its scopes and by the toolsets and the tool
// policy of the account. It applies to lists and to calls, and rejects an unauthenticated caller.
func authorize(identity auth.Identity, t tool) error {
	if scope := auth.ScopeOf(t.operation); !identity.HasScope(scope) {
		return auth.InsufficientScope(scope)
	}
	if policy := identity.Account.ToolPolicy; !policy.Offers(t.operation) && t.operation == account.GetApproval {
		return fault.New(fault.Forbidden, "in this account nothing waits for its owner (spec.mcp.approval)")
	} else if !policy.Offers(t.operation) {
		return fault.New(fault.Forbidden, "%s is in the toolset %s, which this account does not offer (spec.mcp.toolsets)", t.operation, t.operation.Toolset())
	} else if !policy.Allows(t.operation) {
		return auth.NotAllowed(t.operation)
	}
	return nil
}

// checkScopes rejects a body that calls a tool whose scope the connection lacks. The status tells
// the client to ask the user for the scope; clients do not look for that in results.
func (a *API) checkScopes(ctx context.Context, w http.ResponseWriter, identity auth.Identity, messages []message) error {
	for _, m := range messages {
		var call sdk.CallToolParamsRaw
		if m.method != "tools/call" || json.Unmarshal(m.params, &call) != nil {
			continue
		}
		if t, ok := a.toolByName(call.Name); ok {
			if err := a.deps.Auth.RequireScope(w, identity, auth.ScopeOf(t.operation)); err != nil {
				a.count(ctx, t.name(), err)
				return rpcError{error: err, code: jsonrpc.CodeInvalidRequest, id: m.id}
			}
		}
	}
	return nil
}

// canUpload reports whether the caller may use upload_media.
func canUpload(identity auth.Identity) bool {
	return authorize(identity, tool{operation: account.UploadMedia}) == nil
}

func (a *API) toolByName(name string) (tool, bool) {
	at := slices.IndexFunc(a.tools, func(t tool) bool { return t.name() == name })
	if at < 0 {
		return tool{}, false
	}
	return a.tools[at], true
}

// toolHandler returns the handler of a tool, for the SDK.
func (a *API) toolHandler(t tool) sdk.ToolHandler {
	return func(ctx context.Context, request *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		identity := auth.FromContext(ctx)
		identity.Assistant = true
		identity = identity.Guarded()
		v := a.viewOf(identity)
		own, _ := a.toolOf(v, t.operation)
		args := readArguments(own, request.Params.Arguments)
		args.sources = v.itemSources()
		output, err := any(nil), args.err
		if err == nil {
			waits, repeats := a.repeated(ctx, identity, request)
			if output = waits; !repeats {
				output, err = t.run(ctx, identity, args)
			}
		}
		if err != nil {
			return a.toolError(ctx, t.name(), err), nil
		}
		picture, _ := output.(pictured)
		if picture.jpeg != nil {
			output = picture.document
		}
		document, err := httpapi.EncodeJSON(output)
		if err != nil {
			return a.toolError(ctx, t.name(), err), nil
		}
		a.count(ctx, t.name(), nil)
		if open := elicitation(request, output); open != nil {
			return open, nil
		}
		content := []sdk.Content{&sdk.TextContent{Text: string(document)}}
		if picture.jpeg != nil {
			content = append(content, &sdk.ImageContent{Data: picture.jpeg, MIMEType: imageformat.JPEG.MIMEType()})
		}
		return &sdk.CallToolResult{Content: content, StructuredContent: json.RawMessage(document)}, nil
	}
}

// authorizeTools is the middleware of the SDK that authorizes calls and filters lists of tools.
func (a *API) authorizeTools(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, request sdk.Request) (result sdk.Result, err error) {
		called := "" // the tool of a tools/call
		// The SDK calls tools in its goroutines, where a panic would end the process.
		defer func() {
			if panicked := recover(); panicked != nil {
				stateFromContext(ctx).addError(fault.Wrap(fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()), fault.Internal, "%s", method))
				if called != "" {
					a.calls.WithLabelValues(called, outcomeError).Inc()
				}
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the service failed"}
			}
		}()
		identity := auth.FromContext(ctx)
		if method == "tools/call" {
			params, ok := request.GetParams().(*sdk.CallToolParamsRaw)
			if !ok {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "malformed params of tools/call"}
			}
			if t, ok := a.toolByName(params.Name); !ok { // the SDK rejects the call
				a.calls.WithLabelValues(unknownTool, outcomeRejected).Inc()
			} else {
				var span trace.Span
				ctx, span = tracing.Start(ctx, "mcp tools/call "+t.name(), trace.WithAttributes(attribute.String("mcp.method.name", method), attribute.String("gen_ai.tool.name", t.name())))
				defer span.End()
				if err := cmp.Or(authorize(identity, t), a.deps.Auth.CheckWritable(t.operation)); err != nil {
					return a.toolError(ctx, t.name(), err), nil
				}
				called = t.name()
				// The SDK waits for a call whose client has left, and does not end it.
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(stateFromContext(ctx).left, cancel)()
				defer prometheus.NewTimer(a.durations.WithLabelValues(called)).ObserveDuration()
			}
		}
		result, err = next(ctx, method, request)
		err = masked(err)
		if list, ok := result.(*sdk.ListToolsResult); ok && err == nil {
			list.Tools = slices.DeleteFunc(list.Tools, func(listed *sdk.Tool) bool {
				t, known := a.toolByName(listed.Name)
				return !known || authorize(identity, t) != nil
			})
			v := a.viewOf(identity)
			for i, listed := range list.Tools {
				if t, ok := a.toolOf(v, account.Operation(listed.Name)); ok {
					list.Tools[i] = t.definition()
				}
			}
		}
		switch described := result.(type) {
		case *sdk.InitializeResult:
			described.Instructions = a.instructions(a.viewOf(identity))
		case *sdk.DiscoverResult:
			described.Instructions = a.instructions(a.viewOf(identity))
		}
		return result, err
	}
}

// masked returns an error of the SDK with the credentials that it quotes masked, such as a key
// that was sent as the name of a tool.
func masked(err error) error {
	var quoting *jsonrpc.Error
	if !errors.As(err, &quoting) {
		return err
	}
	redacted := *quoting
	redacted.Message = redact.Text(redacted.Message)
	return &redacted
}
