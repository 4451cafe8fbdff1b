package webfiles_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/media"
)

// appLink returns the link of the chooser to an app; empty = there is none.
func appLink(p webtest.Page, t *testing.T, name string) string {
	t.Helper()
	for _, link := range p.Elements(t, "a") {
		if webtest.TextOf(link) == name {
			return webtest.AttributeOf(link, "href")
		}
	}
	return ""
}

// Each action on the files of another app is about this app, and stays there.
func TestFiles_AnOwnerChoosesTheApp(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	rt.Item(t, w, tenant, "of-default.txt", "d", true)
	b := rt.Browser(t)
	if p := b.Login("/account/files", webtest.Owner); appLink(p, t, account.DefaultApp) != "" {
		t.Error("an account with one app has a chooser")
	}
	beside := w.AddApp(t, tenant, "beside & more")
	rt.Item(t, w, beside, "of-beside.txt", "b", true)
	p := b.Get("/account/files")
	if !slices.Equal(p.Names(), []string{"of-default.txt"}) {
		t.Errorf("without a choice the files are %v", p.Names())
	}
	p = b.Get(appLink(p, t, "beside & more"))
	p.Says(t, http.StatusOK, "App", "beside & more")
	if !slices.Equal(p.Names(), []string{"of-beside.txt"}) {
		t.Fatalf("of the other app the files are %v", p.Names())
	}

	// names requires a page about the other app, and returns the files on it.
	names := func(p webtest.Page, want ...string) {
		t.Helper()
		p.Says(t, http.StatusOK)
		if got := p.Names(); !slices.Equal(got, want) || p.Request.URL.Query().Get("app") != "beside & more" {
			t.Errorf("at %s the files are %v, not %v", p.Request.URL, got, want)
		}
	}
	post := func(action string, fields url.Values) webtest.Page {
		t.Helper()
		fields.Set("account", tenant.Account.ID.String())
		return b.Post("/account/files/"+action+"?app="+url.QueryEscape("beside & more"), p, fields)
	}
	p = b.Upload(p, "more.txt", "more")
	names(p, "more.txt", "of-beside.txt")
	names(b.Get(p.Actions("/account/files")[0]+"&sort=name&app=beside+%26+more&account="+tenant.Account.ID.String()), "more.txt", "of-beside.txt")
	view := b.Get(p.Action(t, "/account/files/view"))
	view.Says(t, http.StatusOK, "more.txt")
	id := view.Fields().Get("item")
	edited := b.Post(view.Action(t, "/account/files/edit"), view, url.Values{"account": {tenant.Account.ID.String()}, "item": {id}, "name": {"edited.txt"}})
	edited.Says(t, http.StatusOK, "edited.txt")
	names(b.Get(linkTo(t, edited, "Back to the list")), "edited.txt", "of-beside.txt")
	names(post("delete", url.Values{"item": {id}}), "of-beside.txt")
	names(post("selected", url.Values{"item0": {id}, "action": {"restore"}}), "edited.txt", "of-beside.txt")

	// The forms of the Default App do not find files of the other one, and those of the other one none of the Default App.
	before := w.Rows(t)
	b.Change("delete", p, tenant, id).Says(t, http.StatusNotFound, "There is no such file.")
	first, err := rt.Media.List(t.Context(), w.Principal(t, tenant), media.Filter{}, 1, 1)
	must(t, err)
	post("delete", url.Values{"item": {first.Items[0].ID.String()}}).Says(t, http.StatusNotFound, "There is no such file.")
	const denied = "There is no such app, or you do not own its account (any more)."
	other := w.OwnedTenant(t, "theirs", "bo@example.org")
	w.AddApp(t, other, "beside & more")
	for what, query := range map[string]url.Values{
		"a missing app":              {"account": {tenant.Account.ID.String()}, "app": {"absent"}},
		"an app of another account":  {"account": {other.Account.ID.String()}, "app": {"beside & more"}},
		"an app with a zero byte":    {"account": {tenant.Account.ID.String()}, "app": {"a\x00b"}},
		"an app that is no text":     {"account": {tenant.Account.ID.String()}, "app": {"\xff\xfe"}},
		"an app with a hostile name": {"account": {tenant.Account.ID.String()}, "app": {"\u202e<script>" + strings.Repeat("x", 10_000)}},
	} {
		query.Set("request", p.Fields().Get("request"))
		if got := b.Get("/account/files?" + query.Encode()); got.StatusCode != http.StatusForbidden || !strings.Contains(got.Text, denied) || strings.Contains(got.Text, "<script>x") {
			t.Errorf("%s: %d %.300s", what, got.StatusCode, got.Text)
		}
	}
	if w.Rows(t) != before {
		t.Error("an item was changed")
	}

	// The login after the end of a session leads back to the app.
	rt.Clock.Advance(16 * time.Minute)
	ended := post("seal", url.Values{"item": {id}})
	names(b.Login(linkTo(t, ended, "Log in again"), webtest.Owner), "edited.txt", "of-beside.txt")
}
