package oauthhttp

import (
	"strings"
	"testing"
)

const cursor = "cursor://anysphere.cursor-mcp/oauth/callback"

func TestRedirectAllowed_AcceptsHTTPSLoopbackAndConfiguredURIs(t *testing.T) {
	t.Parallel()
	a := &API{cfg: Config{AllowedRedirectURIs: []string{cursor}}}
	for uri, want := range map[string]bool{
		"https://claude.ai/api/mcp/auth_callback":       true,
		"https://app.test:8443/cb?tenant=a&x=1":         true,
		"http://localhost:33418/":                       true,
		"http://localhost/callback":                     true,
		"http://127.0.0.1:6276/oauth/callback":          true,
		"http://[::1]:9999/cb":                          true,
		cursor:                                          true,
		cursor + "/":                                    false,
		cursor + "?x=1":                                 false,
		"cursor://evil/oauth/callback":                  false,
		"http://app.test/callback":                      false,
		"http://localhost.evil.test/callback":           false,
		"http://127.0.0.1.evil.test/":                   false,
		"http://127.0.0.2/":                             false,
		"http://0.0.0.0/":                               false,
		"http://user@localhost/":                        false,
		"https://user:secret@app.test/":                 false,
		"https://claude.ai@evil.test/":                  false,
		"https://app.test/cb#fragment":                  false,
		"https://app.test/cb#":                          false,
		"https:///callback":                             false,
		"https:app.test":                                false,
		"//app.test/cb":                                 false,
		"/cb":                                           false,
		"":                                              false,
		"javascript:alert(1)":                           false,
		"data:text/html,x":                              false,
		"file:///etc/passwd":                            false,
		"HTTPS://app.test/\r\nSet-Cookie: x":            false,
		"https://app.test/ space":                       false,
		"https://app.test\\@evil.test/":                 false,
		"https://аpp.test/":                             false, // a Cyrillic letter
		"https://%D0%B0pp.test/":                        false, // the same, hidden
		"https://app.test%2eevil.test/":                 false,
		"https://app.test;sandbox/":                     false, // a policy would say more
		"https://app.test,evil.test/":                   false,
		"https://*.evil.test/":                          false,
		"https://app.test:*/":                           false,
		"https://app.test:/":                            false,
		"https://app_x.test/":                           false,
		"https://app.test$&()+=!/":                      false,
		"https://[2001:db8::1]:8443/cb":                 true,
		"https://[::1%25lo]/cb":                         false,
		"http://localhost:1;x/":                         false,
		"https://app.test/" + strings.Repeat("a", 1024): false,
	} {
		if got := a.redirectAllowed(uri); got != want {
			t.Errorf("%.60q: %t", uri, got)
		}
	}
}

func TestMatchRedirect_ComparesBytes(t *testing.T) {
	t.Parallel()
	registered := []string{"https://app.test/cb?tenant=a", "http://localhost/callback", "http://127.0.0.1:5000/cb", "http://[::1]/cb"}
	for uri, want := range map[string]bool{
		"https://app.test/cb?tenant=a":           true,
		"http://localhost/callback":              true,
		"http://localhost:33418/callback":        true,
		"http://127.0.0.1:6000/cb":               true,
		"http://127.0.0.1/cb":                    true,
		"http://[::1]:1/cb":                      true,
		"https://app.test/cb?tenant=b":           false,
		"https://app.test/cb?tenant=a&x=1":       false,
		"https://app.test/cb":                    false,
		"https://app.test:443/cb?tenant=a":       false,
		"https://app.test/cb/?tenant=a":          false,
		"https://app.test/CB?tenant=a":           false,
		"https://APP.test/cb?tenant=a":           false,
		"https://app.test/x/../cb?tenant=a":      false,
		"https://app.test/%63b?tenant=a":         false,
		"https://app.test.evil.test/cb?tenant=a": false,
		"http://app.test/cb?tenant=a":            false,
		"http://localhost:1/callback/":           false,
		"http://localhost:1/other":               false,
		"http://localhost:1/callback?x=1":        false,
		"http://127.0.0.1:1/callback":            false, // localhost is another host
		"http://localhost:1/cb":                  false,
		"http://localhost:1@evil.test/cb":        false,
		"https://localhost/callback":             false,
		"":                                       false,
	} {
		if got := matchRedirect(registered, uri); got != want {
			t.Errorf("%q: %t", uri, got)
		}
	}
}

func TestIsTrusted_DependsOnTheHostNotTheName(t *testing.T) {
	t.Parallel()
	a := &API{cfg: Config{AllowedRedirectURIs: []string{cursor}, TrustedHosts: []string{"claude.ai"}}}
	for _, tt := range []struct {
		client, redirect string
		want             bool
	}{
		{"mcl_x", "https://claude.ai/api/mcp/auth_callback", true},
		{"mcl_x", "https://claude.ai.evil.test/", false},
		{"mcl_x", "https://evil.test/claude.ai", false},
		{"mcl_x", "https://claude.ai:8443/", false},
		{"https://claude.ai/client.json", "https://evil.test/", false},
		{"https://claude.ai/client.json", "http://localhost:1/callback", true},
		{"https://evil.test/client.json", "http://localhost:1/callback", false},
		{"mcl_x", "http://localhost:1/callback", false},
		{"mcl_x", cursor, true},
	} {
		if got := a.isTrusted(tt.client, tt.redirect); got != tt.want {
			t.Errorf("%s to %s: %t", tt.client, tt.redirect, got)
		}
	}
}

func TestFormActionSource_MatchesTheRedirectURI(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"https://app.test:8443/cb?x=1": " https://app.test:8443",
		"http://127.0.0.1:6276/cb":     " http://127.0.0.1:6276",
		"http://[::1]:1/cb":            " http:",
		cursor:                         "",
	} {
		if got := originSource(uri); got != want {
			t.Errorf("%s: %q", uri, got)
		}
	}
}
