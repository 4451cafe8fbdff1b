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

// share waits for a share of the pool for a request of an account, as long as a statement may take; zero = for none. All retries in
// the context that it returns end together. Who holds a share must not wait for another one.
func (c *connections) share(ctx context.Context, accountID uuid.UUID) (shared context.Context, release func(), err error) {
	if accountID == uuid.Nil {
		return c.withRetryDeadline(ctx), func() {}, nil
	}
	waiting, cancel := c.bound(ctx)
	defer cancel()
	switch err := c.shares.Acquire(waiting, accountID); {
	case err == nil:
		return c.withRetryDeadline(ctx), func() { c.shares.Release(accountID) }, nil
	case ctx.Err() == nil:
		return nil, nil, &fault.Error{Kind: fault.Busy, Public: "too many requests wait for the database", Cause: err, RetryAfter: time.Second}
	default:
		return nil, nil, toFault(err, "wait for a connection")
	}
}
