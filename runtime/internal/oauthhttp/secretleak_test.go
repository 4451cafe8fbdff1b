package oauthhttp_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

func TestLog_ContainsNoSecret(t *testing.T) {
	t.Parallel()
	const owner = "maria@example.org" // in no text of a page
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", owner)
	rt := w.Replica(t)
	b := rt.Browser(t)
	app := b.Application("App")
	p := b.Post("/oauth/login/email", b.Get(app.Query(url.Values{"login_hint": {owner}})), url.Values{"email": {owner}})
	code, _ := rt.Code(t, owner)
	b.Post("/oauth/login/code", p, url.Values{"code": {code + "9"}})
	b.Post("/oauth/login/email", p, url.Values{"email": {"no address but secret"}})
	p = b.Post("/oauth/login/code", p, url.Values{"code": {code}})
	granted := b.Allow(p, tenant).Get("code")
	status, tokens := b.Redeem(app, granted)
	if status != http.StatusOK {
		t.Fatal(tokens)
	}
	access, refresh := tokens["access_token"].(string), tokens["refresh_token"].(string)
	b.Whoami(access)
	_, more := b.Refresh(app, refresh)
	b.Redeem(app, granted) // a replay
	b.Refresh(app, refresh)
	b.Form("/oauth/revoke", url.Values{"token": {access}})
	base, _ := url.Parse(webtest.BaseURL)
	secrets := map[string]string{"the code": code, "the authorization code": granted, "the access token": access, "the refresh token": refresh, "the address": owner, "what was typed": "no address but secret",
		"the state": "s t&te", "the verifier": app.Verifier}
	if token, ok := more["access_token"].(string); ok {
		secrets["another access token"] = token
	}
	for _, cookie := range b.HTTP.Jar.Cookies(base) {
		secrets["the cookie"] = cookie.Value
	}
	logged := rt.Logs.String()
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
	w := webtest.NewWorld(t)
	rt := w.Replica(t)
	b := rt.Browser(t)
	app := b.Application("App")
	first := b.Get(app.Query(nil))
	w.Exec(t, "ALTER TABLE login_session RENAME COLUMN email TO gone")
	w.Exec(t, "ALTER TABLE oauth_client RENAME COLUMN name TO gone")
	w.Exec(t, "ALTER TABLE oauth_token RENAME COLUMN hash TO gone")
	for name, p := range map[string]webtest.Page{"authorize": b.Get(app.Query(nil)), "the login": b.Get("/oauth/login?request=" + first.Fields().Get("request")), "the address": b.Post("/oauth/login/email", first, url.Values{"email": {webtest.Owner}})} {
		if p.StatusCode != http.StatusServiceUnavailable || leaks(p.Text) {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.Text)
		}
	}
	for name, response := range map[string]func() (int, map[string]any){
		"register": func() (int, map[string]any) {
			return b.JSON("/oauth/register", map[string]any{"redirect_uris": []string{"https://new.test/"}})
		},
		"refresh": func() (int, map[string]any) { return b.Refresh(app, "mrt_"+strings.Repeat("a", 46)) },
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
