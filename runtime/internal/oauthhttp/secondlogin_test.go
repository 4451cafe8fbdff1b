package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strconv"
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
	p.Says(t, http.StatusOK, "Check your mail", "You asked for a code ", " seconds ago, when you started to log in the first time. Enter that code here.")
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

// Who logged in a second time for something else, or in another browser, had to wait, while a code was in the mail
// that could be entered nowhere. Each login has a code of its own now, which is of no use in the other.
func TestLogin_ASecondOneForSomethingElseGetsItsOwnCodeAtOnce(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	// The address of an owner for each case: a login of one is not a login of another.
	owners := map[string]string{}
	for n, name := range []string{"another application", "the files", "more rights", "another browser"} {
		owners[name] = "owner-" + strconv.Itoa(n) + "@example.org"
		w.OwnedTenant(t, "studio-"+strconv.Itoa(n), owners[name])
	}
	rt, other := w.Replica(t, webtest.Many, webtest.Paused), w.Replica(t, webtest.Many, webtest.Paused)
	for name, address := range owners {
		b, elsewhere := rt.Browser(t), rt.Browser(t)
		good, evil := b.Application("Good"), b.Application("Evil", "https://evil.test/cb")
		tt := map[string]struct {
			by    *webtest.Browser
			start string
		}{
			"another application": {b, evil.Query(nil)}, "the files": {b, "/account/files"}, "more rights": {b, good.Query(url.Values{"scope": {"media:delete"}})}, "another browser": {elsewhere, good.Query(nil)},
		}[name]
		first := b.Post("/oauth/login/email", b.Get(good.Query(nil)), url.Values{"email": {address}})
		code, _ := rt.Code(t, address)
		tt.by.At(other)
		second := tt.by.Post("/oauth/login/email", tt.by.Get(tt.start), url.Values{"email": {address}})
		second.Says(t, http.StatusOK, "Check your mail", "We sent a code to")
		own, sent := other.Code(t, address)
		if !sent {
			t.Fatalf("%s: no code was sent", name)
		}
		// A third one waits, and nothing that it enters is of use.
		third := rt.Browser(t)
		p := third.Post("/oauth/login/email", third.Get(evil.Query(nil)), url.Values{"email": {address}})
		p.Says(t, http.StatusTooManyRequests, "A code was asked for just now. Try again in ", "Codes for this address were asked for ", " ago, for other logins.", "enter it there", "Send me a code")
		if p.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", name, p.Header)
		}
		third.Post("/oauth/login/code", p, url.Values{"code": {own}}).Says(t, http.StatusBadRequest, "No code has been sent yet.")
		if code != own {
			tt.by.Post("/oauth/login/code", second, url.Values{"code": {code}}).Says(t, http.StatusBadRequest, "Incorrect code.")
			b.Post("/oauth/login/code", first, url.Values{"code": {own}}).Says(t, http.StatusBadRequest, "Incorrect code.")
		}
		tt.by.Post("/oauth/login/code", second, url.Values{"code": {own}}).Is(t, http.StatusOK, "the code of the second login for %s", name)
		b.At(rt)
		b.Post("/oauth/login/code", first, url.Values{"code": {code}}).Says(t, http.StatusOK, "Allow", "Good")
	}
}

// A code that has expired, or a login without a try left, is not continued: the second login gets its own code.
func TestLogin_ASecondOneDoesNotContinueWhatIsOver(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Login.ResendAfter = 20 * time.Minute })
	b := rt.Browser(t)
	app := b.Application("App")
	first := b.Post("/oauth/login/email", b.Get(app.Query(nil)), url.Values{"email": {webtest.Owner}})
	code, _ := rt.Code(t, webtest.Owner)
	rt.Clock.Advance(11 * time.Minute)
	second := b.Post("/oauth/login/email", b.Get(app.Query(nil)), url.Values{"email": {webtest.Owner}})
	own, sent := rt.Code(t, webtest.Owner)
	if second.Says(t, http.StatusOK, "We sent a code to"); !sent {
		t.Fatal("no code was sent")
	}
	b.Post("/oauth/login/code", first, url.Values{"code": {code}}).Says(t, http.StatusBadRequest, "The code has expired.")
	b.Post("/oauth/login/code", second, url.Values{"code": {own}}).Says(t, http.StatusOK, "Allow")

	// Without a try left.
	b = rt.Browser(t)
	first = b.Post("/oauth/login/email", b.Get(app.Query(nil)), url.Values{"email": {webtest.Owner}})
	code, _ = rt.Code(t, webtest.Owner)
	wrong := "00000000"
	if code == wrong {
		wrong = "00000001"
	}
	for range 5 {
		b.Post("/oauth/login/code", first, url.Values{"code": {wrong}})
	}
	second = b.Post("/oauth/login/email", b.Get(app.Query(nil)), url.Values{"email": {webtest.Owner}})
	own, sent = rt.Code(t, webtest.Owner)
	if second.Says(t, http.StatusOK, "We sent a code to"); !sent {
		t.Fatal("no code was sent after five wrong ones")
	}
	b.Post("/oauth/login/code", second, url.Values{"code": {own}}).Says(t, http.StatusOK, "Allow")
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
