package pages

import (
	"io"
	"strings"
	"time"
)

// ViewFilePage shows one file with all that is known of it. Its forms post item, account and back to
// /account/files/edit, /share, /seal and /delete.
type ViewFilePage struct {
	Form
	// EndsIn is in how many seconds the session ends unless it is used.
	EndsIn  int
	Account Account
	File    File
	// Kind is how the file is shown: image, video or audio; empty = by its thumbnail or a tile. Large is the URL of the picture.
	Kind, Large string
	Facts       []Fact
	// Back has the parameters of the list, for the forms, and BackURL leads to it.
	Back, BackURL string
	// PreviousURL and NextURL lead to the files beside this one in the list; empty = no link.
	PreviousURL, NextURL string
	// Edit is nil if the user may not change the file.
	Edit *EditFile
	// Share is nil if the user may not get a link.
	Share  *ShareFile
	Notice string
	Error  string
}

// Fact is something that is known of a file or of an application. At is set instead of Text for a time. URL leads to the files that share it; empty =
// no link.
type Fact struct {
	Name, Text, URL string
	At              time.Time
}

// EditFile are the fields of the form that changes a file, as they are or as the user typed them.
type EditFile struct {
	Name, Caption, Group string
	Public               bool
	Metadata             []Pair
	// Groups are those that can be chosen.
	Groups []string
	// Version is that of the file which the user has seen.
	Version int
	// Open is set after an error.
	Open bool
	// NameError and MetadataError are shown beside their fields; empty = none.
	NameError, MetadataError string
}

// Pair is a pair of the metadata.
type Pair struct{ Key, Value string }

// ShareFile is the form that makes a link to a private file, and the link that it made.
type ShareFile struct {
	// URL is empty before the form was sent. A public file has one that does not expire.
	URL   string
	Until time.Time
	// Times are how long a link can be good for; none for a public file.
	Times []Option
}

// ViewFile writes the page of a file.
func (p *Pages) ViewFile(w io.Writer, page ViewFilePage) error {
	return p.render(w, p.viewFilePage, view{Title: page.File.Title(), HasError: page.hasError(), Library: true, Use: []string{timesScript, filesScript}, Page: page})
}

func (p ViewFilePage) hasError() bool {
	return p.Error != "" || p.Edit != nil && (p.Edit.NameError != "" || p.Edit.MetadataError != "")
}

// FormURL returns the action of a form about the file.
func (p ViewFilePage) FormURL(action string) string { return formURL(action, p.Form, p.Account) }

// Rows returns the height of the field of a text.
func (p Pair) Rows() int { return min(1+strings.Count(p.Value, "\n"), 6) }
