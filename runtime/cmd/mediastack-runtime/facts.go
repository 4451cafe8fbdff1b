package main

import (
	"context"
	"log/slog"
	"time"

	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// newFactsBackfill creates the background job that reads the facts of stored images. The process that
// has served for the longest time does it.
func (c *serveCommand) newFactsBackfill(store *postgres.Store, objects media.ObjectStore, images *imaging.Pool, guard *installation.Guard, instance *installation.Instance, log *slog.Logger) *media.FactsBackfill {
	return media.NewFactsBackfill(c.Facts, media.FactsDeps{Store: store, Objects: objects, Deriver: images, Writable: guard.Writable, Wait: wait, Log: log,
		Elected: func(ctx context.Context) (bool, error) {
			first, err := store.FirstRuntime(ctx)
			return first == instance.ID(), err
		}})
}

// wait waits, or returns the error of ctx.
func wait(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
