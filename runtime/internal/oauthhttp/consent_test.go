package oauthhttp_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

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

// A user who was asked by an application what it may do did not learn that it has to ask again.
func TestConsent_SaysWhatAnOwnerIsAskedAbout(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	rt := w.Replica(t, webtest.Many)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	const asked = "an owner of this account is asked, and has to allow it on a page of this service."
	for _, tt := range []struct {
		what   string
		policy account.ToolPolicy
		scope  string
		want   string // empty = nobody is asked
	}{
		{"nothing waits", account.ToolPolicy{}, "media:read media:write media:delete", ""},
		{"everything waits", account.ToolPolicy{Approval: account.Approval{Delete: account.RuleAlways, Publish: account.RuleAlways, Settings: account.RuleAlways}}, "media:read media:write media:delete",
			"Before it deletes files, makes files public or changes the settings for images, " + asked},
		{"a scope that deletes nothing", account.ToolPolicy{Approval: account.Approval{Delete: account.RuleAlways, Publish: account.RuleAlways}}, "media:read media:write", "Before it makes files public, " + asked},
		{"a scope that changes nothing", account.ToolPolicy{Approval: account.Approval{Delete: account.RuleAlways, Publish: account.RuleAlways}}, "media:read", ""},
		{"many deletes", account.ToolPolicy{Approval: account.Approval{Delete: account.RuleBulk, BulkItems: 20, BulkWindow: time.Hour, Settings: account.RuleAlways}}, "media:write media:delete",
			"Before it deletes more than 20 files in 1 hour or changes the settings for images, " + asked},
		{"deletes that the account does not permit", account.ToolPolicy{Tools: []string{"list_media"}, Approval: account.Approval{Delete: account.RuleAlways}}, "media:read media:delete", ""},
	} {
		w.Change(t, tenant, func(s *account.Spec) { s.ToolPolicy = tt.policy })
		b := rt.Browser(t)
		app := b.Application("App " + tt.what)
		p := b.Login(app.Query(url.Values{"scope": {tt.scope}}), webtest.Owner)
		if p.StatusCode != http.StatusOK || strings.Contains(p.Text, tt.want) != true || strings.Contains(p.Text, asked) != (tt.want != "") {
			t.Errorf("%s: %d %s", tt.what, p.StatusCode, p.Text)
		}
		if status, _ := b.Redeem(app, b.Allow(p, tenant).Get("code")); status != http.StatusOK {
			t.Fatalf("%s: the tokens are answered %d", tt.what, status)
		}
		connections := rt.Browser(t).Login("/account/connections", webtest.Owner).Text
		if at := strings.Index(connections, "App "+tt.what); at < 0 || !strings.Contains(connections[at:], tt.want) {
			t.Errorf("%s: the list of applications is %s", tt.what, connections)
		}
	}
	// Where the user has not chosen yet, each account has its own.
	other := w.OwnedTenant(t, "archive", webtest.Owner)
	w.Change(t, other, func(s *account.Spec) { s.ToolPolicy.Approval.Settings = account.RuleAlways })
	w.Change(t, tenant, func(s *account.Spec) { s.ToolPolicy = account.ToolPolicy{} })
	b := rt.Browser(t)
	if p := b.Login(b.Application("App").Query(nil), webtest.Owner); strings.Count(p.Text, asked) != 1 || !strings.Contains(p.Text, "Before it changes the settings for images, ") {
		t.Errorf("with two accounts: %s", p.Text)
	}
}
