package oauthhttp_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

func TestLogin_IsTheSameForUnknownAddresses(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Paused)
	shown := func(address string) (webtest.Page, string) {
		b := rt.Browser(t)
		p := b.Post("/oauth/login/email", b.Get(b.Application("App").Query(nil)), url.Values{"email": {address}})
		text := strings.ReplaceAll(p.Text, address, "ADDRESS")
		for _, name := range []string{"request", "csrf"} {
			text = strings.ReplaceAll(text, p.Fields().Get(name), "FIELD")
		}
		text = regexp.MustCompile(`\d+ seconds?`).ReplaceAllString(text, "SECONDS") // the clock goes on
		return p, text
	}
	known, one := shown(webtest.Owner)
	unknown, two := shown("eve@example.org")
	if known.StatusCode != unknown.StatusCode || one != two {
		t.Errorf("%d and %d\n%s\n%s", known.StatusCode, unknown.StatusCode, one, two)
	}
	for name := range known.Header {
		if name != "X-Request-Id" && name != "Date" && name != "Content-Length" && name != "Retry-After" && known.Header.Get(name) != unknown.Header.Get(name) {
			t.Errorf("%s: %q and %q", name, known.Header.Get(name), unknown.Header.Get(name))
		}
	}
	// The same holds for a second login within the pause, and for a third one, which has to wait.
	known, one = shown(webtest.Owner)
	unknown, two = shown("eve@example.org")
	if known.StatusCode != http.StatusOK || unknown.StatusCode != known.StatusCode || one != two || !strings.Contains(one, "Check your mail") {
		t.Errorf("a second login: %d and %d\n%s\n%s", known.StatusCode, unknown.StatusCode, one, two)
	}
	known, one = shown(webtest.Owner)
	unknown, two = shown("eve@example.org")
	if known.StatusCode != http.StatusTooManyRequests || unknown.StatusCode != known.StatusCode || one != two || !strings.Contains(one, "A code was asked for just now.") {
		t.Errorf("within the pause: %d and %d\n%s\n%s", known.StatusCode, unknown.StatusCode, one, two)
	}
	if _, ok := rt.Code(t, "eve@example.org"); ok {
		t.Error("an unknown address got a code")
	}
}

func TestLogin_ShowsErrorsBesideTheField(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Paused)
	b := rt.Browser(t)
	app := b.Application("App")
	first := b.Get(app.Query(nil))
	if p := b.Post("/oauth/login/email", first, url.Values{"email": {"ana"}}); p.StatusCode != http.StatusBadRequest || !strings.Contains(p.Text, "Enter an e-mail address") || !strings.Contains(p.Text, `value="ana"`) {
		t.Errorf("no address: %d %s", p.StatusCode, p.Text)
	}
	p := b.Post("/oauth/login/email", first, url.Values{"email": {webtest.Owner}})
	right, _ := rt.Code(t, webtest.Owner)
	if again := b.Post("/oauth/login/email", p, url.Values{"email": {webtest.Owner}}); again.StatusCode != http.StatusTooManyRequests || again.Header.Get("Retry-After") == "" || !strings.Contains(again.Text, "30 seconds") {
		t.Errorf("another code at once: %d %s", again.StatusCode, again.Text)
	}
	wrong := "00000000"
	if right == wrong {
		wrong = "00000001"
	}
	for range 4 {
		if p := b.Post("/oauth/login/code", p, url.Values{"code": {wrong}}); p.StatusCode != http.StatusBadRequest || !strings.Contains(p.Text, "Incorrect code.") {
			t.Errorf("a wrong code: %d %s", p.StatusCode, p.Text)
		}
	}
	rt.Clock.Advance(31 * time.Second)
	resent := b.Post("/oauth/login/email", p, url.Values{"email": {webtest.Owner}})
	right, ok := rt.Code(t, webtest.Owner)
	if resent.StatusCode != http.StatusOK || !ok {
		t.Errorf("another code: %d", resent.StatusCode)
	}
	for range 2 { // the fifth attempt is the last, also with a new code
		p = b.Post("/oauth/login/code", resent, url.Values{"code": {wrong}})
	}
	if p.StatusCode != http.StatusNotFound || !strings.Contains(p.Text, "Too many incorrect codes") {
		t.Errorf("after five wrong codes: %d %s", p.StatusCode, p.Text)
	}
	b.Post("/oauth/login/code", resent, url.Values{"code": {right}}).Is(t, http.StatusNotFound, "the right code after five wrong ones")
	if p := b.Get("/oauth/login?request=" + first.Fields().Get("request") + "&change=1"); !strings.Contains(p.Text, `name="email"`) {
		t.Errorf("another address: %d", p.StatusCode)
	}
	rt.Clock.Advance(16 * time.Minute)
	if p := b.Get("/oauth/login?request=" + first.Fields().Get("request")); p.StatusCode != http.StatusNotFound || !strings.Contains(p.Text, "Login expired") {
		t.Errorf("after its time: %d %s", p.StatusCode, p.Text)
	}
}

