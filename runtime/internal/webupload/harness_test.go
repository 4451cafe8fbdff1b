package webupload_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const baseURL = runtimetest.BaseURL

var must = check.NoError

type (
	world  struct{ *runtimetest.Env }
	tenant = runtimetest.Tenant
	option = runtimetest.Option
	answer = runtimetest.Answer
	object = map[string]any
)

// replica is a replica with the tools, REST, TUS and the page.
type replica struct{ *runtimetest.Service }

func newWorld(t *testing.T) *world { t.Helper(); return &world{runtimetest.New(t)} }

// tenant creates an account that offers the toolset.
func (w *world) tenant(t *testing.T, name string, change ...func(*account.Spec)) tenant {
	t.Helper()
	spec := account.Spec{Name: name, DisplayName: "The " + name, Owners: []string{runtimetest.Owner}, MaxStorage: 256 << 20, MaxUploadSize: 64 << 20}
	spec.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetHandover}
	return w.Tenant(t, spec, change...)
}

func (w *world) replica(t *testing.T, change ...func(*runtimetest.ServiceConfig)) *replica {
	t.Helper()
	o := runtimetest.NewServiceConfig()
	o.MCP, o.TUS = &mcp.Config{}, true
	for _, apply := range change {
		apply(&o)
	}
	o.Auth.Resource = oauthhttp.Resource(o.Server.BaseURL)
	return &replica{w.Service(t, o)}
}

// replicas returns two replicas with connections of their own.
func (w *world) replicas(t *testing.T, change ...func(*runtimetest.ServiceConfig)) []*replica {
	t.Helper()
	var all []*replica
	for range 2 {
		store, err := postgres.Open(t.Context(), w.Database)
		must(t, err)
		t.Cleanup(store.Close)
		all = append(all, w.replica(t, append(change, func(o *runtimetest.ServiceConfig) { o.Store, o.Uploads = store.Items, store.Uploads })...))
	}
	return all
}

// Exec runs a statement.
func (w *world) Exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	must(t, check.ErrorOf(testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), statement, args...)))
}

// bearer sends an access token.
func bearer(token string) option {
	return func(r *runtimetest.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// session returns an access token that may change media.
func (w *world) session(t *testing.T, of tenant) string {
	t.Helper()
	return w.Session(t, of, oauth.ScopeRead, oauth.ScopeWrite)
}

// do sends a request to an address of the service.
func (rt *replica) do(t *testing.T, method, address string, change ...option) answer {
	t.Helper()
	got, err := rt.Send(t.Context(), method, strings.TrimPrefix(address, baseURL), change...)
	must(t, err)
	return got
}

// toolError is the text of a tool that failed.
type toolError struct{ text string }

// Error returns the text.
func (e toolError) Error() string { return e.text }

// call calls a tool and decodes its result.
func call[T any](t *testing.T, rt *replica, name string, arguments object, credential option) (value T, err error) {
	t.Helper()
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": name, "arguments": arguments}})
	must(t, err)
	got := rt.do(t, http.MethodPost, "/mcp", func(r *runtimetest.Request) {
		r.Body = bytes.NewReader(body)
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}}
	}, credential)
	var message struct {
		Result struct {
			IsError           bool            `json:"isError"`
			StructuredContent json.RawMessage `json:"structuredContent"`
			Content           []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
	}
	if err := json.Unmarshal(got.Body, &message); err != nil || got.Status != http.StatusOK {
		return value, toolError{string(got.Body)}
	}
	if message.Result.IsError || message.Result.StructuredContent == nil {
		return value, toolError{string(got.Body)}
	}
	must(t, json.Unmarshal(message.Result.StructuredContent, &value))
	return value, nil
}

// requested is the result of request_upload.
type requested struct {
	Page         string    `json:"page"`
	UploadURL    string    `json:"uploadUrl"`
	ResumableURL string    `json:"resumableUrl"`
	ExpiresAt    time.Time `json:"expiresAt"`
	UploadID     string    `json:"uploadId"`
}

// state is the result of get_upload.
type state struct {
	State   string `json:"state"`
	Message string `json:"message"`
	MediaID string `json:"mediaId"`
	Size    int64  `json:"size"`
	Temp    bool   `json:"temp"`
}

func (rt *replica) request(t *testing.T, credential option, arguments object) requested {
	t.Helper()
	made, err := call[requested](t, rt, "request_upload", arguments, credential)
	must(t, err)
	return made
}

func (rt *replica) stateOf(t *testing.T, credential option, of requested) state {
	t.Helper()
	found, err := call[state](t, rt, "get_upload", object{"uploadId": of.UploadID}, credential)
	must(t, err)
	return found
}

// form is a form with a file, as a browser sends it.
func form(name, contentType string, data []byte) option {
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	part, _ := writer.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + name + `"`}, "Content-Type": {contentType}})
	_, _ = part.Write(data)
	_ = writer.Close()
	return func(r *runtimetest.Request) {
		r.Body = bytes.NewReader(body.Bytes())
		r.Header = http.Header{"Content-Type": {writer.FormDataContentType()}}
	}
}

// tus sends headers of the protocol, names and values in turn, and a part of the file.
func tus(data string, headers ...string) option {
	return func(r *runtimetest.Request) {
		if data != "" {
			r.Body = strings.NewReader(data)
		}
		r.Header = http.Header{"Tus-Resumable": {"1.0.0"}}
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
}

// create begins a resumable upload.
func (rt *replica) create(t *testing.T, of requested, length string) (location string) {
	t.Helper()
	got := rt.do(t, http.MethodPost, of.ResumableURL, tus("", "Upload-Length", length))
	got.MustBe(t, http.StatusCreated, "create an upload: %s", got.Body)
	return got.Header.Get("Location")
}

// part sends a part.
func (rt *replica) part(t *testing.T, location, offset, data string) answer {
	t.Helper()
	return rt.do(t, http.MethodPatch, location, tus(data, "Upload-Offset", offset, "Content-Type", "application/offset+octet-stream"))
}

// shows reports an error if the page lacks a text.
func (rt *replica) shows(t *testing.T, of requested, status int, texts ...string) {
	t.Helper()
	got := rt.do(t, http.MethodGet, of.Page)
	if got.Status != status {
		t.Errorf("the page is answered %d, want %d", got.Status, status)
	}
	for _, text := range texts {
		if !strings.Contains(string(got.Body), text) {
			t.Errorf("the page lacks %q: %s", text, got.Body)
		}
	}
}
