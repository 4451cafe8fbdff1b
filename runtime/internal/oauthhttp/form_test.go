package oauthhttp_test

import (
	"net/http"
	"net/url"
	"testing"
)

func TestForm_RequiresCSRFTokenAndCookie(t *testing.T) {
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
		// An attacker has the whole form, but not the cookie.
		thief.post(path, from, fields).is(t, http.StatusNotFound, "%s from another browser", path)
	}
	step("/oauth/login/email", first, url.Values{"email": {owner}})
	if _, ok := rt.code(t, owner); ok {
		t.Error("a forged form had a code mailed")
	}
	p := b.post("/oauth/login/email", first, url.Values{"email": {owner}})
	code, _ := rt.code(t, owner)
	before := p
	step("/oauth/login/code", p, url.Values{"code": {code}})
	p = b.post("/oauth/login/code", p, url.Values{"code": {code}})
	allow := url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}
	step("/oauth/consent", p, allow)
	// The CSRF token from before the login is invalid after it.
	b.post("/oauth/consent", before, allow).is(t, http.StatusForbidden, "the form from before the login")
	w.Counts(t, 0, "grants by forged forms", "SELECT count(*) FROM oauth_grant")
	b.allow(p, tenant)
}

func TestForm_RejectsInvalidText(t *testing.T) {
	t.Parallel()
	b := newWorld(t).replica(t).browser(t)
	for _, text := range []string{"\x00", "mrt_\x00", "\xff", "mrt_\xc3("} {
		for path, fields := range map[string]url.Values{
			"/oauth/token":  {"grant_type": {"refresh_token"}, "client_id": {"mcl_x"}, "refresh_token": {text}},
			"/oauth/revoke": {"client_id": {text}, "token": {"mrt_x"}},
		} {
			if status, response := b.form(path, fields); status != http.StatusBadRequest || response["error"] != "invalid_request" {
				t.Errorf("%s of %q: %d %v", path, text, status, response)
			}
		}
		p := b.get(b.application("App").query(url.Values{"login_hint": {text}, "ui_locales": {text}}))
		p.is(t, http.StatusOK, "a hint of %q", text)
		for _, fields := range []url.Values{{"email": {text}}, {"email": {"a" + text + "@example.org"}}, {"request": {text}}, {"csrf": {text}}} {
			b.post("/oauth/login/email", p, fields).is(t, http.StatusBadRequest, "%v", fields)
		}
	}
	b.get("/oauth/login?request=%00%ff").is(t, http.StatusNotFound, "a login without a name")
}
