package mcp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/jpeg"
	"io"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/test/clients/clienttest"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/hack/testenv/webuser"
	"mediastack.dev/runtime/account"
)

// everyTool is a service whose accounts have all toolsets, approvals and ceilings. Each client has an account of its own, because changes of
// one connection collect in one approval.
type everyTool struct {
	*service
	tenants map[string]provision.Tenant // by the name of the client
	mailLog string
	photo   string // the URL of a picture
}

// toolResult is the result of a call, as a client has it.
type toolResult struct {
	IsError bool
	Content []struct {
		Type, Text, Data, MIMEType string
	}
	StructuredContent map[string]any
	// Shown are the addresses that the service had the client show.
	Shown []struct{ Mode, URL, Message string }
}

// toolClient is a client that is connected.
type toolClient interface {
	list(t *testing.T) []string
	call(t *testing.T, name string, arguments map[string]any) toolResult
}

// Every client calls every tool that an account can have. A person hands a file over, and the owner allows a delete and a change of the
// settings, and denies that a file becomes public.
func TestClients_CallEveryTool(t *testing.T) {
	t.Parallel()
	packages := node.New(t, "hack/test/clients/mcp")
	pinned := map[string]any{"pin": newest}
	clients := []struct {
		name, script string
		options      map[string]any
		// shows is set if the service can have it show an address; login if it logs in.
		shows, login bool
		brief        bool // each of its calls is a process
		open         func(t *testing.T, s *everyTool, of string) toolClient
	}{
		{name: "Inspector", brief: true, open: func(_ *testing.T, s *everyTool, of string) toolClient {
			return inspectorClient{s: s, packages: packages, key: s.tenants[of].APIKey}
		}}, {name: "sdk 1.x", script: "sdk1.mjs"},
		{name: "sdk 1.x with a login", script: "sdk1.mjs", login: true},
		{name: "client 2.x, older era", script: "sdk2.mjs", options: map[string]any{"mode": "legacy"}},
		{name: "client 2.x, newest era", script: "sdk2.mjs", options: map[string]any{"mode": pinned}, shows: true},
		{name: "client 2.x with a login", script: "sdk2.mjs", options: map[string]any{"mode": "auto"}, shows: true, login: true},
		{name: "mcp-remote", script: "sdk1.mjs", options: map[string]any{"bridge": true}},
		{name: "mcp-remote with a login", script: "sdk1.mjs", options: map[string]any{"bridge": true}, login: true},
		{name: "go-sdk", open: goOpens},
	}
	var names []string
	for _, client := range clients {
		names = append(names, client.name)
	}
	s := newEveryTool(t, names)
	for _, client := range clients {
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			owner := webuser.New(t, ownerOf(client.name), s.mailLog, nil)
			var opened toolClient
			if client.open != nil {
				opened = client.open(t, s, client.name)
			} else {
				opened = s.driven(t, packages, client.script, client.name, client.options, client.login, owner)
			}
			s.callsAll(t, opened, owner, client.shows, client.brief)
		})
	}
}

// ownerOf returns the address of the owner of a client's account.
func ownerOf(client string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(client)) + "@people.example"
}

func newEveryTool(t *testing.T, clients []string) *everyTool {
	t.Helper()
	s := &everyTool{tenants: map[string]provision.Tenant{}, mailLog: filepath.Join(testenv.TempDir(t), "mail.log")}
	mail := testenv.MailSink(t, s.mailLog)
	files := testenv.Files(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/jpeg")
		_, _ = w.Write(clienttest.Photo)
	}))
	s.photo = files.URL + "/photo.jpg"

	var specs []account.Spec
	for n, client := range clients {
		specs = append(specs, account.Spec{
			Namespace: "clients", Name: fmt.Sprintf("every-%d", n), Owners: []string{ownerOf(client)}, MaxStorage: 1 << 30, MaxUploadSize: 1 << 28,
			Undo: account.Undo{Window: time.Hour, For: account.UndoAgents}, Journal: time.Hour, ToolPolicy: account.ToolPolicy{
				Toolsets: account.Toolsets(),
				Approval: account.Approval{Delete: account.RuleAlways, Publish: account.RuleAlways, Settings: account.RuleAlways},
				Ceilings: account.Ceilings{Each: account.Ceiling{UploadBytesPerDay: 1 << 28, DeletesPerHour: 10, FetchesPerDay: 10}},
			},
		})
	}
	var tenants []provision.Tenant
	s.service, tenants = newServiceOf(t, nil, specs, slices.Concat(mail, files.Settings, []string{"SERVICE_LOGIN_CODES_PER_IP=1000"})...)
	for n, client := range clients {
		s.tenants[client] = tenants[n]
	}
	return s
}

