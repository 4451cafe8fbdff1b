package oauthhttp_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestLogin_IsTheSameForUnknownAddresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, paused)
	shown := func(address string) (page, string) {
		b := rt.browser(t)
		p := b.post("/oauth/login/email", b.get(b.application("App").query(nil)), url.Values{"email": {address}})
		text := strings.ReplaceAll(p.body, address, "ADDRESS")
		for _, name := range []string{"request", "csrf"} {
			text = strings.ReplaceAll(text, p.fields().Get(name), "FIELD")
		}
		text = regexp.MustCompile(`\d+ seconds?`).ReplaceAllString(text, "SECONDS") // the clock goes on
		return p, text
	}
	known, one := shown(owner)
	unknown, two := shown("eve@example.org")
	if known.StatusCode != unknown.StatusCode || one != two {
		t.Errorf("%d and %d\n%s\n%s", known.StatusCode, unknown.StatusCode, one, two)
	}
	for name := range known.Header {
		if name != "X-Request-Id" && name != "Date" && name != "Content-Length" && name != "Retry-After" && known.Header.Get(name) != unknown.Header.Get(name) {
			t.Errorf("%s: %q and %q", name, known.Header.Get(name), unknown.Header.Get(name))
		}
	}
	// The same holds within the resend limit, in another browser.
	known, one = shown(owner)
	unknown, two = shown("eve@example.org")
	if known.StatusCode != http.StatusTooManyRequests || unknown.StatusCode != known.StatusCode || one != two || !strings.Contains(one, "A code was sent just now.") {
		t.Errorf("within the pause: %d and %d\n%s\n%s", known.StatusCode, unknown.StatusCode, one, two)
	}
	if _, ok := rt.code(t, "eve@example.org"); ok {
		t.Error("an unknown address got a code")
	}
}

func TestLogin_ShowsErrorsBesideTheField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, paused)
	b := rt.browser(t)
	app := b.application("App")
	first := b.get(app.query(nil))
	if p := b.post("/oauth/login/email", first, url.Values{"email": {"ana"}}); p.StatusCode != http.StatusBadRequest || !strings.Contains(p.body, "Enter an e-mail address") || !strings.Contains(p.body, `value="ana"`) {
		t.Errorf("no address: %d %s", p.StatusCode, p.body)
	}
	p := b.post("/oauth/login/email", first, url.Values{"email": {owner}})
	right, _ := rt.code(t, owner)
	if again := b.post("/oauth/login/email", p, url.Values{"email": {owner}}); again.StatusCode != http.StatusTooManyRequests || again.Header.Get("Retry-After") == "" || !strings.Contains(again.body, "30 seconds") {
		t.Errorf("another code at once: %d %s", again.StatusCode, again.body)
	}
	wrong := "00000000"
	if right == wrong {
		wrong = "00000001"
	}
	for range 4 {
		if p := b.post("/oauth/login/code", p, url.Values{"code": {wrong}}); p.StatusCode != http.StatusBadRequest || !strings.Contains(p.body, "Incorrect code.") {
			t.Errorf("a wrong code: %d %s", p.StatusCode, p.body)
		}
	}
	rt.clock.Advance(31 * time.Second)
	resent := b.post("/oauth/login/email", p, url.Values{"email": {owner}})
	right, ok := rt.code(t, owner)
	if resent.StatusCode != http.StatusOK || !ok {
		t.Errorf("another code: %d", resent.StatusCode)
	}
	for range 2 { // the fifth attempt is the last, also with a new code
		p = b.post("/oauth/login/code", resent, url.Values{"code": {wrong}})
	}
	if p.StatusCode != http.StatusNotFound || !strings.Contains(p.body, "Too many incorrect codes") {
		t.Errorf("after five wrong codes: %d %s", p.StatusCode, p.body)
	}
	b.post("/oauth/login/code", resent, url.Values{"code": {right}}).is(t, http.StatusNotFound, "the right code after five wrong ones")
	if p := b.get("/oauth/login?request=" + first.fields().Get("request") + "&change=1"); !strings.Contains(p.body, `name="email"`) {
		t.Errorf("another address: %d", p.StatusCode)
	}
	rt.clock.Advance(16 * time.Minute)
	if p := b.get("/oauth/login?request=" + first.fields().Get("request")); p.StatusCode != http.StatusNotFound || !strings.Contains(p.body, "Login expired") {
		t.Errorf("after its time: %d %s", p.StatusCode, p.body)
	}
}

