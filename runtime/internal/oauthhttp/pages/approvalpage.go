package pages

import (
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ApprovalPage asks an owner whether changes that an application or an assistant wants to make are carried out. It posts approval, account,
// revision and decision (allow, more or deny) to /account/approval/decide.
type ApprovalPage struct {
	Form
	Account    Account
	ApprovalID string
	Revision   int
	// Application is the name that the application has chosen; empty = an assistant with an API key, KeyID.
	Application, KeyID string
	// By is the user who has connected the application, as the events of the account have the address.
	By        string
	AskedAt   time.Time
	ExpiresAt time.Time
	// State is waiting, allowed, denied, expired or done.
	State string
	Steps []ApprovalStep
	// More is set if deletes can be allowed in advance: so many in an hour.
	More int
	// Permanent means that a delete among the changes cannot be undone.
	Permanent bool
	// LoginURL starts a new login, which the decision needs; empty = it needs none.
	LoginURL string
	Error    string
}

// ApprovalStep is one change.
type ApprovalStep struct {
	// Tool is the operation, such as delete_media.
	Tool string
	// File is what it is about; nil for the settings. Missing means that the file is not there anymore, or has changed since.
	File    *File
	Missing bool
	FileID  string
	// Details are the fields that would be changed, with their values.
	Details []ApprovalDetail
	// State is waiting, done, changed or failed.
	State, Failure string
}

// ApprovalDetail is a field that would be changed.
type ApprovalDetail struct{ Name, Value string }

// Approval writes the page on which an owner decides.
func (p *Pages) Approval(w io.Writer, page ApprovalPage) error {
	return p.render(w, p.approvalPage, view{Title: page.Heading(), HasError: page.Error != "", Wide: true, Page: page})
}

// Heading returns the heading of the page.
func (p ApprovalPage) Heading() string {
	switch p.State {
	case "waiting":
		return "Allow these changes?"
	case "allowed":
		return "You allowed this: it is being carried out"
	case "done":
		return "You allowed this"
	case "denied":
		return "You denied this"
	}
	return "This request has expired"
}

// Waits reports whether the owner can decide.
func (p ApprovalPage) Waits() bool { return p.State == "waiting" }

// Runs reports whether the changes are being carried out.
func (p ApprovalPage) Runs() bool { return p.State == "allowed" }

// Asker returns who asks.
func (p ApprovalPage) Asker() string {
	if p.Application == "" {
		return "An assistant with an API key"
	}
	return displayName(p.Application)
}

// FormURL returns the action of the form.
func (p ApprovalPage) FormURL() string { return "/account/approval/decide?" + p.query() }

// URL returns the address of the page.
func (p ApprovalPage) URL() string { return "/account/approval?" + p.query() }

func (p ApprovalPage) query() string {
	return url.Values{"request": {p.Request}, "approval": {p.ApprovalID}}.Encode()
}

// stepWords say what is done, by the operation.
var stepWords = map[string]string{
	"delete_media": "Delete", "update_media": "Make public", "seal_media": "Publish", "restore_media": "Restore as a public file", "update_media_settings": "Change the image settings",
}

// What returns what is done in words. An operation that this version does not know is shown as it is.
func (s ApprovalStep) What() string {
	if words, ok := stepWords[s.Tool]; ok {
		return words
	}
	return sanitize(s.Tool)
}

// Summary says how many changes of each kind there are: it is above the buttons, and the changes are below them.
func (p ApprovalPage) Summary() string {
	var kinds []string
	counts := map[string]int{}
	for _, step := range p.Steps {
		kind := step.What()
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	for i, kind := range kinds {
		kinds[i] = kind + ": " + strconv.Itoa(counts[kind])
	}
	return strings.Join(kinds, ", ")
}

// outcomeWords say what became of a change.
var outcomeWords = map[string]string{"done": "Done", "changed": "Not done", "failed": "Not done"}

// Outcome returns what became of the change; empty while it waits.
func (s ApprovalStep) Outcome() string { return outcomeWords[s.State] }

// Title returns the name of the file as the pages show it, or its id if the file is not there anymore.
func (s ApprovalStep) Title() string {
	if s.File == nil {
		return sanitize(s.FileID)
	}
	return s.File.Title()
}
