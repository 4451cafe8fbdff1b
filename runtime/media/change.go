package media

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// Change is a change of an item. A nil field stays as it is.
type Change struct {
	FileName *string // cleaned as that of an upload
	Access   *Access
	Caption  *string
	Group    *string
	// Metadata has the pairs to set, and nil for those to remove. With ReplaceMetadata, all others are
	// removed.
	Metadata        map[string]*string
	ReplaceMetadata bool
	// Focus is set with SetFocus; nil removes the point.
	Focus    *FocusPoint
	SetFocus bool
}

// Validate returns an Invalid fault that names the first field out of bounds, as Fields.Validate does.
func (c Change) Validate() error {
	if c.FileName != nil && *c.FileName == "" {
		return fault.New(fault.Invalid, "fileName must not be empty")
	}
	if c.Access != nil && *c.Access != Public && *c.Access != Private {
		return errAccess()
	}
	if f := c.Focus; f != nil && (min(f.X, f.Y) < 0 || max(f.X, f.Y) > maxFocus) {
		return fault.New(fault.Invalid, "x and y of focus must be from 0 to 1")
	}
	for _, key := range slices.Sorted(maps.Keys(c.Metadata)) {
		if err := CheckMetadataKey(key); err != nil {
			return err
		}
	}
	_, _, err := c.apply(Item{Access: Private})
	return err
}

// apply returns the item with the change, and whether that is another one. Invalid if the item would
// have too much metadata.
func (c Change) apply(item Item) (changed Item, differs bool, err error) {
	changed = item
	if c.FileName != nil {
		changed.FileName = CleanFileName(*c.FileName)
	}
	if c.Access != nil {
		changed.Access = *c.Access
	}
	if c.Caption != nil {
		changed.Caption = *c.Caption
	}
	if c.Group != nil {
		changed.Group = *c.Group
	}
	if c.SetFocus {
		changed.Focus = c.Focus
	}
	changed.Metadata = c.applyMetadata(item.Metadata)
	fields := Fields{Access: changed.Access, Caption: changed.Caption, Group: changed.Group, Metadata: changed.Metadata}
	if err := fields.Validate(); err != nil {
		return Item{}, false, err
	}
	return changed, len(item.ChangedFields(changed)) > 0, nil
}

// ChangedFields returns the names of the members of the document in which another version of the item differs, of those that Update changes.
func (i Item) ChangedFields(other Item) []string {
	fields := []string{}
	for _, field := range []struct {
		name    string
		differs bool
	}{
		{"fileName", i.FileName != other.FileName}, {"access", i.Access != other.Access}, {"caption", i.Caption != other.Caption}, {"group", i.Group != other.Group},
		{"metadata", !maps.Equal(i.Metadata, other.Metadata)}, {"focus", !sameFocus(i.Focus, other.Focus)},
	} {
		if field.differs {
			fields = append(fields, field.name)
		}
	}
	return fields
}

func sameFocus(a, b *FocusPoint) bool { return a == b || a != nil && b != nil && *a == *b }

func (c Change) applyMetadata(metadata Metadata) Metadata {
	if c.Metadata == nil && !c.ReplaceMetadata {
		return metadata
	}
	changed := Metadata{}
	if !c.ReplaceMetadata {
		maps.Copy(changed, metadata)
	}
	for key, value := range c.Metadata {
		if value == nil {
			delete(changed, key)
		} else {
			changed[key] = *value
		}
	}
	return changed
}

// Condition says for which versions of an item a change is made. The zero value is for every version.
type Condition struct {
	// Versions are the versions; nil = any.
	Versions []int
}

func (c Condition) holds(version int) bool {
	return c.Versions == nil || slices.Contains(c.Versions, version)
}

// Update changes a draft or a sealed item, and returns it. Nothing is changed, the version included, if
// the item has the values already. When it returns nil, no replica shows the former item or serves its
// file by the former access. PreconditionFailed if the condition does not hold; then it returns the item as it is.
func (s *Service) Update(ctx context.Context, p account.Principal, id uuid.UUID, change Change, condition Condition) (Item, error) {
	return s.update(ctx, p, id, change, func(former, changed Item, repeated bool) error {
		if !condition.holds(former.Version) && (len(former.ChangedFields(changed)) > 0 || !repeated) {
			return fault.New(fault.PreconditionFailed, "the item was changed: its version is %d", former.Version)
		}
		return nil
	})
}

// update changes an item if permit, which it calls with the item before and after the change, returns no error. An attempt that is repeated
// may find what the first one made of the item.
func (s *Service) update(ctx context.Context, p account.Principal, id uuid.UUID, change Change, permit func(former, changed Item, repeated bool) error) (Item, error) {
	if err := change.Validate(); err != nil {
		return Item{}, err
	}
	return s.store.UpdateItem(ctx, ScopeOf(p), id, func(item Item, repeated bool) (Item, bool, error) {
		changed, differs, err := change.decide(item)
		if err != nil {
			return changed, differs, err
		}
		if err := permit(item, changed, repeated); err != nil {
			return item, false, err
		}
		if err := permitPublishing(p, item, changed); err != nil {
			return item, false, err
		}
		return changed, differs, nil
	})
}

// permitPublishing returns account.ErrApprovalRequired for a change that makes an item public, where that waits for an owner. Of a draft, too:
// otherwise a seal that has looked at its access could make it public.
func permitPublishing(p account.Principal, former, changed Item) error {
	if former.Access == Public || changed.Access != Public {
		return nil
	}
	return p.Guard.Publishes()
}
