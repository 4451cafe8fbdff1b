package pages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Permission is what a scope permits, as the consent page says it: Title in one line above the decision, Details below it.
type Permission struct {
	Title   string
	Details []string
	// Left is false if the tool policies of all accounts of the user permit nothing of it.
	Left bool
}

// scopeLabels describe the scopes: as a heading, in detail, and after the word "may". Details name all
// that the scope permits, since users read nothing else: TestConsent_NamesAllThatAScopePermits has the
// part of the text for each route, tool and member. Those of media:delete depend on the accounts.
var scopeLabels = map[Scope]struct {
	title   string
	details []string
	verb    string
}{
	"media:read": {"See your files", []string{
		"List, search and download all files of the account, also private ones and drafts (uploads that are not kept yet), with their captions, groups and other details.",
		"Get links to private files. Until a link expires, it works for everyone who has it.",
		"See who has added, changed and deleted files, and when. E-mail addresses are shown in part.",
		"See deleted files that can be restored, uploads that are not complete yet, how much is stored, and the settings for images.",
	}, "see files"},
	"media:write": {"Add and change your files, and make files public", []string{
		"Upload files, also from other websites, cancel uploads that are not complete yet, and keep drafts, which are deleted otherwise.",
		"Uploads use your storage. Where there is no room left, they remove deleted files sooner, which can then not be restored.",
		"Make private files public: everyone with the link can see them then. Make public files private.",
		"Change names, captions, groups and other details of files, and restore deleted files.",
		"Let others upload files to your account without a login, for a limited time.",
		"Change how images are converted, in which sizes they are shown, and whether everyone with the link to a public image can download its original.",
	}, "add and change files, make files public"},
	"media:delete": {"Delete your files", nil, "delete files"},
}

// Permissions returns what the scopes of the request permit in the accounts of the user.
func (p ConsentPage) Permissions() []Permission {
	var permissions []Permission
	for _, scope := range p.Scopes {
		words, ok := scopeLabels[scope]
		if !ok {
			permissions = append(permissions, Permission{Title: sanitize(string(scope)), Left: true})
			continue
		}
		title, details := words.title, words.details
		if scope == "media:delete" {
			title, details = deleteTitle(p.Accounts), deleteDetails(p.Accounts)
		}
		permissions = append(permissions, Permission{Title: title, Details: details, Left: len(p.Accounts) == 0 || slices.ContainsFunc(p.Accounts, func(a Account) bool { return a.leaves(scope) })})
	}
	return permissions
}

// deleteTitle says of deletes for how long they can be undone. Where the accounts differ, it says the worst: the details
// name the accounts.
func deleteTitle(accounts []Account) string {
	title := scopeLabels["media:delete"].title
	if len(accounts) == 0 {
		return title
	}
	shortest := accounts[0].UndoWindow
	same := true
	for _, account := range accounts[1:] {
		same = same && account.UndoWindow == shortest
		shortest = min(shortest, account.UndoWindow)
	}
	switch {
	case shortest <= 0 && same:
		return title + " for good"
	case shortest <= 0:
		return title + ", in some accounts for good"
	case same:
		return title + "; a delete can be undone for " + humanWindow(shortest)
	}
	return title + "; a delete can be undone for " + humanWindow(shortest) + " or longer"
}

// deleteDetails say what happens to deleted files. The user may not have chosen an account yet: where the
// accounts differ, the sentences name them.
func deleteDetails(accounts []Account) []string {
	var windows []time.Duration
	names := map[time.Duration][]string{}
	for _, account := range accounts {
		if !slices.Contains(windows, account.UndoWindow) {
			windows = append(windows, account.UndoWindow)
		}
		names[account.UndoWindow] = append(names[account.UndoWindow], sanitize(account.Name))
	}
	if len(windows) == 0 {
		windows = []time.Duration{0}
	}
	details := []string{"Delete files and drafts."}
	for _, window := range windows {
		in, drafts := "", ""
		if len(windows) > 1 {
			in = "In " + joined(names[window]) + ": "
		}
		if window > 0 {
			drafts = " Drafts are deleted for good."
		}
		details = append(details, in+deletedFor(window)+drafts)
	}
	return details
}

// joined returns names as a list in a sentence.
func joined(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// deletedFor returns for how long deleted files can be restored, in an account with this window.
func deletedFor(window time.Duration) string {
	if window <= 0 {
		return "Files are deleted for good: nobody can restore them."
	}
	return fmt.Sprintf("You can restore deleted files for %s, unless an upload needs their room before.", humanWindow(window))
}

// humanWindow returns a time in which deletes can be undone in words: in days or hours if it is a whole
// number of them.
func humanWindow(d time.Duration) string {
	const day = 24 * time.Hour
	unit, name := time.Minute, "minute"
	switch {
	case d%day == 0:
		unit, name = day, "day"
	case d%time.Hour == 0:
		unit, name = time.Hour, "hour"
	}
	count := int(d / unit) // never more than is true
	if count != 1 {
		name += "s"
	}
	return strconv.Itoa(count) + " " + name
}

// Verb returns what the scope permits, to follow the word "may".
func (s Scope) Verb() string {
	if words, ok := scopeLabels[s]; ok {
		return words.verb
	}
	return sanitize(string(s))
}
