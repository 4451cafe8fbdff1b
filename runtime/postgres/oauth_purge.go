package postgres

import (
	"context"

	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// PurgeExpired implements oauth.PurgeStore.
func (s Logins) PurgeExpired(ctx context.Context, cutoffs oauth.PurgeCutoffs, batch int) (int, error) {
	limit := int32(batch) //nolint:gosec // a constant
	total := 0
	// The order follows the references: clients go when no grant names them any more.
	for _, step := range []func() (int64, error){
		func() (int64, error) {
			return s.queries.PurgeTasks(ctx, sqlgen.PurgeTasksParams{Before: cutoffs.Now, Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeEmails(ctx, sqlgen.PurgeEmailsParams{Before: cutoffs.Now, Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeRateLimitEvents(ctx, sqlgen.PurgeRateLimitEventsParams{Before: cutoffs.RateLimitEvents, Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeLoginSessions(ctx, sqlgen.PurgeLoginSessionsParams{Before: cutoffs.Now, Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeTokens(ctx, sqlgen.PurgeTokensParams{Before: cutoffs.Tokens, Batch: limit})
		},
		func() (int64, error) {
			_, err := s.queries.RevokeGrantsOfExpiredKeys(ctx, cutoffs.Now)
			return 0, err // no row is deleted
		},
		func() (int64, error) {
			return s.queries.PurgeGrants(ctx, sqlgen.PurgeGrantsParams{Before: cutoffs.Grants, Batch: limit})
		},
		func() (int64, error) {
			return s.queries.PurgeClients(ctx, sqlgen.PurgeClientsParams{Before: cutoffs.UnusedClients, Batch: limit})
		},
	} {
		n, err := step()
		total += int(n)
		if err != nil {
			return total, toFault(err, "purge expired OAuth data")
		}
	}
	return total, nil
}
