package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var _ sqlgen.DBTX = (*connections)(nil)

// connections is the pool as the queries use it. While the server cannot be reached, it retries
// statements that were not executed, which is safe for every statement; repeat also retries idempotent
// ones whose outcome is not known (docs/decisions/0019).
type connections struct {
	pool             *pgxpool.Pool
	retryTimeout     time.Duration
	statementTimeout time.Duration
	limits           atomic.Pointer[serverLimits]
	counters         poolCounters
	// probes has one ping for all callers that wait for the server.
	probes singleflight.Group
}

// The pause before a caller asks for the next probe is random between these.
const (
	minProbePause = 25 * time.Millisecond
	maxProbePause = 75 * time.Millisecond
	probeTimeout  = time.Second
)

// retryDeadline is the key of the end of the retries in a context.
type retryDeadline struct{}

// withRetryDeadline returns a context in which all retries together end after the retry timeout.
func (c *connections) withRetryDeadline(ctx context.Context) context.Context {
	if _, nested := ctx.Value(retryDeadline{}).(time.Time); nested {
		return ctx
	}
	return context.WithValue(ctx, retryDeadline{}, time.Now().Add(c.retryTimeout))
}

// retry calls do until it succeeds, fails with an error that again does not accept, or the retry
// timeout is over. Between two calls it waits until the server responds.
func (c *connections) retry(ctx context.Context, again func(error) bool, do func(ctx context.Context) error) error {
	ctx = c.withRetryDeadline(ctx)
	deadline, _ := ctx.Value(retryDeadline{}).(time.Time)
	for {
		err := do(ctx)
		c.counters.observe(err)
		c.dropStalePlans(err)
		if err == nil || ctx.Err() != nil || !again(err) || !c.await(ctx, deadline) {
			return c.explain(err)
		}
		c.counters.retries.Add(1)
	}
}

// await waits until the server responds, and reports whether it does before the deadline.
func (c *connections) await(ctx context.Context, deadline time.Time) bool {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(minProbePause + rand.N(maxProbePause-minProbePause)):
		}
		probe := c.probes.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
			defer cancel()
			return nil, c.pool.Ping(ctx)
		})
		select {
		case <-ctx.Done():
			return false
		case result := <-probe:
			if result.Err == nil {
				return true
			}
		}
	}
	return false
}

// repeat retries an idempotent call, whose statement may have been executed: one that changes
// nothing, or that has the same result when it is executed again.
func repeat[T any](ctx context.Context, s *Store, do func(ctx context.Context) (T, error)) (T, error) {
	var result T
	err := s.db.retry(ctx, isLost, func(ctx context.Context) (err error) {
		ctx, cancel := s.db.bound(ctx)
		defer cancel()
		result, err = do(ctx)
		return err
	})
	return result, err
}

// bound returns a context that ends after the statement timeout.
func (c *connections) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.statementTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.statementTimeout)
}

// dropStalePlans replaces all connections after a statement whose plan has become stale: those of the others are, too.
func (c *connections) dropStalePlans(err error) {
	if isStalePlan(err) {
		c.pool.Reset()
	}
}

// isStalePlan reports whether a statement was not executed because a migration has changed the columns that it returned when
// it was prepared. A column that was only added has no such effect: no statement returns columns that it does not name.
func isStalePlan(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == "0A000" && server.Routine == "RevalidateCachedQuery"
}

// isUnsent reports whether an error means that nothing was executed because of a connection that could
// not be made or was lost, or because of a stale plan, and that may end by itself.
func isUnsent(err error) bool {
	var connect *pgconn.ConnectError
	return isStalePlan(err) || (errors.As(err, &connect) || pgconn.SafeToRetry(err)) && isLost(err)
}

// isLost reports whether an error means that the connection could not be made or was lost, or that a
// plan was stale, and that may end by itself.
func isLost(err error) bool {
	if fault.ReasonOf(toFault(err, "")) != "" {
		return false
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return isStalePlan(err) || server.Code == tooManyConnections || strings.HasPrefix(server.Code, "57P") || strings.HasPrefix(server.Code, "08")
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && isDisconnected(err)
}

// Exec implements sqlgen.DBTX.
func (c *connections) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = c.retry(ctx, isUnsent, func(ctx context.Context) (err error) {
		ctx, cancel := c.bound(ctx)
		defer cancel()
		tag, err = c.pool.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// Query implements sqlgen.DBTX.
func (c *connections) Query(ctx context.Context, sql string, args ...any) (rows pgx.Rows, err error) {
	err = c.retry(ctx, isUnsent, func(ctx context.Context) (err error) {
		rows, err = c.pool.Query(ctx, sql, args...) //nolint:sqlclosecheck // the caller closes it
		return err
	})
	return rows, err
}

// QueryRow implements sqlgen.DBTX.
func (c *connections) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return queryRow{connections: c, ctx: ctx, sql: sql, args: args}
}

// queryRow is a row whose query is sent by Scan.
type queryRow struct {
	connections *connections
	ctx         context.Context // Scan has no parameter for it
	sql         string
	args        []any
}

// Scan implements pgx.Row.
func (r queryRow) Scan(dest ...any) error {
	c := r.connections
	return c.retry(r.ctx, isUnsent, func(ctx context.Context) error {
		ctx, cancel := c.bound(ctx)
		defer cancel()
		return c.pool.QueryRow(ctx, r.sql, r.args...).Scan(dest...)
	})
}

// Begin begins a transaction. A transaction that was lost at its begin has done nothing.
func (c *connections) Begin(ctx context.Context) (tx pgx.Tx, err error) {
	err = c.retry(ctx, isLost, func(ctx context.Context) (err error) {
		tx, err = c.pool.Begin(ctx)
		return err
	})
	return tx, err
}

// acquire returns a connection of the pool.
func (c *connections) acquire(ctx context.Context) (conn *pgxpool.Conn, err error) {
	err = c.retry(ctx, isLost, func(ctx context.Context) (err error) {
		conn, err = c.pool.Acquire(ctx)
		return err
	})
	return conn, err
}
