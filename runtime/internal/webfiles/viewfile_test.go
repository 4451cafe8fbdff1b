package webfiles_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/media"
)

// step returns the link of a page to the file beside it; empty = there is none.
func step(t *testing.T, p webtest.Page, rel string) string {
	t.Helper()
	for _, link := range p.Elements(t, "a") {
		if webtest.AttributeOf(link, "rel") == rel {
			return webtest.AttributeOf(link, "href")
		}
	}
	return ""
}

func TestViewFile_LeadsThroughTheListAcrossItsPages(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, func(o *webtest.Options) { o.Files.PerPage = 2 })
	for _, name := range []string{"e.txt", "d.txt", "c.bin", "b.txt", "a.txt"} {
		rt.Item(t, w, tenant, name, name, true)
	}
	b := rt.Browser(t)
	list := b.Login("/account/files", webtest.Owner)
	list = b.Get(list.Action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + "&name=.txt&sort=name")
	p := b.Get(list.Action(t, "/account/files/view"))
	var seen []string
	for range 10 {
		p.Says(t, http.StatusOK)
		seen = append(seen, webtest.TextOf(p.Elements(t, "h1")[0]))
		next := step(t, p, "next")
		if next == "" {
			break
		}
		p = b.Follow(b.Get(next))
	}
	if !slices.Equal(seen, []string{"a.txt", "b.txt", "d.txt", "e.txt"}) {
		t.Errorf("the files were %q", seen)
	}
	if back := b.Get(step(t, p, "prev")); webtest.TextOf(back.Elements(t, "h1")[0]) != "d.txt" {
		t.Errorf("before the last file is %s", back.Text)
	}
	if first := b.Get(list.Action(t, "/account/files/view")); step(t, first, "prev") != "" {
		t.Error("there is a file before the first one")
	}
	// The list of a page that nobody can read leads nowhere, and the file is shown.
	wrong := b.Get(list.Action(t, "/account/files/view") + "&back=" + url.QueryEscape("sort=color"))
	wrong.Says(t, http.StatusOK, "a.txt")
}

// besideField requires the only error of a page to stand beside the name or the metadata, if the field that was wrong is one of them.
func besideField(t *testing.T, p webtest.Page, field string) {
	t.Helper()
	alerts, described := 0, ""
	for _, one := range p.Elements(t, "p") {
		if webtest.AttributeOf(one, "role") == "alert" {
			alerts++
			for _, input := range append(p.Elements(t, "input"), p.Elements(t, "fieldset")...) {
				if webtest.AttributeOf(input, "aria-describedby") == webtest.AttributeOf(one, "id") {
					described = webtest.AttributeOf(input, "name") + webtest.AttributeOf(input, "class")
				}
			}
			if (described != "") != (one.Parent.Data == "div" && webtest.AttributeOf(one.Parent, "class") == "entry" || one.Parent.Data == "fieldset") {
				t.Errorf("the error about %s is in a %s", field, one.Parent.Data)
			}
		}
	}
	if want := map[string]string{"name": "name", "key0": "pairs", "key1": "pairs"}[field]; alerts != 1 || described != want {
		t.Errorf("%d errors, beside %q, not %q", alerts, described, want)
	}
}

