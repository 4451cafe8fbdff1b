package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// consumeRateLimit counts an attempt; Busy with the time of the next one when the limit is reached.
func consumeRateLimit(ctx context.Context, q *sqlgen.Queries, a oauth.Attempt) error {
	since := a.Now.Add(-a.Within)
	taken, err := q.ConsumeRateLimit(ctx, sqlgen.ConsumeRateLimitParams{Kind: a.Kind, SubjectMac: a.Subject, Now: a.Now, Since: since, Max: int32(a.Most)}) //nolint:gosec // bounded by Config.Validate
	if err != nil || taken > 0 {
		return err
	}
	wait := a.Within
	oldest, err := q.OldestRateLimitEvent(ctx, sqlgen.OldestRateLimitEventParams{Kind: a.Kind, SubjectMac: a.Subject, Since: since})
	switch {
	case err == nil:
		wait = min(wait, oldest.Add(a.Within).Sub(a.Now)) // another replica's clock may be ahead
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	return &fault.Error{Kind: fault.Busy, Public: a.Sentence, RetryAfter: wait}
}
