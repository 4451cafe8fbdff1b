package webfiles_test

import (
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
)

// journaled returns a tenant with a journal, whose deletes can be undone.
func journaled(t *testing.T, w *webtest.World, name string, owners ...string) runtimetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, DisplayName: "The " + name, Owners: owners, MaxStorage: 64 << 20, MaxUploadSize: 24 << 20,
		Undo: account.Undo{Window: time.Hour, For: account.UndoAgents}, Journal: 7 * 24 * time.Hour})
}

// events returns the rows of the table of a page: what its cells say, without that of the time.
func events(t *testing.T, p webtest.Page) []string {
	t.Helper()
	rows := []string{}
	for _, row := range p.Elements(t, "tr")[min(1, len(p.Elements(t, "tr"))):] {
		var cells []string
		for cell := range row.ChildNodes() {
			if webtest.AttributeOf(cell, "role") == "cell" && webtest.AttributeOf(cell, "data-label") != "Time" {
				cells = append(cells, strings.TrimSuffix(webtest.TextOf(cell), " Events of this file"))
			}
		}
		rows = append(rows, strings.Join(cells, " | "))
	}
	return rows
}

// Each request of an owner goes to another replica than the one before.
func TestActivity_TellsOwnersWhoDidWhat(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := journaled(t, w, "studio", webtest.Owner)
	replicas := []*webtest.Replica{w.Replica(t, webtest.Many), w.Replica(t, webtest.Many)}
	rt := replicas[0]
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	p = b.Follow(b.SendFile(p.Action(t, "/account/files/upload"), []webtest.Part{webtest.File("notes.txt", "hello"), webtest.Field("caption", "private words")}))
	p.Says(t, http.StatusOK, "notes.txt")
	item := itemOf(t, p)
	draft := rt.Item(t, w, tenant, "draft.txt", "d", false)
	id, err := uuid.Parse(item)
	must(t, err)
	caption := "other words"
	login := account.Actor{Kind: account.ActorLogin, ID: uuid.NewString(), Name: "Assistant", Email: "m***@example.org"}
	must(t, check.ErrorOf(rt.Media.Update(t.Context(), w.Principal(t, tenant).By(login), id, media.Change{Caption: &caption}, media.Condition{})))
	gone := rt.Item(t, w, tenant, "gone.txt", "g", false)
	must(t, check.ErrorOf(rt.Media.Delete(t.Context(), w.Principal(t, tenant), gone.ID, media.DeleteOptions{})))
	blog := w.AddApp(t, tenant, "blog")
	theirs := rt.Item(t, w, blog, "post.txt", "p", false)
	w.Change(t, tenant, func(s *account.Spec) { s.Suspended = true })
	w.Change(t, tenant, func(s *account.Spec) { s.Suspended = false })

	b.At(replicas[1])
	p = b.Get(linkTo(t, b.Get("/account/files"), "Activity"))
	p.Says(t, http.StatusOK, "Activity of", "The studio", "all apps", "Events are kept for 7 days.", "Newest first.")
	want := []string{
		"Account resumed | None: the account | Operator | none",
		"Account suspended | None: the account | Operator | none",
		"Uploaded, not kept yet | post.txt app blog | API key | none",
		"API key issued | None: the account | Operator | none",
		"Deleted | " + gone.ID.String() + " | API key | none",
		"Uploaded, not kept yet | " + gone.ID.String() + " | API key | none",
		"Changed | notes.txt | Assistant of m***@example.org | caption",
		"Uploaded, not kept yet | draft.txt | API key | none",
		"Kept | notes.txt | Owner, a***@example.org | none",
		"Uploaded, not kept yet | notes.txt | Owner, a***@example.org | none",
		"Logged in | None: the account | Owner, a***@example.org | none",
	}
	if got := events(t, p); !slices.Equal(got[:min(len(got), len(want))], want) {
		t.Errorf("the page tells\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(p.Text, "words") {
		t.Error("values are shown")
	}
	for _, moment := range p.Elements(t, "time") {
		if _, err := time.Parse("2006-01-02T15:04:05Z", webtest.AttributeOf(moment, "datetime")); err != nil {
			t.Errorf("a time is %v", moment.Attr)
		}
	}
	b.At(replicas[0])
	if names := b.Get(linkTo(t, p, "notes.txt")).Names(); !slices.Equal(names, []string{"notes.txt"}) {
		t.Errorf("the name of a file leads to %v", names)
	}
	b.Get(linkTo(t, p, "draft.txt")).Says(t, http.StatusOK, "Not kept yet", "draft.txt")
	for _, link := range p.Elements(t, "a") {
		if text := webtest.TextOf(link); text == "post.txt" || text == gone.ID.String() {
			t.Errorf("%s is linked, which the files page does not have", text)
		}
	}

	// The filter, and the events of one file.
	first := "/account/activity?request=" + p.Fields().Get("request") + "&account=" + tenant.Account.ID.String()
	for query, want := range map[string][]string{
		"&type=media.sealed": {"Kept | notes.txt | Owner, a***@example.org | none"},
		"&item=" + item:      {want[6], want[8], want[9]},
		"&type=media.updated&item=+" + strings.ToUpper(item) + "+": {want[6]},
		"&item=" + theirs.ID.String():                              {want[2]},
		"&item=" + draft.ID.String() + "&type=media.restored":      {},
		"&item=" + uuid.NewString():                                {},
	} {
		b.At(replicas[len(query)%2])
		got := b.Get(first + query)
		got.Says(t, http.StatusOK, "Events that match", "Clear")
		if !slices.Equal(events(t, got), want) {
			t.Errorf("%s: %q, want %q", query, events(t, got), want)
		}
		if len(want) == 0 {
			got.Says(t, http.StatusOK, "No event matches")
		}
	}
	for _, query := range []string{"&type=media.moved", "&item=1", "&before=now", "&before=AAAA"} {
		got := b.Get(first + query)
		if got.StatusCode != http.StatusBadRequest || !strings.Contains(got.Text, `role="alert"`) || len(events(t, got)) != 0 {
			t.Errorf("%s: %d %s", query, got.StatusCode, got.Text)
		}
	}

	// A deleted file that can be restored has its name.
	must(t, check.ErrorOf(rt.Media.Delete(t.Context(), w.Principal(t, tenant).By(login), id, media.DeleteOptions{Agent: true})))
	p = b.Get(first + "&type=media.deleted")
	if got := events(t, p); len(got) != 2 || got[0] != "Deleted | notes.txt | Assistant of m***@example.org | none" {
		t.Errorf("after a delete: %q", got)
	}
	b.Get(linkTo(t, p, "notes.txt")).Says(t, http.StatusOK, "Deleted files", "notes.txt")
}

func TestActivity_LeadsToOlderEvents(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := journaled(t, w, "studio", webtest.Owner)
	rt := w.Replica(t)
	item := rt.Item(t, w, tenant, "a.txt", "a", false)
	w.QueryInt(t, `WITH made AS (INSERT INTO journal (account_id, app_id, item_id, type, fields) SELECT $1, $2, $3, 'media.updated', ARRAY['field ' || n] FROM generate_series(1, 120) n RETURNING 1) SELECT count(*) FROM made`,
		tenant.Account.ID, tenant.App.ID, item.ID)
	b := rt.Browser(t)
	p := b.Login("/account/activity?type=media.updated", webtest.Owner)
	var counts []int
	var last string
	for {
		rows := events(t, p)
		counts = append(counts, len(rows))
		last = rows[len(rows)-1]
		older := ""
		for _, link := range p.Elements(t, "a") {
			if webtest.TextOf(link) == "Older events" {
				older = webtest.AttributeOf(link, "href")
			}
		}
		if older == "" {
			break
		}
		p = b.Get(older)
		p.Says(t, http.StatusOK, "Newest events")
	}
	if !slices.Equal(counts, []int{50, 50, 20}) || last != "Changed | a.txt | Unknown | field 1" {
		t.Errorf("the pages have %v events, the last is %q", counts, last)
	}
	if got := events(t, b.Get(linkTo(t, p, "Newest events"))); len(got) != 50 || got[0] != "Changed | a.txt | Unknown | field 120" {
		t.Errorf("the newest events are %q", got)
	}
}

// An owner sees the events of accounts of their own, after a login.
func TestActivity_IsForOwners(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	one, theirs := journaled(t, w, "one", webtest.Owner), journaled(t, w, "theirs", "bo@example.org")
	closed := journaled(t, w, "closed", webtest.Owner)
	w.Change(t, closed, func(s *account.Spec) { s.Suspended = true })
	rt := w.Replica(t, webtest.Many)
	rt.Item(t, w, one, "mine.txt", "a", true)
	foreign := rt.Item(t, w, theirs, "theirs.txt", "b", true)
	rt.Browser(t).Get("/account/activity?account="+one.Account.ID.String()).Says(t, http.StatusOK, "Log in", "Send me a code")
	b := rt.Browser(t)
	p := b.Login("/account/activity?type=media.sealed&account="+one.Account.ID.String(), webtest.Owner)
	if got := events(t, p); !slices.Equal(got, []string{"Kept | mine.txt | API key | none"}) || p.Request.URL.Path != "/account/activity" {
		t.Errorf("the login leads to %s: %q", p.Request.URL, got)
	}
	request := "/account/activity?request=" + p.Fields().Get("request")
	for name, of := range map[string]string{"of another owner": theirs.Account.ID.String(), "a suspended one": closed.Account.ID.String(), "none": uuid.NewString(), "no id": "x"} {
		got := b.Get(request + "&account=" + of)
		got.Says(t, http.StatusForbidden, "There is no such account, or you do not own it (any more).")
		if strings.Contains(got.Text, "theirs") || len(events(t, got)) != 0 {
			t.Errorf("%s: %s", name, got.Text)
		}
	}
	got := b.Get(request + "&account=" + one.Account.ID.String() + "&item=" + foreign.ID.String())
	got.Says(t, http.StatusOK, "No event matches")
	if strings.Contains(got.Text, "theirs.txt") {
		t.Error("the name of another tenant's file is shown")
	}
	// A cursor of another account is a position in the own journal.
	page, err := rt.Activity.Recent(t.Context(), w.Principal(t, theirs), journal.RecentRequest{AllApps: true, Limit: 1})
	must(t, err)
	if got := b.Get(request + "&account=" + one.Account.ID.String() + "&before=" + page.Older); strings.Contains(got.Text, "theirs") || got.StatusCode != http.StatusOK {
		t.Errorf("before an event of another account: %d %s", got.StatusCode, got.Text)
	}

	w.Change(t, one, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
	b.Get(request+"&account="+one.Account.ID.String()).Says(t, http.StatusForbidden, "you do not own it (any more)")

	// The owner of two accounts chooses one.
	p = rt.Browser(t).Login("/account/activity", "bo@example.org")
	p.Says(t, http.StatusOK, "Which account?", "The one", "The theirs")
	if links := p.Actions("/account/activity"); len(links) != 3 { // with that of the page
		t.Errorf("the accounts lead to %v", links)
	}
	// A session that has ended leads back to the page.
	rt.Clock.Advance(16 * time.Minute)
	b = rt.Browser(t)
	p = b.Login("/account/activity?account="+theirs.Account.ID.String()+"&type=media.sealed", "bo@example.org")
	rt.Clock.Advance(16 * time.Minute)
	p = b.Login(p.Request.URL.RequestURI(), "bo@example.org")
	if got := events(t, p); !slices.Equal(got, []string{"Kept | theirs.txt | API key | none"}) {
		t.Errorf("a reload after the end of the session leads to %s: %q", p.Request.URL, got)
	}
}

func TestActivity_SaysThatThereIsNoJournal(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	b := w.Replica(t).Browser(t)
	p := b.Login("/account/activity", webtest.Owner)
	p.Says(t, http.StatusOK, "No activity is recorded", "Your administrator can switch it on", "spec.journal")
	if len(p.Elements(t, "table")) != 0 || len(p.Elements(t, "select")) != 0 {
		t.Errorf("there is a list: %s", p.Text)
	}
}

// The names of files and applications are those that others chose.
func TestActivity_EscapesWhatOthersChose(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := journaled(t, w, "studio", webtest.Owner)
	rt := w.Replica(t)
	script := `"><img src=x onerror=alert(1)>.txt`
	principal := w.Principal(t, tenant)
	for _, name := range []string{script, "\u202egpj.txt", "javascript:alert(1)"} {
		item := rt.Item(t, w, tenant, name, "x", true)
		must(t, check.ErrorOf(rt.Media.Update(t.Context(), principal.By(account.Actor{Kind: account.ActorLogin, Name: script, Email: "<b>***@example.org"}), item.ID, media.Change{Caption: &name, Group: &name}, media.Condition{})))
	}
	b := rt.Browser(t)
	p := b.Login("/account/activity", webtest.Owner)
	if strings.Contains(p.Text, "<img") || strings.Contains(noScripts(p.Text), "<script") || strings.Contains(p.Text, "\u202e") || strings.Contains(p.Text, "<b>") || strings.Count(p.Text, html.EscapeString(script)) < 4 {
		t.Errorf("the page is %s", p.Text)
	}
	for _, link := range p.Elements(t, "a") {
		if target, err := url.Parse(webtest.AttributeOf(link, "href")); err != nil || target.Host != "" || target.Scheme != "" || !strings.HasPrefix(target.Path, "/account/") {
			t.Errorf("a link leads to %v: %v", target, err)
		}
	}
	b.Get(linkTo(t, p, "javascript:alert(1)")).Says(t, http.StatusOK, "javascript:alert(1)")
}

func TestActivity_HasTheChecksOfTheFilesPage(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := journaled(t, w, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Limits.Key, o.Limits.KeyBurst = 0.001, 5 })
	rt.Item(t, w, tenant, "notes.txt", "x", true)
	b := rt.Browser(t)
	p := b.Login("/account/activity", webtest.Owner) // the first request
	want := "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; media-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	if got := p.Header; got.Get("Content-Security-Policy") != want || got.Get("X-Frame-Options") != "DENY" || got.Get("Cache-Control") != "no-store" || got.Get("Referrer-Policy") != "same-origin" || got.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the headers are %v", got)
	}
	before := w.Rows(t)
	if got := b.Post("/account/activity", p, url.Values{"account": {tenant.Account.ID.String()}}); got.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST is answered %d", got.StatusCode)
	}
	// The tool policy decides which operations a login has.
	again := "/account/activity?request=" + p.Fields().Get("request") + "&account=" + tenant.Account.ID.String()
	w.Change(t, tenant, func(s *account.Spec) { s.ToolPolicy.Tools = []string{string(account.ListActivity)} })
	named := b.Get(again)
	named.Says(t, http.StatusOK, "Kept")
	if strings.Contains(named.Text, "notes.txt") {
		t.Error("the name of a file is shown to a login that may not list the files")
	}
	w.Change(t, tenant, func(s *account.Spec) { s.ToolPolicy.Tools = []string{string(account.ListMedia)} })
	denied := b.Get(again)
	denied.Says(t, http.StatusForbidden, "This account does not allow logins to do this.")
	if len(events(t, denied)) != 0 {
		t.Errorf("a login without the operation sees %q", events(t, denied))
	}
	w.Change(t, tenant, func(s *account.Spec) { s.ToolPolicy = account.ToolPolicy{ReadOnly: true} })
	b.Get(again).Says(t, http.StatusOK, "notes.txt")
	b.Get(again).Says(t, http.StatusOK)
	limited := b.Get(again)
	if limited.StatusCode != http.StatusTooManyRequests || limited.Header.Get("Retry-After") == "" || !strings.Contains(limited.Text, "Try again in") {
		t.Errorf("over the limit of the key: %d %s", limited.StatusCode, limited.Text)
	}
	if w.Rows(t) != before {
		t.Error("an item was changed")
	}
	if logs := rt.Logs.String(); !strings.Contains(logs, `"route":"/account/activity"`) || strings.Contains(logs, "notes.txt") {
		t.Errorf("the log is %s", logs)
	}
}

