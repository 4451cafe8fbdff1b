package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var _ sqlgen.DBTX = statements{}

// connections is the pool, with what retries need.
type connections struct {
	pool             *pgxpool.Pool
	shares           *fairlimit.Limiter[uuid.UUID]
	retryTimeout     time.Duration
	statementTimeout time.Duration
	limits           atomic.Pointer[serverLimits]
	counters         poolCounters
	// probes has one ping for all callers that wait for the server.
	probes singleflight.Group
}

// statements is the pool as the queries use it. While the server cannot be reached, it retries statements
// (docs/decisions/0019).
type statements struct {
	*connections
	// again is isUnsent, which is right for every statement, or isLost for those that are idempotent.
	again func(error) bool
	// account is whose share of the pool each statement holds, also while it waits for the server; zero = none.
	account uuid.UUID
}

// idempotent returns statements that may be executed again: they change nothing, or have the same result then. One that returns many
// rows needs repeat: they are read after its retries have ended, and without its share.
func (c *connections) idempotent(accountID uuid.UUID) statements {
	return statements{connections: c, again: isLost, account: accountID}
}

// idempotentFor returns the idempotent statements of requests of an account. Who holds a share of the pool must not use them.
func (s *Store) idempotentFor(accountID uuid.UUID) *sqlgen.Queries {
	return sqlgen.New(s.db.idempotent(accountID))
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
func (s statements) retry(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, release, err := s.share(ctx, s.account)
	if err != nil {
		return err
	}
	defer release()
	deadline, _ := ctx.Value(retryDeadline{}).(time.Time)
	for {
		err := do(ctx)
		s.counters.observe(err)
		s.dropStalePlans(err)
		if err == nil || ctx.Err() != nil || !s.again(err) || !s.await(ctx, deadline) {
			return s.explain(err)
		}
		s.counters.retries.Add(1)
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

// repeat retries an idempotent call as a whole: what reads many rows, a transaction, or statements that depend on each other. It holds
// a share of the pool for the account; zero = none. The statements of do are those of Store.once or of the pool, and the timeout of a
// statement bounds all of them together.
func repeat[T any](ctx context.Context, s *Store, accountID uuid.UUID, do func(ctx context.Context) (T, error)) (T, error) {
	var result T
	err := s.db.idempotent(accountID).retry(ctx, func(ctx context.Context) (err error) {
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
func (s statements) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = s.retry(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := s.bound(ctx)
		defer cancel()
		tag, err = s.pool.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// Query implements sqlgen.DBTX.
func (s statements) Query(ctx context.Context, sql string, args ...any) (rows pgx.Rows, err error) {
	err = s.retry(ctx, func(ctx context.Context) (err error) {
		rows, err = s.pool.Query(ctx, sql, args...) //nolint:sqlclosecheck // the caller closes it
		return err
	})
	return rows, err
}

// QueryRow implements sqlgen.DBTX.
func (s statements) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return queryRow{statements: s, ctx: ctx, sql: sql, args: args}
}

// queryRow is a row whose query is sent by Scan.
type queryRow struct {
	statements
	ctx  context.Context // Scan has no parameter for it
	sql  string
	args []any
}

// Scan implements pgx.Row.
func (r queryRow) Scan(dest ...any) error {
	return r.retry(r.ctx, func(ctx context.Context) error {
		ctx, cancel := r.bound(ctx)
		defer cancel()
		return r.pool.QueryRow(ctx, r.sql, r.args...).Scan(dest...)
	})
}

// Begin begins a transaction. A transaction that was lost at its begin has done nothing.
func (c *connections) Begin(ctx context.Context) (tx pgx.Tx, err error) {
	err = c.idempotent(uuid.Nil).retry(ctx, func(ctx context.Context) (err error) {
		tx, err = c.pool.Begin(ctx)
		return err
	})
	return tx, err
}

// acquire returns a connection of the pool.
func (c *connections) acquire(ctx context.Context) (conn *pgxpool.Conn, err error) {
	err = c.idempotent(uuid.Nil).retry(ctx, func(ctx context.Context) (err error) {
		conn, err = c.pool.Acquire(ctx)
		return err
	})
	return conn, err
}
