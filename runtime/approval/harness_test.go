package approval_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/work"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

type object = map[string]any

// world is a database with a replica that has the tools, and one that has the pages. Background work runs after run.
type world struct {
	*webtest.World
	tools *runtimetest.Service
	pages *webtest.Replica
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: webtest.NewWorld(t)}
	w.tools, w.pages = w.service(t), w.Replica(t, webtest.Many)
	return w
}

// service starts a replica with the tools.
func (w *world) service(t *testing.T, change ...func(*runtimetest.ServiceConfig)) *runtimetest.Service {
	t.Helper()
	config := runtimetest.NewServiceConfig()
	for _, apply := range change {
		apply(&config)
	}
	config.TUS, config.MCP = true, &mcp.Config{}
	config.Auth.Resource = oauthhttp.Resource(config.Server.BaseURL)
	return w.Service(t, config)
}

// run carries out what is allowed, until the test ends or stop is called.
func (w *world) run(t *testing.T) (stop func()) { t.Helper(); return w.RunFetches(t, w.tools.Core) }

// asks is the policy of accounts in which everything waits.
var asks = account.Approval{Delete: account.RuleAlways, Publish: account.RuleAlways, Settings: account.RuleAlways}

// tenant is an account in which changes wait, with a journal and a time in which deletes can be undone.
func (w *world) tenant(t *testing.T, name string, change ...func(*account.Spec)) runtimetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, ObjectUID: name, DisplayName: "The " + name, Owners: []string{runtimetest.Owner}, MaxStorage: 64 << 20, MaxUploadSize: 32 << 20, Journal: 24 * time.Hour,
		Undo: account.Undo{Window: time.Hour, For: account.UndoAgents}, ToolPolicy: account.ToolPolicy{Approval: asks, Toolsets: []string{"core", "organize", "undo", "fetch"}}}, change...)
}

// sealed makes a sealed item.
func (w *world) sealed(t *testing.T, of runtimetest.Tenant, name string) string {
	t.Helper()
	return w.pages.Item(t, w.World, of, name, name, true).ID.String()
}

// application returns a token of an application of the owner, with all rights.
func (w *world) application(t *testing.T, of runtimetest.Tenant) runtimetest.Option {
	t.Helper()
	return runtimetest.Header("Authorization", "Bearer "+w.Session(t, of, oauth.Scopes()...))
}

// outcome is the result of a tool.
type outcome struct {
	IsError           bool            `json:"isError"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	Content           []struct {
		Text string `json:"text"`
	} `json:"content"`
}

// call calls a tool at a replica.
func call(t *testing.T, at *runtimetest.Service, by runtimetest.Option, tool string, arguments object) outcome {
	t.Helper()
	text, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": tool, "arguments": arguments}})
	must(t, err)
	answer, err := at.Send(t.Context(), http.MethodPost, api.ToolsRoute, by, runtimetest.Text(string(text)), runtimetest.Header("Content-Type", "application/json"),
		runtimetest.Header("Accept", "application/json, text/event-stream"))
	must(t, err)
	answer.MustBe(t, http.StatusOK, "call %s", tool)
	var message struct {
		Result *outcome `json:"result"`
	}
	if json.Unmarshal(answer.Body, &message) != nil || message.Result == nil || len(message.Result.Content) == 0 {
		t.Fatalf("%s: %s", tool, answer.Body)
	}
	return *message.Result
}

// text is the text of a result.
func (o outcome) text() string { return o.Content[0].Text }

// question is the result of a call that waits.
type question struct {
	State, ApprovalID, URL, Summary string
	ExpiresAt                       time.Time
}

// asked calls a tool that waits for the owner.
func (w *world) asked(t *testing.T, by runtimetest.Option, tool string, arguments object) (q question) {
	t.Helper()
	result := call(t, w.tools, by, tool, arguments)
	must(t, json.Unmarshal([]byte(result.text()), &q))
	if result.IsError || q.State != "approval_required" || q.ApprovalID == "" || !strings.HasPrefix(q.URL, runtimetest.BaseURL+"/account/approval?") || !q.ExpiresAt.After(time.Now()) || q.Summary == "" {
		t.Fatalf("%s did not wait: %s", tool, result.text())
	}
	return q
}

// state is what get_approval tells.
type state struct {
	State   string
	Results []struct{ Tool, Outcome, MediaID, Detail string }
}

// told returns what get_approval tells.
func (w *world) told(t *testing.T, by runtimetest.Option, q question) (s state) {
	t.Helper()
	result := call(t, w.tools, by, "get_approval", object{"approvalId": q.ApprovalID})
	if result.IsError {
		t.Fatalf("get_approval: %s", result.text())
	}
	must(t, json.Unmarshal(result.StructuredContent, &s))
	return s
}

// ended waits until an approval is carried out.
func (w *world) ended(t *testing.T, by runtimetest.Option, q question) (s state) {
	t.Helper()
	wait.UntilNone(t, func() string {
		if s = w.told(t, by, q); s.State != "done" {
			return s.State
		}
		return ""
	})
	return s
}

// path returns the path of the page.
func (q question) path() string { return strings.TrimPrefix(q.URL, runtimetest.BaseURL) }

// open logs the owner in, and opens the page.
func (w *world) open(t *testing.T, q question) (*webtest.Browser, webtest.Page) {
	t.Helper()
	b := w.pages.Browser(t)
	p := b.Login(q.path(), runtimetest.Owner)
	p.Says(t, http.StatusOK, "Allow these changes?")
	return b, p
}

// decide sends a form of the page.
func decide(b *webtest.Browser, p webtest.Page, decision string, change ...func(url.Values)) webtest.Page {
	fields := url.Values{"decision": {decision}}
	for _, name := range []string{"approval", "account", "revision"} {
		fields.Set(name, p.Fields().Get(name))
	}
	for _, apply := range change {
		apply(fields)
	}
	return b.Post("/account/approval/decide", p, fields)
}

// deleted counts the items that are deleted.
func (w *world) deleted(t *testing.T) int64 {
	t.Helper()
	return w.QueryInt(t, `SELECT count(*) FROM stored_item WHERE deleted_at IS NOT NULL`)
}

// carryOut runs the task of an approval now.
func (w *world) carryOut(t *testing.T, q question) {
	t.Helper()
	must(t, w.tools.Approvals.Work(t.Context(), work.Task{Kind: approval.Work, Key: uuid.MustParse(q.ApprovalID), Attempt: 1}))
}
