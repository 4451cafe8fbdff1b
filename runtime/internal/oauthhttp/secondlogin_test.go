package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// A second login within the pause asked to wait, while the code that had arrived could be entered nowhere.
func TestLogin_ASecondOneContinuesTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t, many, paused)
	other := w.replica(t, many, paused)
	b := rt.browser(t)
	b.post("/oauth/login/email", b.get("/account/connections"), url.Values{"email": {owner}})
	code, _ := rt.code(t, owner)
	rt.clock.Advance(12 * time.Second)
	other.clock.Advance(12 * time.Second)
	b.at(other)
	second := b.get("/account/files?account=" + tenant.Account.ID.String() + "&state=draft")
	p := b.post("/oauth/login/email", second, url.Values{"email": {strings.ToUpper(owner)}})
	p.says(t, http.StatusOK, "Check your mail", "A code was sent to you ", " seconds ago, when you started to log in the first time. Enter that code here.")
	if _, ok := rt.code(t, owner); ok {
		t.Error("another code was sent")
	}
	w.Counts(t, 1, "logins go on", "SELECT count(*) FROM login_session WHERE ended_at IS NULL")
	b.post("/oauth/login/code", p, url.Values{"code": {code}}).says(t, http.StatusOK, "Files of", "No drafts") // where the second one began
	b.post("/oauth/login/code", second, url.Values{"code": {code}}).says(t, http.StatusNotFound, "Login expired")
}

// An application that is connected a second time gets the answer to its second request.
func TestLogin_ASecondRequestOfAnApplicationContinuesTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t, many, paused)
	b := rt.browser(t)
	app := b.application("App")
	b.post("/oauth/login/email", b.get(app.query(url.Values{"state": {"first"}, "code_challenge": {challenge(strings.Repeat("x", 50))}})), url.Values{"email": {owner}})
	code, _ := rt.code(t, owner)
	p := b.post("/oauth/login/email", b.get(app.query(url.Values{"state": {"second"}})), url.Values{"email": {owner}})
	p.says(t, http.StatusOK, "Enter that code here.")
	told := b.allow(b.post("/oauth/login/code", p, url.Values{"code": {code}}), tenant)
	if told.Get("state") != "second" {
		t.Errorf("the application is told %v", told)
	}
	if status, answer := b.redeem(app, told.Get("code")); status != http.StatusOK {
		t.Errorf("tokens: %d %v", status, answer)
	}
}

// A code is of no use for what it was not requested for, nor in another browser.
func TestLogin_ASecondOneForSomethingElseSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, many, paused)
	b, second := rt.browser(t), rt.browser(t)
	good, evil := b.application("Good"), b.application("Evil", "https://evil.test/cb")
	first := b.post("/oauth/login/email", b.get(good.query(nil)), url.Values{"email": {owner}})
	code, _ := rt.code(t, owner)
	rt.clock.Advance(10 * time.Second)
	for name, tt := range map[string]struct {
		by    *browser
		start string
	}{
		"another application": {b, evil.query(nil)}, "the files": {b, "/account/files"}, "more rights": {b, good.query(url.Values{"scope": {"media:delete"}})}, "another browser": {second, good.query(nil)},
	} {
		p := tt.by.post("/oauth/login/email", tt.by.get(tt.start), url.Values{"email": {owner}})
		p.says(t, http.StatusTooManyRequests, "A code was sent just now. Try again in ", "The code was sent ", " ago, for another login.", "enter it there", "Send me a code")
		if p.fields().Get("request") == first.fields().Get("request") || p.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", name, p.Header)
		}
		tt.by.post("/oauth/login/code", p, url.Values{"code": {code}}).says(t, http.StatusBadRequest, "No code has been sent yet.")
	}
	b.post("/oauth/login/code", first, url.Values{"code": {code}}).says(t, http.StatusOK, "Good")
}

// Who has entered a code need not wait for the next login. The limit per hour still holds.
func TestLogin_ACompleteOneEndsThePause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, paused, func(o *options) { o.login.CodesPerEmail = 3 })
	for range 3 {
		b := rt.browser(t)
		b.login("/account/files", owner).says(t, http.StatusOK, "Files of")
		rt.code(t, owner)
	}
	b := rt.browser(t)
	b.post("/oauth/login/email", b.get("/account/files"), url.Values{"email": {owner}}).says(t, http.StatusTooManyRequests, "Too many codes were requested for this address.")
}
