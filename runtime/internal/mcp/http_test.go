package mcp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/media"
)

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// stateless returns a request of revision 2026-07-28.
func stateless(id int, method, params string) string {
	if params != "" {
		params = "," + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}%s}}`, id, method, params)
}

func inStatelessRevision(method string) option {
	return func(r *request) {
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", method)
	}
}

func TestMissingCredential_IsAnsweredWithTheChallenge(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	const metadata = `Bearer resource_metadata="http://media.test/.well-known/oauth-protected-resource/mcp", scope="media:read media:write media:delete"`
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodDelete} {
		got := rt.send(t, method, "/mcp", strings.NewReader(listTools))
		if got.Status != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") != metadata || len(got.Header.Values("WWW-Authenticate")) != 1 {
			t.Errorf("%s: %d %v", method, got.Status, got.Header)
		}
	}
	bearer := header("Authorization", "Bearer x")
	if got := rt.post(t, listTools, bearer); got.Status != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") != metadata+`, error="invalid_token"` {
		t.Errorf("a token: %d %v", got.Status, got.Header)
	}
	rt.post(t, listTools, bearer, apiKey(one.Key)).Is(t, http.StatusBadRequest, "both credentials")
	rt.send(t, http.MethodPost, "/mcp?x-service-apikey="+one.Key+"&apikey="+one.Key, strings.NewReader(listTools)).Is(t, http.StatusUnauthorized, "a key in the query")
	rt.post(t, listTools, header("x-service-signature", rt.signature(t, one)), apiKey("msk_"+strings.Repeat("0", 46))).Is(t, http.StatusBadRequest, "a wrong key beside a good signature")
	rt.post(t, listTools, header("x-service-signature", rt.signature(t, one))).Is(t, http.StatusUnauthorized, "a signature")
	if got := rt.send(t, http.MethodOptions, "/mcp", nil); got.Status != http.StatusNoContent || got.Header.Get("Allow") != "POST" {
		t.Errorf("OPTIONS: %d %v", got.Status, got.Header)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if got := rt.send(t, method, "/mcp", nil, apiKey(one.Key)); got.Status != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "POST" {
			t.Errorf("%s with a key: %d %v", method, got.Status, got.Header)
		}
	}
}

func (rt *replica) signature(t *testing.T, of tenant) string {
	t.Helper()
	return succeeded[api.Signature](t, rt.call(t, of.Key, "create_upload_signature", nil)).Signature
}

func TestHostGuard_AllowsKnownHostsAndOriginsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *options) {
		o.Server.Origins.Patterns = []string{"https://app.example.org", "https://*.pages.example.org"}
		o.MCP.Hosts = []string{"media.team.svc:8080", ""}
	})
	local := w.replica(t, func(o *options) { o.Server.BaseURL = "http://localhost:8080" })
	for _, tt := range []struct {
		rt           *replica
		host, origin string
		good         bool
	}{
		{rt, "media.test", "", true},
		{rt, "MEDIA.test:80", "", true},
		{rt, "media.test:443", "", true}, // behind a proxy that ends TLS
		{rt, "media.team.svc:8080", "", true},
		{rt, "media.test:8080", "", false},
		{rt, "evil.test", "", false},
		{rt, "evil.test", "http://evil.test", false},
		{rt, "media.test.evil.test", "", false},
		{rt, "localhost", "", false},
		{rt, "media.test", "http://media.test", true},
		{rt, "media.test", "https://app.example.org", true},
		{rt, "media.test", "https://a.pages.example.org", true},
		{rt, "media.test", "https://media.test", false},
		{rt, "media.test", "https://pages.example.org", false},
		{rt, "media.test", "http://app.example.org", false},
		{rt, "media.test", "http://media.test:8080", false},
		{rt, "media.test", "http://media.test.evil.test", false},
		{rt, "media.test", "http://evil.test", false},
		{rt, "media.test", "null", false},
		{rt, "media.test:x", "", false}, // malformed; the empty setting must not match it
		{local, "localhost:8080", "", true},
		{local, "127.0.0.1:8080", "http://127.0.0.1:8080", true},
		{local, "[::1]:8080", "http://localhost:8080", true},
		{local, "localhost:9090", "", false},
		{local, "127.0.0.1:8080", "http://localhost:9090", false},
		{local, "evil.test:8080", "http://evil.test:8080", false},
	} {
		change := []option{apiKey(one.Key), host(tt.host)}
		if tt.origin != "" {
			change = append(change, header("Origin", tt.origin))
		}
		got := tt.rt.post(t, listTools, change...)
		want := http.StatusForbidden
		if tt.good {
			want = http.StatusOK
		}
		got.Is(t, want, "host %q, origin %q", tt.host, tt.origin)
		var rejection struct{ Error struct{ Message string } }
		if err := json.Unmarshal(got.Body, &rejection); err != nil || (rejection.Error.Message == "") != tt.good {
			t.Errorf("host %q, origin %q: %s", tt.host, tt.origin, got.Body)
		}
	}
	rt.post(t, listTools, apiKey(one.Key), func(r *request) { r.Header["Origin"] = []string{"http://media.test", "http://evil.test"} }).Is(t, http.StatusForbidden, "two origins")
	// A browser sends a preflight without a credential, and can then read why it is rejected.
	preflight := rt.send(t, http.MethodOptions, "/mcp", nil, header("Origin", "https://app.example.org"), header("Access-Control-Request-Method", "POST"),
		header("Access-Control-Request-Headers", "accept,authorization,content-type,last-event-id,mcp-method,mcp-name,mcp-protocol-version,mcp-session-id,x-service-apikey"))
	if preflight.Status != http.StatusNoContent || preflight.Header.Get("Access-Control-Allow-Origin") != "https://app.example.org" {
		t.Errorf("the preflight: %d %v", preflight.Status, preflight.Header)
	}
	rejected := rt.post(t, listTools, header("Origin", "https://app.example.org"))
	if exposed := strings.Join(rejected.Header.Values("Access-Control-Expose-Headers"), ","); rejected.Status != http.StatusUnauthorized || !strings.Contains(strings.ToLower(exposed), "www-authenticate") {
		t.Errorf("the exposed headers are %q", exposed)
	}
}

func TestConfig_RejectsMalformedHosts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"http://media.test", "*.media.test", "a b", "u@media.test"} {
		if err := (mcp.Config{Hosts: []string{name}}).Validate(); err == nil || !strings.Contains(err.Error(), "SERVICE_MCP_HOSTS") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestProtocol_EveryRevisionIsSupported(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	key := apiKey(one.Key)
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		got := rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, key, header("Mcp-Protocol-Version", version))
		if got.Status != http.StatusOK || !bytes.Contains(got.Body, []byte(`"protocolVersion":"`+version+`"`)) || got.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: %d %s", version, got.Status, got.Body)
		}
		rt.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, key, header("Mcp-Protocol-Version", version)).Is(t, http.StatusAccepted, "%s: the notification", version)
		if got := rt.post(t, listTools, key, header("Mcp-Protocol-Version", version)); got.Status != http.StatusOK || bytes.Count(got.Body, []byte(`"inputSchema"`)) != 10 {
			t.Errorf("%s: %d %s", version, got.Status, got.Body)
		}
	}
	found := rt.post(t, stateless(1, "server/discover", ""), key, inStatelessRevision("server/discover"))
	if found.Status != http.StatusOK || !bytes.Contains(found.Body, []byte(`"2026-07-28"`)) || !bytes.Contains(found.Body, []byte(`"cacheScope":"private"`)) {
		t.Errorf("discover: %d %s", found.Status, found.Body)
	}
	list := rt.post(t, stateless(1, "tools/list", ""), key, inStatelessRevision("tools/list"))
	if list.Status != http.StatusOK || !bytes.Contains(list.Body, []byte(`"cacheScope":"private"`)) || bytes.Contains(list.Body, []byte(`"cacheScope":"public"`)) {
		t.Errorf("the list: %d %s", list.Status, list.Body)
	}
	if c := list.Header.Get("Cache-Control"); c != "private, no-store, no-transform" || list.Header.Get("X-Accel-Buffering") != "no" || list.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the answer's headers are %v", list.Header)
	}
	called := rt.post(t, stateless(2, "tools/call", `"name":"get_media_count","arguments":{}`), key, inStatelessRevision("tools/call"), header("Mcp-Name", "get_media_count"))
	if called.Status != http.StatusOK || !bytes.Contains(called.Body, []byte(`"structuredContent":{"count":0}`)) {
		t.Errorf("the call: %d %s", called.Status, called.Body)
	}
}

// An error that no tool returns is a JSON-RPC error.
func TestProtocolErrors_AreNotToolErrors(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	key := apiKey(one.Key)
	for name, tt := range map[string]struct {
		body   string
		change []option
		status int
		holds  string
	}{
		"an unknown tool":               {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop_tables"}}`, nil, http.StatusOK, `"code":-32602`},
		"an unknown tool, newest":       {stateless(1, "tools/call", `"name":"drop_tables"`), []option{inStatelessRevision("tools/call"), header("Mcp-Name", "drop_tables")}, http.StatusBadRequest, `"code":-32602`},
		"an unknown method, newest":     {stateless(1, "media/burn", ""), []option{inStatelessRevision("media/burn")}, http.StatusNotFound, `"code":-32601`},
		"subscriptions, without an end": {stateless(1, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), []option{inStatelessRevision("subscriptions/listen")}, http.StatusNotFound, `"code":-32601`},
		"prompts":                       {`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, nil, http.StatusOK, `"code":-32601`},
		"the level of the log":          {`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`, nil, http.StatusOK, `"code":-32601`},
		"headers that say another tool": {stateless(1, "tools/call", `"name":"get_media_count"`), []option{inStatelessRevision("tools/call"), header("Mcp-Name", "list_media")}, http.StatusBadRequest, `"code":-32020`},
		"an unknown revision":           {listTools, []option{header("Mcp-Protocol-Version", "1999-01-01")}, http.StatusBadRequest, "version"},
		"no JSON":                       {`hello`, nil, http.StatusBadRequest, ""},
		"JSON that is cut":              {`{"jsonrpc":"2.0","id":1,"method":"tools/li`, nil, http.StatusBadRequest, ""},
		"nothing":                       {``, nil, http.StatusBadRequest, ""},
		"another type":                  {listTools, []option{header("Content-Type", "text/plain")}, http.StatusUnsupportedMediaType, ""},
		"no UTF-8":                      {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"x\":\"\xff\"}", nil, http.StatusBadRequest, "UTF-8"},
		"too much besides the file":     {`{"jsonrpc":"2.0","id":1,"method":"tools/list","x":"` + strings.Repeat("x", 256<<10) + `"}`, nil, http.StatusRequestEntityTooLarge, "exceeds 262144 bytes"},
		"too deep":                      {strings.Repeat("[", 200<<10), nil, http.StatusBadRequest, "nested at most 100 levels"},
		"a batch where there is none":   {"[" + listTools + "]", nil, http.StatusBadRequest, "batch"},
		"too many in a batch":           {"[" + strings.Repeat(listTools+",", 50) + listTools + "]", []option{header("Mcp-Protocol-Version", "2025-03-26")}, http.StatusRequestEntityTooLarge, "50 messages"},
	} {
		got := rt.post(t, tt.body, append([]option{key}, tt.change...)...)
		if got.Status != tt.status || !strings.Contains(string(got.Body), tt.holds) || strings.Contains(string(got.Body), "goroutine") {
			t.Errorf("%s: %d %.300s", name, got.Status, got.Body)
		}
	}
}

