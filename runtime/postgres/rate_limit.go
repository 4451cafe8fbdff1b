package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// consumeRateLimit counts an event, or returns the error of an exceeded limit.
func consumeRateLimit(ctx context.Context, q *sqlgen.Queries, limit oauth.RateLimit) error {
	since := limit.Now.Add(-limit.Window)
	taken, err := q.ConsumeRateLimit(ctx, sqlgen.ConsumeRateLimitParams{Kind: limit.Kind, SubjectMac: limit.Subject, Now: limit.Now, Since: since, Max: int32(limit.Max)}) //nolint:gosec // bounded by Config.Validate
	if err != nil || taken > 0 {
		return err
	}
	wait := limit.Window
	oldest, err := q.OldestRateLimitEvent(ctx, sqlgen.OldestRateLimitEventParams{Kind: limit.Kind, SubjectMac: limit.Subject, Since: since})
	switch {
	case err == nil:
		wait = min(wait, oldest.Add(limit.Window).Sub(limit.Now)) // another replica's clock may be ahead
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	return limit.Exceeded(wait)
}
