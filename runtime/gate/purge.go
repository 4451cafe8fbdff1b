package gate

import (
	"context"
	"fmt"
	"time"

	"mediastack.dev/runtime/purge"
)

// PurgeConfig bounds how long files are in quarantine. The tags are flag and environment names.
type PurgeConfig struct {
	Retention time.Duration `name:"quarantine-retention" env:"SERVICE_QUARANTINE_RETENTION" default:"720h" help:"How long a file stays in quarantine before it is removed; from 1h to 8784h."`
}

// Validate checks the bounds.
func (c PurgeConfig) Validate() error {
	if c.Retention < time.Hour || c.Retention > 366*24*time.Hour {
		return fmt.Errorf("SERVICE_QUARANTINE_RETENTION must be from 1h to 8784h, not %s", c.Retention)
	}
	return nil
}

// Purge ends the files that are in quarantine for too long, and returns how many.
func Purge(ctx context.Context, cfg PurgeConfig, store QuarantineStore, batches purge.Batches, now time.Time) (ended int, err error) {
	return batches.Each(ctx, func(ctx context.Context, size int) (int, error) {
		return store.ExpireQuarantine(ctx, now.Add(-cfg.Retention), size)
	})
}
