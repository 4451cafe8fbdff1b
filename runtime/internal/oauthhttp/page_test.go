package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestPages_HaveSecurityHeaders(t *testing.T) {
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
	p := b.post("/oauth/login/email", first, url.Values{"email": {owner}})
	check("the page of the code", p, "")
	code, _ := b.rt.code(t, owner)
	p = b.post("/oauth/login/code", p, url.Values{"code": {code}})
	check("the consent", p, " https://app.test")
	p = b.send("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}})
	check("the redirect", p, "")
	p.is(t, http.StatusSeeOther, "the redirect")
}
