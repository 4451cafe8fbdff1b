package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/settings"
)

// Layers implements settings.Store.
func (s *Store) Layers(ctx context.Context, accountID uuid.UUID) (settings.Layers, error) {
	layers, err := readLayers(ctx, s.queries, accountID)
	return layers, classify(err, "read settings")
}

func readLayers(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID) (settings.Layers, error) {
	var layers settings.Layers
	pins, err := q.Pins(ctx, accountID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return layers, err
	}
	layers.PinnedBy = pins.PinnedBy
	layers.Pinned = layerOf(pins.UseWebp, pins.WebpOutputQuality, pins.ThumbnailWidth, pins.ThumbnailHeight)
	choice, err := q.Choices(ctx, accountID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return layers, err
	}
	layers.Tenant = layerOf(choice.UseWebp, choice.WebpOutputQuality, choice.ThumbnailWidth, choice.ThumbnailHeight)
	return layers, nil
}

// UpdateTenant implements settings.Store.
func (s *Store) UpdateTenant(ctx context.Context, accountID uuid.UUID, decide func(settings.Layers) (settings.Layer, error)) (settings.Layers, error) {
	var layers settings.Layers
	err := s.inTx(ctx, "update settings", func(q *sqlgen.Queries) error {
		if _, err := q.LockAccountForSettings(ctx, accountID); err != nil {
			return err
		}
		var err error
		if layers, err = readLayers(ctx, q, accountID); err != nil {
			return err
		}
		change, err := decide(layers)
		if err != nil || change == (settings.Layer{}) {
			return err
		}
		choice, err := q.SetChoices(ctx, sqlgen.SetChoicesParams{AccountID: accountID, UseWebp: change.UseWebP,
			WebpOutputQuality: narrow(change.WebPOutputQuality), ThumbnailWidth: narrow(change.ThumbnailWidth), ThumbnailHeight: narrow(change.ThumbnailHeight)})
		if err != nil {
			return err
		}
		layers.Tenant = layerOf(choice.UseWebp, choice.WebpOutputQuality, choice.ThumbnailWidth, choice.ThumbnailHeight)
		return nil
	})
	return layers, err
}

// Pin implements settings.Store.
func (s *Store) Pin(ctx context.Context, accountID uuid.UUID, pins settings.Layer, by string) error {
	return s.inTx(ctx, "pin settings", func(q *sqlgen.Queries) error {
		if _, err := q.LockAccountForSettings(ctx, accountID); err != nil {
			return err
		}
		return q.SetPins(ctx, sqlgen.SetPinsParams{AccountID: accountID, PinnedBy: by, UseWebp: pins.UseWebP,
			WebpOutputQuality: narrow(pins.WebPOutputQuality), ThumbnailWidth: narrow(pins.ThumbnailWidth), ThumbnailHeight: narrow(pins.ThumbnailHeight)})
	})
}

// Unpin implements settings.Store.
func (s *Store) Unpin(ctx context.Context, accountID uuid.UUID, by string) error {
	return classify(s.queries.RemovePins(ctx, sqlgen.RemovePinsParams{AccountID: accountID, PinnedBy: by}), "unpin settings")
}

func layerOf(useWebP *bool, quality, width, height *int32) settings.Layer {
	return settings.Layer{UseWebP: useWebP, WebPOutputQuality: widen(quality), ThumbnailWidth: widen(width), ThumbnailHeight: widen(height)}
}

func widen(n *int32) *int {
	if n == nil {
		return nil
	}
	wide := int(*n)
	return &wide
}

// narrow is for values that settings.Layer.Validate has bounded.
func narrow(n *int) *int32 {
	if n == nil {
		return nil
	}
	small := int32(*n) //nolint:gosec // bounded by settings.Layer.Validate
	return &small
}
