package webfiles_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/media"
)

// linked returns the target of the link of a relation, empty if there is none.
func linked(p webtest.Page, rel string) string {
	found := regexp.MustCompile(`href="([^"]*)" rel="` + rel + `"`).FindStringSubmatch(p.Text)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// Back through a list are the same pages as through it, in every order, and with a filter.
func TestPager_LeadsBackAsItLedForth(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Files.PerPage = 3 })
	for n := range 8 {
		rt.Item(t, w, tenant, fmt.Sprintf("%c.txt", 'a'+n*5%8), strings.Repeat("x", n/2+1), true)
	}
	for n := range 5 {
		rt.Item(t, w, tenant, fmt.Sprintf("draft-%d.txt", n), "draft", false)
	}
	b := rt.Browser(t)
	list := b.Login("/account/files", webtest.Owner).Action(t, "/account/files") + "&account=" + tenant.Account.ID.String()
	for _, query := range []string{"", "&sort=time", "&sort=name", "&sort=-name", "&sort=size", "&sort=-size", "&sort=captured", "&sort=-captured", "&name=.txt", "&state=draft", "&state=draft&sort=time"} {
		p := b.Get(list + query)
		forth := [][]string{p.Names()}
		for next := linked(p, "next"); next != ""; next = linked(p, "next") {
			p = b.Get(next)
			forth = append(forth, p.Names())
		}
		back := [][]string{p.Names()}
		for previous := linked(p, "prev"); previous != ""; previous = linked(p, "prev") {
			p = b.Get(previous)
			back = append(back, p.Names())
		}
		slices.Reverse(back)
		// The pages before the last one are read from there, so the first one may be filled up.
		if len(forth) < 2 || fmt.Sprint(forth) != fmt.Sprint(back) {
			t.Errorf("%q: %v, and back %v", query, forth, back)
		}
		if strings.Contains(p.Text, "First page") || strings.Contains(p.Text, "Previous page") {
			t.Errorf("%q: the first page leads back", query)
		}
	}

	// A first page that has become longer is shown whole.
	second := b.Get(linked(b.Get(list+"&sort=name"), "next"))
	rt.Item(t, w, tenant, "0.txt", "x", true)
	first := b.Get(linked(second, "prev"))
	if got := strings.Join(first.Names(), " "); got != "a.txt b.txt c.txt" && got != "0.txt a.txt b.txt" {
		t.Errorf("the page before: %s", got)
	}
	if got := strings.Join(b.Get(linked(first, "prev")).Names(), " "); linked(first, "prev") != "" && got != "0.txt a.txt b.txt" {
		t.Errorf("the first page: %s", got)
	}
	// Both cursors, and that of another list, are rejected.
	at, _ := url.Parse(linked(second, "prev"))
	query := at.Query()
	query.Set("sort", "size")
	b.Get("/account/files?"+query.Encode()).Says(t, http.StatusBadRequest, "is the cursor of another list")
	query.Set("before", "x")
	b.Get("/account/files?"+query.Encode()).Is(t, http.StatusBadRequest, "no cursor")
	query.Set("after", "x")
	b.Get("/account/files?"+query.Encode()).Is(t, http.StatusBadRequest, "both")

	// From the first file of a page, the file before is the last one of the page before.
	links := regexp.MustCompile(`<h3 id="file-0"><a id="[^"]*" href="([^"]*)"`).FindStringSubmatch(second.Text)
	view := b.Get(html.UnescapeString(links[1]))
	view.Says(t, http.StatusOK, "d.txt")
	before := regexp.MustCompile(`rel="prev" href="([^"]*)"`).FindStringSubmatch(view.Text)
	if before == nil {
		t.Fatal("no file before the first one of the page")
	}
	b.Get(html.UnescapeString(before[1])).Says(t, http.StatusOK, "c.txt")
}

// The form of 100 files was longer than a form could be: with a long search in the URL, already at 48.
func TestSelected_AFormOfThePageFits(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Files.PerPage = media.MaxLimit })
	var items []media.Item
	for n := range media.MaxLimit {
		items = append(items, rt.Item(t, w, tenant, fmt.Sprintf("%d.txt", n), "x", true))
	}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	// The longest search and group that there can be, each character as long as one can be.
	back := url.Values{"q": {strings.Repeat(strings.Repeat("\U0001F98A", 20)+" ", 6)}, "name": {strings.Repeat("\U0001F98A", 63)}}.Encode()
	fields := url.Values{"account": {tenant.Account.ID.String()}, "action": {"group"}, "group": {strings.Repeat("\U0001F98A", 63)}, "back": {back}}
	for n, item := range items {
		fields.Set(fmt.Sprint("item", n), item.ID.String())
	}
	b.Post("/account/files/selected", p, fields).Says(t, http.StatusOK, "100 files are moved.")
	w.Counts(t, media.MaxLimit, "items moved", "SELECT count(*) FROM item WHERE group_label <> ''")
	fields.Set("group", strings.Repeat("x", 100<<10))
	b.Post("/account/files/selected", p, fields).Says(t, http.StatusBadRequest, "the form cannot be read, or is longer than")
}

