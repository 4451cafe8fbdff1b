package pages

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// activityPath is where the page is.
const activityPath = "/account/activity"

// ActivityPage shows the events of an account, newest first. Its filter is a GET of /account/activity.
type ActivityPage struct {
	Form
	Email   string
	Account Account
	// Several is set if the user can choose another account.
	Several bool
	// Off means that the account has no journal.
	Off bool
	// Kept is how long events are kept.
	Kept   time.Duration
	Filter ActivityFilter
	Events []ActivityEvent
	// FirstURL, OlderURL and ClearURL lead to the newest events, to older ones, and to those without the filter; empty = no link.
	FirstURL, OlderURL, ClearURL string
	Error                        string
}

// ActivityFilter is what the filter shows: a type of events and the id of a file; empty = all.
type ActivityFilter struct{ Type, File string }

// ActivityEvent is an event as the page shows it.
type ActivityEvent struct {
	At   time.Time
	Type string
	// Percent is the part of the storage cap of usage.threshold.
	Percent int
	// FileID is the id of the file; empty = the event is about the account.
	FileID string
	// FileName is empty if the file is gone, or the user may not see it. FileURL leads to the file in a list; empty = no link.
	FileName, FileURL string
	// App is the name of the app of the file, unless it is that of the files page.
	App string
	// HistoryURL leads to the events of the file; empty = no link.
	HistoryURL string
	// ApprovalURL leads to the request to the owner that the event is about; empty = no link.
	ApprovalURL string
	Actor       ActivityActor
	// Fields are the names of what was changed.
	Fields []string
	// Wanted says what an owner is asked to allow; empty for other events.
	Wanted string
}

// ActivityActor is who made a change. An application has chosen its Name.
type ActivityActor struct {
	Kind, Name, Email string
	// ApprovedBy is the owner who has allowed the change; empty = nobody was asked.
	ApprovedBy string
	// AskedBy is who has asked for what the actor has decided; nil = the event is no decision.
	AskedBy *ActivityActor
}

// Activity writes the activity of an account.
func (p *Pages) Activity(w io.Writer, page ActivityPage) error {
	return p.render(w, p.activityPage, view{Title: "Activity of " + sanitize(page.Account.Name), HasError: page.Error != "", Full: true, Use: []string{timesScript}, Page: page})
}

// PageLinks returns the links to the pages of the account.
func (p ActivityPage) PageLinks() []Tab {
	return pageLinks(p.Form, ofAccount(filesURL(p.Form), p.Account), activityURL(p.Form), activityLink)
}

// ChooseURL returns the URL of the page on which the account is chosen.
func (p ActivityPage) ChooseURL() string { return activityURL(p.Form) }

// Filtered reports whether a filter restricts the events.
func (p ActivityPage) Filtered() bool { return p.Filter.Type != "" || p.Filter.File != "" }

// KeptFor returns how long events are kept, in words.
func (p ActivityPage) KeptFor() string { return humanWindow(p.Kept) }

// eventWords say what happened, by the type of the event, in the order of the filter.
var eventWords = []Option{
	{Value: "media.uploaded", Name: "Uploaded, not kept yet"},
	{Value: "media.sealed", Name: "Kept"},
	{Value: "media.updated", Name: "Changed"},
	{Value: "media.deleted", Name: "Deleted"},
	{Value: "media.restored", Name: "Restored"},
	{Value: "media.purged", Name: "Removed for good"},
	{Value: "media.rejected", Name: "Rejected by the malware check"},
	{Value: "settings.changed", Name: "Image settings changed"},
	{Value: "key.issued", Name: "API key issued"},
	{Value: "key.ended", Name: "API key ended"},
	{Value: "account.suspended", Name: "Account suspended"},
	{Value: "account.resumed", Name: "Account resumed"},
	{Value: "usage.threshold", Name: "Storage nearly full"},
	{Value: "login", Name: "Logged in"},
	{Value: "application.authorized", Name: "Application authorized"},
	{Value: "application.revoked", Name: "Application revoked"},
	{Value: "approval.requested", Name: "Owner asked"},
	{Value: "approval.allowed", Name: "Request allowed"},
	{Value: "approval.denied", Name: "Request denied"},
	{Value: "approval.expired", Name: "Request expired"},
}

// Types returns the options of the filter by type.
func (f ActivityFilter) Types() []Option {
	return options(f.Type, append([]Option{{Value: "", Name: "Everything"}}, eventWords...)...)
}

// What returns what happened in words. A type that this version does not know is shown as it is.
func (e ActivityEvent) What() string {
	if e.Percent > 0 {
		return fmt.Sprintf("Storage used to %d %%", e.Percent)
	}
	for _, one := range eventWords {
		switch {
		case one.Value != e.Type:
		case e.Wanted == "":
			return one.Name
		default:
			return one.Name + ": " + e.Wanted
		}
	}
	return sanitize(e.Type)
}

// FileTitle returns the name of the file as the pages show it, or its id if the name is not known.
func (e ActivityEvent) FileTitle() string {
	if e.FileName == "" {
		return sanitize(e.FileID)
	}
	return File{Name: e.FileName}.Title()
}

// Application returns the name of the application that the event is about, as it has chosen it; empty for an event about none.
func (e ActivityEvent) Application() string {
	switch {
	case e.Type != "login" && e.Type != "application.authorized" && e.Type != "application.revoked":
		return ""
	case e.Actor.Name == "" && e.Type == "login": // on a page of the service
		return ""
	}
	return displayName(e.Actor.Name)
}

// fieldWords name the fields whose names in the API are not the words of the files page.
var fieldWords = map[string]string{"fileName": "name", "focus": "focus point", "file": "converted file"}

// Changed returns the names of what was changed as a list.
func (e ActivityEvent) Changed() string {
	names := make([]string, len(e.Fields))
	for i, field := range e.Fields {
		names[i] = sanitize(field)
		if words, ok := fieldWords[field]; ok {
			names[i] = words
		}
	}
	return strings.Join(names, ", ")
}

// actorWords say who made a change, by the kind of the actor. The e-mail address of a user follows.
var actorWords = map[string]string{
	"key": "API key", "login": "Application", "page": "Owner", "capability": "Upload signature", "purge": "Purge", "service": "Service", "operator": "Operator",
}

// By returns who made the change, without the user: the application by the name that it has chosen.
func (a ActivityActor) By() string {
	if a.Kind == "login" {
		return displayName(a.Name)
	}
	if words, ok := actorWords[a.Kind]; ok {
		return words
	}
	if a.Kind == "" {
		return "Unknown"
	}
	return sanitize(a.Kind)
}

// For returns the application that has made an upload signature, or has asked a person for the file; empty for another actor, and for a signature
// of a key.
func (a ActivityActor) For() string {
	if a.Kind != "capability" || a.Name == "" {
		return ""
	}
	return displayName(a.Name)
}

// Asker returns who has asked for what was decided; empty for an event that is no decision.
func (a ActivityActor) Asker() string {
	if a.AskedBy == nil {
		return ""
	}
	return a.AskedBy.By()
}

// Acts reports whether the user of Email has made the change. Who else ends an authorization is told with the user whose it was.
func (a ActivityActor) Acts() bool { return a.Kind == "login" || a.Kind == "page" }

// Application reports whether By is the name of an application.
func (a ActivityActor) Application() bool { return a.Kind == "login" }
