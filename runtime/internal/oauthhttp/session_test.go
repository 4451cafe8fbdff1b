package oauthhttp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

// A cookie that an attacker planted before the login is invalid after it (session fixation).
func TestCookie_ChangesAtLogin(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	thief, victim := rt.Browser(t), rt.Browser(t)
	app := thief.Application("App")
	planted := thief.Get(app.Query(nil))
	base, _ := url.Parse(webtest.BaseURL)
	victim.HTTP.Jar.SetCookies(base, thief.HTTP.Jar.Cookies(base))
	p := victim.Post("/oauth/login/email", planted, url.Values{"email": {webtest.Owner}})
	code, _ := rt.Code(t, webtest.Owner)
	p = victim.Post("/oauth/login/code", p, url.Values{"code": {code}})
	if p.StatusCode != http.StatusOK || !strings.Contains(p.Text, "The studio") {
		t.Fatalf("the victim: %d", p.StatusCode)
	}
	thief.Get("/oauth/login?request="+planted.Fields().Get("request")).Is(t, http.StatusNotFound, "the page that the thief gets")
	thief.Post("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}).Is(t, http.StatusNotFound, "the thief consents")
}

// The login for one client does not authorize a second client in the same browser
// (the confused deputy).
func TestLogin_IsSeparateForEveryAuthorizationRequest(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	b := w.Replica(t).Browser(t)
	good, evil := b.Application("Good"), b.Application("Evil", "https://evil.test/cb")
	consent := b.Login(good.Query(nil), webtest.Owner)
	p := b.Get(evil.Query(nil))
	if p.StatusCode != http.StatusOK || !strings.Contains(p.Text, `name="email"`) {
		t.Fatalf("the second application: %d %s", p.StatusCode, p.Text)
	}
	mixed := url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}, "request": {p.Fields().Get("request")}, "csrf": {p.Fields().Get("csrf")}}
	if p := b.Post("/oauth/consent", p, mixed); p.StatusCode != http.StatusOK || !strings.Contains(p.Text, `name="email"`) {
		t.Errorf("consent without a login: %d %s", p.StatusCode, p.Text)
	}
	if told := b.Allow(consent, tenant); told.Get("code") == "" { // tabs do not interfere
		t.Errorf("the first application: %v", told)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM oauth_grant WHERE client_id = $1", evil.ID); n != 0 {
		t.Error("the second application was connected")
	}
	p = b.Get(good.Query(nil))
	if !strings.Contains(p.Text, `name="email"`) {
		t.Error("the first application is connected again without a login")
	}
}

func TestCookie_IsRestrictedToTheHost(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	for base, want := range map[string]string{
		webtest.BaseURL:      "login-",
		"https://media.test": "__Host-login-",
	} {
		b := w.Replica(t, func(o *webtest.Options) { o.Base = base }).Browser(t)
		app := b.Application("App")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, runtimetest.Absolute(app.Query(url.Values{"resource": {base + "/mcp"}})), nil)
		must(t, err)
		for _, cookie := range b.Do(r).Cookies() {
			if !strings.HasPrefix(cookie.Name, want) || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" || cookie.Secure != (want[0] == '_') || cookie.MaxAge < 800 || cookie.MaxAge > 900 {
				t.Errorf("%s: %+v", base, cookie)
			}
			want = ""
		}
		if want != "" {
			t.Errorf("%s sets no cookie", base)
		}
	}
}

func TestCookie_OldOnesAreCleared(t *testing.T) {
	t.Parallel()
	b := webtest.NewWorld(t).Replica(t).Browser(t)
	app := b.Application("App")
	base, _ := url.Parse(webtest.BaseURL)
	for range 30 {
		b.Get(app.Query(nil))
		if n := len(b.HTTP.Jar.Cookies(base)); n > 9 {
			t.Fatalf("%d cookies", n)
		}
	}
}

func TestCookie_ClearingIsBounded(t *testing.T) {
	t.Parallel()
	b := webtest.NewWorld(t).Replica(t).Browser(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, runtimetest.Absolute(b.Application("App").Query(nil)), nil)
	must(t, err)
	for i := range 300 {
		r.AddCookie(&http.Cookie{Name: fmt.Sprintf("login-%d", i), Value: "x"})
	}
	p := b.Do(r)
	if set := p.Header.Values("Set-Cookie"); p.StatusCode != http.StatusSeeOther || len(set) != 21 || !strings.Contains(set[0], "Max-Age=0") || strings.Contains(set[20], "Max-Age=0") {
		t.Errorf("%d with %d cookies: %q", p.StatusCode, len(set), set)
	}
}
