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

// sealGuarded seals an item for a connection. A public draft waits for a yes, if the account wants that: only a change that waits for one
// makes a private draft public, so none becomes so after it was read. An allowed seal ends its step in its transaction.
func (s Items) sealGuarded(ctx context.Context, scope media.Scope, id uuid.UUID, now time.Time) (media.Item, error) {
	unguarded := scope
	unguarded.Guard = nil
	if scope.Guard.Approved != nil {
		return s.sealAllowed(ctx, scope, id, now)
	}
	if item, err := readItem(ctx, s.idempotentFor(scope.AccountID), scope, id); err == nil && item.Draft() && item.Access == media.Public {
		if err := scope.Guard.Publishes(); err != nil {
			return item, err
		}
	}
	return s.Seal(ctx, unguarded, id, now)
}

// sealAllowed makes a seal that an owner has allowed. Of a file that is to be checked before, it records that the seal is wanted.
func (s Items) sealAllowed(ctx context.Context, scope media.Scope, id uuid.UUID, now time.Time) (item media.Item, err error) {
	ctx, release, err := s.db.share(ctx, scope.AccountID)
	if err != nil {
		return media.Item{}, err
	}
	defer release()
	err = s.inTx(ctx, "seal with a guard", func(q *sqlgen.Queries) error {
		if err := endStep(ctx, q, scope, id); err != nil {
			return err
		}
		if item, err = readItem(ctx, q, scope, id); err != nil || !item.Draft() {
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
	if err == nil {
		s.pageIndex.recordChange(scope.AppID)
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
