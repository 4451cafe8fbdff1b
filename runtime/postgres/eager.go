package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/rendition"
)

var _ rendition.EagerStore = (*Store)(nil)

// EagerWork implements rendition.EagerStore.
func (s *Store) EagerWork(ctx context.Context, encoder int) (rendition.EagerWork, error) {
	row, err := s.queries.EagerWork(ctx, sqlgen.EagerWorkParams{Encoder: integer(encoder), Own: s.own()})
	return rendition.EagerWork{Queued: row.Queued, Changed: row.Changed, Passes: row.Passes, Alone: row.Alone}, toFault(err, "look for pictures to make in advance")
}

// EagerChanges implements rendition.EagerStore.
func (s *Store) EagerChanges(ctx context.Context, encoder rendition.EagerEncoder, after uuid.UUID, page int) ([]rendition.EagerChange, error) {
	rows, err := s.queries.ChangedEager(ctx, sqlgen.ChangedEagerParams{Encoder: integer(encoder.Own), Newest: integer(encoder.Newest), After: after, Page: batchSize(page)})
	if err != nil {
		return nil, toFault(err, "find changed eager presets")
	}
	changes := make([]rendition.EagerChange, len(rows))
	for i, row := range rows {
		changes[i] = rendition.EagerChange{AccountID: row.AccountID, Version: row.Changed}
	}
	return changes, nil
}

// SeeEager implements rendition.EagerStore.
func (s *Store) SeeEager(ctx context.Context, change rendition.EagerChange, recipes []byte, encoder rendition.EagerEncoder) (bool, error) {
	rows, err := s.queries.SeeEager(ctx, sqlgen.SeeEagerParams{AccountID: change.AccountID, Changed: change.Version, Recipes: recipes, Encoder: integer(encoder.Own), Newest: integer(encoder.Newest)})
	return rows > 0, toFault(err, "record eager presets")
}

// ClearEager implements rendition.EagerStore.
func (s *Store) ClearEager(ctx context.Context, accountID uuid.UUID, limit int) (int, error) {
	rows, err := s.queries.ClearEager(ctx, sqlgen.ClearEagerParams{AccountID: accountID, Batch: batchSize(limit)})
	return int(rows), toFault(err, "clear the queue of an account")
}

// FillEager implements rendition.EagerStore.
func (s *Store) FillEager(ctx context.Context, encoder, page int) (bool, error) {
	rows, err := s.queries.FillEager(ctx, sqlgen.FillEagerParams{Encoder: integer(encoder), Page: batchSize(page)})
	return rows > 0, toFault(err, "queue items for pictures in advance")
}

// ClaimEager implements rendition.EagerStore.
func (s *Store) ClaimEager(ctx context.Context, claim uuid.UUID, encoder int, lease time.Duration) (rendition.EagerTask, bool, error) {
	row, err := s.queries.ClaimEager(ctx, sqlgen.ClaimEagerParams{Claim: claim, Encoder: integer(encoder), Lease: lease.Microseconds()})
	if errors.Is(err, pgx.ErrNoRows) {
		return rendition.EagerTask{}, false, nil
	}
	return rendition.EagerTask{ItemID: row.ItemID, AccountID: row.AccountID, Claim: claim, Attempt: int(row.Attempts), Version: row.Changed, Encoder: encoder}, err == nil, toFault(err, "claim an item for pictures in advance")
}

// FinishEager implements rendition.EagerStore. It may be repeated.
func (s *Store) FinishEager(ctx context.Context, task rendition.EagerTask) error {
	_, err := repeatFor(ctx, s, task.AccountID, func(ctx context.Context) (int64, error) {
		return s.queries.FinishEager(ctx, sqlgen.FinishEagerParams{ItemID: task.ItemID, AccountID: task.AccountID, Claim: task.Claim, Changed: task.Version, Encoder: integer(task.Encoder)})
	})
	return toFault(err, "end the claim of an item")
}

// ReturnEager implements rendition.EagerStore. It may be repeated.
func (s *Store) ReturnEager(ctx context.Context, task rendition.EagerTask, delay time.Duration, failed bool) error {
	_, err := repeatFor(ctx, s, task.AccountID, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.queries.ReturnEager(ctx, sqlgen.ReturnEagerParams{ItemID: task.ItemID, Claim: task.Claim, Delay: delay.Microseconds(), Failed: failed})
	})
	return toFault(err, "end the claim of an item")
}

// PauseEager implements rendition.EagerStore.
func (s *Store) PauseEager(ctx context.Context, accountID uuid.UUID, delay time.Duration) error {
	return toFault(s.queries.PauseEager(ctx, sqlgen.PauseEagerParams{AccountID: accountID, Delay: delay.Microseconds()}), "pause the pictures of an account")
}

// EagerQueue implements rendition.EagerStore.
func (s *Store) EagerQueue(ctx context.Context, most int) (int, error) {
	n, err := s.queries.EagerQueue(ctx, batchSize(most))
	return int(n), toFault(err, "count the queue for pictures in advance")
}

// MadeRenditions implements rendition.EagerStore.
func (s *Store) MadeRenditions(ctx context.Context, itemID uuid.UUID, keys []media.RenditionKey) (map[media.RenditionKey]rendition.State, error) {
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
func (s *Store) EagerPending(ctx context.Context, accountID uuid.UUID) (int64, error) {
	pending, err := s.queries.EagerPending(ctx, accountID)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return pending, toFault(err, "count the items of which pictures are pending")
}

// EachEagerWaiting calls visit for every open account of the namespaces (nil = all) with items of which pictures may still have to
// be made in advance.
func (s *Store) EachEagerWaiting(ctx context.Context, namespaces []string, visit func(namespace, account string)) error {
	rows, err := s.queries.EagerWaiting(ctx, namespaces)
	if err != nil {
		return toFault(err, "find accounts that wait for pictures in advance")
	}
	for _, row := range rows {
		visit(row.Namespace, row.Name)
	}
	return nil
}
