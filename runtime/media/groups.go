package media

import (
	"context"
	"encoding/base64"
	"unicode/utf8"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// The numbers of groups on a page, and of the keys of metadata.
const (
	DefaultGroups   = 100
	MaxGroups       = 1000
	MaxMetadataKeys = 1000
)

// ItemCount is how many sealed items are in a group, or have a key of metadata.
type ItemCount struct {
	Name  string
	Items int64
}

// GroupList is what a store found of the groups after a name.
type GroupList struct {
	Groups []ItemCount
	// Last is the name up to which groups were examined; empty if there are no more.
	Last string
}

// Groups returns a page of the groups of the app, in the order of their names, and the cursor of the next page, which is empty if there is none. access
// restricts the items that are counted; empty = all.
func (s *Service) Groups(ctx context.Context, p account.Principal, access Access, after string, limit int) (groups []ItemCount, next string, err error) {
	if limit < 1 || limit > MaxGroups {
		return nil, "", fault.New(fault.Invalid, "limit must be from 1 to %d", MaxGroups)
	}
	if err := (Filter{Access: access}).validate(); err != nil {
		return nil, "", err
	}
	name, err := base64.RawURLEncoding.Strict().DecodeString(after)
	if err != nil || !utf8.Valid(name) || CheckGroup(string(name)) != nil {
		return nil, "", fault.New(fault.Invalid, "after must be the cursor of a list of groups, as the list returned it")
	}
	found, err := s.store.Groups(ctx, ScopeOf(p), access, string(name), limit)
	if err != nil {
		return nil, "", err
	}
	return found.Groups, base64.RawURLEncoding.EncodeToString([]byte(found.Last)), nil
}

// KeyCounts are the keys of the metadata of items.
type KeyCounts struct {
	// Keys are those of most items first.
	Keys []ItemCount
	// Partial is set if there may be more: a request examines a bounded number of items, the newest ones.
	Partial bool
}

// MetadataKeys returns the keys that the metadata of the app's sealed items has.
func (s *Service) MetadataKeys(ctx context.Context, p account.Principal) (KeyCounts, error) {
	return s.store.MetadataKeys(ctx, ScopeOf(p), MaxMetadataKeys)
}
