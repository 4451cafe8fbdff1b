package webfiles_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

// An upload of an hour led to a page that said that the login had expired.
func TestSession_IsExtendedByALongUpload(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	b.Follow(uploadHeld(t, b, p, func() { rt.Clock.Advance(time.Hour) })).Says(t, http.StatusOK, "The file was uploaded.", "b.txt")
}

// linkTo returns the target of a link with a text.
func linkTo(t *testing.T, p webtest.Page, text string) string {
	t.Helper()
	for _, link := range p.Elements(t, "a") {
		if webtest.TextOf(link) == text {
			return webtest.AttributeOf(link, "href")
		}
	}
	t.Fatalf("no link %q: %d %s", text, p.StatusCode, p.Text)
	return ""
}

// The page that said that the session had ended named a path, and was no link.
func TestSession_AnEndedOneLeadsBackToItsPage(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant, other := w.OwnedTenant(t, "studio", webtest.Owner), w.OwnedTenant(t, "archive", webtest.Owner)
	w.OwnedTenant(t, "theirs", "bo@example.org")
	rt := w.Replica(t, webtest.Many)
	draft, sealed := rt.Item(t, w, tenant, "draft.txt", "a", false), rt.Item(t, w, tenant, "sealed.txt", "b", true)
	b := rt.Browser(t)
	account := "account=" + tenant.Account.ID.String()
	start := func() webtest.Page {
		t.Helper()
		rt.Clock.Advance(16 * time.Minute) // the session before has ended
		p := b.Login("/account/files", webtest.Owner)
		return b.Get("/account/files?request=" + p.Fields().Get("request") + "&" + account + "&state=draft&name=draft")
	}
	at := func(p webtest.Page, path string, want url.Values) {
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
	rt.Clock.Advance(16 * time.Minute)
	ended := b.Change("seal", p, tenant, draft.ID.String(), "back", "name=draft&state=draft")
	ended.Says(t, http.StatusNotFound, "Login expired", "Nothing was changed.")
	back := b.Login(linkTo(t, ended, "Log in again"), webtest.Owner)
	at(back, "/account/files", list)
	back.Says(t, http.StatusOK, "draft.txt")

	rt.Clock.Advance(16 * time.Minute)
	at(b.Login(back.Request.URL.RequestURI(), webtest.Owner), "/account/files", list) // a reload

	p = start()
	rt.Clock.Advance(16 * time.Minute)
	ended = b.SendFile(p.Action(t, "/account/files/upload"), []webtest.Part{webtest.File("b.txt", "b")})
	ended.Says(t, http.StatusNotFound, "Login expired")
	at(b.Login(linkTo(t, ended, "Log in again"), webtest.Owner), "/account/files", url.Values{"account": {tenant.Account.ID.String()}})

	p = start()
	question := b.Get("/account/files/delete?request=" + p.Fields().Get("request") + "&" + account + "&item=" + sealed.ID.String())
	rt.Clock.Advance(16 * time.Minute)
	ended = b.Change("delete", question, tenant, sealed.ID.String(), "permanent", "1")
	ended.Says(t, http.StatusNotFound, "Login expired")
	again := b.Login(linkTo(t, ended, "Log in again"), webtest.Owner)
	at(again, "/account/files/delete", url.Values{"account": {tenant.Account.ID.String()}, "item": {sealed.ID.String()}})
	again.Says(t, http.StatusOK, "Delete this file permanently?", "sealed.txt")

	// Another tab has logged in meanwhile: its session is used, and no code is needed.
	b.Get("/account/files?"+account+"&state=draft").Says(t, http.StatusOK, "draft.txt")
	at(b.Get(p.Request.URL.RequestURI()), "/account/files", list)

	// Who logs in instead sees files of their own.
	rt.Clock.Advance(16 * time.Minute)
	instead := b.Login("/account/files?"+account+"&state=draft", "bo@example.org")
	instead.Says(t, http.StatusOK, "The theirs")
	if strings.Contains(instead.Text, "draft.txt") || instead.Request.URL.Query().Get("account") == other.Account.ID.String() {
		t.Errorf("another user sees %s", instead.Text)
	}
	// The page of an error is never a dead end.
	linkTo(t, b.Get("/account/files?request="+instead.Fields().Get("request")+"&"+account), "Your files")
	linkTo(t, b.Get("/oauth/login?request=x"), "Your files")
}

// A session that is extended for hours is not enough for what nobody can bring back.
func TestFiles_APermanentDeleteNeedsARecentLogin(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	sealed, draft := rt.Item(t, w, tenant, "sealed.txt", "a", true), rt.Item(t, w, tenant, "draft.txt", "b", false)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	request := p.Fields().Get("request")
	for range 7 {
		rt.Clock.Advance(10 * time.Minute)
		p = b.Get("/account/files?request=" + request)
		p.Says(t, http.StatusOK, "sealed.txt")
	}
	question := b.Get(b.Get(p.Action(t, "/account/files/view")).Action(t, "/account/files/delete"))
	question.Says(t, http.StatusOK, "Delete this file permanently?", "You logged in too long ago")
	if len(question.Actions("/account/files/delete")) != 0 {
		t.Error("the page has a form that is rejected")
	}
	before := w.Rows(t)
	b.Change("delete", p, tenant, sealed.ID.String(), "permanent", "1").Says(t, http.StatusForbidden, "You logged in too long ago to delete a file permanently.")
	if w.Rows(t) != before {
		t.Fatal("the file was deleted")
	}
	b.Change("delete", p, tenant, draft.ID.String(), "permanent", "1").Says(t, http.StatusOK, "The file was deleted permanently.") // it would not stay
	again := question.Action(t, "/oauth/login/change")
	b.Get(again) // a link ends nothing
	b.Get("/account/files?request="+request).Says(t, http.StatusOK, "sealed.txt")
	p = b.Post(again, question, nil)
	p.Says(t, http.StatusOK, "Send me a code", webtest.Owner)
	if p := b.Get("/account/files?request=" + request); strings.Contains(p.Text, "sealed.txt") {
		t.Error("the former session goes on")
	}
	question = b.Login(p.Request.URL.RequestURI(), webtest.Owner)
	question.Says(t, http.StatusOK, "Delete this file permanently?", "sealed.txt")
	if question.Fields().Get("item") != sealed.ID.String() {
		t.Errorf("the question is about %s", question.Fields().Get("item"))
	}
	b.Change("delete", question, tenant, sealed.ID.String(), "permanent", "1").Says(t, http.StatusOK, "The file was deleted permanently.")
}
