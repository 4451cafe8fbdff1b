package postgres

import (
	"context"
	"time"

	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// PurgeLogins implements oauth.Purger.
func (s *Store) PurgeLogins(ctx context.Context, now, clientsBefore time.Time, batch int) (int, error) {
	limit := int32(batch) //nolint:gosec // a constant
	total := 0
	// Attempts count for an hour, and what is over is of use to nobody; the rest waits
	// for those that point at it.
	for _, step := range []func() (int64, error){
		func() (int64, error) {
			return s.queries.PurgeEmails(ctx, sqlgen.PurgeEmailsParams{Before: now, Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeRateLimitEvents(ctx, sqlgen.PurgeRateLimitEventsParams{Before: now.Add(-time.Hour), Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeLoginSessions(ctx, sqlgen.PurgeLoginSessionsParams{Before: now, Batch: limit})
		},
		func() (int64, error) {
			// A day longer: whoever still sends one is no stranger who guesses.
			return s.queries.PurgeTokens(ctx, sqlgen.PurgeTokensParams{Before: now.Add(-24 * time.Hour), Batch: limit})
		},
		func() (int64, error) {
			// Nothing goes yet: why a connection ended can be read for a week.
			_, err := s.queries.RevokeGrantsOfExpiredKeys(ctx, now)
			return 0, err
		},
		func() (int64, error) {
			return s.queries.PurgeGrants(ctx, sqlgen.PurgeGrantsParams{Before: now.Add(-7 * 24 * time.Hour), Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeClients(ctx, sqlgen.PurgeClientsParams{Before: clientsBefore, Batch: limit})
		},
	} {
		n, err := step()
		total += int(n)
		if err != nil {
			return total, classify(err, "purge logins")
		}
	}
	return total, nil
}
