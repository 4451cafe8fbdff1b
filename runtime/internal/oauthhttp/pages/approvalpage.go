package pages

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
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
	// Bytes is the size of the original file.
	Bytes int64
	// Deleted is set if File is deleted and can be restored, until RestorableUntil.
	Deleted         bool
	RestorableUntil time.Time
	// Details are the fields that would be changed, with their values.
	Details []ApprovalDetail
	// State is waiting, done, changed or failed.
	State, Failure string
}

// ApprovalDetail is a field that would be changed.
type ApprovalDetail struct{ Name, Value string }

// WaitingRequest is a link to an approval that waits for the owner.
type WaitingRequest struct {
	// Application is the name that the application has chosen; empty = an assistant with an API key.
	Application, URL string
}

// Asker returns who asks.
func (r WaitingRequest) Asker() string { return ApprovalPage{Application: r.Application}.Asker() }

// Approval writes the page on which an owner decides.
func (p *Pages) Approval(w io.Writer, page ApprovalPage) error {
	return p.render(w, p.approvalPage, view{Title: page.Heading(), HasError: page.Error != "", Wide: true, Use: []string{timesScript}, Page: page})
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

// Ended reports whether the request has ended without a change.
func (p ApprovalPage) Ended() bool { return p.State == "denied" || p.State == "expired" }

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

// stepWords say what is done to one file and to several, by the operation.
var stepWords = map[string]struct{ one, many string }{
	"delete_media": {"Delete", "Delete %d files"}, "update_media": {"Change", "Change %d files"}, "seal_media": {"Publish", "Publish %d files"},
	"restore_media":         {"Restore as a public file", "Restore %d files as public files"},
	"update_media_settings": {"Change the image settings", "Change the image settings %d times"},
	publishing:              {"Make public", "Make %d files public"},
}

// publishing is the kind of a change that makes a file public.
const publishing = "publish"

// kind is the operation, or publishing.
func (s ApprovalStep) kind() string {
	if s.Tool == "update_media" && slices.Contains(s.Details, ApprovalDetail{"access", "public"}) {
		return publishing
	}
	return s.Tool
}

// What returns what is done in words. An operation that this version does not know is shown as it is.
func (s ApprovalStep) What() string {
	if words, ok := stepWords[s.kind()]; ok {
		return words.one
	}
	return sanitize(s.Tool)
}

// Publishes reports whether everyone with the address of the file can open it after the change.
func (s ApprovalStep) Publishes() bool {
	return s.Tool == "seal_media" || s.Tool == "restore_media" || s.kind() == publishing
}

// Irrevocable reports whether the file cannot be restored although others can: only files that are kept are deleted reversibly.
func (s ApprovalStep) Irrevocable() bool {
	return s.Tool == "delete_media" && s.State == "waiting" && s.File != nil && s.File.Draft()
}

// Values returns the fields that would be changed, named as on the other pages. That a file becomes public is said by What.
func (s ApprovalStep) Values() (shown []ApprovalDetail) {
	for _, detail := range s.Details {
		if s.kind() == publishing && detail.Name == "access" {
			continue
		}
		if name, ok := detailNames[detail.Name]; ok {
			detail.Name = name
		}
		shown = append(shown, detail)
	}
	return shown
}

// detailNames are the names of fields of files and of settings on the pages.
var detailNames = map[string]string{"fileName": "Name", "access": "Access", "caption": "Caption", "group": "Group", "metadata": "Metadata", "focus": "Focus", "useWebP": "Convert to WebP",
	"webpOutputQuality": "WebP quality", "thumbnailWidth": "Width of thumbnails", "thumbnailHeight": "Height of thumbnails"}

// Wanted is what is asked for of one kind.
type Wanted struct {
	Text      string
	Bytes     int64
	Publishes bool
}

// Wants returns what all changes together are, which an owner has to see before the buttons: Delete 3 files.
func (p ApprovalPage) Wants() (wants []Wanted) {
	var kinds []string
	steps := map[string][]ApprovalStep{}
	for _, step := range p.Steps {
		kind := step.kind()
		if steps[kind] == nil {
			kinds = append(kinds, kind)
		}
		steps[kind] = append(steps[kind], step)
	}
	for _, kind := range kinds {
		of := steps[kind]
		wanted := Wanted{Text: of[0].What(), Publishes: of[0].Publishes()}
		switch words, ok := stepWords[kind]; {
		case len(of) > 1 && ok:
			wanted.Text = fmt.Sprintf(words.many, len(of))
		case len(of) > 1:
			wanted.Text += ", " + strconv.Itoa(len(of)) + " times"
		case of[0].FileID != "":
			wanted.Text += " " + of[0].Title()
		}
		for _, step := range of {
			wanted.Bytes += step.Bytes
		}
		wants = append(wants, wanted)
	}
	return wants
}

// Outdated returns how many changes will not be made, because their file is another one by now.
func (p ApprovalPage) Outdated() (n int) {
	for _, step := range p.Steps {
		if step.Missing {
			n++
		}
	}
	return n
}

// DeletedURL returns the address of the deleted files, if one of the changes can be undone there.
func (p ApprovalPage) DeletedURL() string {
	if !slices.ContainsFunc(p.Steps, func(step ApprovalStep) bool { return step.Deleted }) {
		return ""
	}
	return "/account/files?" + url.Values{"account": {p.Account.ID}, "state": {"deleted"}}.Encode()
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