func TestRateLimit_CountsEveryMessageOfABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	batch := func(n int) string {
		var messages []string
		for i := range n {
			messages = append(messages, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_media_count"}}`, i+1))
		}
		return "[" + strings.Join(messages, ",") + "]"
	}
	old := header("Mcp-Protocol-Version", "2025-03-26")
	for name, limits := range map[string]ratelimit.Config{"key": {Key: 0.001, KeyBurst: 7}, "address": {IP: 0.001, IPBurst: 7}} {
		rt := w.replica(t, func(o *options) { o.Limits = limits })
		got := rt.post(t, batch(5), apiKey(one.Key), old)
		if got.Status != http.StatusOK || bytes.Count(got.Body, []byte(`"structuredContent":{"count":0}`)) != 5 {
			t.Errorf("%s: five of seven: %d %s", name, got.Status, got.Body)
		}
		if got := rt.post(t, batch(3), apiKey(one.Key), old); got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" {
			t.Errorf("%s: three more: %d %s", name, got.Status, got.Body)
		}
		want := http.StatusOK
		if name == "address" {
			want = http.StatusTooManyRequests
		}
		rt.post(t, batch(1), apiKey(other.Key), old).Is(t, want, "%s: another key", name)
	}
}

// upload returns a call of upload_media. The base64 text is inserted into its JSON unchanged.
func upload(id int, base64Text, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"upload_media","arguments":{%s"fileBase64":"%s","fileName":"f","mimeType":"application/x-test"}}}`, id, more, base64Text)
}

func TestUploadMedia_AcceptsEveryFormOfBase64(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	data := append([]byte{0xfb, 0xff, 0xfe, 0x00}, noise(100_000)...)
	standard := base64.StdEncoding.EncodeToString(data)
	lines := ""
	for rest := standard; rest != ""; rest = rest[min(76, len(rest)):] {
		lines += rest[:min(76, len(rest))] + `\r\n`
	}
	for name, text := range map[string]string{
		"standard":                      standard,
		"without padding":               base64.RawStdEncoding.EncodeToString(data),
		"for URLs":                      base64.URLEncoding.EncodeToString(data),
		"for URLs, without padding":     base64.RawURLEncoding.EncodeToString(data),
		"in lines":                      lines,
		"slashes escaped, as PHP does":  strings.ReplaceAll(standard, "/", `\/`),
		"signs escaped, as .NET does":   strings.NewReplacer("+", `\u002B`, "=", `\u003d`).Replace(standard),
		"every character as its escape": escaped(standard[:4000]),
	} {
		want := data
		if strings.HasPrefix(name, "every") {
			want = data[:3000]
		}
		body := upload(1, text, "")
		if name == "standard" { // the name of a field may contain escapes
			body = strings.Replace(body, `"fileBase64"`, `"\u0066ileBase64"`, 1)
		}
		got := rt.post(t, body, apiKey(one.Key))
		var message struct{ Result result }
		must(t, json.Unmarshal(got.Body, &message))
		id := succeeded[struct{ MediaID string }](t, message.Result).MediaID
		item := succeeded[api.MediaItem](t, rt.call(t, one.Key, "get_media", object{"mediaId": id}))
		if item.MimeType != "application/x-test" || !bytes.Equal(rt.read(t, item), want) {
			t.Errorf("%s: %+v", name, item)
		}
	}
}

// A raw line break or tab in a file is rejected as in any other string.
func TestControlCharacter_IsAParseErrorInEveryString(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	call := upload(1, "aGFsbG8=", `"caption":"words",`)
	with := func(text, instead string) string {
		if !strings.Contains(call, text) {
			t.Fatalf("no %q in %s", text, call)
		}
		return strings.Replace(call, text, instead, 1)
	}
	var bodies []string
	for c := range 0x20 {
		raw := string(rune(c))
		for _, text := range []string{"aGFsbG8=", "caption", "words", "fileName", "upload_media", "tools/call", "2.0"} {
			bodies = append(bodies, with(text, text[:1]+raw+text[1:]), with(text, text+raw))
		}
		noFile := strings.Replace(with("aGFsbG8=", raw), "upload_media", "get_media_count", 1)
		bodies = append(bodies, with("aGFsbG8=", "!!!!"+raw), noFile, `{"fileBase64":"`+raw+`"}`, "["+call+","+with("aGFsbG8=", raw)+"]")
	}
	for _, escape := range []string{`\q`, `\u00zz`, `\x41`} {
		bodies = append(bodies, with("aGFsbG8=", "aGFs"+escape), with("words", escape))
	}
	for _, body := range bodies {
		got := rt.post(t, body, apiKey(one.Key), header("Mcp-Protocol-Version", "2025-03-26"))
		var response struct{ Error struct{ Code int } }
		if err := json.Unmarshal(got.Body, &response); err != nil || got.Status != http.StatusBadRequest || response.Error.Code != -32700 {
			t.Errorf("%q: %d %s", body, got.Status, got.Body)
		}
	}
	if n := w.leftovers(t); n != 0 {
		t.Errorf("%d rows and bytes are left", n)
	}
	for _, escape := range []string{`\b`, `\f`, `\u0001`, `\"`} {
		if got := rt.post(t, upload(1, "aGFs"+escape+"bG8=", ""), apiKey(one.Key)); got.Status != http.StatusOK || !bytes.Contains(got.Body, []byte("is not base64: character 5")) {
			t.Errorf("%s: %d %s", escape, got.Status, got.Body)
		}
	}
	if got := rt.post(t, upload(1, `aGFs\n\r\n\tbG8=\u000a`, ""), apiKey(one.Key)); !bytes.Contains(got.Body, []byte("mediaId")) {
		t.Errorf("escaped white space: %d %s", got.Status, got.Body)
	}
}

