package account

import "time"

// CeilingUse is how much of a ceiling is used.
type CeilingUse struct {
	Kind CeilingKind
	// Total is set for the ceiling of all connections of the account together.
	Total       bool
	Used, Limit int64
	// Ends is when the window ends, and everything is permitted again; zero if nothing is used in one.
	Ends time.Time
}

// CeilingKind is what a ceiling bounds.
type CeilingKind string

// The kinds. The names are stored.
const (
	CeilingDeletes     CeilingKind = "deletes"
	CeilingUploadBytes CeilingKind = "upload bytes"
	CeilingFetches     CeilingKind = "fetches"
)
