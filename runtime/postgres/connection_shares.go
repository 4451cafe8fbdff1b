package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
)

// Connections of the pool that the requests of one account leave to those of others, and that the
// requests of all accounts leave to what the process itself needs: heartbeats, readiness, batches.
const (
	connsForOthers  = 2
	connsForProcess = 1
)

// newShares returns the limiter of the connections that requests of accounts hold. Statements of an
// account wait for the locks of its rows: without a bound, a tenant that deletes many items at once
// would hold the whole pool, and the process could not even renew its lease.
func newShares(conns int) *fairlimit.Limiter[uuid.UUID] {
	limit := max(1, conns-connsForProcess)
	return fairlimit.New[uuid.UUID](fairlimit.Config{Limit: limit, PerKey: max(1, limit-connsForOthers), MaxWaiting: fairlimit.Unlimited})
}

// repeatFor is repeat for a statement of a request of an account. It waits for a share of the pool, as
// long as the statement itself may take. do must not call repeatFor,
// nor onceFor.
func repeatFor[T any](ctx context.Context, s *Store, accountID uuid.UUID, do func(ctx context.Context) (T, error)) (T, error) {
	if err := s.acquireShare(ctx, accountID); err != nil {
		var none T
		return none, err
	}
	defer s.shares.Release(accountID)
	return repeat(ctx, s, do)
}

// onceFor is repeatFor for what must not be repeated.
func (s *Store) onceFor(ctx context.Context, accountID uuid.UUID, do func() error) error {
	if err := s.acquireShare(ctx, accountID); err != nil {
		return err
	}
	defer s.shares.Release(accountID)
	return do()
}

func (s *Store) acquireShare(ctx context.Context, accountID uuid.UUID) error {
	waiting, cancel := s.db.bound(ctx)
	defer cancel()
	err := s.shares.Acquire(waiting, accountID)
	if err != nil && ctx.Err() == nil {
		return &fault.Error{Kind: fault.Busy, Public: "too many requests wait for the database", Cause: err, RetryAfter: time.Second}
	}
	return toFault(err, "wait for a connection")
}
