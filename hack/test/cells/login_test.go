package cells

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"mediastack.dev/hack/testenv/webuser"
)

// An application registers once, with the same client id in every cell. Each user logs in to the
// cell of the account, and the tokens lead there.
func TestCells_LogInThroughTheEdge(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	answers := make(chan *auth.AuthorizationResult, 1)
	callback := callbackServer(t, func(r *http.Request) {
		query := r.URL.Query()
		answers <- &auth.AuthorizationResult{Code: query.Get("code"), State: query.Get("state"), Iss: query.Get("iss")}
	})
	var clients []string
	for _, c := range s.cells {
		t.Run("cell "+c.number.String(), func(t *testing.T) {
			user := webuser.New(t, c.owner, s.mailLog, nil)
			user.Finder = finderPath
			handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
				DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
					ClientName: "Gopher", RedirectURIs: []string{callback.URL + "/callback"}, GrantTypes: []string{"authorization_code", "refresh_token"}, TokenEndpointAuthMethod: "none",
				}},
				RequestRefreshToken: true,
				AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
					opened, err := url.Parse(args.URL)
					if err != nil {
						return nil, err
					}
					clients = append(clients, opened.Query().Get("client_id"))
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
			session := s.connect(t, &mcp.StreamableClientTransport{Endpoint: s.URL + "/mcp", OAuthHandler: handler})
			s.call(t, c, session)

			// The application refreshes its token when its time is over.
			source, err := handler.TokenSource(t.Context())
			must(t, err)
			token, err := source.Token()
			must(t, err)
			first := token.AccessToken
			c.expire(t)
			token.Expiry = time.Now().Add(-time.Hour)
			s.call(t, c, session)
			if token, err = source.Token(); err != nil || token.AccessToken == first || !strings.HasPrefix(token.AccessToken, "mat_"+c.number.String()) || !strings.HasPrefix(token.RefreshToken, "mrt_"+c.number.String()) {
				t.Errorf("the token of cell %s begins with %s, %v", c.number, token.AccessToken[:7], err)
			}

			if page := user.Applications(s.URL + "/account/connections"); !strings.Contains(page, "Gopher") {
				t.Errorf("the page of the authorized applications is %s", page)
			}
			bearer := []string{"Authorization", "Bearer " + token.AccessToken}
			s.through(t, c, 200, http.MethodGet, "/media/get", "", bearer...)
			body := url.Values{"token": {token.RefreshToken}, "client_id": {clients[0]}}.Encode()
			s.through(t, c, 200, http.MethodPost, "/oauth/revoke", body, "Content-Type", "application/x-www-form-urlencoded")
			s.through(t, c, 401, http.MethodGet, "/media/get", "", bearer...)
			for _, step := range user.Steps {
				if step != c.address {
					t.Errorf("a page came from %s, not from %s", step, c.address)
				}
			}
		})
	}
	if len(clients) != 2 || clients[0] != clients[1] {
		t.Errorf("the application has the client ids %v", clients)
	}
	for _, how := range []string{"every cell", "cookie of the edge", "login", "code", "refresh_token", "token", "access token"} {
		if s.took[how] == 0 {
			t.Errorf("no request was routed by %s: %v", how, s.took)
		}
	}
}

// clientID returns the client id in the answer to a registration.
func clientID(body []byte) string {
	_, rest, _ := strings.Cut(string(body), `"client_id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}
