package oauthhttp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestMetadata_IsIndependentOfTheHostHeader(t *testing.T) {
	t.Parallel()
	b := newWorld(t).replica(t).browser(t)
	read := func(path string) map[string]any {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, absolute(path), nil)
		must(t, err)
		r.Host = "evil.test"
		for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
			r.Header.Set(name, "host=evil.test;proto=https")
		}
		r.Header.Set("Origin", "https://app.test")
		p := b.do(r)
		document := map[string]any{}
		must(t, json.Unmarshal([]byte(p.body), &document))
		if p.StatusCode != http.StatusOK || strings.Contains(p.body, "evil") || p.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %v %s", path, p.StatusCode, p.Header, p.body)
		}
		return document
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"} {
		if d := read(path); d["resource"] != resource || d["authorization_servers"].([]any)[0] != baseURL || strings.Contains(strings.Join(words(d["scopes_supported"]), " "), "offline_access") {
			t.Errorf("%s: %v", path, d)
		}
	}
	d := read("/.well-known/oauth-authorization-server")
	if d["issuer"] != baseURL || words(d["code_challenge_methods_supported"])[0] != "S256" || len(words(d["code_challenge_methods_supported"])) != 1 ||
		d["authorization_response_iss_parameter_supported"] != true || d["client_id_metadata_document_supported"] != true || words(d["token_endpoint_auth_methods_supported"])[0] != "none" {
		t.Errorf("the server: %v", d)
	}
	for name, value := range d {
		if strings.HasSuffix(name, "_endpoint") && !strings.HasPrefix(value.(string), baseURL+"/oauth/") {
			t.Errorf("%s is %v", name, value)
		}
	}
}
