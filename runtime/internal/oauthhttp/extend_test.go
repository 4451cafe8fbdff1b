package oauthhttp_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/runtimetest"
)

// cookieOf returns the cookie of a login that a response sets, or nil.
func (p page) cookieOf(request string) *http.Cookie {
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
	w := newWorld(t)
	tenant := w.undoable(t, "studio", owner)
	clock := &runtimetest.Clock{}
	replicas := []*replica{w.replica(t, func(o *options) { o.clock = clock }), w.replica(t, func(o *options) { o.clock = clock })}
	b := replicas[0].browser(t)
	p := b.login("/account/files", owner)
	request := p.fields().Get("request")
	link := "/account/files?request=" + request + "&account=" + tenant.Account.ID.String()
	if p := b.get(link); p.cookieOf(request) != nil {
		t.Error("each request extends the session")
	}
	const step = 10 * time.Minute
	passed := time.Duration(0)
	for n := 0; passed+step < 12*time.Hour; n++ {
		clock.Advance(step)
		passed += step
		b.at(replicas[n%2])
		if n%2 == 1 { // a form is use, too
			p = b.send("/account/files/seal", p, url.Values{"account": {tenant.Account.ID.String()}, "item": {"x"}})
			p.says(t, http.StatusNotFound, "There is no such file.")
		} else {
			p = b.get(link)
			p.says(t, http.StatusOK, "Files of")
		}
		cookie := p.cookieOf(request)
		if cookie == nil || cookie.MaxAge < int((10*time.Minute-time.Minute).Seconds()) || cookie.MaxAge > 900 || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode {
			if left := 12*time.Hour - passed; left > 15*time.Minute || cookie != nil && cookie.MaxAge > int(left.Seconds()) {
				t.Fatalf("after %s the cookie is %+v", passed, cookie)
			}
		}
	}
	clock.Advance(12*time.Hour - passed)
	b.get(link).says(t, http.StatusOK, "Log in", "Your login has ended.")

	// Without use it ends as before.
	p = b.login("/account/files", owner)
	clock.Advance(15 * time.Minute)
	b.get(p.action(t, "/account/files")).says(t, http.StatusOK, "Log in", "Your login has ended.")
}

func TestSession_IsNotExtendedWithoutABoundOrByAnApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, many, func(o *options) { o.login.MaxTTL = 0 })
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	rt.clock.Advance(10 * time.Minute)
	b.get(p.action(t, "/account/files")).says(t, http.StatusOK, "Files of")
	rt.clock.Advance(6 * time.Minute)
	b.get(p.action(t, "/account/files")).says(t, http.StatusOK, "Your login has ended.")

	rt = w.replica(t, many)
	b = rt.browser(t)
	consent := b.login(b.application("App").query(nil), owner)
	rt.clock.Advance(10 * time.Minute)
	at := "/oauth/login?request=" + consent.fields().Get("request")
	b.get(at).says(t, http.StatusOK, "Allow")
	b.post("/oauth/consent", consent, url.Values{"decision": {"perhaps"}}).says(t, http.StatusBadRequest, "Choose Allow or Deny.")
	rt.clock.Advance(6 * time.Minute)
	b.get(at).says(t, http.StatusNotFound, "Login expired")
}

// Who pressed "Log out" after the end of the session read that the login had expired, and was asked to log in again.
func TestSession_LogoutAfterItsEndIsALogout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, many)
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	rt.clock.Advance(16 * time.Minute)
	for range 2 { // the button of another tab
		out := b.post("/account/connections/logout", p, nil)
		out.says(t, http.StatusOK, "Log in", "You are logged out.")
		if out.cookieOf(p.fields().Get("request")) != nil || strings.Contains(out.body, "Files of") {
			t.Errorf("after the logout: %s", out.body)
		}
	}
	site := func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	before := w.QueryInt(t, "SELECT count(*) FROM login_session")
	b.send("/account/connections/logout", p, nil, site).says(t, http.StatusForbidden, "The form came from another site.")
	if after := w.QueryInt(t, "SELECT count(*) FROM login_session"); after != before {
		t.Errorf("another site began %d logins", after-before)
	}
	b.post("/account/connections/revoke", p, url.Values{"all": {"1"}}).says(t, http.StatusNotFound, "Login expired", "Nothing was changed.")
}

