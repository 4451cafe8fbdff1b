package pages_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

func TestActivity_IsATableWithHeaders(t *testing.T) {
	t.Parallel()
	page := pages.ActivityPage{Form: form, Account: account, Kept: 36 * time.Hour, Events: []pages.ActivityEvent{
		{At: moment.Add(5 * time.Second), Type: "media.updated", FileID: "an-id", FileName: "<b>a.txt", FileURL: "/account/files?name=a", HistoryURL: "/account/activity?item=an-id", Actor: pages.ActivityActor{Kind: "login", Name: "\u202e", Email: "m***@example.org"}, Fields: []string{"fileName", "caption", "useWebP"}},
		{At: moment, Type: "media.purged", FileID: "an-id", Actor: pages.ActivityActor{Kind: "purge"}},
		{At: moment, Type: "account.suspended", Actor: pages.ActivityActor{Kind: "operator"}},
		{At: moment, Type: "media.sealed", FileID: "other", FileName: "b.txt", App: "blog", Actor: pages.ActivityActor{Kind: "capability"}},
		{At: moment, Type: "media.uploaded", FileID: "other", FileName: "b.txt", Actor: pages.ActivityActor{Kind: "capability", Name: "<i>Desk", Email: "m***@example.org"}},
		{At: moment, Type: "media.moved", FileID: "other", Actor: pages.ActivityActor{Kind: "robot"}},
		{At: moment, Type: "media.sealed", FileID: "other", Actor: pages.ActivityActor{Kind: "page", Email: "m***@example.org"}},
		{At: moment, Type: "media.sealed", FileID: "other"},
		{At: moment, Type: "usage.threshold", Percent: 90, Actor: pages.ActivityActor{Kind: "service"}},
		{At: moment, Type: "login", Actor: pages.ActivityActor{Kind: "page", Email: "m***@example.org"}},
		{At: moment, Type: "login", Actor: pages.ActivityActor{Kind: "page", Name: "<i>Photos", Email: "m***@example.org"}},
		{At: moment, Type: "application.authorized", Actor: pages.ActivityActor{Kind: "login", Name: "Photos", Email: "m***@example.org"}},
		{At: moment, Type: "application.revoked", Actor: pages.ActivityActor{Kind: "operator", Name: "Photos", Email: "mara@example.org"}},
		{At: moment, Type: "settings.changed", Actor: pages.ActivityActor{Kind: "login", Name: "Photos", Email: "m***@example.org"}},
		{At: moment, Type: "approval.requested", Wanted: "delete, make public", ApprovalURL: "/account/approval?approval=1", Actor: pages.ActivityActor{Kind: "login", Name: "Photos", Email: "m***@example.org"}},
		{At: moment, Type: "approval.denied", Wanted: "make public", Actor: pages.ActivityActor{Kind: "page", Email: "m***@example.org", AskedBy: &pages.ActivityActor{Kind: "login", Name: "<i>Photos", Email: "m***@example.org"}}},
		{At: moment, Type: "approval.expired", Wanted: "publish", Actor: pages.ActivityActor{Kind: "service", AskedBy: &pages.ActivityActor{Kind: "key"}}},
	}}
	d := read(t, func(w io.Writer) error { return newPages(t).Activity(w, page) })
	var headers, rows []string
	for _, header := range d.all("th") {
		headers = append(headers, header.get("scope")+" "+header.text())
	}
	for _, row := range d.all("tr")[1:] {
		var cells []string
		for _, cell := range row.all("td") {
			cells = append(cells, cell.text())
			if cell.get("data-label") == "" {
				t.Error("a cell has no label for narrow screens")
			}
		}
		rows = append(rows, strings.Join(cells, " | "))
	}
	if !slices.Equal(headers, []string{"col Time", "col What", "col File", "col Who", "col Changed fields"}) || len(d.all("caption")) != 1 || !strings.Contains(d.all("caption")[0].text(), "kept for 36 hours") {
		t.Errorf("the table has %q: %s", headers, d.source)
	}
	want := []string{
		"21 Nov 2026, 14:05:05 UTC | Changed | <b>a.txt Events of this file | An application without a name of m***@example.org | name, caption, useWebP",
		"21 Nov 2026, 14:05:00 UTC | Removed for good | an-id | Purge | none",
		"21 Nov 2026, 14:05:00 UTC | Account suspended | None: the account | Operator | none",
		"21 Nov 2026, 14:05:00 UTC | Kept | b.txt app blog | Upload signature | none",
		"21 Nov 2026, 14:05:00 UTC | Uploaded, not kept yet | b.txt | Upload signature for <i>Desk | none",
		"21 Nov 2026, 14:05:00 UTC | media.moved | other | robot | none",
		"21 Nov 2026, 14:05:00 UTC | Kept | other | Owner, m***@example.org | none",
		"21 Nov 2026, 14:05:00 UTC | Kept | other | Unknown | none",
		"21 Nov 2026, 14:05:00 UTC | Storage used to 90 % | None: the account | Service | none",
		"21 Nov 2026, 14:05:00 UTC | Logged in | None: the account | Owner, m***@example.org | none",
		"21 Nov 2026, 14:05:00 UTC | Logged in | None: the application <i>Photos | Owner, m***@example.org | none",
		"21 Nov 2026, 14:05:00 UTC | Application authorized | None: the application Photos | Photos of m***@example.org | none",
		"21 Nov 2026, 14:05:00 UTC | Application revoked | None: the application Photos of mara@example.org | Operator | none",
		"21 Nov 2026, 14:05:00 UTC | Image settings changed | None: the account | Photos of m***@example.org | none",
		"21 Nov 2026, 14:05:00 UTC | Owner asked: delete, make public | None: the account The request | Photos of m***@example.org | none",
		"21 Nov 2026, 14:05:00 UTC | Request denied: make public | None: the account | Owner, m***@example.org asked by <i>Photos | none",
		"21 Nov 2026, 14:05:00 UTC | Request expired: publish | None: the account | Service asked by API key | none",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the rows are\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	if at := d.all("time")[0].get("datetime"); at != "2026-11-21T14:05:05Z" {
		t.Errorf("the time is %s", at)
	}
	var links []string
	for _, link := range d.all("nav")[0].all("a") {
		links = append(links, link.text()+" "+link.get("aria-current"))
	}
	if !slices.Equal(links, []string{"Files ", "Activity page", "Authorized applications "}) {
		t.Errorf("the pages are %q", links)
	}
}

func TestActivity_SaysWhyItHasNoEvents(t *testing.T) {
	t.Parallel()
	for want, page := range map[string]pages.ActivityPage{
		"No activity is recorded This account has no journal. Your administrator can switch it on: spec.journal": {Off: true},
		"No events yet":    {},
		"No event matches": {Filter: pages.ActivityFilter{Type: "media.sealed"}},
		"No older events":  {FirstURL: "/account/activity?a"},
		"No match so far":  {Filter: pages.ActivityFilter{File: "an-id"}, OlderURL: "/account/activity?b", FirstURL: "/account/activity?a"},
	} {
		page.Form, page.Account = form, account
		d := read(t, func(w io.Writer) error { return newPages(t).Activity(w, page) })
		if !strings.Contains(d.text(), want) || len(d.all("table")) != 0 || page.Off != (len(d.all("select")) == 0) {
			t.Errorf("the page says %q, want %q", d.text(), want)
		}
	}
}
