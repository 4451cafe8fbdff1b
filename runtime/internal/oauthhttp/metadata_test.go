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

// The links are in the metadata of both documents, and on the pages; without settings there are none.
func TestLinks_AreInTheMetadataAndOnThePages(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	const support, privacy, terms = "mailto:help@example.org", "https://example.org/privacy?a=1", "https://example.org/terms"
	with := w.Replica(t, func(o *webtest.Options) { o.Pages.Support, o.Pages.Privacy, o.Pages.Terms = support, privacy, terms }).Browser(t)
	without := w.Replica(t).Browser(t)
	for path, names := range map[string][2]string{"/.well-known/oauth-authorization-server": {"op_policy_uri", "op_tos_uri"}, "/.well-known/oauth-protected-resource/mcp": {"resource_policy_uri", "resource_tos_uri"}} {
		document := map[string]any{}
		must(t, json.Unmarshal([]byte(with.Get(path).Text), &document))
		if document[names[0]] != privacy || document[names[1]] != terms {
			t.Errorf("%s: %v", path, document)
		}
		if text := without.Get(path).Text; strings.Contains(text, "policy_uri") || strings.Contains(text, "tos_uri") {
			t.Errorf("%s without links: %s", path, text)
		}
	}
	page := with.Get("/account/connections")
	for _, link := range []string{support, privacy, terms} {
		if !strings.Contains(page.Text, `href="`+link+`" target="_blank" rel="noopener noreferrer"`) {
			t.Errorf("the page has no link to %s: %s", link, page.Text)
		}
	}
	if text := without.Get("/account/connections").Text; strings.Contains(text, "<footer") {
		t.Errorf("without links there is a footer: %s", text)
	}
}