// An address that was shortened, and that of a form after an error, were answered with JSON.
func TestAccount_AddressesOfFormsLeadToTheirPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	for files, want := range map[bool]string{true: "/account/files", false: "/account/connections"} {
		rt := w.replica(t, many, func(o *options) { o.oauth.FilesPage = files })
		b := rt.browser(t)
		for path, want := range map[string]string{"/account": want, "/account/connections/logout": "/account/connections", "/account/connections/revoke": "/account/connections"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, absolute(path), nil)
			must(t, err)
			if got := b.do(r); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != want {
				t.Errorf("%s: %d %s, want %s", path, got.StatusCode, got.Header.Get("Location"), want)
			}
			b.get(path).says(t, http.StatusOK, "Log in")
		}
	}
}

// A session that ended stays ended, with any cookie.
func TestSession_LogoutEndsWhatUseExtends(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, many)
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	link := p.action(t, "/account/files")
	address, err := url.Parse(baseURL)
	must(t, err)
	kept := b.http.Jar.Cookies(address)
	rt.clock.Advance(10 * time.Minute)
	out := b.post("/account/connections/logout", p, nil)
	out.says(t, http.StatusOK, "You are logged out.")
	thief := rt.browser(t)
	thief.http.Jar.SetCookies(address, kept)
	for range 2 {
		if got := thief.get(link); strings.Contains(got.body, "Files of") {
			t.Fatal("a session that was logged out shows files")
		}
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM login_session WHERE id = $1 AND ended_at IS NOT NULL", p.fields().Get("request")); n != 1 {
		t.Error("the session has not ended")
	}
}

// An upload of an hour led to a page that said that the login had expired.
func TestSession_IsExtendedByALongUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, many)
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	b.follow(b.uploadHeld(t, p, func() { rt.clock.Advance(time.Hour) })).says(t, http.StatusOK, "The file was uploaded.", "b.txt")
}

// linkTo returns the target of a link with a text.
func (p page) linkTo(t *testing.T, text string) string {
	t.Helper()
	for _, link := range p.elements(t, "a") {
		if textOf(link) == text {
			return attributeOf(link, "href")
		}
	}
	t.Fatalf("no link %q: %d %s", text, p.StatusCode, p.body)
	return ""
}

// The page that said that the session had ended named a path, and was no link.
func TestSession_AnEndedOneLeadsBackToItsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant, other := w.tenant(t, "studio", owner), w.tenant(t, "archive", owner)
	w.tenant(t, "theirs", "bo@example.org")
	rt := w.replica(t, many)
	draft, sealed := rt.item(t, w, tenant, "draft.txt", "a", false), rt.item(t, w, tenant, "sealed.txt", "b", true)
	b := rt.browser(t)
	account := "account=" + tenant.Account.ID.String()
	start := func() page {
		t.Helper()
		rt.clock.Advance(16 * time.Minute) // the session before has ended
		p := b.login("/account/files", owner)
		return b.get("/account/files?request=" + p.fields().Get("request") + "&" + account + "&state=draft&name=draft")
	}
	at := func(p page, path string, want url.Values) {
		t.Helper()
		got := p.Request.URL.Query()
		for name := range want {
			if got.Get(name) != want.Get(name) {
				t.Errorf("the login leads to %s, not to %v", p.Request.URL, want)
			}
		}
		if p.StatusCode != http.StatusOK || p.Request.URL.Path != path || got.Get("request") == "" {
			t.Errorf("the login leads to %s: %d", p.Request.URL, p.StatusCode)
		}
	}
	list := url.Values{"account": {tenant.Account.ID.String()}, "state": {"draft"}, "name": {"draft"}}

	p := start()
	rt.clock.Advance(16 * time.Minute)
	ended := b.change("seal", p, tenant, draft.ID.String(), "back", "name=draft&state=draft")
	ended.says(t, http.StatusNotFound, "Login expired", "Nothing was changed.")
	back := b.login(ended.linkTo(t, "Log in again"), owner)
	at(back, "/account/files", list)
	back.says(t, http.StatusOK, "draft.txt")

	rt.clock.Advance(16 * time.Minute)
	at(b.login(back.Request.URL.RequestURI(), owner), "/account/files", list) // a reload

	p = start()
	rt.clock.Advance(16 * time.Minute)
	ended = b.sendFile(p.action(t, "/account/files/upload"), []part{{"file", "b.txt", "b"}})
	ended.says(t, http.StatusNotFound, "Login expired")
	at(b.login(ended.linkTo(t, "Log in again"), owner), "/account/files", url.Values{"account": {tenant.Account.ID.String()}})

	p = start()
	question := b.get("/account/files/delete?request=" + p.fields().Get("request") + "&" + account + "&item=" + sealed.ID.String())
	rt.clock.Advance(16 * time.Minute)
	ended = b.change("delete", question, tenant, sealed.ID.String(), "permanent", "1")
	ended.says(t, http.StatusNotFound, "Login expired")
	again := b.login(ended.linkTo(t, "Log in again"), owner)
	at(again, "/account/files/delete", url.Values{"account": {tenant.Account.ID.String()}, "item": {sealed.ID.String()}})
	again.says(t, http.StatusOK, "Delete this file permanently?", "sealed.txt")

	// Another tab has logged in meanwhile: its session is used, and no code is needed.
	b.get("/account/files?"+account+"&state=draft").says(t, http.StatusOK, "draft.txt")
	at(b.get(p.Request.URL.RequestURI()), "/account/files", list)

	// Who logs in instead sees files of their own.
	rt.clock.Advance(16 * time.Minute)
	instead := b.login("/account/files?"+account+"&state=draft", "bo@example.org")
	instead.says(t, http.StatusOK, "The theirs")
	if strings.Contains(instead.body, "draft.txt") || instead.Request.URL.Query().Get("account") == other.Account.ID.String() {
		t.Errorf("another user sees %s", instead.body)
	}
	// The page of an error is never a dead end.
	b.get("/account/files?request="+instead.fields().Get("request")+"&"+account).linkTo(t, "Your files")
	b.get("/oauth/login?request=x").linkTo(t, "Your files")
}

