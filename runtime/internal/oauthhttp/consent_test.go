package oauthhttp_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

func TestConsent_DenyReturnsAccessDenied(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	b := w.Replica(t).Browser(t)
	app := b.Application("App")
	p := b.Login(app.Query(nil), webtest.Owner)
	told := b.Told(b.Send("/oauth/consent", p, url.Values{"decision": {"deny"}}))
	if told.Get("error") != "access_denied" || told.Get("state") != "s t&te" || told.Get("iss") != webtest.BaseURL || told.Has("code") {
		t.Errorf("the application is told %v", told)
	}
	b.Post("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}).Is(t, http.StatusNotFound, "consent after the denial")
}

func TestConsent_OffersOwnAccountsOnly(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	one, two, other := w.OwnedTenant(t, "one", webtest.Owner), w.OwnedTenant(t, "two", webtest.Owner), w.OwnedTenant(t, "other", "bo@example.org")
	b := w.Replica(t).Browser(t)
	app := b.Application("App")
	p := b.Login(app.Query(nil), webtest.Owner)
	for _, of := range []runtimetest.Tenant{one, two} {
		if !strings.Contains(p.Text, of.Account.ID.String()) {
			t.Errorf("%s is not offered", of.Account.Name)
		}
	}
	if strings.Contains(p.Text, other.Account.ID.String()) {
		t.Error("another tenant's account is offered")
	}
	for name, fields := range map[string]url.Values{
		"no account":         {"decision": {"allow"}},
		"no decision":        {"account": {one.Account.ID.String()}},
		"another's account":  {"decision": {"allow"}, "account": {other.Account.ID.String()}},
		"one that never was": {"decision": {"allow"}, "account": {"0190a0a0-0000-7000-8000-000000000000"}},
		"garbage":            {"decision": {"allow"}, "account": {"x"}},
	} {
		if p := b.Post("/oauth/consent", p, fields); p.StatusCode/100 != 4 || !strings.Contains(p.Text, one.Account.ID.String()) {
			t.Errorf("%s: %d", name, p.StatusCode)
		}
	}
	status, tokens := b.Redeem(app, b.Allow(p, two).Get("code"))
	if status != http.StatusOK {
		t.Fatal(tokens)
	}
	if _, who := b.Whoami(tokens["access_token"].(string)); who["account"] != two.Account.ID.String() {
		t.Errorf("connected to %v", who)
	}
}

func TestConsent_LinksTrustedWebsitesOnly(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	b := w.Replica(t).Browser(t)
	for website, want := range map[string]bool{"https://claude.ai/about": true, "https://claude.com/about": true, "https://evil.test/about": false, "https://claude.ai:8443/about": false} {
		_, made := b.JSON("/oauth/register", map[string]any{"client_name": "Claude " + website, "client_uri": website, "redirect_uris": []string{"https://claude.ai/cb"}})
		app := webtest.Application{ID: made["client_id"].(string), Redirect: "https://claude.ai/cb", Verifier: webtest.Verifier}
		p := b.Login(app.Query(nil), webtest.Owner)
		if p.StatusCode != http.StatusOK || !strings.Contains(p.Text, "Allow") || strings.Contains(p.Text, `href="`+website) != want {
			t.Errorf("%s: %d %s", website, p.StatusCode, p.Text)
		}
	}
}

func TestConsent_OpensNativeApplicationByAPage(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	studio := w.OwnedTenant(t, "studio", webtest.Owner)
	b := w.Replica(t).Browser(t)
	app := b.Application("Cursor", "cursor://anysphere.cursor-mcp/oauth/callback")
	opened := func(p webtest.Page) url.Values {
		t.Helper()
		match := regexp.MustCompile(`<meta http-equiv="refresh" content="0;url=([^"]*)">`).FindStringSubmatch(p.Text)
		if p.StatusCode != http.StatusOK || match == nil || p.Header.Get("Cache-Control") != "no-store" || strings.Count(p.Text, match[1]) != 2 {
			t.Fatalf("no page that opens it: %d %v %s", p.StatusCode, p.Header, p.Text)
		}
		to, err := url.Parse(html.UnescapeString(match[1]))
		must(t, err)
		if to.Scheme != "cursor" || to.Host != "anysphere.cursor-mcp" || to.Path != "/oauth/callback" {
			t.Errorf("it opens %s", to)
		}
		return to.Query()
	}
	told := opened(b.Send("/oauth/consent", b.Login(app.Query(nil), webtest.Owner), url.Values{"decision": {"allow"}, "account": {studio.Account.ID.String()}}))
	if told.Get("state") != "s t&te" || told.Get("iss") != webtest.BaseURL {
		t.Errorf("it is told %v", told)
	}
	if status, response := b.Redeem(app, told.Get("code")); status != http.StatusOK {
		t.Errorf("tokens: %d %v", status, response)
	}
	if told := opened(b.Send("/oauth/consent", b.Login(app.Query(nil), webtest.Owner), url.Values{"decision": {"deny"}})); told.Get("error") != "access_denied" || told.Get("state") != "s t&te" || told.Has("code") {
		t.Errorf("after a denial the response is %v", told)
	}
	if told := opened(b.Get(app.Query(url.Values{"scope": {"nothing"}}))); told.Get("error") != "invalid_scope" || told.Get("iss") != webtest.BaseURL {
		t.Errorf("after a wrong wish it is told %v", told)
	}
}

// The names of resources are for administrators: a page has them where an account has no name of its own, or shares it.
func TestConsent_NamesAccountsAsTheirOwnersDo(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	rt := w.Replica(t, webtest.Many)
	studio := w.OwnedTenant(t, "studio", webtest.Owner)
	pages := func() (consent, choice string) {
		t.Helper()
		b := rt.Browser(t)
		return b.Login(b.Application("App").Query(nil), webtest.Owner).Text, rt.Browser(t).Login("/account/activity", webtest.Owner).Text
	}
	has := func(what string, want bool, names ...string) {
		t.Helper()
		consent, choice := pages()
		for _, name := range names {
			if strings.Contains(consent, name) != want || strings.Contains(choice, name) != want {
				t.Errorf("%s: %s is on the consent page: %t, and where an account is chosen: %t", what, name, strings.Contains(consent, name), strings.Contains(choice, name))
			}
		}
	}
	of := func(tenant runtimetest.Tenant) string { return tenant.Account.Namespace + "/" + tenant.Account.Name }
	archive := w.OwnedTenant(t, "archive", webtest.Owner)
	has("two names", false, of(studio), of(archive))
	has("two names", true, "The studio", "The archive")
	w.Change(t, archive, func(s *account.Spec) { s.DisplayName = "the Studio " })
	has("one name twice", true, of(studio), of(archive))
	w.Change(t, archive, func(s *account.Spec) { s.DisplayName = "" })
	has("no name", true, of(archive))
	has("no name", false, of(studio))
}