// The page said "We sent a code to" an empty address, and that the code had expired.
func TestLoginCode_WithoutAnAddressShowsTheEmailStep(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	b := rt.Browser(t)
	first := b.Get(b.Application("App").Query(nil))
	for _, code := range []string{"12345678", "", "x"} {
		p := b.Post("/oauth/login/code", first, url.Values{"code": {code}})
		if p.StatusCode != http.StatusBadRequest || !strings.Contains(p.Text, "No code has been sent yet. Enter your e-mail address first.") ||
			!strings.Contains(p.Text, `name="email"`) || strings.Contains(p.Text, "We sent") {
			t.Errorf("the code %q: %d %s", code, p.StatusCode, p.Text)
		}
	}
	// No attempt was consumed, and the login continues.
	b.Login("/oauth/login?request="+first.Fields().Get("request"), webtest.Owner).Is(t, http.StatusOK, "after it")
}

func TestLogin_CanRestartWithAnotherAddress(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "one", webtest.Owner)
	two := w.OwnedTenant(t, "two", "bo@example.org")
	b := w.Replica(t).Browser(t)
	app := b.Application("App")
	before := b.Login(app.Query(nil), webtest.Owner)
	step := "/oauth/login?request=" + before.Fields().Get("request")
	// A link, which another site or a history can follow, ends no login. Nor does a form of another site, or without the token of the session.
	b.Get(step+"&change=1").Says(t, http.StatusOK, "Allow", "Logged in as", webtest.Owner)
	b.Get("/oauth/login/change?request="+before.Fields().Get("request")).Says(t, http.StatusOK, "Allow", "Logged in as", webtest.Owner)
	b.Post("/oauth/login/change", before, url.Values{"csrf": {"x"}}).Is(t, http.StatusForbidden, "without the token")
	b.Post("/oauth/login/change", before, nil, func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.test")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}).Is(t, http.StatusForbidden, "from another site")
	b.Get(step).Says(t, http.StatusOK, "Allow", webtest.Owner)
	p := b.Post("/oauth/login/change", before, nil)
	p.Says(t, http.StatusOK, "Send me a code")
	p = b.Login(p.Request.URL.RequestURI(), "bo@example.org")
	if !strings.Contains(p.Text, two.Account.ID.String()) {
		t.Fatalf("the consent: %d %s", p.StatusCode, p.Text)
	}
	b.Post("/oauth/consent", before, url.Values{"decision": {"deny"}}).Is(t, http.StatusNotFound, "the login before it")
	if told := b.Allow(p, two); told.Get("code") == "" || told.Get("state") != "s t&te" {
		t.Errorf("the application is told %v", told)
	}
}

func TestLogin_AnotherAddressIsNotAResend(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Paused)
	b := rt.Browser(t)
	first := b.Get(b.Application("App").Query(nil))
	b.Post("/oauth/login/email", first, url.Values{"email": {"anna@example.org"}})
	p := b.Post("/oauth/login/email", first, url.Values{"email": {webtest.Owner}})
	if p.StatusCode != http.StatusOK || !strings.Contains(p.Text, webtest.Owner) || strings.Contains(p.Text, "anna@example.org") || strings.Contains(p.Text, "A new code") {
		t.Errorf("another address: %d %s", p.StatusCode, p.Text)
	}
	if _, ok := rt.Code(t, webtest.Owner); !ok {
		t.Error("no code for the other address")
	}
	b.Post("/oauth/login/email", p, url.Values{"email": {webtest.Owner}}).Is(t, http.StatusTooManyRequests, "the same again")
}

// A login leads to the page that it began at.
func TestLogin_LeadsToItsPage(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt, without := w.Replica(t, webtest.Many), w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Files.Enabled = false })
	b := rt.Browser(t)
	files := b.Login("/account/files", webtest.Owner)
	files.Says(t, http.StatusOK, "Files of", "Authorized applications")
	b.Get(files.Action(t, "/account/connections")).Says(t, http.StatusOK, "No authorized applications yet", "Files")
	apps := rt.Browser(t).Login("/account/connections", webtest.Owner)
	apps.Says(t, http.StatusOK, "No authorized applications yet")
	if len(apps.Actions("/account/files")) != 1 {
		t.Errorf("the connections do not lead to the files: %s", apps.Text)
	}

	// Another replica may have the page switched off.
	b.At(without)
	for _, path := range []string{"/account/files", "/account/files/delete"} {
		if got := b.Get(path); got.StatusCode != http.StatusNotFound || strings.Contains(got.Text, "<html") {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	if got := b.Send("/account/files/seal", files, nil); got.StatusCode != http.StatusNotFound {
		t.Errorf("a form: %d", got.StatusCode)
	}
	shown := b.Get("/account/connections")
	shown.Says(t, http.StatusOK, "No authorized applications yet")
	if len(shown.Actions("/account/files")) != 0 {
		t.Error("the connections lead to a page that does not exist")
	}
}
