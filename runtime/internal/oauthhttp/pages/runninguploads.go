package pages

import (
	"strconv"
	"time"

	"mediastack.dev/runtime/media"
)

// RunningUploads are the resumable uploads of an account that are not complete. Their form posts item, account and
// back to /account/files/cancel.
type RunningUploads struct {
	Uploads []RunningUpload
	// More is set if there are others, which are older.
	More bool
	// Shown is set after the user has cancelled one: others may follow.
	Shown bool
}

// openedUploads is how many uploads stand open above the files, which are what most users come for.
const openedUploads = 3

// Opened reports whether the list is open when the page appears.
func (r RunningUploads) Opened() bool { return r.Shown || len(r.Uploads) <= openedUploads }

// RunningUpload is such an upload as the page shows it.
type RunningUpload struct {
	ID   string
	Name string
	// Size is -1 while it is not known. Received is how much of it has arrived.
	Size, Received int64
	// Age is how long ago the upload began. It ends at ExpiresAt if no more of it arrives.
	Age       time.Duration
	ExpiresAt time.Time
	CanCancel bool
}

// Title returns the name as the pages show it.
func (u RunningUpload) Title() string { return File{Name: u.Name}.Title() }

// Percent returns how much has arrived, as a whole number; empty = not known.
func (u RunningUpload) Percent() string {
	if u.Size <= 0 {
		return ""
	}
	return strconv.Itoa(int(float64(u.Received) * 100 / float64(u.Size))) // never more than is true
}

// Progress returns how much has arrived in words.
func (u RunningUpload) Progress() string {
	if u.Size < 0 {
		return media.HumanBytes(u.Received) + ", of an unknown size"
	}
	return media.HumanBytes(u.Received) + " of " + media.HumanBytes(u.Size)
}

// Started returns in words how long ago the upload began.
func (u RunningUpload) Started() string {
	switch {
	case u.Age < time.Minute:
		return "less than a minute ago"
	case u.Age >= 2*time.Hour:
		return strconv.Itoa(int(u.Age/time.Hour)) + " hours ago"
	}
	return humanDuration(u.Age.Truncate(time.Minute)) + " ago"
}
