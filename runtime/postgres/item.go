package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// errItemNotFound is also the error for an item of another tenant: callers can't tell the two apart.
var errItemNotFound = media.ErrItemNotFound

// itemFault is toFault for a query that returns one item.
func itemFault(err error, op string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return errItemNotFound
	}
	return toFault(err, op)
}

// Item implements media.Store.
func (s Items) Item(ctx context.Context, scope media.Scope, id uuid.UUID) (media.Item, error) {
	return readItem(ctx, s.idempotentFor(scope.AccountID), scope, id)
}

func readItem(ctx context.Context, q *sqlgen.Queries, scope media.Scope, id uuid.UUID) (media.Item, error) {
	row, err := q.Item(ctx, sqlgen.ItemParams{AppID: scope.AppID, ID: id})
	if err != nil {
		return media.Item{}, itemFault(err, "read item")
	}
	return itemOf(row), nil
}

// ItemForDelivery implements media.Store.
func (s Items) ItemForDelivery(ctx context.Context, id uuid.UUID) (media.Item, media.Owner, error) {
	row, err := s.idempotent.ItemForDelivery(ctx, id)
	if err != nil {
		return media.Item{}, media.Owner{}, itemFault(err, "read item for delivery")
	}
	if media.CheckState(row.Item.GateState).Blocked() { // nobody gets a file that was not checked
		return media.Item{}, media.Owner{}, errItemNotFound
	}
	return itemOf(row.Item), media.Owner{Namespace: row.Namespace, Name: row.Name, Bucket: row.Bucket}, nil
}

// Seal implements media.Store. It may be repeated: a sealed item stays as it is.
func (s Items) Seal(ctx context.Context, scope media.Scope, id uuid.UUID, now time.Time) (media.Item, error) {
	if scope.Guard != nil {
		return s.sealGuarded(ctx, scope, id, now)
	}
	ctx, release, err := s.db.share(ctx, scope.AccountID)
	if err != nil {
		return media.Item{}, err
	}
	defer release()
	if scope.Gated {
		return s.sealGated(ctx, scope, id, now)
	}
	item, err := s.seal(ctx, scope, id, now)
	if violates(err, gateConstraint) { // the account had a gate when the file was uploaded
		return s.sealGated(ctx, scope, id, now)
	}
	return item, toFault(err, "seal item")
}

// seal seals an item that may be sealed.
func (s Items) seal(ctx context.Context, scope media.Scope, id uuid.UUID, now time.Time) (media.Item, error) {
	row, err := s.idempotent.Seal(ctx, sqlgen.SealParams{AppID: scope.AppID, ID: id, Now: now, Slot: randomSlot(), Actor: scope.Actor.Text()})
	if errors.Is(err, pgx.ErrNoRows) {
		return readItem(ctx, s.idempotent, scope, id) // already sealed, or not found
	}
	if err != nil {
		return media.Item{}, err
	}
	s.pageIndex.recordChange(scope.AppID)
	return itemOf(sqlgen.Item(row)), nil
}

// DeleteItem implements media.Store.
func (s Items) DeleteItem(ctx context.Context, scope media.Scope, id uuid.UUID, notBefore time.Time) (media.Removal, error) {
	return s.deleteItem(ctx, scope, id, notBefore, false)
}

// DeleteItemPermanently implements media.Store.
func (s Items) DeleteItemPermanently(ctx context.Context, scope media.Scope, id uuid.UUID, notBefore time.Time) (media.Removal, error) {
	return s.deleteItem(ctx, scope, id, notBefore, true)
}