func TestEditFile_ChangesWhatTheUserChanged(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	p = b.Upload(p, "a.txt", "a", webtest.Field("caption", "two\nlines"), webtest.Field("group", "old"), webtest.Field("metadata", `{"lines":"one\r\ntwo","place":"Bern"}`))
	view := b.Get(p.Action(t, "/account/files/view"))
	id := view.Fields().Get("item")
	now := func() media.Item {
		t.Helper()
		page, err := rt.Media.List(t.Context(), w.Principal(t, tenant), media.Filter{}, 1, 10)
		must(t, err)
		return page.Items[0]
	}
	form := func(more ...string) []string {
		return append([]string{"name", "a.txt", "caption", "two\r\nlines", "group", "old", "access", "private", "key0", "lines", "value0", "one\r\ntwo", "key1", "place", "value1", "Bern", "key2", "", "value2", ""}, more...)
	}
	before := w.Rows(t)
	b.Change("edit", view, tenant, id, form()...).Says(t, http.StatusOK, "The file was changed.")
	if w.Rows(t) != before {
		t.Error("a form that was sent as it came changed the file")
	}
	edited := b.Change("edit", view, tenant, id, form("name", "b.txt", "caption", "one\r\nmore", "group", "new", "access", "public", "key1", "", "value1", "", "key2", "year", "value2", "2026", "version", view.Fields().Get("version"))...)
	edited.Says(t, http.StatusOK, "b.txt", "one more", "new", "2026", "Public")
	if item := now(); item.FileName != "b.txt" || item.Caption != "one\nmore" || item.Group != "new" || item.Access != media.Public || len(item.Metadata) != 2 || item.Metadata["year"] != "2026" || item.Metadata["lines"] != "one\r\ntwo" {
		t.Errorf("the file is %+v", item)
	}

	before = w.Rows(t)
	for what, tt := range map[string]struct {
		status int
		text   string
		fields []string
	}{
		"no name":                {http.StatusBadRequest, "Type a name.", []string{"name", " "}},
		"a name with a slash":    {http.StatusBadRequest, "A name cannot have the characters / and \\.", []string{"name", "2026/05 Alps.txt"}},
		"a name with \\":         {http.StatusBadRequest, "A name cannot have the characters / and \\.", []string{"name", `C:\Alps.txt`}},
		"a name that is long":    {http.StatusBadRequest, "The name has 20004 bytes. It can have 255 at most.", []string{"name", strings.Repeat("é", 10_000) + ".txt"}},
		"a name with bidi marks": {http.StatusBadRequest, "The name has characters that cannot be kept", []string{"name", "\u202egpj.exe"}},
		"a name of dots":         {http.StatusBadRequest, "The name has characters that cannot be kept", []string{"name", ".."}},
		"no key":                 {http.StatusBadRequest, "Type a key for each value of the metadata.", []string{"key0", "", "value0", "x"}},
		"a wrong key":            {http.StatusBadRequest, "A metadata key must have", []string{"key0", "Not A Key"}},
		"a key twice":            {http.StatusBadRequest, "twice", []string{"key1", "lines"}},
		"another access":         {http.StatusBadRequest, "Access must be public or private.", []string{"access", "shared"}},
		"a caption that is long": {http.StatusBadRequest, "Caption must be at most 4096 bytes.", []string{"caption", strings.Repeat("é", 10_000)}},
		"an unreadable version":  {http.StatusBadRequest, "The form cannot be read. Open the file again.", []string{"version", "99999999999999999999", "caption", "typed here"}},
		"an older version":       {http.StatusPreconditionFailed, "Someone else has changed this file meanwhile.", []string{"version", "1", "caption", "typed here"}},
	} {
		t.Run(what, func(t *testing.T) {
			got := b.Change("edit", view, tenant, id, form(tt.fields...)...)
			got.Says(t, tt.status, tt.text)
			besideField(t, got, tt.fields[0])
			for n := 0; n+1 < len(tt.fields); n += 2 {
				if typed := tt.fields[n+1]; tt.fields[n] == "caption" && !strings.Contains(got.Text, typed) {
					t.Error("what was typed is lost")
				}
			}
		})
	}
	if w.Rows(t) != before {
		t.Error("a rejected form changed the file")
	}
	tooLarge := b.Send("/account/files/edit", view, url.Values{"account": {tenant.Account.ID.String()}, "item": {id}, "caption": {strings.Repeat("x", 300<<10)}})
	tooLarge.Says(t, http.StatusBadRequest, "is longer than 256 KiB")
}

// What was typed when a session ended was lost.
func TestEditFile_GivesBackWhatWasTypedInAnEndedSession(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	item := rt.Item(t, w, tenant, "a.txt", "a", true)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	rt.Clock.Advance(16 * time.Minute)
	const text = `A long story & "more" </textarea><script>`
	fields := url.Values{"account": {tenant.Account.ID.String()}, "item": {item.ID.String()}, "back": {"sort=name"}, "caption": {text}}
	ended := b.Send("/account/files/edit", p, fields)
	ended.Says(t, http.StatusNotFound, "Login expired", "What you typed", text)
	back := b.Login(linkTo(t, ended, "Log in again"), webtest.Owner)
	back.Says(t, http.StatusOK, "a.txt", "Back to the list")
	// Another site cannot have the service show a text.
	hostile := b.Send("/account/files/edit", p, fields, func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	if hostile.StatusCode != http.StatusForbidden || strings.Contains(hostile.Text, "A long story") {
		t.Errorf("another site: %d %s", hostile.StatusCode, hostile.Text)
	}
}

func TestShareFile_MakesALinkThatExpires(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Files.MaxShare = 24 * time.Hour })
	item, draft := rt.Item(t, w, tenant, "a.txt", "shared", true), rt.Item(t, w, tenant, "b.txt", "b", false)
	b, anyone := rt.Browser(t), rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	shared := b.Change("share", p, tenant, item.ID.String(), "lifetime", "1d")
	shared.Says(t, http.StatusOK, "Everyone with the link sees the file until")
	var link string
	for _, field := range shared.Elements(t, "input") {
		if webtest.AttributeOf(field, "id") == "link" {
			link = webtest.AttributeOf(field, "value")
		}
	}
	rt.Clock.Advance(24*time.Hour - time.Minute)
	if got := anyone.Get(link); got.StatusCode != http.StatusOK || got.Text != "shared" {
		t.Errorf("the link answers %d %s", got.StatusCode, got.Text)
	}
	rt.Clock.Advance(2 * time.Minute)
	anyone.Get(link).Is(t, http.StatusForbidden, "after its time the link")
	p = b.Login("/account/files", webtest.Owner)
	for _, lifetime := range []string{"", "7d", "1", "1h ", "-1h"} {
		b.Change("share", p, tenant, item.ID.String(), "lifetime", lifetime).Says(t, http.StatusBadRequest, "Choose how long the link is good for.")
	}
	b.Change("share", p, tenant, draft.ID.String(), "lifetime", "1h").Says(t, http.StatusConflict, "Keep the file before you share it.")

	none := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Files.MaxShare = 0; o.Clock = rt.Clock })
	b.At(none)
	b.Change("share", p, tenant, item.ID.String(), "lifetime", "1h").Says(t, http.StatusBadRequest, "Choose how long the link is good for.")
	view := b.Get("/account/files/view?" + url.Values{"request": {p.Fields().Get("request")}, "account": {tenant.Account.ID.String()}, "item": {item.ID.String()}}.Encode())
	view.Says(t, http.StatusOK, "a.txt")
	if strings.Contains(view.Text, "Share a link") {
		t.Error("links are off, and offered")
	}
}
