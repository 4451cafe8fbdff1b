package oauthhttp_test

import (
	"net/http"
	"net/url"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

func TestForm_RequiresCSRFTokenAndCookie(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	b, thief := rt.Browser(t), rt.Browser(t)
	app := b.Application("App")
	first := b.Get(app.Query(nil))
	theirs := thief.Get(app.Query(nil))
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
	step := func(path string, from webtest.Page, fields url.Values) {
		t.Helper()
		for name, change := range foreign {
			if p := b.Post(path, from, fields, change); p.StatusCode != http.StatusForbidden && p.StatusCode != http.StatusBadRequest {
				t.Errorf("%s from %s: %d", path, name, p.StatusCode)
			}
		}
		for name, wrong := range map[string]url.Values{
			"no token":          {"csrf": {""}},
			"another's token":   {"csrf": {theirs.Fields().Get("csrf")}},
			"another's request": {"request": {theirs.Fields().Get("request")}},
			"no request":        {"request": {""}},
			"a field twice":     {"csrf": {from.Fields().Get("csrf"), "x"}},
		} {
			sent := url.Values{}
			for k, v := range fields {
				sent[k] = v
			}
			for k, v := range wrong {
				sent[k] = v
			}
			if p := b.Post(path, from, sent); p.StatusCode/100 != 4 {
				t.Errorf("%s with %s: %d", path, name, p.StatusCode)
			}
		}
		// An attacker has the whole form, but not the cookie.
		thief.Post(path, from, fields).Is(t, http.StatusNotFound, "%s from another browser", path)
	}
	step("/oauth/login/email", first, url.Values{"email": {webtest.Owner}})
	if _, ok := rt.Code(t, webtest.Owner); ok {
		t.Error("a forged form had a code mailed")
	}
	p := b.Post("/oauth/login/email", first, url.Values{"email": {webtest.Owner}})
	code, _ := rt.Code(t, webtest.Owner)
	before := p
	step("/oauth/login/code", p, url.Values{"code": {code}})
	p = b.Post("/oauth/login/code", p, url.Values{"code": {code}})
	allow := url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}
	step("/oauth/consent", p, allow)
	// The CSRF token from before the login is invalid after it.
	b.Post("/oauth/consent", before, allow).Is(t, http.StatusForbidden, "the form from before the login")
	w.Counts(t, 0, "grants by forged forms", "SELECT count(*) FROM oauth_grant")
	b.Allow(p, tenant)
}

func TestForm_RejectsInvalidText(t *testing.T) {
	t.Parallel()
	b := webtest.NewWorld(t).Replica(t).Browser(t)
	for _, text := range []string{"\x00", "mrt_\x00", "\xff", "mrt_\xc3("} {
		for path, fields := range map[string]url.Values{
			"/oauth/token":  {"grant_type": {"refresh_token"}, "client_id": {"mcl_x"}, "refresh_token": {text}},
			"/oauth/revoke": {"client_id": {text}, "token": {"mrt_x"}},
		} {
			if status, response := b.Form(path, fields); status != http.StatusBadRequest || response["error"] != "invalid_request" {
				t.Errorf("%s of %q: %d %v", path, text, status, response)
			}
		}
		p := b.Get(b.Application("App").Query(url.Values{"login_hint": {text}, "ui_locales": {text}}))
		p.Is(t, http.StatusOK, "a hint of %q", text)
		for _, fields := range []url.Values{{"email": {text}}, {"email": {"a" + text + "@example.org"}}, {"request": {text}}, {"csrf": {text}}} {
			b.Post("/oauth/login/email", p, fields).Is(t, http.StatusBadRequest, "%v", fields)
		}
	}
	b.Get("/oauth/login?request=%00%ff").Is(t, http.StatusNotFound, "a login without a name")
}
