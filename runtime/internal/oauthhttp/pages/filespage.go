package pages

import (
	"fmt"
	"io"
	"math"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/runtime/media"
)

// FilesPage shows the files of an account. Its forms post item, account and back to
// /account/files/seal, /delete and /restore; that of an upload posts a file to UploadURL or
// UploadDraftURL, and the filter is a GET of /account/files.
type FilesPage struct {
	Form
	// EndsIn is in how many seconds the session ends unless it is used.
	EndsIn  int
	Email   string
	Account Account
	// App is the name of the app whose files are shown.
	App string
	// Apps lead to the files of the apps of the account; none if it has one.
	Apps []Tab
	// Several is set if the user can choose another account.
	Several bool
	// Usage is nil if the user may not see it.
	Usage *Usage
	// Running are uploads that are not complete; nil = none.
	Running *RunningUploads
	// Tabs lead to the lists; State is that of the current one: "", draft or deleted.
	Tabs   []Tab
	State  string
	Filter FileFilter
	Files  []File
	Total  *int64 // files in the whole list; nil = not known
	// Back has the parameters of the list, for the forms.
	Back string
	// FirstURL, PreviousURL, NextURL and ClearURL lead to the first page, to the pages beside this one, and to the list without
	// the filter; empty = no link.
	FirstURL, PreviousURL, NextURL, ClearURL string
	// SelectURL leads to the same page with all of its files selected, or with none if Selected is set; empty = no link.
	SelectURL string
	Selected  bool
	// Groups are those that can be chosen.
	Groups []string
	// UploadURL uploads and seals, UploadDraftURL uploads a draft; empty = the user may not.
	UploadURL, UploadDraftURL string
	// Script is nil if the user may not upload.
	Script *UploadScript
	// MaxUploadSize is in bytes.
	MaxUploadSize int64
	// Waiting is what assistants and applications ask the owner for.
	Waiting []WaitingRequest
	Notice  string
	// Deleted are the ids of items that were deleted just now and can be restored.
	Deleted     []string
	Selection   Selection
	Error       string
	UploadError string
	// Typed is what the user typed in the upload form before UploadError.
	Typed TypedUpload
}

// TypedUpload are the fields of the upload form that the user typed or chose. A browser does not let a
// page choose the file again.
type TypedUpload struct {
	Caption, Group string
	Public         bool
}

// UploadScript is what the script of uploads needs: it posts request, csrf, account and draft to SignatureURL, and leads to ListURL at its end. Draft is
// set if all uploads are kept later.
type UploadScript struct {
	SignatureURL, ListURL string
	Draft                 bool
}

// Selection says what the user can do with several files of the list. The form posts item0, item1 and so on, account, back and action to
// /account/files/selected.
type Selection struct {
	Keep, Restore, Change, Download, Delete bool
}

// Any reports whether there is something to do.
func (s Selection) Any() bool { return s.Keep || s.Restore || s.Change || s.Download || s.Delete }

// Tab is a link to a list or a page.
type Tab struct {
	Name    string
	URL     string
	Current bool
}

// FileFilter is what the filter of the list shows. Name is a part of a file name, which links of other pages have.
type FileFilter struct {
	Words, Name, Type, Group, Access, Caption, Orientation, From, To, CapturedFrom, CapturedTo, Size, Sort string
}

// Usage is what an account stores, and may store, in bytes.
type Usage struct{ Used, Max int64 }