// deleteItem deletes an item, or ends its tombstone if that is included. It may be repeated: an attempt whose
// response was lost has left the removal of the item's objects. It returns when no process serves the item from a cache.
func (s Items) deleteItem(ctx context.Context, scope media.Scope, id uuid.UUID, notBefore time.Time, tombstones bool) (media.Removal, error) {
	attempts, draft, request := 0, false, uuid.New()
	removal, err := repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) (media.Removal, error) {
		attempts++
		var removal media.Removal
		err := whileLocked(ctx, func() error {
			var row sqlgen.DeleteItemRow
			err := s.guarded(ctx, scope, permitted(ctx, scope, id), func(q *sqlgen.Queries, actor string) (err error) {
				row, err = q.DeleteItem(ctx, sqlgen.DeleteItemParams{AppID: scope.AppID, ID: id, Slot: randomSlot(), NotBefore: notBefore, Request: request, Actor: actor})
				return itemFault(err, "delete item")
			})
			if tombstones && errors.Is(err, errItemNotFound) {
				removal, err = s.endTombstone(ctx, scope, id, notBefore, request)
			} else if err == nil {
				s.pageIndex.recordChange(scope.AppID)
				draft = !row.Sealed
				removal = media.Removal{ID: row.ID, Bucket: row.Bucket, Keys: row.Keys}
			}
			if attempts > 1 && errors.Is(err, errItemNotFound) {
				removal, err = s.queuedRemoval(ctx, scope, request)
			}
			return err
		})
		return removal, err
	})
	if draft || err != nil && !errors.Is(err, errItemNotFound) {
		return removal, err
	}
	// Also of an item that is not found: a process may have deleted it, and ended before it answered.
	return removal, cmp.Or(s.awaitItemCaches(ctx), err)
}

// queuedRemoval returns the removal that an earlier attempt of a delete has queued. The item is not
// found if another request deleted it.
func (s Items) queuedRemoval(ctx context.Context, scope media.Scope, request uuid.UUID) (media.Removal, error) {
	row, err := s.once.QueuedRemoval(ctx, sqlgen.QueuedRemovalParams{AccountID: scope.AccountID, Request: request})
	if err != nil {
		return media.Removal{}, itemFault(err, "find the removal of an item")
	}
	return media.Removal{ID: row.ID, Bucket: row.Bucket, Keys: row.Keys}, nil
}

// CountItems implements media.Store.
func (s Items) CountItems(ctx context.Context, scope media.Scope, filter media.Filter) (int64, error) {
	var public, private int64
	if filter.Group != "" {
		row, err := s.idempotentFor(scope.AccountID).CountGroup(ctx, sqlgen.CountGroupParams{AppID: scope.AppID, GroupLabel: filter.Group})
		if err != nil {
			return 0, toFault(err, "count group")
		}
		public, private = row.PublicItems, row.PrivateItems
	} else {
		row, err := s.idempotentFor(scope.AccountID).CountApp(ctx, scope.AppID)
		if err != nil {
			return 0, toFault(err, "count items")
		}
		public, private = row.PublicItems, row.PrivateItems
	}
	return matching(filter.Access, public, private), nil
}

// matching returns how many items have the access, of counts by access.
func matching(access media.Access, public, private int64) int64 {
	switch access {
	case media.Public:
		return public
	case media.Private:
		return private
	default:
		return public + private
	}
}

// Totals implements media.Store.
func (s Items) Totals(ctx context.Context, scope media.Scope) (media.Totals, error) {
	row, err := s.idempotentFor(scope.AccountID).Totals(ctx, scope.AccountID)
	if err != nil {
		return media.Totals{}, toFault(err, "read totals")
	}
	return media.Totals{Storage: row.Storage, MaxStorage: row.MaxStorage}, nil
}

// byPurge is the actor of what ends by its time, or to make room.
var byPurge = account.Actor{Kind: account.ActorPurge}.Text()

// PurgeDrafts implements media.PurgeStore.
func (s Items) PurgeDrafts(ctx context.Context, cutoff time.Time, batch int) (int, error) {
	queued, err := s.queries.PurgeDrafts(ctx, sqlgen.PurgeDraftsParams{Cutoff: cutoff, Batch: batchSize(batch), Actor: byPurge})
	return len(queued), toFault(err, "purge drafts")
}
