package account

import "slices"

// Search says what searches by words look in. The JSON form is stored, so a field is never renamed. The zero value is the default.
type Search struct {
	// Keys are those of the metadata that is searched, sorted: nil = all, empty = none.
	Keys []string `json:"keys"`
	// Language is that of the words, such as english: other forms of a word are found, too. Empty = none.
	Language string `json:"language,omitempty"`
}

// Equal reports whether two are the same.
func (s Search) Equal(other Search) bool {
	return s.Language == other.Language && (s.Keys == nil) == (other.Keys == nil) && slices.Equal(s.Keys, other.Keys)
}