// A type of events, or a kind of actors, without words would be shown as its name.
func TestActivity_HasWordsForEveryTypeAndActor(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := journaled(t, w, "studio", webtest.Owner)
	for _, kind := range []account.ActorKind{account.ActorKey, account.ActorLogin, account.ActorPage, account.ActorCapability, account.ActorPurge, account.ActorService, account.ActorOperator} {
		for _, of := range journal.Types() {
			w.QueryInt(t, `WITH made AS (INSERT INTO journal (account_id, type, actor) VALUES ($1, $2, $3) RETURNING 1) SELECT count(*) FROM made`, tenant.Account.ID, string(of), account.Actor{Kind: kind, Name: "Assistant"}.Text())
		}
	}
	rt := w.Replica(t, webtest.Many)
	b := rt.Browser(t)
	p := b.Login("/account/activity", webtest.Owner)
	first := p.Request.URL.RequestURI()
	seen := map[string]bool{}
	for _, of := range journal.Types() {
		p = b.Get(first + "&type=" + string(of))
		rows := events(t, p)
		if len(rows) < 7 {
			t.Fatalf("%s: %q", of, rows)
		}
		for _, row := range rows[:7] {
			cells := strings.Split(row, " | ")
			seen[cells[0]] = true
			who, _, _ := strings.Cut(cells[2], ",") // the login of this test is an event, too, with an address
			seen[who] = true
			if strings.Contains(cells[0], ".") || cells[2] == "" || strings.ToUpper(cells[2][:1]) != cells[2][:1] {
				t.Errorf("%s is told as %q", of, row)
			}
		}
		selected := false
		for _, option := range p.Elements(t, "option") {
			selected = selected || webtest.AttributeOf(option, "value") == string(of) && strings.Contains(p.Text, `value="`+string(of)+`" selected`)
		}
		if !selected {
			t.Errorf("the filter does not show %s", of)
		}
	}
	if len(seen) != len(journal.Types())+7 {
		t.Errorf("the words are %v", seen)
	}
}