func escaped(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&out, `\u%04x`, c)
	}
	return out.String()
}

func TestUploadMedia_OverABoundLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, small := w.tenant(t, "one"), w.tenant(t, "small", smallLimits)
	rt := w.replica(t)
	const maxFile = 10 << 20
	id := rt.upload(t, one.Key, "max.bin", noise(maxFile))
	succeeded[api.Deleted](t, rt.call(t, one.Key, "delete_media", object{"mediaId": id}))
	large := base64.StdEncoding.EncodeToString(noise(maxFile + 2)) // without padding
	for _, text := range []string{large, strings.Repeat(large, 3)} {
		says := failed(t, rt.call(t, one.Key, "upload_media", object{"fileBase64": text, "fileName": "f", "mimeType": "a/b"}))
		for _, part := range []string{"10485760 bytes", "create_upload_signature", "http://media.test/media/create ", "http://media.test/media/create/resumable", "x-service-signature"} {
			if !strings.Contains(says, part) {
				t.Errorf("the error lacks %q: %s", part, says)
			}
		}
	}
	// An endless body is read up to maxBody.
	endless := io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"upload_media","arguments":{"fileBase64":"`), io.LimitReader(characters{}, 80<<20))
	rt.send(t, http.MethodPost, "/mcp", endless, apiKey(one.Key)).Is(t, http.StatusRequestEntityTooLarge, "80 MB")
	rt.post(t, strings.TrimSuffix(upload(1, large[:1000], ""), `","fileName":"f","mimeType":"application/x-test"}}}`), apiKey(one.Key)).Is(t, http.StatusBadRequest, "a body that is cut in its file")
	if says := failed(t, rt.call(t, small.Key, "upload_media", object{"fileBase64": base64.StdEncoding.EncodeToString(noise(200_000)), "fileName": "f", "mimeType": "a/b"})); !strings.Contains(says, "maxStorage, 50000 bytes") {
		t.Errorf("over maxUploadSize, which is larger than the cap: %s", says)
	}
	if says := failed(t, rt.call(t, small.Key, "upload_media", object{"fileBase64": base64.StdEncoding.EncodeToString(noise(90_000)), "fileName": "f", "mimeType": "a/b"})); !strings.Contains(says, "cap, 50000 bytes") || !strings.Contains(says, "delete_media") {
		t.Errorf("over the cap: %s", says)
	}
	// The file of another tool's call is dropped.
	if says := failed(t, rt.call(t, one.Key, "get_media_count", object{"fileBase64": large})); !strings.Contains(says, `unknown argument "fileBase64"`) {
		t.Errorf("for another tool: %s", says)
	}
	if n := w.leftovers(t); n != 0 {
		t.Errorf("%d rows and bytes are left", n)
	}
	// Every slot was released.
	for range 20 {
		succeeded[any](t, rt.call(t, one.Key, "delete_media", object{"mediaId": rt.upload(t, one.Key, "f", []byte("f"))}))
	}
}

