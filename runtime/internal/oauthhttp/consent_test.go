package oauthhttp_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest"
)

func TestConsent_DenyReturnsAccessDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	app := b.application("App")
	p := b.login(app.query(nil), owner)
	told := b.told(b.send("/oauth/consent", p, url.Values{"decision": {"deny"}}))
	if told.Get("error") != "access_denied" || told.Get("state") != "s t&te" || told.Get("iss") != baseURL || told.Has("code") {
		t.Errorf("the application is told %v", told)
	}
	b.post("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}).is(t, http.StatusNotFound, "consent after the denial")
}

func TestConsent_OffersOwnAccountsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two, other := w.tenant(t, "one", owner), w.tenant(t, "two", owner), w.tenant(t, "other", "bo@example.org")
	b := w.replica(t).browser(t)
	app := b.application("App")
	p := b.login(app.query(nil), owner)
	for _, of := range []runtimetest.Tenant{one, two} {
		if !strings.Contains(p.body, of.Account.ID.String()) {
			t.Errorf("%s is not offered", of.Account.Name)
		}
	}
	if strings.Contains(p.body, other.Account.ID.String()) {
		t.Error("another tenant's account is offered")
	}
	for name, fields := range map[string]url.Values{
		"no account":         {"decision": {"allow"}},
		"no decision":        {"account": {one.Account.ID.String()}},
		"another's account":  {"decision": {"allow"}, "account": {other.Account.ID.String()}},
		"one that never was": {"decision": {"allow"}, "account": {"0190a0a0-0000-7000-8000-000000000000"}},
		"garbage":            {"decision": {"allow"}, "account": {"x"}},
	} {
		if p := b.post("/oauth/consent", p, fields); p.StatusCode/100 != 4 || !strings.Contains(p.body, one.Account.ID.String()) {
			t.Errorf("%s: %d", name, p.StatusCode)
		}
	}
	status, tokens := b.redeem(app, b.allow(p, two).Get("code"))
	if status != http.StatusOK {
		t.Fatal(tokens)
	}
	if _, who := b.whoami(tokens["access_token"].(string)); who["account"] != two.Account.ID.String() {
		t.Errorf("connected to %v", who)
	}
}

func TestConsent_LinksTrustedWebsitesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	for website, want := range map[string]bool{"https://claude.ai/about": true, "https://claude.com/about": true, "https://evil.test/about": false, "https://claude.ai:8443/about": false} {
		_, made := b.json("/oauth/register", map[string]any{"client_name": "Claude " + website, "client_uri": website, "redirect_uris": []string{"https://claude.ai/cb"}})
		app := application{id: made["client_id"].(string), redirect: "https://claude.ai/cb", verifier: verifier}
		p := b.login(app.query(nil), owner)
		if p.StatusCode != http.StatusOK || !strings.Contains(p.body, "Allow") || strings.Contains(p.body, `href="`+website) != want {
			t.Errorf("%s: %d %s", website, p.StatusCode, p.body)
		}
	}
}

func TestConsent_OpensNativeApplicationByAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	studio := w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	app := b.application("Cursor", "cursor://anysphere.cursor-mcp/oauth/callback")
	opened := func(p page) url.Values {
		t.Helper()
		match := regexp.MustCompile(`<meta http-equiv="refresh" content="0;url=([^"]*)">`).FindStringSubmatch(p.body)
		if p.StatusCode != http.StatusOK || match == nil || p.Header.Get("Cache-Control") != "no-store" || strings.Count(p.body, match[1]) != 2 {
			t.Fatalf("no page that opens it: %d %v %s", p.StatusCode, p.Header, p.body)
		}
		to, err := url.Parse(html.UnescapeString(match[1]))
		must(t, err)
		if to.Scheme != "cursor" || to.Host != "anysphere.cursor-mcp" || to.Path != "/oauth/callback" {
			t.Errorf("it opens %s", to)
		}
		return to.Query()
	}
	told := opened(b.send("/oauth/consent", b.login(app.query(nil), owner), url.Values{"decision": {"allow"}, "account": {studio.Account.ID.String()}}))
	if told.Get("state") != "s t&te" || told.Get("iss") != baseURL {
		t.Errorf("it is told %v", told)
	}
	if status, response := b.redeem(app, told.Get("code")); status != http.StatusOK {
		t.Errorf("tokens: %d %v", status, response)
	}
	if told := opened(b.send("/oauth/consent", b.login(app.query(nil), owner), url.Values{"decision": {"deny"}})); told.Get("error") != "access_denied" || told.Get("state") != "s t&te" || told.Has("code") {
		t.Errorf("after a denial the response is %v", told)
	}
	if told := opened(b.get(app.query(url.Values{"scope": {"nothing"}}))); told.Get("error") != "invalid_scope" || told.Get("iss") != baseURL {
		t.Errorf("after a wrong wish it is told %v", told)
	}
}
