package postgres

import (
	"context"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// UpdateItem implements media.Store. It may be repeated: an attempt whose response was lost has left
// the item as it decided.
func (s Items) UpdateItem(ctx context.Context, scope media.Scope, id uuid.UUID, decide func(media.Item, bool) (media.Item, bool, error)) (media.Item, error) {
	attempts := 0
	item, err := repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) (item media.Item, err error) {
		attempts++
		err = s.inTx(ctx, "update item", func(q *sqlgen.Queries) error {
			if scope.Guard != nil && scope.Guard.Approved != nil {
				if err := endStep(ctx, q, scope, id); err != nil {
					return err
				}
			}
			item, err = updateItem(ctx, q, scope, id, func(found media.Item) (media.Item, bool, error) { return decide(found, attempts > 1) })
			return err
		})
		return item, err
	})
	if err != nil {
		return item, err
	}
	s.pageIndex.recordChange(scope.AppID)
	if item.Draft() {
		return item, nil
	}
	// Also if nothing was changed: a process may have changed it, and ended before it answered.
	return item, s.awaitItemCaches(ctx)
}

func updateItem(ctx context.Context, q *sqlgen.Queries, scope media.Scope, id uuid.UUID, decide func(media.Item) (media.Item, bool, error)) (media.Item, error) {
	row, err := q.ItemForUpdate(ctx, sqlgen.ItemForUpdateParams{AppID: scope.AppID, ID: id})
	if err != nil {
		return media.Item{}, itemFault(err, "lock item")
	}
	found := itemOf(row)
	changed, differs, err := decide(found)
	if err != nil || !differs {
		return found, err
	}
	focus := columnsOfFocus(changed.Focus)
	version, err := q.UpdateItem(ctx, sqlgen.UpdateItemParams{
		AppID: scope.AppID, ID: id, Slot: randomSlot(), FileName: changed.FileName, Access: string(changed.Access), Caption: changed.Caption,
		GroupLabel: changed.Group, Metadata: notNil(changed.Metadata), OldAccess: row.Access, OldGroup: row.GroupLabel,
		FocusX: focus.x, FocusY: focus.y, Actor: scope.Actor.Text(), Fields: found.ChangedFields(changed),
	})
	changed.Version = int(version)
	return changed, err
}

// focusColumns are the columns of media.FocusPoint: null without one.
type focusColumns struct{ x, y *int16 }

func columnsOfFocus(p *media.FocusPoint) focusColumns {
	if p == nil {
		return focusColumns{}
	}
	x, y := int16(p.X), int16(p.Y) //nolint:gosec // from 0 to 1000
	return focusColumns{&x, &y}
}

func (c focusColumns) point() *media.FocusPoint {
	if c.x == nil || c.y == nil {
		return nil
	}
	return &media.FocusPoint{X: int(*c.x), Y: int(*c.y)}
}