// File is a file as the page shows it.
type File struct {
	ID      string
	Name    string
	Type    string // MIME type
	Size    int64  // bytes
	Caption string
	Group   string
	Public  bool
	At      time.Time // of the upload
	// URL and Thumbnail are where the browser gets the file and its thumbnail; empty = none.
	URL, Thumbnail string
	// Width and Height are those of the thumbnail's box, in proportion to the picture; 0 = not known.
	Width, Height int
	// ViewURL leads to the page of the file; empty = there is none.
	ViewURL string
	// Original is what was uploaded, if URL leads to a conversion of it; nil = URL leads to what was uploaded.
	Original  *Original
	ExpiresAt time.Time // of a draft; else zero
	DeletedAt time.Time // of a deleted file; else zero
	// RestorableUntil is until when a deleted file can be restored at least.
	RestorableUntil time.Time

	CanSeal, CanDelete, CanRestore bool
	// Checking is set for a draft that is sealed once its file was checked, and Rejected for one whose file cannot be checked.
	Checking, Rejected bool
	// DeleteURL leads to the question whether to delete the file permanently; empty = a delete can be
	// undone, so that nothing is asked.
	DeleteURL string
}

// Original is the uploaded file of which a conversion was made.
type Original struct {
	URL  string
	Type string // MIME type
	Size int64  // bytes
}

// DeleteFilePage asks whether to delete a file. It posts item, account, back and permanent=1 to
// /account/files/delete.
type DeleteFilePage struct {
	Form
	Account Account
	File    File
	// Items are the ids of several files, instead of File. The form posts them as item0, item1 and so on to /account/files/selected.
	Items   []string
	Back    string
	BackURL string
	// Permanent means that the delete cannot be undone.
	Permanent bool
	// LoginURL starts a new login, which the delete needs; empty = it needs none.
	LoginURL string
}

// ChooseAccountPage lists the accounts whose files, or whose activity, the user can see.
type ChooseAccountPage struct {
	Form
	Email    string
	Accounts []Account
	// Activity is set if the user chooses an account to see its activity.
	Activity bool
}

// Files writes the files page.
func (p *Pages) Files(w io.Writer, page FilesPage) error {
	return p.render(w, p.filesPage, view{Title: page.Heading() + " of " + sanitize(page.Account.Name), HasError: page.Error != "" || page.UploadError != "", Library: true, Use: []string{timesScript, filesScript, uploadScript}, Page: page})
}

// DeleteFile writes the page that asks whether to delete a file.
func (p *Pages) DeleteFile(w io.Writer, page DeleteFilePage) error {
	return p.render(w, p.deleteFilePage, view{Title: "Delete a file", Page: page})
}

// ChooseAccount writes the page on which the user chooses an account.
func (p *Pages) ChooseAccount(w io.Writer, page ChooseAccountPage) error {
	return p.render(w, p.chooseAccountPage, view{Title: "Choose an account", Page: page})
}

// The pages of an account, as their links are named.
const (
	filesLink    = "Files"
	activityLink = "Activity"
	appsLink     = "Authorized applications"
)

// pageLinks returns the links to the pages of an account, for a session. The page of current is the one that is shown.
func pageLinks(form Form, filesURL, activityURL, current string) []Tab {
	links := []Tab{{Name: filesLink, URL: filesURL}, {Name: activityLink, URL: activityURL}, {Name: appsLink, URL: "/account/connections?request=" + url.QueryEscape(form.Request)}}
	for i := range links {
		links[i].Current = links[i].Name == current
	}
	return links
}

// filesURL and activityURL return the URLs of the pages on which the account is chosen, or of the only account.
func filesURL(form Form) string    { return "/account/files?request=" + url.QueryEscape(form.Request) }
func activityURL(form Form) string { return activityPath + "?request=" + url.QueryEscape(form.Request) }

// ofAccount returns the URL of a page with the account.
func ofAccount(page string, account Account) string {
	return page + "&account=" + url.QueryEscape(account.ID)
}

// PageLinks returns the links to the pages of the account.
func (p FilesPage) PageLinks() []Tab {
	return pageLinks(p.Form, filesURL(p.Form), ofAccount(activityURL(p.Form), p.Account), filesLink)
}

// PageLinks returns the links to the pages of the account.
func (p ChooseAccountPage) PageLinks() []Tab {
	current := filesLink
	if p.Activity {
		current = activityLink
	}
	return pageLinks(p.Form, filesURL(p.Form), activityURL(p.Form), current)
}