// A cookie that others planted, and parameters, lead to pages of the files only.
func TestLogin_LeadsToNoOtherSite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, many)
	address, err := url.Parse(baseURL)
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
		b := rt.browser(t)
		p := b.get("/account/files")
		request := p.fields().Get("request")
		b.post("/oauth/login/email", p, url.Values{"email": {owner}})
		code, _ := rt.code(t, owner)
		for _, cookie := range b.http.Jar.Cookies(address) {
			secret, _, _ := strings.Cut(cookie.Value, ".")
			b.http.Jar.SetCookies(address, []*http.Cookie{{Name: cookie.Name, Value: secret + "." + to, Path: "/"}})
		}
		p = b.send("/oauth/login/code", p, url.Values{"code": {code}})
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
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, absolute(target.String()), nil)
			must(t, err)
			p = b.do(r)
		}
		if p.StatusCode == http.StatusSeeOther || p.StatusCode >= 500 || strings.Contains(p.body, "evil.example") {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.body)
		}
	}
}

// A session that is extended for hours is not enough for what nobody can bring back.
func TestFiles_APermanentDeleteNeedsARecentLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t, many)
	sealed, draft := rt.item(t, w, tenant, "sealed.txt", "a", true), rt.item(t, w, tenant, "draft.txt", "b", false)
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	request := p.fields().Get("request")
	for range 7 {
		rt.clock.Advance(10 * time.Minute)
		p = b.get("/account/files?request=" + request)
		p.says(t, http.StatusOK, "sealed.txt")
	}
	question := b.get(p.action(t, "/account/files/delete"))
	question.says(t, http.StatusOK, "Delete this file permanently?", "You logged in too long ago")
	if len(question.elements(t, "form")) != 0 {
		t.Error("the page has a form that is rejected")
	}
	before := w.rows(t)
	b.change("delete", p, tenant, sealed.ID.String(), "permanent", "1").says(t, http.StatusForbidden, "You logged in too long ago to delete a file permanently.")
	if w.rows(t) != before {
		t.Fatal("the file was deleted")
	}
	b.change("delete", p, tenant, draft.ID.String(), "permanent", "1").says(t, http.StatusOK, "The file was deleted permanently.") // it would not stay
	p = b.get(question.linkTo(t, "Log in again"))
	p.says(t, http.StatusOK, "Send me a code", owner)
	if p := b.get("/account/files?request=" + request); strings.Contains(p.body, "sealed.txt") {
		t.Error("the former session goes on")
	}
	question = b.login(p.Request.URL.RequestURI(), owner)
	question.says(t, http.StatusOK, "Delete this file permanently?", "sealed.txt")
	if question.fields().Get("item") != sealed.ID.String() {
		t.Errorf("the question is about %s", question.fields().Get("item"))
	}
	b.change("delete", question, tenant, sealed.ID.String(), "permanent", "1").says(t, http.StatusOK, "The file was deleted permanently.")
}
