package pages_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	domain "mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

// permissions returns the texts of the permissions that the consent page lists, above the decision and below it.
func permissions(t *testing.T, accounts []pages.Account, scopes ...pages.Scope) (short, details []string) {
	t.Helper()
	page := pages.ConsentPage{Form: form, Application: claude, Email: "ana@example.org", Accounts: accounts, Scopes: scopes}
	d := read(t, func(w io.Writer) error { return newPages(t).Consent(w, page) })
	for _, list := range d.all("ul") {
		for item := range list.ChildNodes() {
			switch {
			case item.Data != "li":
			case list.get("class") == "permissions":
				short = append(short, document{item, d.source}.text())
			case list.get("class") == "permission-details":
				details = append(details, document{item, d.source}.text())
			}
		}
	}
	return short, details
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
		title    string
		details  []string
	}{
		{[]pages.Account{with("A", 0)}, "Delete your files for good", []string{"Files are deleted for good: nobody can restore them."}},
		{[]pages.Account{with("A", 72*time.Hour)}, "Delete your files; a delete can be undone for 3 days",
			[]string{"You can restore deleted files for 3 days, unless an upload needs their room before. Drafts are deleted for good."}},
		{[]pages.Account{with("A", 24*time.Hour), with("B", 24*time.Hour)}, "Delete your files; a delete can be undone for 1 day",
			[]string{"You can restore deleted files for 1 day, unless an upload needs their room before. Drafts are deleted for good."}},
		{[]pages.Account{with("A", 36*time.Hour)}, "Delete your files; a delete can be undone for 36 hours",
			[]string{"You can restore deleted files for 36 hours, unless an upload needs their room before. Drafts are deleted for good."}},
		{[]pages.Account{with("A", 90*time.Minute+time.Second)}, "Delete your files; a delete can be undone for 90 minutes",
			[]string{"You can restore deleted files for 90 minutes, unless an upload needs their room before. Drafts are deleted for good."}},
		{[]pages.Account{with("A", 24*time.Hour), with("B", time.Hour)}, "Delete your files; a delete can be undone for 1 hour or longer",
			[]string{"In A: You can restore deleted files for 1 day, unless an upload needs their room before. Drafts are deleted for good.",
				"In B: You can restore deleted files for 1 hour, unless an upload needs their room before. Drafts are deleted for good."}},
		{[]pages.Account{with("A", 0), with("B", time.Hour), with("C", 0)}, "Delete your files, in some accounts for good",
			[]string{"In A and C: Files are deleted for good: nobody can restore them.", "In B: You can restore deleted files for 1 hour, unless an upload needs their room before. Drafts are deleted for good."}},
	} {
		short, details := permissions(t, tt.accounts, scope)
		if want := append([]string{"Delete files and drafts."}, tt.details...); !slices.Equal(short, []string{tt.title}) || !slices.Equal(details, want) {
			t.Errorf("the page says %q and %q, want %q and %q", short, details, tt.title, want)
		}
	}
	short, details := permissions(t, []pages.Account{with("A", 0)}, "media:read", "media:write")
	if all := strings.Join(append(short, details...), ""); len(short) != 2 || strings.Contains(all, "Delete") || !strings.Contains(short[1], "and make files public") {
		t.Errorf("without the scope the page says %q", all)
	}
}

// What a tool policy leaves is said, so that nobody allows what an application cannot do, or takes it for more.
func TestLimit_SaysWhatAToolPolicyLeaves(t *testing.T) {
	t.Parallel()
	all := []pages.Scope{"media:read", "media:write", "media:delete"}
	for _, tt := range []struct {
		policy domain.ToolPolicy
		scopes []pages.Scope
		want   string
	}{
		{domain.ToolPolicy{}, all, ""},
		{domain.ToolPolicy{Toolsets: []string{"core"}}, all, ""}, // by REST an application has the others
		{domain.ToolPolicy{ReadOnly: true}, all[:1], ""},
		{domain.ToolPolicy{ReadOnly: true}, all, "The administrator of this account permits no changes: only to look."},
		{domain.ToolPolicy{ReadOnly: true}, all[1:], "The administrator of this account permits nothing of it."},
		{domain.ToolPolicy{Tools: []string{}}, all, "The administrator of this account permits nothing of it."},
		{domain.ToolPolicy{Tools: []string{"upload_media", "list_media"}}, all, "The administrator of this account permits only to list files and upload files."},
		{domain.ToolPolicy{Tools: []string{"upload_media", "list_media"}, ReadOnly: true}, all, "The administrator of this account permits only to list files."},
		{domain.ToolPolicy{Tools: []string{"delete_media"}}, all[:1], "The administrator of this account permits nothing of it."},
	} {
		if got := pages.Limit(tt.policy, tt.scopes); got != tt.want {
			t.Errorf("%+v of %v: %q, want %q", tt.policy, tt.scopes, got, tt.want)
		}
	}
}

func TestLimit_HasWordsForEveryOperation(t *testing.T) {
	t.Parallel()
	scopes := []pages.Scope{"media:read", "media:write", "media:delete"}
	seen := map[string]domain.Operation{}
	for _, one := range domain.Operations() {
		if one == domain.GetApproval { // no policy takes it away
			continue
		}
		text := pages.Limit(domain.ToolPolicy{Tools: []string{string(one)}}, scopes)
		words, ok := strings.CutPrefix(text, "The administrator of this account permits only to ")
		if other, twice := seen[words]; !ok || len(words) < 5 || twice {
			t.Errorf("%s: %q, as %s", one, text, other)
		}
		seen[words] = one
	}
}

// The limit is said of each account, and of each permission of which nothing is left in any.
func TestConsent_SaysWhatTheToolPoliciesLeave(t *testing.T) {
	t.Parallel()
	looked := pages.Account{ID: "1", Name: "Archive", Policy: domain.ToolPolicy{ReadOnly: true}}
	free := pages.Account{ID: "2", Name: "Studio"}
	show := func(accounts ...pages.Account) string {
		return read(t, func(w io.Writer) error {
			return newPages(t).Consent(w, pages.ConsentPage{Form: form, Application: claude, Email: "ana@example.org", Accounts: accounts, Scopes: both})
		}).text()
	}
	const limit, off = "The administrator of this account permits no changes: only to look.", "The administrator does not permit this now."
	for _, tt := range []struct {
		name        string
		text        string
		limits, off int
	}{{"one account with a policy", show(looked), 1, 1}, {"one without", show(free), 0, 0}, {"both", show(looked, free), 1, 0}, {"two with a policy", show(looked, looked), 2, 1}} {
		if strings.Count(tt.text, limit) != tt.limits || strings.Count(tt.text, off) != tt.off {
			t.Errorf("%s: %s", tt.name, tt.text)
		}
	}
}