// PageLinks returns the links to the pages of the account; none without a files page.
func (p AuthorizedAppsPage) PageLinks() []Tab {
	if p.FilesURL == "" {
		return nil
	}
	return pageLinks(p.Form, p.FilesURL, activityURL(p.Form), appsLink)
}

// ChooseURL returns the URL of the page on which the account is chosen.
func (p FilesPage) ChooseURL() string { return filesURL(p.Form) }

// AccountURL returns the URL of the files, or of the activity, of an account.
func (p ChooseAccountPage) AccountURL(account Account) string {
	if p.Activity {
		return ofAccount(activityURL(p.Form), account)
	}
	return ofAccount(filesURL(p.Form), account)
}

// Heading returns what the list has.
func (p FilesPage) Heading() string {
	switch p.State {
	case "draft":
		return "Not kept yet"
	case "deleted":
		return "Deleted files"
	}
	return "Files"
}

// Count returns the number of files in words; empty = not known.
func (p FilesPage) Count() string {
	switch {
	case p.Total == nil:
		return ""
	case *p.Total == 1:
		return "1 file"
	}
	return strconv.FormatInt(*p.Total, 10) + " files"
}

// Filtered reports whether a filter restricts the list.
func (p FilesPage) Filtered() bool {
	return p.Filter.Words != "" || p.Filter.narrows()
}

// Arranged reports whether the list is filtered otherwise than by words, or in an order of its own.
func (p FilesPage) Arranged() bool {
	return p.Filter.narrows() || p.Filter.Sort != "" && p.Filter.Sort != "-time"
}

// FormURL returns the action of a form about a file. A browser stays there if the form is answered
// with an error, and its reload leads to the list of the account.
func (p FilesPage) FormURL(action string) string { return formURL(action, p.Form, p.Account) }

// FormURL returns the action of the form.
func (p DeleteFilePage) FormURL() string {
	if len(p.Items) > 0 {
		return formURL("selected", p.Form, p.Account)
	}
	return formURL("delete", p.Form, p.Account)
}

// What returns what would be deleted, in words.
func (p DeleteFilePage) What() string {
	switch len(p.Items) {
	case 0:
		return "this file"
	case 1:
		return "1 file"
	}
	return strconv.Itoa(len(p.Items)) + " files"
}

func formURL(action string, form Form, account Account) string {
	address := "/account/files/" + action + "?request=" + url.QueryEscape(form.Request) + "&account=" + url.QueryEscape(account.ID)
	if account.App != "" {
		address += "&app=" + url.QueryEscape(account.App)
	}
	return address
}

// Option is an option of a field.
type Option struct {
	Value, Name string
	Selected    bool
}

// options returns the options with the selected one, which is added if it is none of them.
func options(selected string, all ...Option) []Option {
	found := false
	for i := range all {
		all[i].Selected = all[i].Value == selected
		found = found || all[i].Selected
	}
	if !found {
		all = append(all, Option{Value: selected, Name: sanitize(selected), Selected: true})
	}
	return all
}

// narrows reports whether the list is filtered otherwise than by words.
func (f FileFilter) narrows() bool {
	return f.Name != "" || f.Type != "" || f.Group != "" || f.Access != "" || f.Caption != "" || f.Orientation != "" || f.From != "" || f.To != "" || f.CapturedFrom != "" || f.CapturedTo != "" || f.Size != ""
}

// Accesses returns the options of the filter by access.
func (f FileFilter) Accesses() []Option {
	return options(f.Access, Option{Value: "", Name: "Any access"}, Option{Value: "public", Name: "Public"}, Option{Value: "private", Name: "Private"})
}

// Captions returns the options of the filter by captions.
func (f FileFilter) Captions() []Option {
	return options(f.Caption, Option{Value: "", Name: "With or without"}, Option{Value: "with", Name: "With a caption"}, Option{Value: "without", Name: "Without a caption"})
}

