package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"mime"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/mcp"
)

const (
	parseError     = -32700
	invalidRequest = -32600
	methodNotFound = -32601
	invalidParams  = -32602
	internalError  = -32603
)

// rpcResponse is a JSON-RPC response.
type rpcResponse struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// responses returns the JSON-RPC responses of an answer. Any other answer fails the test.
func responses(t *testing.T, what string, got answer) []rpcResponse {
	t.Helper()
	if len(got.Body) == 0 {
		if got.Status != http.StatusAccepted {
			t.Errorf("%s: %d without a body", what, got.Status)
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || inside.Match(got.Body) {
		t.Errorf("%s: %d %q %.200s", what, got.Status, got.Header.Get("Content-Type"), got.Body)
		return nil
	}
	texts := []json.RawMessage{got.Body}
	if got.Body[0] == '[' {
		if err := json.Unmarshal(got.Body, &texts); err != nil || len(texts) == 0 {
			t.Errorf("%s: %d %.200s", what, got.Status, got.Body)
		}
	}
	var all []rpcResponse
	for _, text := range texts {
		var one rpcResponse
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		failed := decoder.Decode(&one) != nil || one.JSONRPC != "2.0" || one.ID == nil || (one.Error == nil) == (one.Result == nil)
		if failed || one.Error != nil && (one.Error.Code >= 0 || one.Error.Message == "") {
			t.Errorf("%s: %d is not a JSON-RPC response: %.200s", what, got.Status, text)
		}
		all = append(all, one)
	}
	return all
}

// inRevision sends a request in a revision, or without the header if it is empty.
func inRevision(revision, method string) option {
	return func(r *request) {
		r.Header.Del("Mcp-Protocol-Version")
		if revision != "" {
			r.Header.Set("Mcp-Protocol-Version", revision)
		}
		if revision >= "2026-07-28" && method != "" {
			r.Header.Set("Mcp-Method", method)
		}
	}
}

// everyRevision returns the supported revisions, some that are not supported, and "".
func everyRevision() []string {
	return append(sdk.SupportedProtocolVersions(), "", "1999-01-01", "2099-01-01", "x")
}

// everyForm returns a message for every combination of a method, an id and parameters.
func everyForm() map[string]string {
	forms := map[string]string{}
	for _, method := range []string{
		"completion/complete", "initialize", "logging/setLevel", "media/burn", "ping", "prompts/get", "prompts/list", "resources/list", "resources/read",
		"resources/subscribe", "resources/templates/list", "resources/unsubscribe", "sampling/createMessage", "server/discover", "subscriptions/listen",
		"tools/call", "tools/list", "notifications/burn", "notifications/cancelled", "notifications/initialized", "notifications/progress", "notifications/roots/list_changed",
	} {
		for _, id := range []string{"", `"id":null,`, `"id":1,`, `"id":"a",`} {
			for _, params := range []string{
				"", `,"params":null`, `,"params":[]`, `,"params":{}`, `,"params":{"name":"get_media_count","uri":"x","requestId":1,"progressToken":1,"protocolVersion":"2025-03-26"}`,
				`,"params":{"name":"get_media_count","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`,
			} {
				forms[`{"jsonrpc":"2.0",`+id+`"method":"`+method+`"`+params+`}`] = method
			}
		}
	}
	return forms
}

// The SDK would answer most of these with plain text.
func TestMalformedRequests_AreAnsweredInJSONRPC(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	key := apiKey(one.Key)
	bodies := everyForm()
	for _, body := range []string{
		"", " ", "hello", "null", "5", `"x"`, "[]", "{}", "[5]", "[[]]", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":""}`, `{"jsonrpc":"2.0","id":1,"method":5}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":null,"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, "[" + listTools + "]", "[" + listTools + "," + listTools + "]", listTools + "x", "\xff", `{"a":"\` + "\n" + `"}`,
		"[" + strings.Repeat(listTools+",", 50) + listTools + "]", strings.Repeat("[", 200), `{"x":"` + strings.Repeat("x", 300<<10) + `"}`,
	} {
		bodies[body] = "ping"
	}
	headers := map[string]option{}
	for _, accept := range []string{"", "application/json", "text/event-stream", "text/html", "application/json;q=x, text/plain"} {
		headers["Accept "+accept] = header("Accept", accept)
	}
	for _, kind := range []string{"", "text/plain", "application/json/x", "multipart/form-data", ";"} {
		headers["Content-Type "+kind] = header("Content-Type", kind)
	}
	headers["Last-Event-ID"] = header("Last-Event-ID", "x_1")
	headers["Mcp-Session-Id"] = header("Mcp-Session-Id", "x")
	headers["Mcp-Name"] = header("Mcp-Name", "=?base64?!?=")
	headers["two credentials"] = header("Authorization", "Bearer x")
	headers["a wrong credential"] = apiKey("x")
	headers["no credential"] = apiKey("")
	headers["a foreign origin"] = header("Origin", "http://evil.test")
	headers["a foreign host"] = host("evil.test")
	for _, revision := range everyRevision() {
		for body, method := range bodies {
			what := fmt.Sprintf("%q: %.100q", revision, body)
			got := responses(t, what, rt.post(t, body, key, inRevision(revision, method)))
			if strings.Contains(body, `"id":1,"method"`) && json.Valid([]byte(body)) && body[0] == '{' && (len(got) != 1 || string(got[0].ID) != "1") {
				t.Errorf("%s: the request is not answered by its id: %+v", what, got)
			}
		}
		for name, change := range headers {
			for _, body := range []string{listTools, `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
				responses(t, revision+": "+name, rt.post(t, body, key, inRevision(revision, "tools/list"), change))
			}
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut, http.MethodPatch} {
			for _, accept := range []string{"application/json", "text/event-stream"} {
				got := responses(t, revision+" "+method, rt.send(t, method, "/mcp", strings.NewReader(listTools), key, inRevision(revision, ""), header("Accept", accept)))
				if len(got) != 1 || got[0].Error == nil {
					t.Errorf("%s: %+v", method, got)
				}
			}
		}
	}
	// No request of this test needs the replacement of plain text.
	if strings.Contains(rt.Logs.String(), mcp.NotFromSDK) {
		t.Errorf("the SDK answered in plain text:\n%s", linesWith(rt, mcp.NotFromSDK))
	}
}

func linesWith(rt *replica, text string) string {
	var found strings.Builder
	for line := range strings.Lines(rt.Logs.String()) {
		if strings.Contains(line, text) {
			found.WriteString(line)
		}
	}
	return found.String()
}

func TestUnknownMethod_IsMethodNotFound(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	for _, revision := range append(sdk.SupportedProtocolVersions(), "") {
		status := http.StatusOK
		if revision == "2026-07-28" {
			status = http.StatusNotFound
		}
		for _, method := range []string{"media/burn", "prompts/list", "subscriptions/listen", "notifications/initialized"} {
			for _, id := range []string{"7", `"seven"`} {
				got := rt.post(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`"}`, apiKey(one.Key), inRevision(revision, method))
				all := responses(t, revision, got)
				if got.Status != status || len(all) != 1 || string(all[0].ID) != id || all[0].Error == nil || all[0].Error.Code != methodNotFound || !strings.Contains(all[0].Error.Message, method) {
					t.Errorf("%q %s: %d %s", revision, method, got.Status, got.Body)
				}
			}
		}
	}
}

func TestRejectedRequests_HaveTheirStatusAndCode(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	const unsupported = -32022
	for _, revision := range append(sdk.SupportedProtocolVersions(), "") {
		for name, tt := range map[string]struct {
			body   string
			change option
			status int
			code   int
			id     string
		}{
			"an Accept without JSON":    {listTools, header("Accept", "text/event-stream"), http.StatusNotAcceptable, invalidRequest, "null"},
			"an Accept without streams": {listTools, header("Accept", "application/json"), http.StatusNotAcceptable, invalidRequest, "null"},
			"no Accept":                 {listTools, func(r *request) { r.Header["Accept"] = nil }, http.StatusNotAcceptable, invalidRequest, "null"},
			"another Content-Type":      {listTools, header("Content-Type", "text/plain"), http.StatusUnsupportedMediaType, invalidRequest, "null"},
			"no Content-Type":           {listTools, header("Content-Type", ""), http.StatusUnsupportedMediaType, invalidRequest, "null"},
			"an old version":            {listTools, header("Mcp-Protocol-Version", "1999-01-01"), http.StatusBadRequest, unsupported, "1"},
			"a new version":             {listTools, header("Mcp-Protocol-Version", "2099-01-01"), http.StatusBadRequest, unsupported, "1"},
			"null for an id":            {`{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, nil, http.StatusBadRequest, invalidRequest, "null"},
			"null, an unknown method":   {`{"jsonrpc":"2.0","id":null,"method":"media/burn"}`, nil, http.StatusBadRequest, invalidRequest, "null"},
			"a request without an id":   {`{"jsonrpc":"2.0","method":"tools/list"}`, nil, http.StatusBadRequest, invalidRequest, "null"},
			"no params":                 {`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, nil, http.StatusBadRequest, invalidParams, "1"},
			"null for params":           {`{"jsonrpc":"2.0","id":1,"method":"initialize","params":null}`, nil, http.StatusBadRequest, invalidParams, "1"},
			"two credentials":           {listTools, header("Authorization", "Bearer x"), http.StatusBadRequest, invalidRequest, "null"},
			"a wrong credential":        {listTools, apiKey("x"), http.StatusUnauthorized, invalidRequest, "null"},
			"a body that is cut":        {listTools[:20], nil, http.StatusBadRequest, parseError, "null"},
			"a file that is cut":        {strings.TrimSuffix(upload(1, one64, ""), `","fileName":"f","mimeType":"application/x-test"}}}`), nil, http.StatusBadRequest, parseError, "null"},
			"a body of other bytes":     {"\xff", nil, http.StatusBadRequest, parseError, "null"},
		} {
			if tt.change == nil {
				tt.change = func(*request) {}
			}
			got := rt.post(t, tt.body, apiKey(one.Key), inRevision(revision, "tools/list"), tt.change)
			all := responses(t, name, got)
			if got.Status != tt.status || len(all) != 1 || string(all[0].ID) != tt.id || all[0].Error == nil || all[0].Error.Code != tt.code {
				t.Errorf("%q, %s: %d %s", revision, name, got.Status, got.Body)
				continue
			}
			if tt.code == unsupported && !bytes.Contains(all[0].Error.Data, []byte(`"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`)) {
				t.Errorf("%s: the data is %s", name, all[0].Error.Data)
			}
		}
	}
	rt.post(t, listTools, apiKey(one.Key), header("Last-Event-ID", "x_1")).Is(t, http.StatusOK, "Last-Event-ID, which is ignored")
}

func TestNotification_IsNotAnswered(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	for _, revision := range append(sdk.SupportedProtocolVersions(), "") {
		for _, message := range []string{
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"notifications/burn"}`, `{"jsonrpc":"2.0","method":"media/burn","params":[1]}`,
			`{"jsonrpc":"2.0","method":"notifications/progress"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":5}`, `{"jsonrpc":"2.0","id":null,"method":"notifications/burn"}`,
			`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`,
		} {
			for _, body := range []string{message, "[" + message + "]", "[" + message + "," + message + "]"} {
				if body[0] == '[' && revision >= "2025-06-18" {
					continue // a revision without batches
				}
				if got := rt.post(t, body, apiKey(one.Key), inRevision(revision, "")); got.Status != http.StatusAccepted || len(got.Body) != 0 {
					t.Errorf("%q %s: %d %s", revision, body, got.Status, got.Body)
				}
			}
		}
	}
}

// The SDK would reject the whole batch for one unsupported method.
func TestBatch_AnswersEveryRequestByItself(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"ping"},
		{"jsonrpc":"2.0","id":"two","method":"media/burn"},
		{"jsonrpc":"2.0","method":"notifications/burn"},
		{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":5}},
		{"jsonrpc":"2.0","method":"media/burn"},
		{"jsonrpc":"2.0","id":4,"method":"tools/call"},
		{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"drop_tables"}},
		{"jsonrpc":"2.0","id":6,"method":"notifications/initialized"},
		{"jsonrpc":"2.0","id":9,"result":{}},
		{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_media_count"}}]`
	for _, revision := range []string{"", "2024-11-05", "2025-03-26"} {
		got := rt.post(t, batch, apiKey(one.Key), inRevision(revision, ""))
		var codes []string
		for _, one := range responses(t, revision, got) {
			code := 0
			if one.Error != nil {
				code = one.Error.Code
			}
			codes = append(codes, fmt.Sprintf("%s: %d", one.ID, code))
		}
		const want = `1: 0, "two": -32601, 3: -32602, 4: -32602, 5: -32602, 6: -32601, 7: 0`
		if strings.Join(codes, ", ") != want || got.Status != http.StatusOK || !bytes.Contains(got.Body, []byte(`"structuredContent":{"count":0}`)) {
			t.Errorf("%q: %d %s", revision, got.Status, got.Body)
		}
		alone := rt.post(t, `[{"jsonrpc":"2.0","id":1,"method":"media/burn"}]`, apiKey(one.Key), inRevision(revision, ""))
		if alone.Status != http.StatusOK || !bytes.HasPrefix(alone.Body, []byte("[{")) || !bytes.Contains(alone.Body, []byte("-32601")) {
			t.Errorf("%q: one member: %d %s", revision, alone.Status, alone.Body)
		}
	}
}

// No client gets plain text, also if a later version of the SDK answers with it in another place.
func TestPlainTextOfTheSDK_IsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	for sent, want := range map[int]struct{ status, code int }{
		http.StatusBadRequest:          {http.StatusBadRequest, invalidRequest},
		http.StatusNotFound:            {http.StatusNotFound, invalidRequest},
		http.StatusInternalServerError: {http.StatusInternalServerError, internalError},
		http.StatusOK:                  {http.StatusInternalServerError, internalError},
		http.StatusAccepted:            {http.StatusInternalServerError, internalError},
	} {
		rt := w.replica(t, func(o *options) {
			o.Prepare = func(api *mcp.API) {
				api.ServeSDK(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					http.Error(w, "JSON RPC not handled: of the inside", sent)
				}))
			}
		})
		got := rt.post(t, listTools, apiKey(one.Key))
		all := responses(t, "alone", got)
		if got.Status != want.status || len(all) != 1 || string(all[0].ID) != "1" || all[0].Error == nil || all[0].Error.Code != want.code || bytes.Contains(got.Body, []byte("inside")) {
			t.Errorf("%d: %d %s", sent, got.Status, got.Body)
		}
		got = rt.post(t, "["+listTools+"]", apiKey(one.Key), inRevision("2025-03-26", ""))
		if all := responses(t, "in a batch", got); got.Status != http.StatusOK || len(all) != 1 || all[0].Error == nil || all[0].Error.Code != want.code {
			t.Errorf("%d in a batch: %d %s", sent, got.Status, got.Body)
		}
		wait.Until(t, "the log has it", func() bool { return strings.Contains(linesWith(rt, mcp.NotFromSDK), "of the inside") })
	}
}