// callsAll runs the scenario; brief has fewer calls.
func (s *everyTool) callsAll(t *testing.T, client toolClient, owner *webuser.User, shows, brief bool) {
	t.Helper()
	called := map[string]bool{}
	call := func(name string, arguments map[string]any) toolResult {
		t.Helper()
		called[name] = true
		got := client.call(t, name, arguments)
		if got.IsError || len(got.Content) == 0 || got.Content[0].Type != "text" {
			t.Fatalf("%s %v is answered %+v", name, arguments, got)
		}
		var text map[string]any
		must(t, json.Unmarshal([]byte(got.Content[0].Text), &text))
		if asJSON(t, text) != asJSON(t, got.StructuredContent) {
			t.Errorf("%s: the text %v is not the structure %v", name, text, got.StructuredContent)
		}
		return got
	}
	// has calls a tool, and checks members of its result.
	has := func(name string, arguments, want map[string]any) map[string]any {
		t.Helper()
		got := call(name, arguments).StructuredContent
		for member, value := range want {
			if asJSON(t, got[member]) != asJSON(t, value) {
				t.Errorf("%s %v: %s is %v, want %v: %v", name, arguments, member, got[member], value, got)
			}
		}
		return got
	}
	// until calls a tool until a member of its result has a value.
	until := func(name string, arguments map[string]any, member, want string) (got map[string]any) {
		t.Helper()
		wait.UntilNone(t, func() string {
			if got = call(name, arguments).StructuredContent; got[member] == want {
				return ""
			}
			return fmt.Sprintf("%s is answered %v", name, got)
		})
		return got
	}
	// asks makes a call that the owner is asked about, and returns the approval after his decision.
	asks := func(name string, arguments map[string]any, decision, state string, onPage ...string) map[string]any {
		t.Helper()
		asked := call(name, arguments)
		if asked.StructuredContent["state"] != "approval_required" {
			t.Fatalf("%s is answered %v", name, asked)
		}
		approval, address := map[string]any{"approvalId": asked.StructuredContent["approvalId"]}, asked.StructuredContent["url"].(string)
		if shown := len(asked.Shown) == 1 && asked.Shown[0].Mode == "url" && asked.Shown[0].URL == address; shown != shows {
			t.Errorf("%s had the client show %+v, want it to show %s: %t", name, asked.Shown, address, shows)
		}
		has("get_approval", approval, map[string]any{"state": "waiting", "url": address})
		page := owner.Decide(address, decision)
		for _, text := range onPage {
			if !strings.Contains(page, text) {
				t.Errorf("the page of %s does not say %q: %s", name, text, page)
			}
		}
		return until("get_approval", approval, "state", state)
	}
	outcomes := func(approval map[string]any) (all []any) {
		for _, result := range approval["results"].([]any) {
			all = append(all, result.(map[string]any)["outcome"])
		}
		return all
	}

	// An upload, and what the model sees of it.
	photo := base64.StdEncoding.EncodeToString(clienttest.Photo)
	id := has("upload_media", map[string]any{"fileBase64": photo, "fileName": fileName + ".jpg", "mimeType": "image/jpeg", "group": "trip", "size": len(clienttest.Photo)},
		map[string]any{"size": len(clienttest.Photo), "detectedType": "image/jpeg"})["mediaId"]
	item := map[string]any{"mediaId": id}
	has("list_drafts", nil, nil)
	view := call("view_media", map[string]any{"mediaId": id, "size": "large"})
	if len(view.Content) != 2 || view.Content[1].Type != "image" || view.Content[1].MIMEType != "image/jpeg" {
		t.Fatalf("view_media is answered %+v", view)
	}
	if _, err := jpeg.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(view.Content[1].Data))); err != nil {
		t.Errorf("view_media: the picture: %v", err)
	}
	has("seal_media", item, map[string]any{"mediaId": id})
	has("update_media", map[string]any{"mediaId": id, "caption": "The tower", "metadata": map[string]any{"season": "spring"}}, map[string]any{"caption": "The tower"})
	has("get_media", item, map[string]any{"access": "private", "originalFileName": fileName + ".jpg"})
	has("list_media", map[string]any{"group": "trip"}, map[string]any{"total": 1})
	found := has("search_media", map[string]any{"q": "tower"}, nil)["mediaItems"].([]any)
	if len(found) != 1 || found[0].(map[string]any)["mediaId"] != id {
		t.Errorf("search_media has found %v", found)
	}
	has("get_media_count", nil, map[string]any{"count": 1})
	has("get_total_storage", nil, map[string]any{"maxStorage": 1 << 30})
	has("list_groups", nil, map[string]any{"groups": []any{map[string]any{"count": 1, "group": "trip"}}})
	has("list_metadata_keys", nil, map[string]any{"keys": []any{map[string]any{"count": 1, "key": "season"}}})

	// Files that come by another way.
	signed := has("create_upload_signature", map[string]any{"maxBytes": 1 << 20, "count": 1}, nil)
	post(t, signed["uploadUrl"].(string), signed["signature"].(string))
	fetches := []map[string]any{
		{"url": s.photo, "seal": true},
		{"file": map[string]any{"download_url": s.photo, "file_id": "file-1", "file_name": "attached.jpg"}},
	}
	if brief {
		fetches = fetches[:1]
	}
	for _, from := range fetches {
		until("get_upload_from_url", map[string]any{"jobId": has("upload_media_from_url", from, nil)["jobId"]}, "state", "done")
	}
	request := has("request_upload", map[string]any{"types": []string{"image/*"}, "caption": "From a person", "seal": true}, nil)
	upload := map[string]any{"uploadId": request["uploadId"]}
	has("get_media_count", nil, map[string]any{"count": 2})
	webuser.New(t, "nobody@people.example", s.mailLog, nil).HandOver(request["page"].(string), "person.jpg", clienttest.Photo)
	handed := until("get_upload", upload, "state", "uploaded")
	has("get_media", map[string]any{"mediaId": handed["mediaId"]}, map[string]any{"caption": "From a person", "originalFileName": "person.jpg"})

	// What the owner is asked. The settings and the delete collect in one approval.
	if !brief {
		denied := asks("update_media", map[string]any{"mediaId": id, "access": "public"}, "deny", "denied", fileName)
		has("get_media", item, map[string]any{"access": "private"})
		if len(outcomes(denied)) != 1 || slices.Contains(outcomes(denied), "done") {
			t.Errorf("the approval that was denied is %v", denied)
		}
	}
	has("update_media_settings", map[string]any{"thumbnailWidth": 222}, map[string]any{"state": "approval_required"})
	done := asks("delete_media", item, "allow", "done", fileName, "222")
	if !slices.Equal(outcomes(done), []any{"done", "done"}) {
		t.Errorf("the approval that was allowed is %v", done)
	}
	if settings := has("get_media_settings", nil, nil); !strings.Contains(fmt.Sprint(settings), "thumbnailWidth:222") {
		t.Errorf("the settings are %v", settings)
	}
	if gone := client.call(t, "get_media", item); !gone.IsError || !strings.Contains(gone.Content[0].Text, "not found") {
		t.Errorf("after the delete, get_media is answered %+v", gone)
	}
	has("list_deleted_media", nil, map[string]any{"total": 1})
	has("restore_media", item, map[string]any{"mediaId": id})
	events := has("list_activity", map[string]any{"types": []string{"media.deleted"}}, nil)["events"].([]any)
	if len(events) != 1 || events[0].(map[string]any)["actor"].(map[string]any)["approvedBy"] == nil {
		t.Errorf("the activity is %v", events)
	}

	var want []string
	for _, operation := range account.Operations() {
		want = append(want, string(operation))
	}
	listed := client.list(t)
	slices.Sort(want)
	slices.Sort(listed)
	if !slices.Equal(listed, want) {
		t.Errorf("the client lists %v, want %v", listed, want)
	}
	for _, tool := range want {
		if !called[tool] {
			t.Errorf("%s was not called", tool)
		}
	}
}