// The page said "We sent a code to" an empty address, and that the code had expired.
func TestLoginCode_WithoutAnAddressShowsTheEmailStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t)
	b := rt.browser(t)
	first := b.get(b.application("App").query(nil))
	for _, code := range []string{"12345678", "", "x"} {
		p := b.post("/oauth/login/code", first, url.Values{"code": {code}})
		if p.StatusCode != http.StatusBadRequest || !strings.Contains(p.body, "No code has been sent yet. Enter your e-mail address first.") ||
			!strings.Contains(p.body, `name="email"`) || strings.Contains(p.body, "We sent") {
			t.Errorf("the code %q: %d %s", code, p.StatusCode, p.body)
		}
	}
	// No attempt was consumed, and the login continues.
	b.login("/oauth/login?request="+first.fields().Get("request"), owner).is(t, http.StatusOK, "after it")
}

func TestLogin_CanRestartWithAnotherAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "one", owner)
	two := w.tenant(t, "two", "bo@example.org")
	b := w.replica(t).browser(t)
	app := b.application("App")
	before := b.login(app.query(nil), owner)
	change := "/oauth/login?request=" + before.fields().Get("request") + "&change=1"
	p := b.login(change, "bo@example.org")
	if !strings.Contains(p.body, two.Account.ID.String()) {
		t.Fatalf("the consent: %d %s", p.StatusCode, p.body)
	}
	b.post("/oauth/consent", before, url.Values{"decision": {"deny"}}).is(t, http.StatusNotFound, "the login before it")
	if told := b.allow(p, two); told.Get("code") == "" || told.Get("state") != "s t&te" {
		t.Errorf("the application is told %v", told)
	}
}

func TestLogin_AnotherAddressIsNotAResend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, paused)
	b := rt.browser(t)
	first := b.get(b.application("App").query(nil))
	b.post("/oauth/login/email", first, url.Values{"email": {"anna@example.org"}})
	p := b.post("/oauth/login/email", first, url.Values{"email": {owner}})
	if p.StatusCode != http.StatusOK || !strings.Contains(p.body, owner) || strings.Contains(p.body, "anna@example.org") || strings.Contains(p.body, "A new code") {
		t.Errorf("another address: %d %s", p.StatusCode, p.body)
	}
	if _, ok := rt.code(t, owner); !ok {
		t.Error("no code for the other address")
	}
	b.post("/oauth/login/email", p, url.Values{"email": {owner}}).is(t, http.StatusTooManyRequests, "the same again")
}

// A login leads to the page that it began at.
func TestLogin_LeadsToItsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt, without := w.replica(t, many), w.replica(t, many, func(o *options) { o.oauth.FilesPage = false })
	b := rt.browser(t)
	files := b.login("/account/files", owner)
	files.says(t, http.StatusOK, "Files of", "Authorized applications")
	b.get(files.action(t, "/account/connections")).says(t, http.StatusOK, "No authorized applications yet", "Files")
	apps := rt.browser(t).login("/account/connections", owner)
	apps.says(t, http.StatusOK, "No authorized applications yet")
	if len(apps.actions("/account/files")) != 1 {
		t.Errorf("the connections do not lead to the files: %s", apps.body)
	}

	// Another replica may have the page switched off.
	b.at(without)
	for _, path := range []string{"/account/files", "/account/files/delete"} {
		if got := b.get(path); got.StatusCode != http.StatusNotFound || strings.Contains(got.body, "<html") {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	if got := b.send("/account/files/seal", files, nil); got.StatusCode != http.StatusNotFound {
		t.Errorf("a form: %d", got.StatusCode)
	}
	shown := b.get("/account/connections")
	shown.says(t, http.StatusOK, "No authorized applications yet")
	if len(shown.actions("/account/files")) != 0 {
		t.Error("the connections lead to a page that does not exist")
	}
}