// All files of a page are selected by a link, which needs no script.
func TestSelected_AllOfThePage(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Files.PerPage = 2 })
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		rt.Item(t, w, tenant, name, name, true)
	}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	p.Says(t, http.StatusOK, "Select all of this page (2)")
	checked := func(p webtest.Page) int { return strings.Count(p.Text, " checked>") }
	link := regexp.MustCompile(`href="([^"]*)" data-select`)
	if checked(p) != 0 {
		t.Error("something is selected")
	}
	p = b.Get(html.UnescapeString(link.FindStringSubmatch(p.Text)[1]))
	if p.Says(t, http.StatusOK, "Select none", "c.txt"); checked(p) != 2 {
		t.Errorf("%d are selected", checked(p))
	}
	if p = b.Get(linked(p, "next")); checked(p) != 0 { // the next page is another one
		t.Error("the file of the next page is selected")
	}
}

// Filters by group, access, captions and shape; the group of a file leads to its files.
func TestFilter_ByGroupAccessCaptionAndShape(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	plain, told := rt.Item(t, w, tenant, "plain.txt", "plain", true), rt.Item(t, w, tenant, "told.txt", "told", true)
	_, err := rt.Media.Update(t.Context(), w.Principal(t, tenant), told.ID, media.Change{Caption: new("A caption"), Group: new("Trips & \"more\""), Access: new(media.Public)}, media.Condition{})
	must(t, err)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	list := p.Action(t, "/account/files") + "&account=" + tenant.Account.ID.String()
	for query, want := range map[string]string{
		"group=" + url.QueryEscape(`Trips & "more"`): "told.txt", "group=Trips": "", "access=public": "told.txt", "access=private": "plain.txt",
		"caption=with": "told.txt", "caption=without": "plain.txt", "orientation=landscape": "", "caption=without&access=public": "",
	} {
		p := b.Get(list + "&" + query)
		if p.Says(t, http.StatusOK, "Clear the search and the filter"); strings.Join(p.Names(), " ") != want {
			t.Errorf("%s: %v", query, p.Names())
		}
	}
	for query, text := range map[string]string{"access=all": "Access must be public or private.", "caption=no": "Caption must be with or without.", "orientation=round": "Orientation must be landscape, portrait or square."} {
		b.Get(list+"&"+query).Says(t, http.StatusBadRequest, text)
	}
	b.Get(list+"&sort=-captured").Says(t, http.StatusOK, "Files without a date taken come by the time of their upload.")
	view := b.Get(list + "&name=told")
	view = b.Get(view.Action(t, "/account/files/view"))
	group := regexp.MustCompile(`<dt>Group</dt> <dd><a href="([^"]*)"`).FindStringSubmatch(view.Text)
	if group == nil {
		t.Fatalf("no link of the group: %s", view.Text)
	}
	if p := b.Get(html.UnescapeString(group[1])); strings.Join(p.Names(), " ") != "told.txt" {
		t.Errorf("the files of the group: %v", p.Names())
	}
	if !strings.Contains(view.Text, "#item-"+told.ID.String()) || !strings.Contains(b.Get(list).Text, `id="item-`+plain.ID.String()+`"`) {
		t.Error("the way back does not lead to the file")
	}
	// The form of an upload offers the groups that there are.
	if p := b.Get(list); !regexp.MustCompile(`<input id="group"[^>]* list="groups"`).MatchString(p.Text) || !strings.Contains(p.Text, `<datalist id="groups"><option value="Trips &amp; &#34;more&#34;">`) {
		t.Errorf("the groups of the upload form: %s", p.Text)
	}
	// What is typed into a form is no filter of the list to which a login leads back.
	p = b.Get(list + "&access=private")
	rt.Clock.Advance(16 * time.Minute)
	ended := b.Post("/account/files/selected", p, url.Values{"account": {tenant.Account.ID.String()}, "back": {"access=private"}, "action": {"group"}, "group": {"typed"}, "item0": {plain.ID.String()}})
	again := linkTo(t, ended, "Log in again")
	if query := again[strings.Index(again, "?"):]; !strings.Contains(query, "access=private") || strings.Contains(query, "group=") {
		t.Errorf("the login leads to %s", again)
	}
}