// plainTextOfTheSDK counts the calls of http.Error in each function of the SDK's streamable
// transport, in the version that go.mod requires. If a count changes, look at the new calls: either
// they cannot be reached, or checkHeaders, checkRevision, readMessages or validateParams must
// reject the request before the SDK does.
var plainTextOfTheSDK = map[string]int{
	"ServeHTTP": 3 + 2, // of the handler: the host, the origin, the revision; of the transport: unreachable
	// The method, Content-Type and Accept. Unreachable: no server, a body that can't be read or is
	// too long, and a failure to connect.
	"serveStateless": 7,
	// Last-Event-ID, an empty body, malformed JSON, a batch, a method or an id. Unreachable: a body
	// that can't be read, a session that ends, and stored streams.
	"servePOST": 10,
	// Only with sessions, which the service does not have.
	"serveStatelessLegacyDELETE": 1, "serveStateful": 1, "lookupSession": 2, "serveStatefulGET": 2, "serveStatefulDELETE": 1, "serveStatefulPOST": 6,
	"serveGET": 2, "acquireStream": 2,
}

func TestPlainTextOfTheSDK_IsKnown(t *testing.T) {
	t.Parallel()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/go-sdk/mcp").Output()
	must(t, err)
	found := map[string]int{}
	for _, name := range []string{"streamable.go", "streamable_server.go", "streamable_headers.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(folder)), name), nil, 0)
		must(t, err)
		for _, declared := range file.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(function, func(node ast.Node) bool {
				if called, ok := node.(*ast.SelectorExpr); ok && called.Sel.Name == "Error" {
					if of, ok := called.X.(*ast.Ident); ok && of.Name == "http" {
						found[function.Name.Name]++
					}
				}
				return true
			})
		}
	}
	if !maps.Equal(found, plainTextOfTheSDK) {
		t.Errorf("found %v\nwant  %v", found, plainTextOfTheSDK)
	}
}