// asJSON returns a value as JSON, with sorted members.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	return string(text)
}

// post uploads the photo with a signature.
func post(t *testing.T, to, signature string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "signed.jpg")
	must(t, err)
	_, err = part.Write(clienttest.Photo)
	must(t, err)
	must(t, form.Close())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, &body)
	must(t, err)
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("x-service-signature", signature)
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusCreated && response.StatusCode != http.StatusOK {
		t.Fatalf("the upload with a signature is answered %d: %s", response.StatusCode, text)
	}
}

// drivenClient is one of Node that the test drives, see driven.mjs.
type drivenClient struct{ url string }

var drivenAt = regexp.MustCompile(`driven at (http://127\.0\.0\.1:\d+)\n`)

func (s *everyTool) driven(t *testing.T, packages *node.Packages, script, of string, options map[string]any, login bool, owner *webuser.User) toolClient {
	t.Helper()
	key := s.tenants[of].APIKey
	all := map[string]any{"url": s.url(), "driven": true}
	for name, value := range options {
		all[name] = value
	}
	known := "Driven client"
	if login {
		all["login"] = known
	} else {
		all["headers"] = map[string]string{"x-service-apikey": key}
	}
	if all["bridge"] != nil {
		bridge := []string{packages.Module("mcp-remote/dist/proxy.js"), s.url(), "--transport", "http-only", "--auth-timeout", "300"}
		if !login {
			bridge = append(bridge, "--header", "x-service-apikey:"+key)
		}
		all["bridge"], known = bridge, "MCP CLI Proxy"
		delete(all, "login") // the bridge logs in
	}
	text, err := json.Marshal(all)
	must(t, err)
	program := packages.Start(t, clientTimeout, t.TempDir(), nil, packages.Script(t, script), string(text))
	if login {
		owner.LogIn(program.WaitForOutput(authorizationURL), known)
	}
	return drivenClient{program.WaitForOutput(drivenAt)}
}

