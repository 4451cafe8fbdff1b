package pages

import (
	"io"
	"slices"
	"strings"
	"time"
)

// UploadRequestPage has a person hand over one file that an assistant has requested. It posts file to URL, and nothing to URL/again. Its script
// uploads to URL/resumable.
type UploadRequestPage struct {
	// ID is that of the request, by which the script finds an upload again.
	ID string
	// State is waiting, uploading, uploaded, rejected, deleted or expired.
	State string
	URL   string
	// Asker is the name that the application has chosen; empty = an assistant with an API key.
	Asker string
	// Account is the name of the account that gets the file.
	Account string
	// FileName and Caption are those that the file gets; empty = its own name, and none.
	FileName, Caption string
	// Types are those that the file may have, such as image/*; none = all. MaxBytes is the maximum of its size.
	Types     []string
	MaxBytes  int64
	ExpiresAt time.Time
	// Received and Length are bytes of a resumable upload that is on its way. Length is 0 while it is not known.
	Received, Length int64
	Resumable        bool
	// UploadedName and UploadedBytes are those of the file that was handed over. The name is empty if it is not for who has the address.
	UploadedName  string
	UploadedBytes int64
	Error         string
}

// UploadRequest writes the page on which a person hands over a file.
func (p *Pages) UploadRequest(w io.Writer, page UploadRequestPage) error {
	return p.render(w, p.uploadRequestPage, view{Title: page.Heading(), HasError: page.Error != "", Use: []string{timesScript, uploadScript}, Page: page})
}

// Heading returns the heading of the page.
func (p UploadRequestPage) Heading() string {
	switch p.State {
	case "waiting":
		return "Hand over a file"
	case "uploading":
		return "A file is on its way"
	case "uploaded":
		return "The file has arrived"
	case "rejected":
		return "The file was rejected"
	case "deleted":
		return "The file had arrived, and is deleted since"
	}
	return "The time for this file is over"
}

// Takes reports whether a file can be handed over, or continued.
func (p UploadRequestPage) Takes() bool { return p.State == "waiting" || p.State == "uploading" }

// Waits reports whether no file is on its way.
func (p UploadRequestPage) Waits() bool { return p.State == "waiting" }

// Title returns who asks for the file.
func (p UploadRequestPage) Title() string {
	if p.Asker == "" {
		return "An assistant"
	}
	return displayName(p.Asker)
}

// Accept returns the types as the field of a file takes them.
func (p UploadRequestPage) Accept() string { return strings.Join(p.Types, ",") }

// kindWords are the words for all types of a kind.
var kindWords = map[string]string{"image/*": "pictures", "video/*": "videos", "audio/*": "recordings", "text/*": "texts", "application/pdf": "PDF", "image/jpeg": "JPEG", "image/png": "PNG"}

// Kinds returns the types in words; empty for all.
func (p UploadRequestPage) Kinds() string {
	words := make([]string, len(p.Types))
	for i, one := range p.Types {
		if words[i] = kindWords[one]; words[i] == "" {
			words[i] = sanitize(one)
		}
	}
	slices.Sort(words)
	return joined(slices.Compact(words))
}

// Percent returns how much of a resumable upload has arrived, from 0 to 100.
func (p UploadRequestPage) Percent() int64 {
	if p.Length <= 0 {
		return 0
	}
	return min(100, p.Received*100/p.Length)
}
