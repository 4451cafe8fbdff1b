package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
	"mediastack.dev/hack/testenv/webuser"
	"mediastack.dev/runtime/oauth"
)

// owners own the account. Each authorizes one client.
var owners = []string{"frieda.gopher@people.example", "oldrich.first@people.example", "sekunda.older@people.example", "novak.newest@people.example",
	"bridget.remote@people.example", "inspektor.cli@people.example", "konrad.conforms@people.example"}

// loginService is a service with logins.
type loginService struct {
	*service
	scanner  *secretScanner
	mailLog  string
	loggedIn []string // addresses that logged in
}

func newLoginService(t *testing.T) *loginService {
	t.Helper()
	s := &loginService{scanner: newSecretScanner(), mailLog: filepath.Join(testenv.TempDir(t), "mail.log")}
	// An expired token is noticed at once.
	s.service = newService(t, s.scanner, append(testenv.MailSink(t, s.mailLog), "SERVICE_LOG_LEVEL=DEBUG", "SERVICE_KEY_CACHE_TTL=0s")...)
	return s
}

// user returns a user who logs in once.
func (s *loginService) user(t *testing.T, address string) *webuser.User {
	t.Helper()
	s.loggedIn = append(s.loggedIn, address)
	return webuser.New(t, address, s.mailLog, nil)
}

// expire expires every access token that was issued so far.
func (s *loginService) expire() error {
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "UPDATE oauth_token SET expires_at = now() WHERE NOT refresh AND expires_at > now()")
	return err
}

// authorizationURL matches the URL that clients print for their user.
var authorizationURL = regexp.MustCompile(`(http://127\.0\.0\.1:\d+/oauth/authorize\?\S+)\s`)

// Every client gets the URL of the service alone. A user authorizes it, each request on another
// replica than the one before; then a replica is killed, the client runs its scenario, and in the
// middle of it its access token expires.
func TestClients_LogInOverTwoReplicas(t *testing.T) {
	t.Parallel()
	packages, s := node.New(t, "hack/test/clients/mcp"), newLoginService(t)
	file := randomBytes(64 << 10)
	path := filepath.Join(t.TempDir(), "file.bin")
	must(t, os.WriteFile(path, file, 0o600))
	t.Run("go-sdk", func(t *testing.T) { s.goLogsIn(t, owners[0], file) })
	for n, client := range []struct {
		name, script, version string
		// known is how the client registers itself.
		known   string
		options map[string]any
	}{
		{"@modelcontextprotocol/sdk 1.x", "sdk1.mjs", before, "First SDK", map[string]any{"login": "First SDK"}},
		{"@modelcontextprotocol/client 2.x, older era", "sdk2.mjs", before, "Second SDK", map[string]any{"login": "Second SDK", "mode": "legacy"}},
		{"@modelcontextprotocol/client 2.x, newest era", "sdk2.mjs", newest, "Second SDK", map[string]any{"login": "Second SDK", "mode": map[string]any{"pin": newest}}},
		{"mcp-remote", "sdk1.mjs", "", "MCP CLI Proxy", map[string]any{
			"bridge": []string{packages.Module("mcp-remote/dist/proxy.js"), s.url(), "--transport", "http-only", "--auth-timeout", "300"},
		}},
	} {
		t.Run(client.name, func(t *testing.T) {
			client.options["url"], client.options["file"], client.options["fileName"], client.options["group"] = s.url(), path, fileName, client.name
			text, err := json.Marshal(client.options)
			must(t, err)
			user := s.user(t, owners[n+1])
			got := s.run(t, user, true, func() result {
				program := packages.Start(t, clientTimeout, t.TempDir(), nil, packages.Script(t, client.script), string(text))
				user.LogIn(program.WaitForOutput(authorizationURL), client.known)
				ended := program.Wait()
				var got result
				if err := json.Unmarshal([]byte(ended.Stdout), &got); err != nil || ended.Code != 0 {
					t.Fatalf("the client ends with %d: %s\n%s", ended.Code, ended.Stdout, ended.Stderr)
				}
				return got
			})
			s.check(t, got, len(file))
			if got.Version != client.version {
				t.Errorf("it spoke %q, want %q", got.Version, client.version)
			}
		})
	}
	t.Run("Inspector", func(t *testing.T) { s.inspectorLogsIn(t, packages, owners[5]) })
	t.Run("the conformance suite", func(t *testing.T) { s.conforms(t, packages, owners[6]) })
	s.checkLogs(t)
}

