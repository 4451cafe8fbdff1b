package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// noItem is the one answer for an item that is missing and for another tenant's.
func noItem() error { return media.ErrItemNotFound }

func itemError(err error, what string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return noItem()
	}
	return classify(err, what)
}

// Item implements media.Store.
func (s *Store) Item(ctx context.Context, scope media.Scope, id uuid.UUID) (media.Item, error) {
	row, err := s.queries.Item(ctx, sqlgen.ItemParams{AppID: scope.AppID, ID: id})
	if err != nil {
		return media.Item{}, itemError(err, "read item")
	}
	return itemOf(row), nil
}

// ItemForDelivery implements media.Store.
func (s *Store) ItemForDelivery(ctx context.Context, id uuid.UUID) (media.Item, string, error) {
	row, err := s.queries.ItemForDelivery(ctx, id)
	if err != nil {
		return media.Item{}, "", itemError(err, "read item for delivery")
	}
	return itemOf(row.Item), row.Bucket, nil
}

// Seal implements media.Store.
func (s *Store) Seal(ctx context.Context, scope media.Scope, id uuid.UUID, now time.Time) (media.Item, error) {
	row, err := s.queries.Seal(ctx, sqlgen.SealParams{AppID: scope.AppID, ID: id, Now: now, Slot: slot()})
	if errors.Is(err, pgx.ErrNoRows) {
		return s.Item(ctx, scope, id) // sealed before, or not there
	}
	if err != nil {
		return media.Item{}, classify(err, "seal item")
	}
	s.pages.changed(scope.AppID)
	// The generator does not know the type of a column that comes out of a CTE.
	var objects media.Objects
	if err := json.Unmarshal(row.Objects, &objects); err != nil {
		return media.Item{}, fmt.Errorf("postgres: read the objects of item %s: %w", id, err)
	}
	return itemOf(sqlgen.Item{ID: row.ID, AccountID: row.AccountID, AppID: row.AppID, FileName: row.FileName, Access: row.Access, Caption: row.Caption,
		GroupLabel: row.GroupLabel, Objects: objects, Bytes: row.Bytes, CreatedAt: row.CreatedAt, SealedAt: row.SealedAt}), nil
}

// DeleteItem implements media.Store.
func (s *Store) DeleteItem(ctx context.Context, scope media.Scope, id uuid.UUID, notBefore time.Time) (media.Removal, error) {
	row, err := s.queries.DeleteItem(ctx, sqlgen.DeleteItemParams{AppID: scope.AppID, ID: id, Slot: slot(), NotBefore: notBefore})
	if err != nil {
		return media.Removal{}, itemError(err, "delete item")
	}
	s.pages.changed(scope.AppID)
	return media.Removal{ID: row.ID, Bucket: row.Bucket, Keys: row.Keys}, nil
}

// ListItems implements media.Store. limit and offset are bounded by media.Service.List.
func (s *Store) ListItems(ctx context.Context, scope media.Scope, filter media.Filter, limit, offset int) ([]media.Item, error) {
	if offset > deepOffset && filter.Group == "" {
		return s.deepPage(ctx, scope, filter, limit, offset)
	}
	var rows []sqlgen.Item
	var err error
	lim, off := int32(limit), int32(offset) //nolint:gosec // bounded by media.Service.List
	switch {
	case filter.Group != "":
		rows, err = s.queries.ListItemsByGroup(ctx, sqlgen.ListItemsByGroupParams{AppID: scope.AppID, GroupLabel: filter.Group,
			Access: string(filter.Access), Limit: lim, Offset: off})
	case filter.Access != "":
		rows, err = s.queries.ListItemsByAccess(ctx, sqlgen.ListItemsByAccessParams{AppID: scope.AppID, Access: string(filter.Access), Limit: lim, Offset: off})
	default:
		rows, err = s.queries.ListItems(ctx, sqlgen.ListItemsParams{AppID: scope.AppID, Limit: lim, Offset: off})
	}
	if err != nil {
		return nil, classify(err, "list items")
	}
	items := make([]media.Item, len(rows))
	for i, row := range rows {
		items[i] = itemOf(row)
	}
	return items, nil
}

// CountItems implements media.Store.
func (s *Store) CountItems(ctx context.Context, scope media.Scope, filter media.Filter) (int64, error) {
	var public, private int64
	if filter.Group != "" {
		row, err := s.queries.CountGroup(ctx, sqlgen.CountGroupParams{AppID: scope.AppID, GroupLabel: filter.Group})
		if err != nil {
			return 0, classify(err, "count group")
		}
		public, private = row.PublicItems, row.PrivateItems
	} else {
		row, err := s.queries.CountApp(ctx, scope.AppID)
		if err != nil {
			return 0, classify(err, "count items")
		}
		public, private = row.PublicItems, row.PrivateItems
	}
	switch filter.Access {
	case media.Public:
		return public, nil
	case media.Private:
		return private, nil
	default:
		return public + private, nil
	}
}

// Totals implements media.Store.
func (s *Store) Totals(ctx context.Context, scope media.Scope) (media.Totals, error) {
	row, err := s.queries.Totals(ctx, scope.AccountID)
	if err != nil {
		return media.Totals{}, classify(err, "read totals")
	}
	return media.Totals{Storage: row.Storage, MaxStorage: row.MaxStorage}, nil
}

func itemOf(row sqlgen.Item) media.Item {
	return media.Item{ID: row.ID, AccountID: row.AccountID, AppID: row.AppID, FileName: row.FileName, Access: media.Access(row.Access),
		Caption: row.Caption, Group: row.GroupLabel, Objects: row.Objects, CreatedAt: row.CreatedAt, SealedAt: row.SealedAt}
}
