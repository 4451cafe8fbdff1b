package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// sealGuarded seals an item for a connection. Where publishing waits for a yes, one transaction looks at the item and seals it: an item that is read
// before its seal may not be there yet, since the id of an upload is known before its commit.
func (s Items) sealGuarded(ctx context.Context, scope media.Scope, id uuid.UUID, now time.Time) (media.Item, error) {
	if scope.Guard.Approved == nil && scope.Guard.Publishes() == nil {
		scope.Guard = nil
		return s.Seal(ctx, scope, id, now)
	}
	ctx, release, err := s.db.share(ctx, scope.AccountID)
	if err != nil {
		return media.Item{}, err
	}
	defer release()
	item, err := s.sealPermitted(ctx, scope, id, now)
	if scope.Guard.Approved == nil && errors.Is(err, errItemNotFound) {
		return media.Item{}, s.rejection(ctx, scope, id)
	}
	if err == nil {
		s.pageIndex.recordChange(scope.AppID)
	}
	return item, err
}

// sealPermitted seals an item if its guard permits that, in one transaction. Of a file that is to be checked before, it records that the seal is wanted.
func (s Items) sealPermitted(ctx context.Context, scope media.Scope, id uuid.UUID, now time.Time) (item media.Item, err error) {
	err = s.inTx(ctx, "seal with a guard", func(q *sqlgen.Queries) error {
		if item, err = permitSeal(ctx, q, scope, id); err != nil || !item.Draft() {
			return err
		}
		var row sqlgen.Item
		switch {
		case item.Check == media.CheckRejected:
			return media.ErrUnscannable
		case item.Check == media.CheckPassed || item.Check == media.CheckNone && !scope.Gated:
			sealed, failure := q.Seal(ctx, sqlgen.SealParams{AppID: scope.AppID, ID: id, Now: now, Slot: randomSlot(), Actor: scope.Actor.Text()})
			row, err = sqlgen.Item(sealed), failure
		case item.Check == media.CheckSealWanted:
			return nil
		default:
			wanted, failure := q.WantSeal(ctx, sqlgen.WantSealParams{AppID: scope.AppID, ID: id, Actor: scope.Actor.Text()})
			row, err = sqlgen.Item(wanted), failure
		}
		if err == nil {
			item = itemOf(row)
		}
		return err
	})
	return item, err
}

// permitSeal locks an item, and returns it if its seal is permitted: an owner has allowed it, or it does not publish the item.
func permitSeal(ctx context.Context, q *sqlgen.Queries, scope media.Scope, id uuid.UUID) (media.Item, error) {
	if scope.Guard.Approved != nil {
		if err := endStep(ctx, q, scope, id); err != nil {
			return media.Item{}, err
		}
		return readItem(ctx, q, scope, id)
	}
	if _, err := q.LockItemVersion(ctx, sqlgen.LockItemVersionParams{AppID: scope.AppID, ID: id}); err != nil {
		return media.Item{}, itemFault(err, "lock item")
	}
	item, err := readItem(ctx, q, scope, id)
	if err == nil && item.Draft() && item.Access == media.Public {
		err = scope.Guard.Publishes()
	}
	return item, err
}

// restoreGuarded restores an item for a connection. One that was public would be so again.
func (s Items) restoreGuarded(ctx context.Context, scope media.Scope, id uuid.UUID) (item media.Item, restored bool, err error) {
	err = s.inTx(ctx, "restore with a guard", func(q *sqlgen.Queries) error {
		restored = false
		if scope.Guard.Approved != nil {
			if err := endStep(ctx, q, scope, id); err != nil {
				return err
			}
		}
		row, err := q.RestoreItem(ctx, sqlgen.RestoreItemParams{AppID: scope.AppID, ID: id, Slot: randomSlot(), Actor: scope.Actor.Text()})
		if errors.Is(err, pgx.ErrNoRows) {
			item, err = readItem(ctx, q, scope, id)
			return err
		}
		if err != nil {
			return err
		}
		item, restored = itemOf(sqlgen.Item(row)), true
		if item.Access == media.Public {
			return scope.Guard.Publishes() // undoes it
		}
		return nil
	})
	if err != nil {
		return media.Item{}, false, err
	}
	if restored {
		s.pageIndex.recordChange(scope.AppID)
	}
	return item, restored, nil
}
