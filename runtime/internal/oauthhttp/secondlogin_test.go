package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

// A second login within the pause asked to wait, while the code that had arrived could be entered nowhere.
func TestLogin_ASecondOneContinuesTheFirst(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, webtest.Paused)
	other := w.Replica(t, webtest.Many, webtest.Paused)
	b := rt.Browser(t)
	b.Post("/oauth/login/email", b.Get("/account/connections"), url.Values{"email": {webtest.Owner}})
	code, _ := rt.Code(t, webtest.Owner)
	rt.Clock.Advance(12 * time.Second)
	other.Clock.Advance(12 * time.Second)
	b.At(other)
	second := b.Get("/account/files?account=" + tenant.Account.ID.String() + "&state=draft")
	p := b.Post("/oauth/login/email", second, url.Values{"email": {strings.ToUpper(webtest.Owner)}})
	p.Says(t, http.StatusOK, "Check your mail", "A code was sent to you ", " seconds ago, when you started to log in the first time. Enter that code here.")
	if _, ok := rt.Code(t, webtest.Owner); ok {
		t.Error("another code was sent")
	}
	w.Counts(t, 1, "logins go on", "SELECT count(*) FROM login_session WHERE ended_at IS NULL")
	b.Post("/oauth/login/code", p, url.Values{"code": {code}}).Says(t, http.StatusOK, "Files of", "All files are kept") // where the second one began
	b.Post("/oauth/login/code", second, url.Values{"code": {code}}).Says(t, http.StatusNotFound, "Login expired")
}

// An application that is connected a second time gets the answer to its second request.
func TestLogin_ASecondRequestOfAnApplicationContinuesTheFirst(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, webtest.Paused)
	b := rt.Browser(t)
	app := b.Application("App")
	b.Post("/oauth/login/email", b.Get(app.Query(url.Values{"state": {"first"}, "code_challenge": {webtest.Challenge(strings.Repeat("x", 50))}})), url.Values{"email": {webtest.Owner}})
	code, _ := rt.Code(t, webtest.Owner)
	p := b.Post("/oauth/login/email", b.Get(app.Query(url.Values{"state": {"second"}})), url.Values{"email": {webtest.Owner}})
	p.Says(t, http.StatusOK, "Enter that code here.")
	told := b.Allow(b.Post("/oauth/login/code", p, url.Values{"code": {code}}), tenant)
	if told.Get("state") != "second" {
		t.Errorf("the application is told %v", told)
	}
	if status, answer := b.Redeem(app, told.Get("code")); status != http.StatusOK {
		t.Errorf("tokens: %d %v", status, answer)
	}
}

// A code is of no use for what it was not requested for, nor in another browser.
func TestLogin_ASecondOneForSomethingElseSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, webtest.Paused)
	b, second := rt.Browser(t), rt.Browser(t)
	good, evil := b.Application("Good"), b.Application("Evil", "https://evil.test/cb")
	first := b.Post("/oauth/login/email", b.Get(good.Query(nil)), url.Values{"email": {webtest.Owner}})
	code, _ := rt.Code(t, webtest.Owner)
	rt.Clock.Advance(10 * time.Second)
	for name, tt := range map[string]struct {
		by    *webtest.Browser
		start string
	}{
		"another application": {b, evil.Query(nil)}, "the files": {b, "/account/files"}, "more rights": {b, good.Query(url.Values{"scope": {"media:delete"}})}, "another browser": {second, good.Query(nil)},
	} {
		p := tt.by.Post("/oauth/login/email", tt.by.Get(tt.start), url.Values{"email": {webtest.Owner}})
		p.Says(t, http.StatusTooManyRequests, "A code was sent just now. Try again in ", "The code was sent ", " ago, for another login.", "enter it there", "Send me a code")
		if p.Fields().Get("request") == first.Fields().Get("request") || p.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", name, p.Header)
		}
		tt.by.Post("/oauth/login/code", p, url.Values{"code": {code}}).Says(t, http.StatusBadRequest, "No code has been sent yet.")
	}
	b.Post("/oauth/login/code", first, url.Values{"code": {code}}).Says(t, http.StatusOK, "Good")
}

// Who has entered a code need not wait for the next login. The limit per hour still holds.
func TestLogin_ACompleteOneEndsThePause(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Paused, func(o *webtest.Options) { o.Login.CodesPerEmail = 3 })
	for range 3 {
		b := rt.Browser(t)
		b.Login("/account/files", webtest.Owner).Says(t, http.StatusOK, "Files of")
		rt.Code(t, webtest.Owner)
	}
	b := rt.Browser(t)
	b.Post("/oauth/login/email", b.Get("/account/files"), url.Values{"email": {webtest.Owner}}).Says(t, http.StatusTooManyRequests, "Too many codes were requested for this address.")
}
