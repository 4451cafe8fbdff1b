package oauth

import (
	"context"
	"fmt"
	"time"

	"mediastack.dev/runtime/purge"
)

// PurgeConfig bounds how long data of logins is kept. The tags are flag and environment names.
type PurgeConfig struct {
	UnusedClientTTL time.Duration `name:"oauth-client-ttl" env:"SERVICE_OAUTH_CLIENT_TTL" default:"24h" help:"Age at which a registered client without a grant is deleted, from 1h to 8784h."`
	TokenRetention  time.Duration `name:"oauth-token-retention" env:"SERVICE_OAUTH_TOKEN_RETENTION" default:"24h" help:"How long an expired token is kept, from 1m to 8784h. Until then its use does not count as a failed attempt of the client."`
	GrantRetention  time.Duration `name:"oauth-grant-retention" env:"SERVICE_OAUTH_GRANT_RETENTION" default:"168h" help:"How long a revoked grant is kept with the reason of its revocation, from 1h to 8784h."`
}

// Validate checks the bounds.
func (c PurgeConfig) Validate() error {
	const year = 366 * 24 * time.Hour
	for _, d := range []struct {
		name       string
		value, min time.Duration
	}{
		{"SERVICE_OAUTH_CLIENT_TTL", c.UnusedClientTTL, time.Hour},
		{"SERVICE_OAUTH_TOKEN_RETENTION", c.TokenRetention, time.Minute},
		{"SERVICE_OAUTH_GRANT_RETENTION", c.GrantRetention, time.Hour},
	} {
		if d.value < d.min || d.value > year {
			return fmt.Errorf("%s must be from %s to %s, not %s", d.name, d.min, year, d.value)
		}
	}
	return nil
}

// PurgeCutoffs are the times before which data is deleted.
type PurgeCutoffs struct {
	// Now is the cutoff of what is useless once it has expired: e-mails and login sessions.
	Now             time.Time
	RateLimitEvents time.Time // by the time of the latest event
	Tokens          time.Time // by their expiry
	Grants          time.Time // by their revocation, or by their creation if they have no token
	UnusedClients   time.Time // by their creation and latest use
}

// Cutoffs returns the times before which data is deleted now.
func (c PurgeConfig) Cutoffs(now time.Time) PurgeCutoffs {
	return PurgeCutoffs{
		Now:             now,
		RateLimitEvents: now.Add(-rateLimitWindow),
		Tokens:          now.Add(-c.TokenRetention),
		Grants:          now.Add(-c.GrantRetention),
		UnusedClients:   now.Add(-c.UnusedClientTTL),
	}
}

// PurgeStore is the part of the store that a purge needs.
type PurgeStore interface {
	// PurgeExpired deletes up to batch rows of each table of e-mails, rate-limit events, login sessions, tokens, grants
	// and clients that are older than the cutoffs, and returns how many rows it deleted. It
	// also revokes the grants of expired keys.
	PurgeExpired(ctx context.Context, cutoffs PurgeCutoffs, batch int) (int, error)
}

// Purge deletes expired data, and returns how many rows it deleted.
func Purge(ctx context.Context, cfg PurgeConfig, store PurgeStore, batches purge.Batches, now time.Time) (int, error) {
	return batches.Each(ctx, func(ctx context.Context, size int) (int, error) {
		return store.PurgeExpired(ctx, cfg.Cutoffs(now), size)
	})
}