func TestUploadMedia_AcceptsOneFilePerRequest(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	got := rt.post(t, "["+upload(1, one64, "")+","+upload(2, one64, "")+"]", apiKey(one.Key), header("Mcp-Protocol-Version", "2025-03-26"))
	if got.Status != http.StatusOK || bytes.Count(got.Body, []byte("mediaId")) != 2 || !bytes.Contains(got.Body, []byte("send one file in a request")) {
		t.Errorf("two files: %d %s", got.Status, got.Body)
	}
	w.Counts(t, 1, "items", `SELECT count(*) FROM item`)
	if got := rt.post(t, upload(1, one64, `"fileBase64":"`+one64+`",`), apiKey(one.Key)); got.Status != http.StatusBadRequest || !bytes.Contains(got.Body, []byte(`duplicate field \"fileBase64\"`)) {
		t.Errorf("sent twice: %s", got.Body)
	}
}

// broken is a store that returns an error which is not a fault.
type broken struct{ media.Store }

func (broken) Item(context.Context, media.Scope, uuid.UUID) (media.Item, error) {
	return media.Item{}, errors.New("SELECT secret FROM item: relation is on fire")
}

func (broken) CountItems(context.Context, media.Scope, media.Filter) (int64, error) {
	panic("the code is on fire")
}