// Orientations returns the options of the filter by orientation.
func (f FileFilter) Orientations() []Option {
	return options(f.Orientation, Option{Value: "", Name: "Any shape"}, Option{Value: "landscape", Name: "Landscape"}, Option{Value: "portrait", Name: "Portrait"}, Option{Value: "square", Name: "Square"})
}

// ByCapture reports whether the list is in the order of the time of capture, which not every file has.
func (f FileFilter) ByCapture() bool { return strings.TrimPrefix(f.Sort, "-") == "captured" }

// Sizes returns the options of the filter by size.
func (f FileFilter) Sizes() []Option {
	return options(f.Size, Option{Value: "", Name: "Any size"}, Option{Value: "small", Name: "Below 1 MiB"}, Option{Value: "medium", Name: "1 to 10 MiB"}, Option{Value: "large", Name: "10 MiB or more"})
}

// Types returns the options of the filter by type.
func (f FileFilter) Types() []Option {
	return options(f.Type, Option{Value: "", Name: "All types"}, Option{Value: "image/*", Name: "Images"}, Option{Value: "video/*", Name: "Videos"}, Option{Value: "audio/*", Name: "Audio"},
		Option{Value: "application/pdf", Name: "PDF"}, Option{Value: "text/*", Name: "Text"}, Option{Value: "application/*", Name: "Documents and others"})
}

// Orders returns the options of the order. Drafts are in the order of time only.
func (p FilesPage) Orders() []Option {
	orders := []Option{{Value: "", Name: "Newest first"}, {Value: "time", Name: "Oldest first"}}
	if p.State == "" {
		orders = append(orders, Option{Value: "name", Name: "Name, A to Z"}, Option{Value: "-name", Name: "Name, Z to A"},
			Option{Value: "-size", Name: "Largest first"}, Option{Value: "size", Name: "Smallest first"}, Option{Value: "-captured", Name: "Date taken, newest first"}, Option{Value: "captured", Name: "Date taken, oldest first"})
	}
	selected := p.Filter.Sort
	if selected == "-time" { // the default
		selected = ""
	}
	return options(selected, orders...)
}

// Percent returns how much of the cap is used, from 0 to 100, with one digit.
func (u Usage) Percent() string {
	if u.Max <= 0 {
		return "100"
	}
	return strconv.FormatFloat(math.Round(min(1, float64(u.Used)/float64(u.Max))*1000)/10, 'f', -1, 64)
}

// Text returns the usage in words.
func (u Usage) Text() string {
	text := fmt.Sprintf("%s of %s used", media.HumanBytes(u.Used), media.HumanBytes(u.Max))
	if free := u.Max - u.Used; free > 0 {
		return text + ", " + media.HumanBytes(free) + " free"
	}
	return text + ", nothing is free"
}

// Title returns the name as the pages show it.
func (f File) Title() string {
	if name := sanitizeFileName(f.Name); HasVisible(name) {
		return name
	}
	return "A file without a name"
}

// Anchor returns the id of the file on the page of a list.
func (f File) Anchor() string { return FileAnchor(f.ID) }

// FileAnchor returns the id of a file on the page of a list, by which a link leads back to it.
func FileAnchor(id string) string { return "item-" + id }

// Draft reports whether the file is a draft.
func (f File) Draft() bool { return !f.ExpiresAt.IsZero() }

// maxExtension bounds the extension on a tile, in characters.
const maxExtension = 5

// Kind returns what the tile of a file without a thumbnail says: its extension, or its kind.
func (f File) Kind() string {
	extension := strings.TrimPrefix(path.Ext(f.Name), ".")
	if extension != "" && len(extension) <= maxExtension && !strings.ContainsFunc(extension, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return strings.ToUpper(extension)
	}
	switch kind, _, _ := strings.Cut(f.Type, "/"); kind {
	case "image", "video", "audio", "text":
		return kind
	}
	return "file"
}
