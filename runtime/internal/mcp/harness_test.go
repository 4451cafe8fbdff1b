package mcp_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/runtimetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const baseURL = runtimetest.BaseURL

// world is a database and an S3 store with the use cases of the operator.
type world struct{ *runtimetest.Env }

func newWorld(t *testing.T) *world { t.Helper(); return &world{runtimetest.New(t)} }

type tenant = runtimetest.Tenant

// The default limits of a tenant.
const (
	maxStorage    = 256 << 20
	maxUploadSize = 64 << 20
)

// tenant creates an account as the operator does for a MediaAccount.
func (w *world) tenant(t *testing.T, name string, change ...func(*account.Spec)) tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, MaxStorage: maxStorage, MaxUploadSize: maxUploadSize}, change...)
}

// leftovers returns the rows of uploads and items plus the bytes that are reserved or used.
func (w *world) leftovers(t *testing.T) int64 {
	t.Helper()
	return w.QueryInt(t, `SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM item) + (SELECT coalesce(sum(bytes), 0) FROM account_usage)`)
}

// replica is a running runtime.
type replica struct{ *runtimetest.Service }

type options = runtimetest.ServiceConfig

// replica starts a replica with the tools.
func (w *world) replica(t *testing.T, change ...func(*options)) *replica {
	t.Helper()
	o := runtimetest.NewServiceConfig()
	o.MCP = &mcp.Config{}
	for _, apply := range change {
		apply(&o)
	}
	o.Auth.Resource = oauthhttp.Resource(o.Server.BaseURL)
	return &replica{w.Service(t, o)}
}

// withHeader adds headers to every request.
type withHeader struct {
	next   http.RoundTripper
	header http.Header
}

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h.header {
		r.Header[name] = values
	}
	return h.next.RoundTrip(r)
}

// connect returns a session of the SDK's client.
func (rt *replica) connect(t *testing.T, key string) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: baseURL + "/mcp", DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: withHeader{next: rt.Client.Transport, header: http.Header{"X-Service-Apikey": {key}}}}}, nil)
	must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// withTenant returns a world with one tenant and a replica.
func withTenant(t *testing.T, change ...func(*options)) (*world, tenant, *replica) {
	t.Helper()
	w := newWorld(t)
	return w, w.tenant(t, "one"), w.replica(t, change...)
}

// answer is a response whose body was read.
type answer struct{ runtimetest.Answer }

type (
	request = runtimetest.Request
	option  = runtimetest.Option
)

var (
	header = runtimetest.Header
	apiKey = runtimetest.Key
)

func host(name string) option { return func(r *request) { r.Host = name } }

// post sends a body to the endpoint in revision 2025-11-25.
func (rt *replica) post(t *testing.T, body string, change ...option) answer {
	t.Helper()
	return rt.send(t, http.MethodPost, "/mcp", strings.NewReader(body), change...)
}

func (rt *replica) send(t *testing.T, method, path string, body io.Reader, change ...option) answer {
	t.Helper()
	asTools := func(r *request) {
		r.Body = body
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}}
	}
	got, err := rt.Send(t.Context(), method, path, append([]option{asTools}, change...)...)
	must(t, err)
	return answer{got}
}

// result is the result of a tool.
type result struct {
	IsError           bool            `json:"isError"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	Content           []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
}

// call calls a tool and checks the form of its result.
func (rt *replica) call(t *testing.T, key, name string, arguments any) result {
	t.Helper()
	return rt.callAs(t, name, arguments, apiKey(key))
}

func (rt *replica) callAs(t *testing.T, name string, arguments any, change ...option) result {
	t.Helper()
	params := map[string]any{"name": name}
	if arguments != nil {
		params["arguments"] = arguments
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	must(t, err)
	got := rt.post(t, string(body), change...)
	var message struct {
		Result *result         `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(got.Body, &message); err != nil || got.Status != http.StatusOK || message.Result == nil {
		t.Fatalf("%s: %d %s", name, got.Status, got.Body)
	}
	r := *message.Result
	if len(r.Content) != 1 || r.Content[0].Type != "text" || r.Content[0].Text == "" {
		t.Fatalf("%s: the content is %+v", name, r.Content)
	}
	if r.IsError == (r.StructuredContent != nil) {
		t.Fatalf("%s: isError is %t beside %s", name, r.IsError, r.StructuredContent)
	}
	return r
}

// succeeded decodes the result of a call that must succeed. Text and structured content must be equal.
func succeeded[T any](t *testing.T, r result) T {
	t.Helper()
	if r.IsError {
		t.Fatalf("the tool failed: %s", r.Content[0].Text)
	}
	var fromText, structured any
	must(t, json.Unmarshal([]byte(r.Content[0].Text), &fromText))
	must(t, json.Unmarshal(r.StructuredContent, &structured))
	one, _ := json.Marshal(fromText)
	other, _ := json.Marshal(structured)
	if !bytes.Equal(one, other) {
		t.Fatalf("the text is %s, the structured content %s", one, other)
	}
	var value T
	decoder := json.NewDecoder(bytes.NewReader(r.StructuredContent))
	decoder.DisallowUnknownFields()
	must(t, decoder.Decode(&value))
	return value
}

// failed returns the error text of a call that must fail.
func failed(t *testing.T, r result) string {
	t.Helper()
	if !r.IsError {
		t.Fatalf("the tool did not fail: %s", r.Content[0].Text)
	}
	return r.Content[0].Text
}

type object = map[string]any

// upload stores a draft.
func (rt *replica) upload(t *testing.T, key, name string, data []byte, more ...object) string {
	t.Helper()
	arguments := object{"fileBase64": base64.StdEncoding.EncodeToString(data), "fileName": name, "mimeType": "application/octet-stream"}
	for _, change := range more {
		for field, value := range change {
			arguments[field] = value
		}
	}
	return succeeded[struct {
		MediaID string `json:"mediaId"`
	}](t, rt.call(t, key, "upload_media", arguments)).MediaID
}

// read fetches a file by its URL.
func (rt *replica) read(t *testing.T, item api.MediaItem) []byte {
	t.Helper()
	got := rt.send(t, http.MethodGet, strings.TrimPrefix(item.File, baseURL), nil)
	got.MustBe(t, http.StatusOK, "%s", item.File)
	return got.Body
}

func noise(n int) []byte { return runtimetest.RandomBytes(n) }

var must = check.NoError

// smallLimits sets a cap below maxUploadSize.
func smallLimits(s *account.Spec) { s.MaxStorage, s.MaxUploadSize = 50_000, 100_000 }
