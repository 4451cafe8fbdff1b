package oauthhttp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

func TestMetadata_IsIndependentOfTheHostHeader(t *testing.T) {
	t.Parallel()
	b := webtest.NewWorld(t).Replica(t).Browser(t)
	read := func(path string) map[string]any {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, runtimetest.Absolute(path), nil)
		must(t, err)
		r.Host = "evil.test"
		for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
			r.Header.Set(name, "host=evil.test;proto=https")
		}
		r.Header.Set("Origin", "https://app.test")
		p := b.Do(r)
		document := map[string]any{}
		must(t, json.Unmarshal([]byte(p.Text), &document))
		if p.StatusCode != http.StatusOK || strings.Contains(p.Text, "evil") || p.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %v %s", path, p.StatusCode, p.Header, p.Text)
		}
		return document
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"} {
		if d := read(path); d["resource"] != webtest.Resource || d["authorization_servers"].([]any)[0] != webtest.BaseURL || strings.Contains(strings.Join(words(d["scopes_supported"]), " "), "offline_access") {
			t.Errorf("%s: %v", path, d)
		}
	}
	d := read("/.well-known/oauth-authorization-server")
	if d["issuer"] != webtest.BaseURL || words(d["code_challenge_methods_supported"])[0] != "S256" || len(words(d["code_challenge_methods_supported"])) != 1 ||
		d["authorization_response_iss_parameter_supported"] != true || d["client_id_metadata_document_supported"] != true || words(d["token_endpoint_auth_methods_supported"])[0] != "none" {
		t.Errorf("the server: %v", d)
	}
	for name, value := range d {
		if strings.HasSuffix(name, "_endpoint") && !strings.HasPrefix(value.(string), webtest.BaseURL+"/oauth/") {
			t.Errorf("%s is %v", name, value)
		}
	}
}