// A tool that panics ends neither the process nor other calls.
func TestPanic_EndsOneCallOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *options) { o.Store = broken{w.Store.Items} })
	got := rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_media_count"}}`, apiKey(one.Key))
	if got.Status != http.StatusOK || !bytes.Contains(got.Body, []byte(`"code":-32603`)) || bytes.Contains(got.Body, []byte("fire")) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	succeeded[api.Totals](t, rt.call(t, one.Key, "get_total_storage", nil))
	wait.Until(t, "the log has the cause", func() bool { return strings.Contains(rt.Logs.String(), "the code is on fire") })
}

func TestToolError_ShowsNothingInternal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *options) { o.Store = broken{w.Store.Items} })
	says := failed(t, rt.callAs(t, "get_media", object{"mediaId": uuid.NewString()}, apiKey(one.Key), header("X-Request-Id", "request-of-mine")))
	if strings.Contains(says, "SELECT") || !strings.Contains(says, "request-of-mine") {
		t.Errorf("the error is %q", says)
	}
	wait.Until(t, "the log has the cause", func() bool { return strings.Contains(rt.Logs.String(), "relation is on fire") })
	for line := range strings.Lines(rt.Logs.String()) {
		if strings.Contains(line, "on fire") && !strings.Contains(line, "request-of-mine") {
			t.Errorf("the line lacks the request: %s", line)
		}
	}
}

