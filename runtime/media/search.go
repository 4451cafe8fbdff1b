package media

import (
	"encoding/binary"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// Search restricts lists, counts and totals. Empty fields match everything, and all others must match.
type Search struct {
	Filter
	// Type is the MIME type of the file, or a kind of types such as image/*.
	Type string
	// Name is a part of the file name. The case of ASCII letters does not matter.
	Name string
	// From and To bound when the upload of an item began, which its id contains and by which lists are
	// ordered: not before From, and before To. Zero = no bound.
	From, To time.Time
	// Metadata are pairs that the item has.
	Metadata Metadata
	// Captured is what the file says of how it was made.
	Captured CaptureSearch
	Traits   Traits
	// Words are searched in the file name, the caption, the group and the metadata.
	Words Words
	// Keys are those of the metadata in which words are searched; nil = all. It is a setting of the account, and not of the request.
	Keys []string
}

// Narrows reports whether the search needs more than a list of the app, by access and by group.
func (s Search) Narrows() bool {
	return s.Type != "" || s.Name != "" || !s.From.IsZero() || !s.To.IsZero() || len(s.Metadata) > 0 || s.Words.Any() || s.Traits.Any() || s.Captured.narrows()
}

// mimeType is the form of a type or of a kind of types.
var mimeType = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/(\*|[a-z0-9][a-z0-9!#$&^_.+-]{0,126})$`)

// CheckTypeAlias rejects a name of a type that people write and no file has: nothing would match it.
func CheckTypeAlias(name string) error {
	if name == "image/jpg" {
		return fault.New(fault.Invalid, "image/jpg is not a type: write image/jpeg")
	}
	return nil
}

// maxType is longer than any type that a file can have.
const maxType = 127

func (s Search) validate() error {
	if err := s.Filter.validate(); err != nil {
		return err
	}
	if s.Type != "" && (len(s.Type) > maxType || !mimeType.MatchString(s.Type)) {
		return fault.New(fault.Invalid, "type must be a MIME type such as image/jpeg, or a kind of types such as image/*")
	}
	if err := CheckTypeAlias(s.Type); err != nil {
		return err
	}
	if err := CheckText("name", s.Name, MaxFileName, ""); err != nil {
		return err
	}
	if !s.From.IsZero() && !s.To.IsZero() && !s.From.Before(s.To) {
		return fault.New(fault.Invalid, "from must be before to")
	}
	if err := s.Captured.validate(); err != nil {
		return err
	}
	if len(s.Metadata) > MaxMetadataPairs {
		return fault.New(fault.Invalid, "at most %d filters by meta are possible", MaxMetadataPairs)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Metadata)) {
		if !metadataKey.MatchString(key) {
			return fault.New(fault.Invalid, "meta.%.100s: a key must have 1 to %d characters of a-z, 0-9, '.', '_' and '-', and begin with a letter", strings.ToValidUTF8(key, "\uFFFD"), MaxMetadataKey)
		}
		if s.Metadata[key] == "" {
			return fault.New(fault.Invalid, "meta.%s must not be empty; leave it out to match all", key)
		}
		if utf8.RuneCountInString(s.Metadata[key]) > MaxMetadataValue { // no item has it
			return fault.New(fault.Invalid, "meta.%s must be at most %d characters", key, MaxMetadataValue)
		}
		if err := CheckText("meta."+key, s.Metadata[key], 4*MaxMetadataValue, "\n\r\t"); err != nil {
			return err
		}
	}
	return nil
}

// LowerName returns a name as searches and the order by name compare it: with ASCII letters in lower
// case. Other letters keep their case, so that the order depends on no locale of the database.
func LowerName(name string) string {
	lower := []byte(name)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

// MaxItemID is above the id of every item.
var MaxItemID = uuid.MustParse("ffffffff-ffff-ffff-ffff-ffffffffffff")

// IDs returns the bounds of the ids of items whose upload began from From on and before To: the first
// id, and the first one that is too late. Ids contain milliseconds.
func (s Search) IDs() (first, end uuid.UUID) {
	end = MaxItemID
	if !s.From.IsZero() {
		first = firstID(s.From)
	}
	if !s.To.IsZero() {
		end = firstID(s.To)
	}
	return first, end
}

// firstID returns the first id of uploads that began at a time or later.
func firstID(at time.Time) uuid.UUID {
	const last = 1<<48 - 1
	milliseconds := at.UnixMilli()
	if at.Nanosecond()%int(time.Millisecond) != 0 {
		milliseconds++
	}
	switch {
	case milliseconds <= 0:
		return uuid.Nil
	case milliseconds > last:
		return MaxItemID
	}
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(milliseconds)<<16)
	return id
}

// SortKey is what a list is ordered by.
type SortKey string

// The sort keys. Items with the same name or size are in the order of time.
const (
	ByTime SortKey = "time" // when the upload began
	ByName SortKey = "name" // as LowerName returns it, by bytes
	BySize SortKey = "size" // of the file that the document describes
	// ByCapture is when the file was made; if that is not known, when its upload began.
	ByCapture SortKey = "captured"
)

// Order is the order of a list. The zero value is newest first.
type Order struct {
	By        SortKey
	Ascending bool
}

// ParseOrder returns the order that `sort` names: time, name, size or captured, with a minus for descending. An
// empty text is the default, -time.
func ParseOrder(text string) (Order, error) {
	name, descending := strings.CutPrefix(text, "-")
	switch key := SortKey(name); {
	case text == "":
		return Order{By: ByTime}, nil
	case key == ByTime || key == ByName || key == BySize || key == ByCapture:
		return Order{By: key, Ascending: !descending}, nil
	}
	return Order{}, fault.New(fault.Invalid, "sort must be time, name, size or captured, or one of them after a minus for the opposite direction")
}

// String returns the text that ParseOrder reads.
func (o Order) String() string {
	text := string(o.By)
	if text == "" {
		text = string(ByTime)
	}
	if o.Ascending {
		return text
	}
	return "-" + text
}
