package oauthhttp_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

// cookieOf returns the cookie of a login that a response sets, or nil.
func cookieOf(p webtest.Page, request string) *http.Cookie {
	for _, cookie := range p.Cookies() {
		if cookie.Name == "login-"+request {
			return cookie
		}
	}
	return nil
}

// The session ended 15 minutes after the login, also while the page was in use.
func TestSession_IsExtendedByUseUpToItsBound(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	clock := &runtimetest.Clock{}
	replicas := []*webtest.Replica{w.Replica(t, func(o *webtest.Options) { o.Clock = clock }), w.Replica(t, func(o *webtest.Options) { o.Clock = clock })}
	b := replicas[0].Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	request := p.Fields().Get("request")
	link := "/account/files?request=" + request + "&account=" + tenant.Account.ID.String()
	if p := b.Get(link); cookieOf(p, request) != nil {
		t.Error("each request extends the session")
	}
	const step = 10 * time.Minute
	passed := time.Duration(0)
	for n := 0; passed+step < 12*time.Hour; n++ {
		clock.Advance(step)
		passed += step
		b.At(replicas[n%2])
		if n%2 == 1 { // a form is use, too
			p = b.Send("/account/files/seal", p, url.Values{"account": {tenant.Account.ID.String()}, "item": {"x"}})
			p.Says(t, http.StatusNotFound, "There is no such file.")
		} else {
			p = b.Get(link)
			p.Says(t, http.StatusOK, "Files of")
		}
		cookie := cookieOf(p, request)
		if cookie == nil || cookie.MaxAge < int((10*time.Minute-time.Minute).Seconds()) || cookie.MaxAge > 900 || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode {
			if left := 12*time.Hour - passed; left > 15*time.Minute || cookie != nil && cookie.MaxAge > int(left.Seconds()) {
				t.Fatalf("after %s the cookie is %+v", passed, cookie)
			}
		}
	}
	clock.Advance(12*time.Hour - passed)
	b.Get(link).Says(t, http.StatusOK, "Log in", "Your login has ended.")

	// Without use it ends as before.
	p = b.Login("/account/files", webtest.Owner)
	clock.Advance(15 * time.Minute)
	b.Get(p.Action(t, "/account/files")).Says(t, http.StatusOK, "Log in", "Your login has ended.")
}

func TestSession_IsNotExtendedWithoutABoundOrByAnApplication(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Login.MaxTTL = 0 })
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	rt.Clock.Advance(10 * time.Minute)
	b.Get(p.Action(t, "/account/files")).Says(t, http.StatusOK, "Files of")
	rt.Clock.Advance(6 * time.Minute)
	b.Get(p.Action(t, "/account/files")).Says(t, http.StatusOK, "Your login has ended.")

	rt = w.Replica(t, webtest.Many)
	b = rt.Browser(t)
	consent := b.Login(b.Application("App").Query(nil), webtest.Owner)
	rt.Clock.Advance(10 * time.Minute)
	at := "/oauth/login?request=" + consent.Fields().Get("request")
	b.Get(at).Says(t, http.StatusOK, "Allow")
	b.Post("/oauth/consent", consent, url.Values{"decision": {"perhaps"}}).Says(t, http.StatusBadRequest, "Choose Allow or Deny.")
	rt.Clock.Advance(6 * time.Minute)
	b.Get(at).Says(t, http.StatusNotFound, "Login expired")
}

// Who pressed "Log out" after the end of the session read that the login had expired, and was asked to log in again.
func TestSession_LogoutAfterItsEndIsALogout(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	rt.Clock.Advance(16 * time.Minute)
	for range 2 { // the button of another tab
		out := b.Post("/account/connections/logout", p, nil)
		out.Says(t, http.StatusOK, "Log in", "You are logged out.")
		if cookieOf(out, p.Fields().Get("request")) != nil || strings.Contains(out.Text, "Files of") {
			t.Errorf("after the logout: %s", out.Text)
		}
	}
	site := func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	before := w.QueryInt(t, "SELECT count(*) FROM login_session")
	b.Send("/account/connections/logout", p, nil, site).Says(t, http.StatusForbidden, "The form came from another site.")
	if after := w.QueryInt(t, "SELECT count(*) FROM login_session"); after != before {
		t.Errorf("another site began %d logins", after-before)
	}
	b.Post("/account/connections/revoke", p, url.Values{"all": {"1"}}).Says(t, http.StatusNotFound, "Login expired", "Nothing was changed.")
}

