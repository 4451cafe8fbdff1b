package media

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// UndoWindow is when a delete can be undone.
type UndoWindow struct{ From, Until time.Time }

// DeletedItem is an item that was deleted and can be restored: until RestorableUntil at least, unless an upload
// needs its room, and after that until the purge ends it.
type DeletedItem struct {
	Item
	DeletedAt, RestorableUntil time.Time
}

// DeletedList is a part of the list of deleted items. Total is how many there are.
type DeletedList struct {
	Items []DeletedItem
	Total int64
}

// DeletedPage is one page of that list.
type DeletedPage struct {
	DeletedList
	Number, Limit int
}

// DeleteOptions say who deletes an item, and how.
type DeleteOptions struct {
	// Agent is set for an assistant or a connected application.
	Agent bool
	// Permanent deletes the item so that it cannot be restored, also if it was deleted already.
	Permanent bool
}

// errPermanentDelete is the fault of an agent that deletes permanently.
var errPermanentDelete = fault.New(fault.Forbidden, "permanent needs an API key: assistants and connected applications cannot delete permanently")

// Delete deletes a draft or a sealed item. If the account allows it to be undone, a sealed item can be
// restored, until the returned time at least; its file is not served anymore, and its objects stay.
// Otherwise the item is removed with all its objects: when Delete returns no error, the row is deleted,
// and objects that S3 did not remove in time are queued for the purge. A draft is always removed.
func (s *Service) Delete(ctx context.Context, p account.Principal, id uuid.UUID, options DeleteOptions) (restorableUntil *time.Time, err error) {
	if options.Permanent && options.Agent {
		return nil, errPermanentDelete
	}
	scope, now := ScopeOf(p), s.now()
	removal, until := new(Removal), now.Add(p.Account.Undo.Window)
	switch {
	case options.Permanent:
		*removal, err = s.store.DeleteItemPermanently(ctx, scope, id, now.Add(RemovalGrace))
	case p.Account.Undo.Covers(options.Agent):
		removal, err = s.store.DeleteItemUndoably(ctx, scope, id, UndoWindow{From: now, Until: until}, now.Add(RemovalGrace))
	default:
		*removal, err = s.store.DeleteItem(ctx, scope, id, now.Add(RemovalGrace))
	}
	if err != nil {
		return nil, err
	}
	s.metrics.deleted.Inc()
	if removal == nil {
		return &until, nil
	}
	s.RemoveNow(ctx, *removal)
	return nil, nil
}

// Restore makes a deleted item what it was before. An item that is not deleted stays as it is.
func (s *Service) Restore(ctx context.Context, p account.Principal, id uuid.UUID) (Item, error) {
	item, restored, err := s.store.RestoreItem(ctx, ScopeOf(p), id)
	if restored {
		s.metrics.restored.Inc()
	}
	return item, err
}

// Deleted returns a deleted item that can be restored; ErrItemNotFound.
func (s *Service) Deleted(ctx context.Context, p account.Principal, id uuid.UUID) (DeletedItem, error) {
	return s.store.Deleted(ctx, ScopeOf(p), id)
}

// ListDeleted returns one page of the deleted items that can be restored, the latest delete first.
func (s *Service) ListDeleted(ctx context.Context, p account.Principal, page, limit int) (DeletedPage, error) {
	if err := checkPage(page, limit); err != nil {
		return DeletedPage{}, err
	}
	list, err := s.store.ListDeleted(ctx, ScopeOf(p), limit, (page-1)*limit)
	if err != nil {
		return DeletedPage{}, err
	}
	return DeletedPage{DeletedList: list, Number: page, Limit: limit}, nil
}