// run logs a client in and runs its scenario. Before its first request with a token a replica is
// killed; before its fifth all tokens expire, if expire is set.
func (s *loginService) run(t *testing.T, user *webuser.User, expire bool, run func() result) result {
	t.Helper()
	victim, logins, refreshes, calls := s.replicas[0], s.scanner.granted("authorization_code"), s.scanner.granted("refresh_token"), 0
	s.balancer.begin(func(_ int, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			return
		}
		switch calls++; calls {
		case 1:
			s.balancer.waitIdle(victim.Addr)
			victim.Kill()
		case 5:
			if !expire {
				return
			}
			if err := s.expire(); err != nil {
				t.Error(err)
			}
		}
	})
	defer func() {
		s.balancer.begin(nil)
		victim.Kill() // should the client not have come that far
		must(t, victim.Restart(context.WithoutCancel(t.Context())))
	}()
	got := run()
	if calls < 8 {
		t.Errorf("there were %d calls", calls)
	}
	// The pages of address, code and consent, and what leads to each.
	if len(user.Steps) < 7 || len(slices.Compact(slices.Clone(user.Steps))) != len(user.Steps) {
		t.Errorf("the user was served by %v", user.Steps)
	}
	if n := s.scanner.granted("authorization_code") - logins; n != 1 {
		t.Errorf("there were %d logins", n)
	}
	if n := s.scanner.granted("refresh_token") - refreshes; expire && n != 1 {
		t.Errorf("there were %d refreshes", n)
	}
	return got
}

// goLogsIn has the SDK for Go register, log in, run its scenario, and refresh.
func (s *loginService) goLogsIn(t *testing.T, address string, file []byte) {
	user := s.user(t, address)
	answers := make(chan *auth.AuthorizationResult, 1)
	callback := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		answers <- &auth.AuthorizationResult{Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss")}
	}))
	defer callback.Close()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Gopher", RedirectURIs: []string{callback.URL + "/callback"}, GrantTypes: []string{"authorization_code", "refresh_token"}, TokenEndpointAuthMethod: "none",
		}},
		RequestRefreshToken: true,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			user.LogIn(args.URL, "Gopher")
			select {
			case answer := <-answers:
				return answer, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	})
	must(t, err)
	var session *mcp.ClientSession
	got := s.run(t, user, false, func() result {
		session = goConnect(t, &mcp.StreamableClientTransport{Endpoint: s.url(), OAuthHandler: handler})
		return goScenario(t, session, file)
	})
	s.check(t, got, len(file))

	// This client goes by its own clock: it refreshes when a token's time is over, and
	// takes a rejected token for the need of another login.
	source, err := handler.TokenSource(t.Context())
	must(t, err)
	token, err := source.Token()
	must(t, err)
	must(t, s.expire())
	token.Expiry = time.Now().Add(-time.Hour)
	refreshes := s.scanner.granted("refresh_token")
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_media_count"})
	must(t, err)
	if n := s.scanner.granted("refresh_token") - refreshes; result.IsError || n != 1 {
		t.Errorf("%v after %d refreshes", result.Content, n)
	}
}

