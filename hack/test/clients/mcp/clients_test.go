package mcp_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/node"
	"mediastack.dev/runtime/account"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	clientTimeout = 5 * time.Minute
	fileName      = "Ferien 🏖.bin"
	newest        = "2026-07-28"
	before        = "2025-11-25"
)

// result is what a client prints.
type result struct {
	Tools   []string
	MediaID string
	Sealed  struct {
		MediaID, OriginalFileName string
		Size                      int
		Temp                      bool
	}
	Listed   []string
	Bytes    int
	Rejected any
	Deleted  struct {
		Deleted bool
		MediaID string
	}
	Left    int
	Version string
}

// Every client runs the same scenario, each request on another replica than the one before. One of
// them is killed in the middle.
func TestClients_WorkOverTwoReplicas(t *testing.T) {
	t.Parallel()
	packages, s := node.New(t, "hack/test/clients/mcp"), newService(t, nil)
	file := randomBytes(3 << 20)
	path := filepath.Join(t.TempDir(), "file.bin")
	must(t, os.WriteFile(path, file, 0o600))
	bridge := []string{packages.Module("mcp-remote/dist/proxy.js"), s.url(), "--transport", "http-only", "--header", "x-service-apikey:" + s.key}
	for _, client := range []struct {
		name, script, version string
		options               map[string]any
	}{
		{"@modelcontextprotocol/sdk 1.x", "sdk1.mjs", before, nil},
		{"@modelcontextprotocol/client 2.x, older era", "sdk2.mjs", before, map[string]any{"mode": "legacy"}},
		{"@modelcontextprotocol/client 2.x, newest era", "sdk2.mjs", newest, map[string]any{"mode": map[string]any{"pin": newest}}},
		{"@modelcontextprotocol/client 2.x, by itself", "sdk2.mjs", newest, map[string]any{"mode": "auto"}},
		{"mcp-remote", "sdk1.mjs", "", map[string]any{"bridge": bridge}},
	} {
		t.Run(client.name, func(t *testing.T) {
			options := map[string]any{"url": s.url(), "headers": s.headers(), "file": path, "fileName": fileName, "group": client.name}
			for name, value := range client.options {
				options[name] = value
			}
			text, err := json.Marshal(options)
			must(t, err)
			s.scenario(t, func() result {
				ended := packages.Run(t, clientTimeout, packages.Script(t, client.script), string(text))
				var got result
				if err := json.Unmarshal([]byte(ended.Stdout), &got); err != nil || ended.Code != 0 {
					t.Fatalf("the client ends with %d: %s\n%s", ended.Code, ended.Stdout, ended.Stderr)
				}
				if got.Version != client.version {
					t.Errorf("it spoke %q, want %q", got.Version, client.version)
				}
				return got
			}, len(file))
		})
	}
	t.Run("go-sdk", func(t *testing.T) {
		s.scenario(t, func() result { return goRun(t, s, file) }, len(file))
	})
}

// scenario runs a client's scenario with a replica killed before the fourth request, and checks the
// answers.
func (s *service) scenario(t *testing.T, run func() result, size int) {
	t.Helper()
	victim, other := s.replicas[0], s.replicas[1]
	s.balancer.begin(func(number int, _ *http.Request) {
		if number != 4 {
			return
		}
		if s.balancer.took[victim.Addr] == 0 || s.balancer.took[other.Addr] == 0 {
			t.Errorf("the requests went to %v", s.balancer.took)
		}
		s.balancer.waitIdle(victim.Addr)
		victim.Kill()
	})
	got := run()
	if s.balancer.requests() < 7 {
		t.Errorf("there were %d requests", s.balancer.requests())
	}
	if n := s.balancer.served(victim.Addr); n == 0 || n > 3 {
		t.Errorf("the replica that was killed served %d requests", n)
	}
	must(t, victim.Restart(context.WithoutCancel(t.Context())))
	s.check(t, got, size)
}

// check checks the answers that a client printed.
func (s *service) check(t *testing.T, got result, size int) {
	t.Helper()
	sealed := got.Sealed
	if len(got.Tools) != 10 || got.MediaID == "" || sealed.MediaID != got.MediaID || sealed.OriginalFileName != fileName || sealed.Size != size || sealed.Temp ||
		!slices.Equal(got.Listed, []string{got.MediaID}) || got.Bytes != size || !got.Deleted.Deleted || got.Deleted.MediaID != got.MediaID || got.Left != 0 {
		t.Errorf("the client was answered %+v", got)
	}
	if says, _ := got.Rejected.(string); !strings.Contains(says, "mediaId must be an id") {
		t.Errorf("the error says %v", got.Rejected)
	}
}

// goRun is scenario.mjs by the SDK for Go.
func goRun(t *testing.T, s *service, file []byte) result {
	t.Helper()
	session := goConnect(t, &mcp.StreamableClientTransport{Endpoint: s.url(), HTTPClient: &http.Client{Transport: keyed{s.key}}})
	return goScenario(t, session, file)
}

