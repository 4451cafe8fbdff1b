package rendition

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/purge"
)

// PurgeConfig bounds what the purge does with renditions. The tags are flag and environment names.
type PurgeConfig struct {
	StaleGrace time.Duration `name:"rendition-stale-grace" env:"SERVICE_RENDITION_STALE_GRACE" default:"24h" help:"How long renditions are kept after their preset was changed or removed; from 0s to 8784h."`
	// StaleRate is how many stale renditions end per second; 0 = as many as can.
	StaleRate int `name:"rendition-stale-rate" env:"SERVICE_RENDITION_STALE_RATE" default:"500" help:"How many renditions of changed or removed presets the purge ends per second, so that requests do not notice it; from 0 (not bounded) to 100000."`
}

// Validate checks the bounds.
func (c PurgeConfig) Validate() error {
	switch {
	case c.StaleGrace < 0 || c.StaleGrace > 366*24*time.Hour:
		return fmt.Errorf("SERVICE_RENDITION_STALE_GRACE must be from 0s to 8784h, not %s", c.StaleGrace)
	case c.StaleRate < 0 || c.StaleRate > 100_000:
		return fmt.Errorf("SERVICE_RENDITION_STALE_RATE must be from 0 to 100000, not %d", c.StaleRate)
	}
	return nil
}

// PurgeStore is the part of the database that only the purge uses. PostgreSQL implements it.
type PurgeStore interface {
	// EndClaims ends up to batch claims whose lease ended before the cutoff, and queues the removal of what their
	// processes may have stored.
	EndClaims(ctx context.Context, cutoff time.Time, batch int) (int, error)
	// AccountsWithRenditions returns up to limit open accounts with renditions, with ids after the given one, in the order of ids.
	AccountsWithRenditions(ctx context.Context, after uuid.UUID, limit int) ([]uuid.UUID, error)
	// MarkStaleRenditions records which recipes of an account's renditions are not current, since now unless they
	// are marked already.
	MarkStaleRenditions(ctx context.Context, accountID uuid.UUID, current []media.RecipeID, now time.Time) error
	// EndStaleRenditions ends up to batch renditions that are stale since before the cutoff, and queues the removal of their objects.
	// Those of the accounts in kept do not end.
	EndStaleRenditions(ctx context.Context, cutoff time.Time, kept []uuid.UUID, batch int) (int, error)
}

// PurgeDeps are the dependencies of Purge.
type PurgeDeps struct {
	Store   PurgeStore
	Presets Presets
	Log     *slog.Logger
	Batches purge.Batches
}

const (
	// purgePage bounds the accounts that one statement returns.
	purgePage = 200
	// claimGrace is how long after its lease a claim is left to the process.
	claimGrace = time.Minute
)

// Purge ends the claims of processes that died, and the renditions of recipes that no preset has any more, in bounded batches. It returns how many
// renditions and claims it ended. Of an account whose presets cannot be read it ends claims only, and logs that. The removal of their objects is left to the purge of objects. It can run beside itself.
func Purge(ctx context.Context, cfg PurgeConfig, deps PurgeDeps, now time.Time) (total int, err error) {
	// A batch of claims locks the usage of accounts, which uploads need: it has the pauses of the purge.
	claims, err := deps.Batches.Each(ctx, func(ctx context.Context, size int) (int, error) {
		return deps.Store.EndClaims(ctx, now.Add(-claimGrace), size)
	})
	if err != nil {
		return claims, err
	}
	unread, err := markStale(ctx, deps, now)
	if err != nil {
		return claims, err
	}
	// A preset of many items changes in one moment, and nobody waits for the end of its former renditions: requests do not notice it
	// at this pace.
	stale, err := deps.Batches.AtRate(cfg.StaleRate).Each(ctx, func(ctx context.Context, size int) (int, error) {
		return deps.Store.EndStaleRenditions(ctx, now.Add(-cfg.StaleGrace), unread, size)
	})
	return claims + stale, err
}

// markStale marks the stale renditions of every account, and returns the accounts of which the presets cannot be read: what is
// marked of them may be current again.
func markStale(ctx context.Context, deps PurgeDeps, now time.Time) (unread []uuid.UUID, err error) {
	for after := uuid.Nil; ; {
		accounts, err := deps.Store.AccountsWithRenditions(ctx, after, purgePage)
		if err != nil {
			return nil, err
		}
		for _, id := range accounts {
			after = id
			allowed, err := deps.Presets.Recipes(ctx, id)
			if err != nil {
				deps.Log.WarnContext(ctx, "the presets of an account cannot be read: its stale renditions are kept", "account", id, "error", err)
				unread = append(unread, id)
				continue
			}
			if err := deps.Store.MarkStaleRenditions(ctx, id, currentOf(allowed), now); err != nil {
				return nil, err
			}
		}
		if len(accounts) < purgePage {
			return unread, nil
		}
	}
}

// currentOf returns the recipes of requests without repetitions.
func currentOf(allowed []Request) []media.RecipeID {
	seen := map[media.RecipeID]bool{}
	current := make([]media.RecipeID, 0, len(allowed))
	for _, request := range allowed {
		if id := request.Recipe.ID(media.EncoderVersion); !seen[id] {
			seen[id] = true
			current = append(current, id)
		}
	}
	return current
}
