package oauth

import (
	"context"
	"fmt"
	"time"
)

// PurgeConfig bounds the purge of logins.
type PurgeConfig struct {
	UnusedClientsTTL time.Duration `env:"SERVICE_OAUTH_CLIENT_TTL" default:"24h" help:"Age at which a registered application is forgotten that nobody is connected with."`
}

// Validate checks the bounds.
func (c PurgeConfig) Validate() error {
	if c.UnusedClientsTTL < time.Hour || c.UnusedClientsTTL > 366*24*time.Hour {
		return fmt.Errorf("SERVICE_OAUTH_CLIENT_TTL must be from 1h to 8784h, not %s", c.UnusedClientsTTL)
	}
	return nil
}

// Purger is the part of the store that a purge needs.
type Purger interface {
	// PurgeLogins removes a batch of what is over (requests, tokens, grants, applications
	// that nobody uses, attempts, letters), and tells how many rows.
	PurgeLogins(ctx context.Context, now, clientsBefore time.Time, batch int) (int, error)
}

// purgeBatch is how many rows of a kind go at once.
const purgeBatch = 500

// Purge removes what is over, in bounded batches, and tells how many rows.
func Purge(ctx context.Context, cfg PurgeConfig, store Purger, now time.Time) (int, error) {
	total := 0
	for {
		n, err := store.PurgeLogins(ctx, now, now.Add(-cfg.UnusedClientsTTL), purgeBatch)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
}