func goConnect(t *testing.T, transport *mcp.StreamableClientTransport) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	t.Cleanup(cancel)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, nil).Connect(ctx, transport, nil)
	must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func goScenario(t *testing.T, session *mcp.ClientSession, file []byte) (got result) {
	t.Helper()
	if v := session.InitializeResult().ProtocolVersion; v != newest {
		t.Errorf("it speaks %s", v)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	list, err := session.ListTools(ctx, nil)
	must(t, err)
	for _, tool := range list.Tools {
		got.Tools = append(got.Tools, tool.Name)
	}
	call := func(name string, arguments map[string]any, into any) string {
		t.Helper()
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
		must(t, err)
		text := result.Content[0].(*mcp.TextContent).Text
		if !result.IsError {
			must(t, json.Unmarshal([]byte(text), into))
		}
		return text
	}
	call("upload_media", map[string]any{"fileBase64": base64.StdEncoding.EncodeToString(file), "fileName": fileName, "mimeType": "application/octet-stream", "group": "go"}, &got)
	id := map[string]any{"mediaId": got.MediaID}
	call("seal_media", id, &got.Sealed)
	var page struct {
		MediaItems []struct{ MediaID, File string }
		Total      int
	}
	call("list_media", map[string]any{"group": "go"}, &page)
	for _, item := range page.MediaItems {
		got.Listed = append(got.Listed, item.MediaID)
		response, err := http.Get(item.File)
		must(t, err)
		got.Bytes = int(response.ContentLength)
		_ = response.Body.Close()
	}
	got.Rejected = call("get_media", map[string]any{"mediaId": "nonsense"}, nil)
	call("delete_media", id, &got.Deleted)
	call("list_media", map[string]any{"group": "go"}, &page)
	got.Left = page.Total
	return got
}

type keyed struct{ key string }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("x-service-apikey", k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// Inspector's command line, one process for each step. Its --strict rejects schemas that
// not every client can read.
func TestInspector_WorksFromTheCommandLine(t *testing.T) {
	t.Parallel()
	packages, s := node.New(t, "hack/test/clients/mcp"), newService(t, nil)
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			inspect := func(args ...string) string {
				t.Helper()
				args = append([]string{"--cli", "--server-url", s.url(), "--transport", "http", "--header", "x-service-apikey: " + s.key, "--protocol-era", era, "--format", "json"}, args...)
				ended := packages.Run(t, clientTimeout, packages.Module(".bin/mcp-inspector"), args...)
				if ended.Code != 0 {
					t.Fatalf("%v ends with %d: %s\n%s", args, ended.Code, ended.Stdout, ended.Stderr)
				}
				return ended.Stdout
			}
			call := func(tool string, arguments map[string]any) (structured map[string]any) {
				t.Helper()
				text, err := json.Marshal(arguments)
				must(t, err)
				var result struct {
					Result struct{ StructuredContent map[string]any }
				}
				out := inspect("--method", "tools/call", "--tool-name", tool, "--tool-args-json", string(text))
				must(t, json.Unmarshal([]byte(out), &result))
				if result.Result.StructuredContent == nil {
					t.Fatalf("%s gives %s", tool, out)
				}
				return result.Result.StructuredContent
			}
			if list := inspect("--method", "tools/list", "--strict"); strings.Count(list, `"inputSchema"`) != 10 {
				t.Errorf("the list is %s", list)
			}
			id := call("upload_media", map[string]any{"fileBase64": "aGFsbG8=", "fileName": fileName, "mimeType": "text/plain"})["mediaId"]
			if sealed := call("seal_media", map[string]any{"mediaId": id}); sealed["mediaId"] != id || sealed["size"] != 5.0 {
				t.Errorf("sealed: %v", sealed)
			}
			if list := call("list_media", map[string]any{}); list["total"] != 1.0 {
				t.Errorf("the list is %v", list)
			}
			if deleted := call("delete_media", map[string]any{"mediaId": id}); deleted["deleted"] != true {
				t.Errorf("deleted: %v", deleted)
			}
		})
	}
}

// service is two runtimes behind one address.
type service struct {
	balancer *balancer
	database string
	key      string
	replicas []*servers.Runtime
}

func (s *service) url() string { return s.balancer.server.URL + "/mcp" }

func (s *service) headers() map[string]string { return map[string]string{"x-service-apikey": s.key} }

// newService starts one whose traffic a scanner sees, if there is one, with more settings in env.
func newService(t *testing.T, w *secretScanner, env ...string) *service {
	t.Helper()
	s, _ := newServiceOf(t, w, []account.Spec{{Namespace: "clients", Name: "one", Owners: owners, MaxStorage: 4 << 30, MaxUploadSize: 1 << 30}}, env...)
	return s
}

// newServiceOf is newService with other accounts. The key of the service is that of the first.
func newServiceOf(t *testing.T, w *secretScanner, specs []account.Spec, env ...string) (*service, []provision.Tenant) {
	t.Helper()
	database, access := testenv.Postgres(t), testenv.S3(t)
	tenants, err := provision.Accounts(t.Context(), database, access, specs...)
	must(t, err)
	s := &service{balancer: newBalancer(t, w), database: database, key: tenants[0].APIKey}
	for range 2 {
		one := testenv.Runtime(t, servers.RuntimeConfig{BaseURL: s.balancer.server.URL, Secret: strings.Repeat("ab", 32),
			Stores: servers.StoreSettings(database, access), Env: env})
		s.replicas = append(s.replicas, one)
		s.balancer.add(one.Addr)
	}
	return s, tenants
}

func randomBytes(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data)
	return data
}

var must = check.NoError
