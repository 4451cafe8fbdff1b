package approval_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/runtime/internal/runtimetest"
)

// bearer adds the credential of a client.
type bearer struct {
	next http.RoundTripper
	by   runtimetest.Option
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	b.by(&runtimetest.Request{Header: r.Header})
	return b.next.RoundTrip(r)
}

// connect returns a session of the SDK's client, whose user accepts whatever the service asks for.
func (w *world) connect(t *testing.T, by runtimetest.Option, can *sdk.ElicitationCapabilities, shown func(*sdk.ElicitParams)) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{Elicitation: can},
		ElicitationHandler: func(_ context.Context, request *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			shown(request.Params)
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, nil
		}})
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: runtimetest.BaseURL + "/mcp", DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: bearer{w.tools.Client.Transport, by}}}, nil)
	must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// A client that can open an address for its user gets it that way, once. That its user has accepted to open it is no yes, and neither is the answer
// of a client that asks by forms.
func TestElicitation_OpensThePageAndIsNoYes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	item := w.sealed(t, tenant, "a.txt")
	for what, can := range map[string]*sdk.ElicitationCapabilities{
		"a client that opens addresses": {URL: &sdk.URLElicitationCapabilities{}},
		"a client with forms":           {Form: &sdk.FormElicitationCapabilities{}},
	} {
		var shown atomic.Int64
		var address string
		session := w.connect(t, by, can, func(p *sdk.ElicitParams) {
			shown.Add(1)
			address = p.URL
			if p.Mode != "url" || p.RequestedSchema != nil {
				t.Errorf("%s: it is asked %+v", what, p)
			}
		})
		tools, err := session.ListTools(t.Context(), nil)
		must(t, err)
		offered := false
		for _, tool := range tools.Tools {
			offered = offered || tool.Name == "get_approval"
		}
		if !offered {
			t.Errorf("%s: get_approval is not listed", what)
		}
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "delete_media", Arguments: object{"mediaId": item}})
		must(t, err)
		text, err := json.Marshal(result.StructuredContent)
		must(t, err)
		var q question
		must(t, json.Unmarshal(text, &q))
		if result.IsError || q.State != "approval_required" || q.ApprovalID == "" {
			t.Errorf("%s: %s", what, text)
		}
		if want := map[bool]int64{true: 1}[can.URL != nil]; shown.Load() != want || want == 1 && address != q.URL {
			t.Errorf("%s: its user was asked %d times, for %s", what, shown.Load(), address)
		}
		if n := w.deleted(t); n != 0 {
			t.Fatalf("%s: the item was deleted", what)
		}
		if got := w.told(t, by, q); got.State != "waiting" {
			t.Errorf("%s: the approval is %s", what, got.State)
		}
	}
}