// characters is an endless reader.
type characters struct{}

func (characters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'A'
	}
	return len(p), nil
}

// The names of headers contain the brand.
func TestBrand_IsInEveryText(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t, func(o *options) { o.Server.Brand = "acme" })
	got := rt.post(t, listTools, header("x-acme-apikey", one.Key))
	if got.Status != http.StatusOK || !bytes.Contains(got.Body, []byte("x-acme-signature")) || bytes.Contains(got.Body, []byte("x-service-")) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// A client that disconnects while it sends its file leaves neither rows nor a slot.
func TestUploadMedia_WhoseClientLeavesReleasesItsSlot(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, func(o *options) { o.Upload.MaxUploads, o.Upload.UploadQueue = 1, 0 })
	body, write := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, baseURL+"/mcp", body)
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("x-service-apikey", one.Key)
	done := make(chan error, 1)
	go func() {
		response, err := rt.Client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		done <- err
	}()
	_, err = io.WriteString(write, upload(1, base64.StdEncoding.EncodeToString(noise(9<<20)), "")[:12<<20])
	must(t, err)
	if says := failed(t, rt.call(t, one.Key, "upload_media", uploadArguments("caption", "c"))); !strings.Contains(says, "try again in") {
		t.Errorf("the slot is free: %s", says)
	}
	must(t, write.CloseWithError(errors.New("left"))) // closes the connection
	if err := <-done; err == nil {
		t.Error("the client did not disconnect")
	}
	wait.Until(t, "the slot is free", func() bool { return !rt.call(t, one.Key, "upload_media", uploadArguments("caption", "c")).IsError })
	w.Counts(t, 1, "rows", `SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM item)`)
}
