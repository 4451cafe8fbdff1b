package oauthhttp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A cookie that an attacker planted before the login is invalid after it (session fixation).
func TestCookie_ChangesAtLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t)
	thief, victim := rt.browser(t), rt.browser(t)
	app := thief.application("App")
	planted := thief.get(app.query(nil))
	base, _ := url.Parse(baseURL)
	victim.http.Jar.SetCookies(base, thief.http.Jar.Cookies(base))
	p := victim.post("/oauth/login/email", planted, url.Values{"email": {owner}})
	code, _ := rt.code(t, owner)
	p = victim.post("/oauth/login/code", p, url.Values{"code": {code}})
	if p.StatusCode != http.StatusOK || !strings.Contains(p.body, "The studio") {
		t.Fatalf("the victim: %d", p.StatusCode)
	}
	thief.get("/oauth/login?request="+planted.fields().Get("request")).is(t, http.StatusNotFound, "the page that the thief gets")
	thief.post("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}).is(t, http.StatusNotFound, "the thief consents")
}

// The login for one client does not authorize a second client in the same browser
// (the confused deputy).
func TestLogin_IsSeparateForEveryAuthorizationRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	good, evil := b.application("Good"), b.application("Evil", "https://evil.test/cb")
	consent := b.login(good.query(nil), owner)
	p := b.get(evil.query(nil))
	if p.StatusCode != http.StatusOK || !strings.Contains(p.body, `name="email"`) {
		t.Fatalf("the second application: %d %s", p.StatusCode, p.body)
	}
	mixed := url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}, "request": {p.fields().Get("request")}, "csrf": {p.fields().Get("csrf")}}
	if p := b.post("/oauth/consent", p, mixed); p.StatusCode != http.StatusOK || !strings.Contains(p.body, `name="email"`) {
		t.Errorf("consent without a login: %d %s", p.StatusCode, p.body)
	}
	if told := b.allow(consent, tenant); told.Get("code") == "" { // tabs do not interfere
		t.Errorf("the first application: %v", told)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM oauth_grant WHERE client_id = $1", evil.id); n != 0 {
		t.Error("the second application was connected")
	}
	p = b.get(good.query(nil))
	if !strings.Contains(p.body, `name="email"`) {
		t.Error("the first application is connected again without a login")
	}
}

func TestCookie_IsRestrictedToTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for base, want := range map[string]string{
		baseURL:              "login-",
		"https://media.test": "__Host-login-",
	} {
		b := w.replica(t, func(o *options) { o.base = base }).browser(t)
		app := b.application("App")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, absolute(app.query(url.Values{"resource": {base + "/mcp"}})), nil)
		must(t, err)
		for _, cookie := range b.do(r).Cookies() {
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
	b := newWorld(t).replica(t).browser(t)
	app := b.application("App")
	base, _ := url.Parse(baseURL)
	for range 30 {
		b.get(app.query(nil))
		if n := len(b.http.Jar.Cookies(base)); n > 9 {
			t.Fatalf("%d cookies", n)
		}
	}
}

func TestCookie_ClearingIsBounded(t *testing.T) {
	t.Parallel()
	b := newWorld(t).replica(t).browser(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, absolute(b.application("App").query(nil)), nil)
	must(t, err)
	for i := range 300 {
		r.AddCookie(&http.Cookie{Name: fmt.Sprintf("login-%d", i), Value: "x"})
	}
	p := b.do(r)
	if set := p.Header.Values("Set-Cookie"); p.StatusCode != http.StatusSeeOther || len(set) != 21 || !strings.Contains(set[0], "Max-Age=0") || strings.Contains(set[20], "Max-Age=0") {
		t.Errorf("%d with %d cookies: %q", p.StatusCode, len(set), set)
	}
}
