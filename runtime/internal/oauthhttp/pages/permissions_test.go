package pages_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

// permissions returns the texts of the permissions that the consent page lists.
func permissions(t *testing.T, accounts []pages.Account, scopes ...pages.Scope) []string {
	t.Helper()
	page := pages.ConsentPage{Form: form, Application: claude, Email: "ana@example.org", Accounts: accounts, Scopes: scopes}
	d := read(t, func(w io.Writer) error { return newPages(t).Consent(w, page) })
	var texts []string
	for _, list := range d.all("ul") {
		if list.get("class") != "permissions" {
			continue
		}
		for item := range list.ChildNodes() {
			if item.Data == "li" {
				texts = append(texts, document{item, d.source}.text())
			}
		}
	}
	return texts
}

// The page said that deletes are for good, also where they can be undone.
func TestConsent_SaysWhatADeleteIs(t *testing.T) {
	t.Parallel()
	with := func(name string, window time.Duration) pages.Account {
		return pages.Account{ID: name, Name: name, UndoWindow: window}
	}
	const scope = "media:delete"
	for _, tt := range []struct {
		accounts []pages.Account
		want     string
	}{
		{[]pages.Account{with("A", 0)}, "Files are deleted for good: nobody can restore them."},
		{[]pages.Account{with("A", 72*time.Hour)}, "You can restore deleted files for 3 days, unless an upload needs their room before. Drafts are deleted for good."},
		{[]pages.Account{with("A", 24*time.Hour), with("B", 24*time.Hour)}, "You can restore deleted files for 1 day, unless an upload needs their room before. Drafts are deleted for good."},
		{[]pages.Account{with("A", 36*time.Hour)}, "You can restore deleted files for 36 hours, unless an upload needs their room before. Drafts are deleted for good."},
		{[]pages.Account{with("A", 90*time.Minute+time.Second)}, "You can restore deleted files for 90 minutes, unless an upload needs their room before. Drafts are deleted for good."},
		{[]pages.Account{with("A", 0), with("B", time.Hour), with("C", 0)},
			"In A and C: Files are deleted for good: nobody can restore them.In B: You can restore deleted files for 1 hour, unless an upload needs their room before. Drafts are deleted for good."},
	} {
		if got, want := permissions(t, tt.accounts, scope), []string{"Delete your filesDelete files and drafts." + tt.want}; !slices.Equal(got, want) {
			t.Errorf("the page says %q, want %q", got, want)
		}
	}
	if got := permissions(t, []pages.Account{with("A", 0)}, "media:read", "media:write"); len(got) != 2 || strings.Contains(strings.Join(got, ""), "Delete") {
		t.Errorf("without the scope the page says %q", got)
	}
}
