package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

func TestLogin_AuthorizesAnApplication(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", "ana@example.org")
	first, second := w.Replica(t), w.Replica(t)
	b := first.Browser(t)
	app := b.Application("Assistant")

	p := b.Get(app.Query(nil))
	if p.StatusCode != http.StatusOK || !strings.Contains(p.Text, "Assistant") {
		t.Fatalf("the first page: %d %s", p.StatusCode, p.Text)
	}
	b.At(second) // every step on the other replica
	p = b.Post("/oauth/login/email", p, url.Values{"email": {" Ana@Example.org "}})
	b.At(first)
	code, ok := second.Code(t, "ana@example.org")
	if !ok {
		t.Fatal("no code was mailed")
	}
	p = b.Post("/oauth/login/code", p, url.Values{"code": {code[:3] + " " + code[3:]}})
	if p.StatusCode != http.StatusOK || !strings.Contains(p.Text, "The studio") {
		t.Fatalf("the consent: %d %s", p.StatusCode, p.Text)
	}
	b.At(second)
	told := b.Allow(p, tenant)
	if told.Get("state") != "s t&te" || told.Get("iss") != webtest.BaseURL || told.Get("error") != "" {
		t.Fatalf("the application is told %v", told)
	}
	b.At(first)
	status, tokens := b.Redeem(app, told.Get("code"))
	if status != http.StatusOK || tokens["token_type"] != "Bearer" || tokens["scope"] != "media:read media:write" || tokens["expires_in"] != 3600.0 {
		t.Fatalf("tokens: %d %v", status, tokens)
	}
	b.At(second)
	status, who := b.Whoami(tokens["access_token"].(string))
	if status != http.StatusOK || who["account"] != tenant.Account.ID.String() || who["app"] != account.DefaultApp || who["key"] != tenant.KeyID.String() {
		t.Fatalf("who it is: %d %v", status, who)
	}
	status, more := b.Refresh(app, tokens["refresh_token"].(string))
	if status != http.StatusOK || more["access_token"] == tokens["access_token"] || more["refresh_token"] == tokens["refresh_token"] {
		t.Fatalf("refresh: %d %v", status, more)
	}
	for _, token := range []string{tokens["access_token"].(string), more["access_token"].(string)} {
		if status, _ := b.Whoami(token); status != http.StatusOK {
			t.Errorf("after a refresh: %d", status)
		}
	}
}
