package media

import (
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"mediastack.dev/runtime/fault"
)

// Limits of the fields that come with an upload, in bytes of UTF-8.
const (
	MaxFileName = 255
	MaxCaption  = 4096
	MaxGroup    = 255
)

// Fields are what a client declares about an upload.
type Fields struct {
	// FileName is cleaned, never rejected.
	FileName string
	// MimeType is the declared type. The type detected from the bytes takes precedence.
	MimeType string
	Access   Access // empty = private
	Caption  string
	Group    string
	Metadata Metadata
}

// BindGroup returns the fields with the group that an upload signature is bound to, which
// overrides the client's. An empty group leaves the fields unchanged.
func (f Fields) BindGroup(group string) Fields {
	if group != "" {
		f.Group = group
	}
	return f
}

// Validate returns an Invalid fault that names the first field out of bounds. Commit calls it
// as well; an edge that has the fields before the file calls it early.
func (f Fields) Validate() error {
	if err := (Filter{Access: f.Access, Group: f.Group}).validate(); err != nil {
		return err
	}
	if err := CheckText("caption", f.Caption, MaxCaption, "\n\r\t"); err != nil {
		return err
	}
	return f.Metadata.Validate()
}

// WithDefaults returns the fields with the defaults of those that the client omitted, and with a clean file name.
func (f Fields) WithDefaults() Fields {
	if f.Access == "" {
		f.Access = Private
	}
	f.FileName = CleanFileName(f.FileName)
	return f
}

func (f Filter) validate() error {
	if f.Access != "" && f.Access != Public && f.Access != Private {
		return errAccess()
	}
	return CheckGroup(f.Group)
}

func errAccess() error { return fault.New(fault.Invalid, "access must be public or private") }

// CheckGroup returns an Invalid fault for a group label that is too long or has control characters.
func CheckGroup(group string) error { return CheckText("group", group, MaxGroup, "") }

// CheckText returns an Invalid fault for a text that is too long in bytes, is not UTF-8, or has control characters that are not allowed.
func CheckText(name, text string, limit int, allowed string) error {
	if len(text) > limit {
		return fault.New(fault.Invalid, "%s must be at most %d bytes", name, limit)
	}
	if !utf8.ValidString(text) {
		return fault.New(fault.Invalid, "%s must be UTF-8", name)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(allowed, r) }) {
		return fault.New(fault.Invalid, "%s must not contain control characters", name)
	}
	return nil
}

// CleanFileName returns a file name that is safe to show and to offer for download: the last
// path element (after / and \), valid UTF-8, without control characters and bidirectional
// controls, at most 255 bytes with its extension kept; "file" if nothing is left.
func CleanFileName(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	if cut := strings.LastIndexAny(name, `/\`); cut >= 0 {
		name = name[cut+1:]
	}
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, name)
	// Truncating may leave white space at the end.
	name = strings.TrimSpace(truncateName(strings.TrimSpace(name)))
	if strings.Trim(name, ".") == "" {
		return "file"
	}
	return name
}

// truncateName truncates a name to MaxFileName bytes, before its extension.
func truncateName(name string) string {
	if len(name) <= MaxFileName {
		return name
	}
	extension := filepath.Ext(name)
	if len(extension) > 32 {
		extension = ""
	}
	stem := name[:MaxFileName-len(extension)]
	for !utf8.ValidString(stem) {
		stem = stem[:len(stem)-1]
	}
	return stem + extension
}