// An address that was shortened, and that of a form after an error, were answered with JSON.
func TestAccount_AddressesOfFormsLeadToTheirPages(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	for files, want := range map[bool]string{true: "/account/files", false: "/account/connections"} {
		rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Files.Enabled = files })
		b := rt.Browser(t)
		for path, want := range map[string]string{"/account": want, "/account/connections/logout": "/account/connections", "/account/connections/revoke": "/account/connections"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, runtimetest.Absolute(path), nil)
			must(t, err)
			if got := b.Do(r); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != want {
				t.Errorf("%s: %d %s, want %s", path, got.StatusCode, got.Header.Get("Location"), want)
			}
			b.Get(path).Says(t, http.StatusOK, "Log in")
		}
	}
}

// A session that ended stays ended, with any cookie.
func TestSession_LogoutEndsWhatUseExtends(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	link := p.Action(t, "/account/files")
	address, err := url.Parse(webtest.BaseURL)
	must(t, err)
	kept := b.HTTP.Jar.Cookies(address)
	rt.Clock.Advance(10 * time.Minute)
	out := b.Post("/account/connections/logout", p, nil)
	out.Says(t, http.StatusOK, "You are logged out.")
	thief := rt.Browser(t)
	thief.HTTP.Jar.SetCookies(address, kept)
	for range 2 {
		if got := thief.Get(link); strings.Contains(got.Text, "Files of") {
			t.Fatal("a session that was logged out shows files")
		}
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM login_session WHERE id = $1 AND ended_at IS NOT NULL", p.Fields().Get("request")); n != 1 {
		t.Error("the session has not ended")
	}
}

// A cookie that others planted, and parameters, lead to pages of the files only.
func TestLogin_LeadsToNoOtherSite(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	address, err := url.Parse(webtest.BaseURL)
	must(t, err)
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for name, to := range map[string]string{
		"another page":        "//evil.example." + encode("state=draft"),
		"no parameters":       "files.%%%",
		"unreadable ones":     "files." + encode("%zz"),
		"foreign ones":        "files." + encode("request=x&next=https://evil.example&done=deleted&deleted=1&csrf=1&state=draft"),
		"lines":               "files." + encode("state=draft%0d%0aSet-Cookie:%20a=b"),
		"very many":           "files." + encode("name="+strings.Repeat("x", 4000)),
		"an item of nobody":   "delete." + encode("item=1&account=x&back=//evil.example"),
		"a question about no": "delete",
		"more parts":          "files.." + encode("state=draft") + ".x",
	} {
		b := rt.Browser(t)
		p := b.Get("/account/files")
		request := p.Fields().Get("request")
		b.Post("/oauth/login/email", p, url.Values{"email": {webtest.Owner}})
		code, _ := rt.Code(t, webtest.Owner)
		for _, cookie := range b.HTTP.Jar.Cookies(address) {
			secret, _, _ := strings.Cut(cookie.Value, ".")
			b.HTTP.Jar.SetCookies(address, []*http.Cookie{{Name: cookie.Name, Value: secret + "." + to, Path: "/"}})
		}
		p = b.Send("/oauth/login/code", p, url.Values{"code": {code}})
		for range 3 {
			if p.StatusCode != http.StatusSeeOther {
				break
			}
			target, err := url.Parse(p.Header.Get("Location"))
			must(t, err)
			query := target.Query()
			if target.Host != "" || !strings.HasPrefix(target.Path, "/oauth/login") && !strings.HasPrefix(target.Path, "/account/") || query.Get("request") != request ||
				query.Has("next") || query.Has("done") || query.Has("deleted") || query.Has("csrf") || len(target.RawQuery) > 2000 {
				t.Errorf("%s leads to %s", name, target)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, runtimetest.Absolute(target.String()), nil)
			must(t, err)
			p = b.Do(r)
		}
		if p.StatusCode == http.StatusSeeOther || p.StatusCode >= 500 || strings.Contains(p.Text, "evil.example") {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.Text)
		}
	}
}