// inspectorLogsIn has one process of Inspector's command line log in, and others use and
// refresh what it kept.
func (s *loginService) inspectorLogsIn(t *testing.T, packages *node.Packages, address string) {
	user, home := s.user(t, address), t.TempDir()
	port := testenv.FreePort(t)
	env := []string{"MCP_INSPECTOR_SECRET_STORE=file", "MCP_AUTO_OPEN_ENABLED=true"} // without it, it logs in only users with a terminal
	start := func(args ...string) *node.Program {
		t.Helper()
		return packages.Start(t, clientTimeout, home, env, packages.Module(".bin/mcp-inspector"), append([]string{"--cli", "--server-url", s.url(), "--transport", "http", "--format", "json",
			"--callback-url", fmt.Sprintf("http://127.0.0.1:%d/oauth/callback", port)}, args...)...)
	}
	program := start("--method", "tools/list")
	user.LogIn(program.WaitForOutput(authorizationURL), "Inspector")
	if ended := program.Wait(); ended.Code != 0 || strings.Count(ended.Stdout, `"inputSchema"`) != 10 {
		t.Fatalf("it ends with %d: %s\n%s", ended.Code, ended.Stdout, ended.Stderr)
	}
	call := func() {
		t.Helper()
		if ended := start("--stored-auth-only", "--method", "tools/call", "--tool-name", "get_media_count").Wait(); ended.Code != 0 || !strings.Contains(ended.Stdout, `"count":0`) {
			t.Errorf("it ends with %d: %s\n%s", ended.Code, ended.Stdout, ended.Stderr)
		}
	}
	call()
	must(t, s.expire())
	refreshes := s.scanner.granted("refresh_token")
	call()
	if n := s.scanner.granted("refresh_token") - refreshes; n != 1 {
		t.Errorf("there were %d refreshes", n)
	}
}

// conforms runs the official suite for authorization servers.
func (s *loginService) conforms(t *testing.T, packages *node.Packages, address string) {
	user := s.user(t, address)
	port := testenv.FreePort(t)
	client, err := oauthex.RegisterClient(t.Context(), s.balancer.server.URL+"/oauth/register", &oauthex.ClientRegistrationMetadata{
		ClientName: "Conformance", RedirectURIs: []string{fmt.Sprintf("http://127.0.0.1:%d/callback", port)}, TokenEndpointAuthMethod: "none",
	}, http.DefaultClient)
	must(t, err)
	program := packages.Start(t, clientTimeout, t.TempDir(), nil, packages.Module("@modelcontextprotocol/conformance/dist/index.js"), "authorization", "--url", s.balancer.server.URL,
		"--client-id", client.ClientID, "--port", fmt.Sprint(port), "--resource", s.url())
	user.LogIn(program.WaitForOutput(authorizationURL), "Conformance")
	if ended := program.Wait(); ended.Code != 0 {
		t.Errorf("the suite exits with %d: %s\n%s", ended.Code, ended.Stdout, ended.Stderr)
	}
}

// checkLogs checks that no log has a secret, after all logins.
func (s *loginService) checkLogs(t *testing.T) {
	t.Helper()
	s.scanner.note("API key", s.key)
	for _, address := range s.loggedIn {
		local, _, _ := strings.Cut(address, "@")
		s.scanner.note("address", local)
	}
	kinds := map[string]int{}
	for _, what := range s.scanner.secrets {
		kinds[what]++
	}
	for _, what := range []string{"access token", "refresh token", "authorization code", "code", "code verifier", "cookie", "form token", "state"} {
		if kinds[what] < len(s.loggedIn) {
			t.Errorf("the scanner saw %v", kinds)
			break
		}
	}
	// The scanner must find secrets where they are: the mail server's log has codes and addresses.
	response := strings.Join(s.scanner.leaks(t, s.mailLog), "\n")
	for _, what := range []string{"code: ", "address: "} {
		if strings.Count(response, what) < len(s.loggedIn) {
			t.Errorf("%s is not found in the emails: %s", what, response)
		}
	}
	masked := map[string]bool{}
	for _, replica := range s.replicas {
		for _, leak := range s.scanner.leaks(t, replica.Spec.LogFile) {
			t.Errorf("a log has a secret: %s", leak)
		}
		text, err := os.ReadFile(replica.Spec.LogFile)
		must(t, err)
		for _, address := range s.loggedIn {
			masked[address] = masked[address] || strings.Contains(string(text), oauth.MaskEmail(address))
		}
	}
	for address, found := range masked {
		if !found {
			t.Errorf("no log has the masked form of %s", address)
		}
	}
}
