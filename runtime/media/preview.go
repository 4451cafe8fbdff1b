package media

import (
	"context"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// decide returns the item with the change, and whether that is another one. Invalid if the item cannot have the change.
func (c Change) decide(item Item) (changed Item, differs bool, err error) {
	changed, differs, err = c.apply(item)
	if err == nil && c.Focus != nil && !item.isImage() {
		err = fault.New(fault.Invalid, "focus is for images: the file is %s", item.original().MimeType)
	}
	return changed, differs, err
}

// UpdateFields is Update without a condition. It also returns the names of the members that were changed: none if the item had the values
// already.
func (s *Service) UpdateFields(ctx context.Context, p account.Principal, id uuid.UUID, change Change) (item Item, fields []string, err error) {
	item, err = s.update(ctx, p, id, change, func(former, changed Item, repeated bool) error {
		if now := former.ChangedFields(changed); !repeated || len(now) > 0 { // otherwise it finds what the first attempt made of the item
			fields = now
		}
		return nil
	})
	if err != nil {
		return Item{}, nil, err
	}
	return item, fields, nil
}

// PreviewUpdate returns the names of the members that the change would change, or why it would fail, and whether it would wait for the yes of an
// owner. It changes nothing.
func (s *Service) PreviewUpdate(ctx context.Context, p account.Principal, id uuid.UUID, change Change) (fields []string, waits bool, err error) {
	if err := change.Validate(); err != nil {
		return nil, false, err
	}
	item, err := s.Get(ctx, p, id)
	if err != nil {
		return nil, false, err
	}
	changed, _, err := change.decide(item)
	if err != nil {
		return nil, false, err
	}
	return item.ChangedFields(changed), permitPublishing(p, item, changed) != nil, nil
}
