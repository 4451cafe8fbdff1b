package oauthhttp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestPagesAreGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	app := b.application("App", "https://app.test/cb")
	check := func(name string, p page, formsTo string) {
		t.Helper()
		policy := p.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'" + formsTo + ";"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %q", name, policy, want)
			}
		}
		if p.Header.Get("X-Frame-Options") != "DENY" || p.Header.Get("Cache-Control") != "no-store" || p.Header.Get("Referrer-Policy") != "same-origin" || p.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", name, p.Header)
		}
		if p.Header.Get("Access-Control-Allow-Origin") != "" || strings.Contains(p.body, "<script") {
			t.Errorf("%s can be read or run by others", name)
		}
	}
	first := b.get(app.query(nil))
	check("the first page", first, "")
	check("a problem", b.get("/oauth/login?request=x"), "")
	p := b.post("/oauth/login/email", first, url.Values{"address": {owner}})
	check("the page of the code", p, "")
	code, _ := b.rt.code(t, owner)
	p = b.post("/oauth/login/code", p, url.Values{"code": {code}})
	check("the consent", p, " https://app.test")
	p = b.send("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}})
	check("the redirect", p, "")
	if p.StatusCode != http.StatusSeeOther {
		t.Errorf("the redirect is %d", p.StatusCode)
	}
}

func TestFormsCountFromOurOwnPagesInTheSameBrowserOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t)
	b, thief := rt.browser(t), rt.browser(t)
	app := b.application("App")
	first := b.get(app.query(nil))
	theirs := thief.get(app.query(nil))
	foreign := map[string]func(*http.Request){
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "https://evil.test"); r.Header.Del("Sec-Fetch-Site") },
		"a cross-site form": func(r *http.Request) {
			r.Header.Set("Origin", "https://evil.test")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		},
		"an unknown origin": func(r *http.Request) { r.Header.Set("Origin", "null"); r.Header.Del("Sec-Fetch-Site") },
		"a neighbour": func(r *http.Request) {
			r.Header.Set("Origin", "https://x.media.test")
			r.Header.Set("Sec-Fetch-Site", "same-site")
		},
		"another type": func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
	}
	step := func(path string, from page, fields url.Values) {
		t.Helper()
		for name, change := range foreign {
			if p := b.post(path, from, fields, change); p.StatusCode != http.StatusForbidden && p.StatusCode != http.StatusBadRequest {
				t.Errorf("%s from %s: %d", path, name, p.StatusCode)
			}
		}
		for name, wrong := range map[string]url.Values{
			"no token":          {"csrf": {""}},
			"another's token":   {"csrf": {theirs.fields().Get("csrf")}},
			"another's request": {"request": {theirs.fields().Get("request")}},
			"no request":        {"request": {""}},
			"a field twice":     {"csrf": {from.fields().Get("csrf"), "x"}},
		} {
			sent := url.Values{}
			for k, v := range fields {
				sent[k] = v
			}
			for k, v := range wrong {
				sent[k] = v
			}
			if p := b.post(path, from, sent); p.StatusCode/100 != 4 {
				t.Errorf("%s with %s: %d", path, name, p.StatusCode)
			}
		}
		// The thief has the whole form, but another browser.
		if p := thief.post(path, from, fields); p.StatusCode != http.StatusNotFound {
			t.Errorf("%s from another browser: %d", path, p.StatusCode)
		}
	}
	step("/oauth/login/email", first, url.Values{"address": {owner}})
	if _, ok := rt.code(t, owner); ok {
		t.Error("a forged form had a code mailed")
	}
	p := b.post("/oauth/login/email", first, url.Values{"address": {owner}})
	code, _ := rt.code(t, owner)
	before := p
	step("/oauth/login/code", p, url.Values{"code": {code}})
	p = b.post("/oauth/login/code", p, url.Values{"code": {code}})
	allow := url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}
	step("/oauth/consent", p, allow)
	// The token of the page before the login is worth nothing after it.
	if p := b.post("/oauth/consent", before, allow); p.StatusCode != http.StatusForbidden {
		t.Errorf("the form from before the login: %d", p.StatusCode)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM oauth_grant"); n != 0 {
		t.Errorf("%d grants by forged forms", n)
	}
	b.allow(p, tenant)
}

// A cookie that somebody planted before the login opens nothing after it (fixation).
func TestTheCookieChangesAtTheLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t)
	thief, victim := rt.browser(t), rt.browser(t)
	app := thief.application("App")
	planted := thief.get(app.query(nil))
	base, _ := url.Parse(baseURL)
	victim.http.Jar.SetCookies(base, thief.http.Jar.Cookies(base))
	p := victim.post("/oauth/login/email", planted, url.Values{"address": {owner}})
	code, _ := rt.code(t, owner)
	p = victim.post("/oauth/login/code", p, url.Values{"code": {code}})
	if p.StatusCode != http.StatusOK || !strings.Contains(p.body, "The studio") {
		t.Fatalf("the victim: %d", p.StatusCode)
	}
	if p := thief.get("/oauth/login?request=" + planted.fields().Get("request")); p.StatusCode != http.StatusNotFound {
		t.Errorf("the thief sees %d %s", p.StatusCode, p.body)
	}
	if p := thief.post("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}); p.StatusCode != http.StatusNotFound {
		t.Errorf("the thief consents: %d", p.StatusCode)
	}
}

// A second application in the same browser is not connected by the first one's login
// (the confused deputy).
func TestEveryApplicationNeedsALoginOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	good, evil := b.application("Good"), b.application("Evil", "https://evil.test/cb")
	consent := b.login(good.query(nil), owner)
	p := b.get(evil.query(nil))
	if p.StatusCode != http.StatusOK || !strings.Contains(p.body, `name="address"`) {
		t.Fatalf("the second application: %d %s", p.StatusCode, p.body)
	}
	mixed := url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}, "request": {p.fields().Get("request")}, "csrf": {p.fields().Get("csrf")}}
	if p := b.post("/oauth/consent", p, mixed); p.StatusCode != http.StatusOK || !strings.Contains(p.body, `name="address"`) {
		t.Errorf("consent without a login: %d %s", p.StatusCode, p.body)
	}
	if told := b.allow(consent, tenant); told.Get("code") == "" { // two tabs do not disturb each other
		t.Errorf("the first application: %v", told)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM oauth_grant WHERE client_id = $1", evil.id); n != 0 {
		t.Error("the second application was connected")
	}
	p = b.get(good.query(nil))
	if !strings.Contains(p.body, `name="address"`) {
		t.Error("the first application is connected again without a login")
	}
}

func TestCookiesAreHeldToTheHost(t *testing.T) {
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

func TestABrowserDoesNotDrownInCookies(t *testing.T) {
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

func TestAnAnswerTakesAFewCookiesAwayAtOnce(t *testing.T) {
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