func (c drivenClient) ask(t *testing.T, act string, body, answer any) {
	t.Helper()
	text, err := json.Marshal(body)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+act, bytes.NewReader(text))
	must(t, err)
	response, err := http.DefaultClient.Do(r)
	must(t, err)
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", act, text, got)
	}
	must(t, json.Unmarshal(got, answer))
}

func (c drivenClient) list(t *testing.T) []string {
	t.Helper()
	var tools []struct{ Name string }
	c.ask(t, "/list", nil, &tools)
	return namesOf(tools)
}

func namesOf(tools []struct{ Name string }) (names []string) {
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	return names
}

func (c drivenClient) call(t *testing.T, name string, arguments map[string]any) (got toolResult) {
	t.Helper()
	c.ask(t, "/call", map[string]any{"name": name, "arguments": given(arguments)}, &got)
	return got
}

// given returns arguments that are an object, never null.
func given(arguments map[string]any) map[string]any {
	if arguments == nil {
		return map[string]any{}
	}
	return arguments
}

// goClient is the SDK for Go.
type goClient struct{ session *mcp.ClientSession }

func goOpens(t *testing.T, s *everyTool, of string) toolClient {
	t.Helper()
	return goClient{goConnect(t, &mcp.StreamableClientTransport{Endpoint: s.url(), HTTPClient: &http.Client{Transport: keyed{s.tenants[of].APIKey}}})}
}

func (c goClient) list(t *testing.T) (names []string) {
	t.Helper()
	listed, err := c.session.ListTools(t.Context(), nil)
	must(t, err)
	for _, tool := range listed.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func (c goClient) call(t *testing.T, name string, arguments map[string]any) (got toolResult) {
	t.Helper()
	result, err := c.session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: given(arguments)})
	must(t, err)
	text, err := json.Marshal(result)
	must(t, err)
	must(t, json.Unmarshal(text, &got))
	return got
}

// inspectorClient is the command line of Inspector: one process for each call.
type inspectorClient struct {
	s        *everyTool
	packages *node.Packages
	key      string
}

// run runs a command, and reads its result.
func (c inspectorClient) run(t *testing.T, into any, args ...string) {
	t.Helper()
	args = append([]string{"--cli", "--server-url", c.s.url(), "--transport", "http", "--header", "x-service-apikey: " + c.key, "--format", "json"}, args...)
	ended := c.packages.Run(t, clientTimeout, c.packages.Module(".bin/mcp-inspector"), args...)
	var answer struct{ Result json.RawMessage }
	if err := json.Unmarshal([]byte(ended.Stdout), &answer); err != nil {
		t.Fatalf("%v ends with %d: %v: %s\n%s", args, ended.Code, err, ended.Stdout, ended.Stderr)
	}
	must(t, json.Unmarshal(answer.Result, into))
}

func (c inspectorClient) list(t *testing.T) []string {
	t.Helper()
	var listed struct{ Tools []struct{ Name string } }
	// --strict rejects schemas that not every client can read.
	c.run(t, &listed, "--method", "tools/list", "--strict")
	return namesOf(listed.Tools)
}

func (c inspectorClient) call(t *testing.T, name string, arguments map[string]any) (got toolResult) {
	t.Helper()
	text, err := json.Marshal(given(arguments))
	must(t, err)
	c.run(t, &got, "--method", "tools/call", "--tool-name", name, "--tool-args-json", string(text))
	return got
}
