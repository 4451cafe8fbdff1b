package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/rendition"
)

var _ rendition.EagerStore = Pictures{}

// adoptBatch is how many items of the queue of the version before become tasks at once.
const adoptBatch = 1000

// EnqueueEager implements rendition.EagerStore.
func (s Pictures) EnqueueEager(ctx context.Context, encoder int) (int, error) {
	adopted, err := s.queries.AdoptPictures(ctx, adoptBatch)
	if err != nil {
		return 0, toFault(err, "adopt items for pictures in advance")
	}
	added, err := s.queries.EnqueueEager(ctx, sqlgen.EnqueueEagerParams{Encoder: integer(encoder), Own: s.own()})
	return int(adopted + added), toFault(err, "add the tasks of accounts for pictures in advance")
}

// EagerAccount implements rendition.EagerStore.
func (s Pictures) EagerAccount(ctx context.Context, accountID uuid.UUID, encoder int) (rendition.EagerAccount, bool, error) {
	row, err := s.queries.EagerAccount(ctx, sqlgen.EagerAccountParams{AccountID: accountID, Encoder: integer(encoder), Own: s.own()})
	if errors.Is(err, pgx.ErrNoRows) {
		return rendition.EagerAccount{}, false, nil
	}
	return rendition.EagerAccount{ID: accountID, Version: row.Changed, Encoder: int(row.Encoder), Before: row.BeforeID.Bytes,
		Unseen: row.Unseen, Newer: row.Newer, Resting: row.Resting}, err == nil, toFault(err, "read what is made in advance of an account")
}

// SeeEager implements rendition.EagerStore.
func (s Pictures) SeeEager(ctx context.Context, account rendition.EagerAccount, recipes []byte, encoder int) error {
	return toFault(s.queries.SeeEager(ctx, sqlgen.SeeEagerParams{AccountID: account.ID, Changed: account.Version, SeenBy: integer(account.Encoder), Recipes: recipes, Encoder: integer(encoder)}),
		"record eager presets")
}

// EagerPage implements rendition.EagerStore.
func (s Pictures) EagerPage(ctx context.Context, accountID, before uuid.UUID, page int) ([]rendition.EagerItem, error) {
	rows, err := s.queries.EagerPage(ctx, sqlgen.EagerPageParams{AccountID: accountID, BeforeID: before, Page: batchSize(page)})
	if err != nil {
		return nil, toFault(err, "find items for pictures in advance")
	}
	items := make([]rendition.EagerItem, len(rows))
	for i, row := range rows {
		items[i] = rendition.EagerItem{ID: row.ID, Image: row.Image}
	}
	return items, nil
}

// PassEager implements rendition.EagerStore. It may be repeated.
func (s Pictures) PassEager(ctx context.Context, account rendition.EagerAccount, next uuid.UUID, items int) (bool, error) {
	rows, err := s.queries.PassEager(ctx, sqlgen.PassEagerParams{AccountID: account.ID, Changed: account.Version, Encoder: integer(account.Encoder), BeforeID: account.Before, Next: pgtype.UUID{Bytes: next, Valid: next != uuid.Nil}, Items: int64(items)})
	return rows > 0, toFault(err, "record how far a pass is")
}

// RetryEager implements rendition.EagerStore. It may be repeated.
func (s Pictures) RetryEager(ctx context.Context, accountID, itemID uuid.UUID, delay time.Duration, failure string) error {
	return toFault(s.queries.RetryEager(ctx, sqlgen.RetryEagerParams{AccountID: accountID, ItemID: itemID, Delay: delay.Microseconds(), Failure: failure}), "add the task of an item")
}

// MadeRenditions implements rendition.EagerStore.
func (s Pictures) MadeRenditions(ctx context.Context, itemID uuid.UUID, keys []media.RenditionKey) (map[media.RenditionKey]rendition.State, error) {
	params := sqlgen.MadeRenditionsParams{ItemID: itemID, Own: s.own(), Keys: make([][]byte, len(keys))}
	for i := range keys {
		params.Keys[i] = keys[i][:]
	}
	rows, err := s.queries.MadeRenditions(ctx, params)
	if err != nil {
		return nil, toFault(err, "find the renditions of an item")
	}
	states := make(map[media.RenditionKey]rendition.State, len(rows))
	for _, row := range rows {
		switch {
		case row.Ready:
			states[media.RenditionKey(row.Key)] = rendition.Ready
		case row.Making:
			states[media.RenditionKey(row.Key)] = rendition.Making
		}
	}
	return states, nil
}

// EagerPending implements rendition.Counts.
func (s Pictures) EagerPending(ctx context.Context, accountID uuid.UUID) (int64, error) {
	pending, err := s.queries.EagerPending(ctx, accountID)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return pending, toFault(err, "count the items of which pictures are pending")
}

// EachEagerWaiting calls visit for every open account of the namespaces (nil = all) with items of which pictures may still have to
// be made in advance.
func (s Pictures) EachEagerWaiting(ctx context.Context, namespaces []string, visit func(namespace, account string)) error {
	rows, err := s.queries.EagerWaiting(ctx, namespaces)
	if err != nil {
		return toFault(err, "find accounts that wait for pictures in advance")
	}
	for _, row := range rows {
		visit(row.Namespace, row.Name)
	}
	return nil
}
