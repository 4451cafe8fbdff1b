package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

func TestPages_HaveSecurityHeaders(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	b := w.Replica(t).Browser(t)
	app := b.Application("App", "https://app.test/cb")
	check := func(name string, p webtest.Page, formsTo string) {
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
		if p.Header.Get("Access-Control-Allow-Origin") != "" || strings.Contains(p.Text, "<script") {
			t.Errorf("%s can be read or run by others", name)
		}
	}
	first := b.Get(app.Query(nil))
	check("the first page", first, "")
	check("a problem", b.Get("/oauth/login?request=x"), "")
	p := b.Post("/oauth/login/email", first, url.Values{"email": {webtest.Owner}})
	check("the page of the code", p, "")
	code, _ := b.Replica.Code(t, webtest.Owner)
	p = b.Post("/oauth/login/code", p, url.Values{"code": {code}})
	check("the consent", p, " https://app.test")
	p = b.Send("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}})
	check("the redirect", p, "")
	p.Is(t, http.StatusSeeOther, "the redirect")
}
