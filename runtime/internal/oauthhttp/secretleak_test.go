package oauthhttp_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const owner = "ana@example.org"

func TestLog_ContainsNoSecret(t *testing.T) {
	t.Parallel()
	const owner = "maria@example.org" // in no text of a page
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t)
	b := rt.browser(t)
	app := b.application("App")
	p := b.post("/oauth/login/email", b.get(app.query(url.Values{"login_hint": {owner}})), url.Values{"email": {owner}})
	code, _ := rt.code(t, owner)
	b.post("/oauth/login/code", p, url.Values{"code": {code + "9"}})
	b.post("/oauth/login/email", p, url.Values{"email": {"no address but secret"}})
	p = b.post("/oauth/login/code", p, url.Values{"code": {code}})
	granted := b.allow(p, tenant).Get("code")
	status, tokens := b.redeem(app, granted)
	if status != http.StatusOK {
		t.Fatal(tokens)
	}
	access, refresh := tokens["access_token"].(string), tokens["refresh_token"].(string)
	b.whoami(access)
	_, more := b.refresh(app, refresh)
	b.redeem(app, granted) // a replay
	b.refresh(app, refresh)
	b.form("/oauth/revoke", url.Values{"token": {access}})
	base, _ := url.Parse(baseURL)
	secrets := map[string]string{"the code": code, "the authorization code": granted, "the access token": access, "the refresh token": refresh, "the address": owner, "what was typed": "no address but secret",
		"the state": "s t&te", "the verifier": app.verifier}
	if token, ok := more["access_token"].(string); ok {
		secrets["another access token"] = token
	}
	for _, cookie := range b.http.Jar.Cookies(base) {
		secrets["the cookie"] = cookie.Value
	}
	logged := rt.logs.String()
	for name, secret := range secrets {
		for _, form := range []string{secret, url.QueryEscape(secret)} {
			if name == "the code" {
				form = `"` + form + `"` // digits alone stand in many a number
			}
			if strings.Contains(logged, form) {
				t.Errorf("%s is in the log: %s", name, logged[max(0, strings.Index(logged, form)-200):min(len(logged), strings.Index(logged, form)+100)])
			}
		}
	}
	for _, want := range []string{"m***@example.org", "logged in", "oauth grant created", "the code was used before"} {
		if !strings.Contains(logged, want) {
			t.Errorf("the log says nothing of %q", want)
		}
	}
}

func TestPages_RevealNoInternalErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.replica(t)
	b := rt.browser(t)
	app := b.application("App")
	first := b.get(app.query(nil))
	w.exec(t, "ALTER TABLE login_session RENAME COLUMN email TO gone")
	w.exec(t, "ALTER TABLE oauth_client RENAME COLUMN name TO gone")
	w.exec(t, "ALTER TABLE oauth_token RENAME COLUMN hash TO gone")
	for name, p := range map[string]page{"authorize": b.get(app.query(nil)), "the login": b.get("/oauth/login?request=" + first.fields().Get("request")), "the address": b.post("/oauth/login/email", first, url.Values{"email": {owner}})} {
		if p.StatusCode != http.StatusServiceUnavailable || leaks(p.body) {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.body)
		}
	}
	for name, response := range map[string]func() (int, map[string]any){
		"register": func() (int, map[string]any) {
			return b.json("/oauth/register", map[string]any{"redirect_uris": []string{"https://new.test/"}})
		},
		"refresh": func() (int, map[string]any) { return b.refresh(app, "mrt_"+strings.Repeat("a", 46)) },
	} {
		status, body := response()
		text, _ := json.Marshal(body)
		if status != http.StatusServiceUnavailable || body["error"] != "temporarily_unavailable" || leaks(string(text)) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

func leaks(text string) bool {
	for _, word := range []string{"SQL", "column", "login_", "pgx", "postgres"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
