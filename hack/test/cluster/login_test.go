//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/webuser"
)

var must = check.NoError

// application is the name that the client registers under.
const application = "Assistant of team A"

// serviceOr returns a transport that reaches the service through a node, and other hosts, such as the
// callback of a client, directly.
func serviceOr(node string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, service+"."+namespace) {
			address = net.JoinHostPort(env.Nodes[node], nodePort)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// An MCP client registers, its user logs in with the code from an e-mail that the runtime's pod has sent,
// and the client calls tools with the token. Every request goes through the Service to any replica.
func TestLogin_GivesAnMCPClientAToken(t *testing.T) {
	install(t)
	outsider := outside(t, "node1") // the Service is reachable
	transport := serviceOr("node1")
	defer transport.CloseIdleConnections()
	browser := &http.Client{Transport: transport, Timeout: requestTimeout}

	codes := make(chan string, 1)
	callback := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { codes <- r.URL.Query().Get("code") }))
	defer callback.Close()
	registration, err := json.Marshal(map[string]any{"client_name": application, "redirect_uris": []string{callback.URL + "/"}, "token_endpoint_auth_method": "none"})
	must(t, err)
	registered, _, err := client{http: browser}.send(t.Context(), http.StatusCreated, http.MethodPost, baseURL+"/oauth/register", registration, "Content-Type", "application/json")
	must(t, err)
	var known struct {
		ClientID string `json:"client_id"`
	}
	must(t, json.NewDecoder(bytes.NewReader(registered)).Decode(&known))

	config := oauth2.Config{
		ClientID: known.ClientID, RedirectURL: callback.URL + "/", Scopes: []string{"media:read"},
		Endpoint: oauth2.Endpoint{AuthURL: baseURL + "/oauth/authorize", TokenURL: baseURL + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams},
	}
	verifier := oauth2.GenerateVerifier()
	webuser.New(t, owner, env.MailLog, transport).LogIn(config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)), application)
	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, browser)
	token, err := config.Exchange(ctx, <-codes, oauth2.VerifierOption(verifier))
	must(t, err)

	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: outsider.mcp, HTTPClient: config.Client(ctx, token),
	}, nil)
	must(t, err)
	defer func() { _ = session.Close() }()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "get_media_count"})
	if err != nil || result.IsError {
		t.Errorf("get_media_count with the token: %v, %v", err, result)
	}
	// The user permitted to read.
	result, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "create_upload_signature", Arguments: map[string]any{}})
	if err == nil && !result.IsError {
		t.Error("a token with the scope media:read has changed something")
	}
}
