package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var _ media.CaptureStore = Items{}

// EnqueueCaptures implements media.CaptureStore.
func (s Items) EnqueueCaptures(ctx context.Context, delay time.Duration) (int, error) {
	added, err := s.queries.EnqueueOnce(ctx, sqlgen.EnqueueOnceParams{Kind: string(media.CapturesWork), Delay: delay.Microseconds()})
	return int(added), toFault(err, "enqueue the task of captures")
}

// ItemWithoutCapture implements media.CaptureStore.
func (s Items) ItemWithoutCapture(ctx context.Context, accountID, itemID uuid.UUID) (media.CaptureItem, error) {
	row, err := s.queries.ItemWithoutCapture(ctx, sqlgen.ItemWithoutCaptureParams{AccountID: accountID, ID: itemID})
	if errors.Is(err, pgx.ErrNoRows) {
		return media.CaptureItem{}, media.ErrCaptureRead
	}
	return media.CaptureItem{ID: row.ID, AccountID: row.AccountID, Bucket: row.Bucket, Objects: row.Objects, KeepLocation: row.KeepLocation, Resting: row.Resting}, toFault(err, "find an item without its capture")
}

// ItemsWithoutCapture implements media.CaptureStore.
func (s Items) ItemsWithoutCapture(ctx context.Context, after media.CaptureItem, limit int) ([]media.CaptureItem, error) {
	rows, err := s.queries.ItemsWithoutCapture(ctx, sqlgen.ItemsWithoutCaptureParams{AccountID: after.AccountID, ID: after.ID, Batch: batchSize(limit)})
	if err != nil {
		return nil, toFault(err, "find items without captures")
	}
	items := make([]media.CaptureItem, len(rows))
	for i, row := range rows {
		items[i] = media.CaptureItem{ID: row.ID, AccountID: row.AccountID, Bucket: row.Bucket, Objects: row.Objects, KeepLocation: row.KeepLocation, Resting: row.Resting}
	}
	return items, nil
}

// SetCapture implements media.CaptureStore.
func (s Items) SetCapture(ctx context.Context, accountID, itemID uuid.UUID, c capture.Capture) error {
	return toFault(s.queries.SetCapture(ctx, sqlgen.SetCaptureParams{AccountID: accountID, ID: itemID, Capture: captureText(c), Known: c.Known(), Actor: byService, Fields: captureFields(c)}), "set the capture of an item")
}

// RemoveLocations implements media.CaptureStore.
func (s Items) RemoveLocations(ctx context.Context, accountID uuid.UUID, limit int) (removed int, more bool, err error) {
	keeps, err := s.queries.KeepsLocations(ctx, accountID)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && keeps:
		return 0, false, nil
	case err != nil:
		return 0, false, toFault(err, "read whether an account keeps locations")
	}
	n, err := s.queries.RemoveLocations(ctx, sqlgen.RemoveLocationsParams{AccountID: accountID, Batch: batchSize(limit), Actor: byService})
	if err != nil {
		return 0, false, toFault(err, "remove locations")
	}
	more, err = s.queries.HasLocations(ctx, accountID)
	return int(n), more, toFault(err, "find locations")
}
