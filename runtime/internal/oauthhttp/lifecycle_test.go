package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
)

func TestLogin_AuthorizesAnApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", "ana@example.org")
	first, second := w.replica(t), w.replica(t)
	b := first.browser(t)
	app := b.application("Assistant")

	p := b.get(app.query(nil))
	if p.StatusCode != http.StatusOK || !strings.Contains(p.body, "Assistant") {
		t.Fatalf("the first page: %d %s", p.StatusCode, p.body)
	}
	b.at(second) // every step on the other replica
	p = b.post("/oauth/login/email", p, url.Values{"email": {" Ana@Example.org "}})
	b.at(first)
	code, ok := second.code(t, "ana@example.org")
	if !ok {
		t.Fatal("no code was mailed")
	}
	p = b.post("/oauth/login/code", p, url.Values{"code": {code[:3] + " " + code[3:]}})
	if p.StatusCode != http.StatusOK || !strings.Contains(p.body, "The studio") {
		t.Fatalf("the consent: %d %s", p.StatusCode, p.body)
	}
	b.at(second)
	told := b.allow(p, tenant)
	if told.Get("state") != "s t&te" || told.Get("iss") != baseURL || told.Get("error") != "" {
		t.Fatalf("the application is told %v", told)
	}
	b.at(first)
	status, tokens := b.redeem(app, told.Get("code"))
	if status != http.StatusOK || tokens["token_type"] != "Bearer" || tokens["scope"] != "media:read media:write" || tokens["expires_in"] != 3600.0 {
		t.Fatalf("tokens: %d %v", status, tokens)
	}
	b.at(second)
	status, who := b.whoami(tokens["access_token"].(string))
	if status != http.StatusOK || who["account"] != tenant.Account.ID.String() || who["app"] != account.DefaultApp || who["key"] != tenant.KeyID.String() {
		t.Fatalf("who it is: %d %v", status, who)
	}
	status, more := b.refresh(app, tokens["refresh_token"].(string))
	if status != http.StatusOK || more["access_token"] == tokens["access_token"] || more["refresh_token"] == tokens["refresh_token"] {
		t.Fatalf("refresh: %d %v", status, more)
	}
	for _, token := range []string{tokens["access_token"].(string), more["access_token"].(string)} {
		if status, _ := b.whoami(token); status != http.StatusOK {
			t.Errorf("after a refresh: %d", status)
		}
	}
}
