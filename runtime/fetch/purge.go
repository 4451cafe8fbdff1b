package fetch

import (
	"context"
	"fmt"
	"time"

	"mediastack.dev/runtime/purge"
)

// PurgeConfig bounds how long jobs are kept. The tags are flag and environment names.
type PurgeConfig struct {
	Retention time.Duration `name:"fetch-retention" env:"SERVICE_FETCH_RETENTION" default:"24h" help:"How long the state of an upload from a URL can be read after its end, and how long one may wait for an attempt; from 1h to 8784h."`
}

// Validate checks the bounds.
func (c PurgeConfig) Validate() error {
	if c.Retention < time.Hour || c.Retention > 366*24*time.Hour {
		return fmt.Errorf("SERVICE_FETCH_RETENTION must be from 1h to 8784h, not %s", c.Retention)
	}
	return nil
}

// PurgeStore is the part of the store that a purge needs.
type PurgeStore interface {
	// PurgeFetches deletes up to batch jobs that ended before the cutoff, and ends up to batch jobs that have been due since then without an
	// attempt: they have failed as overdue. The tasks of all these jobs end. It returns the number of jobs.
	PurgeFetches(ctx context.Context, cutoff time.Time, overdue Failure, batch int) (int, error)
}

// Purge deletes old jobs and ends those that nobody runs, and returns how many.
func Purge(ctx context.Context, cfg PurgeConfig, store PurgeStore, batches purge.Batches, now time.Time) (total int, err error) {
	overdue := Failure{Code: Interrupted, Text: "the upload has waited for too long: try again"}
	return batches.Each(ctx, func(ctx context.Context, size int) (int, error) {
		return store.PurgeFetches(ctx, now.Add(-cfg.Retention), overdue, size)
	})
}
