// Package postgres keeps accounts, settings and media in PostgreSQL: it implements
// account.Store, settings.Store and media.Store over generated queries. The SQL is
// in queries/, the schema in migrations/; errors of the driver become faults here
// and nowhere else.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/settings"
)

// Config says where the database is. The tags are flag and environment names.
type Config struct {
	DatabaseURL    string        `env:"SERVICE_DATABASE_URL" required:"" help:"PostgreSQL URL, e.g. postgres://user:password@host/db (prefer the environment over the flag)."`
	DatabaseConns  int32         `name:"database-max-conns" env:"SERVICE_DATABASE_MAX_CONNS" default:"20" help:"Most connections of this process."`
	ConnectTimeout time.Duration `env:"SERVICE_DATABASE_CONNECT_TIMEOUT" default:"5s" help:"How long one connection attempt may take."`
}

// pool returns the driver's settings; the error never shows the URL, which holds a password.
func (c Config) pool() (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(c.DatabaseURL)
	if err != nil {
		return nil, errors.New("SERVICE_DATABASE_URL is not a PostgreSQL URL such as postgres://user:password@host/db")
	}
	if c.DatabaseConns > 0 {
		cfg.MaxConns = c.DatabaseConns
	}
	if c.ConnectTimeout > 0 {
		cfg.ConnConfig.ConnectTimeout = c.ConnectTimeout
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "mediastack"
	cfg.AfterConnect = rejectUnreleased
	return cfg, nil
}

// Store is a pool of connections to one database. It is safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	queries *sqlgen.Queries
	schema  schema

	// Uploads of one account are noted, and committed, together.
	openings *batcher[uuid.UUID, opening]
	commits  *batcher[uuid.UUID, media.Item]
	pages    *pages
}

var (
	_ account.Store  = (*Store)(nil)
	_ settings.Store = (*Store)(nil)
	_ media.Store    = (*Store)(nil)
)

// Open makes a Store. It connects when first used, so it does not fail when the
// server is down.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	poolCfg, err := cfg.pool()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolCfg)
	if err != nil {
		return nil, fmt.Errorf("make the database pool: %w", err)
	}
	s := &Store{pool: pool, queries: sqlgen.New(pool)}
	s.openings, s.commits = newBatcher(s.openUploads), newBatcher(s.commitUploads)
	s.pages = &pages{fold: s.foldPages, changes: map[uuid.UUID]int{}}
	return s, nil
}

// Close waits for running queries and closes every connection.
func (s *Store) Close() {
	s.pages.close()
	s.pool.Close()
}

// Ping asks the server for an answer.
func (s *Store) Ping(ctx context.Context) error { return classify(s.pool.Ping(ctx), "ping") }

// inTx runs do in one transaction. Inside, only the transaction's queries are used.
func (s *Store) inTx(ctx context.Context, what string, do func(q *sqlgen.Queries) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return do(s.queries.WithTx(tx)) })
	return classify(err, what)
}

// slots is how many rows an app's totals are spread over; the migration makes as many.
const slots = 16

// slot picks a row of a total, so that concurrent writers seldom meet.
func slot() int16 { return int16(rand.IntN(slots)) } //nolint:gosec // spreading load needs no secret

// classify turns a driver's error into a fault; a fault passes unchanged. what is
// said in the log only.
func classify(err error, what string) error {
	if err == nil {
		return nil
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	cause := fmt.Errorf("postgres: %s: %w", what, err)
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.Wrap(cause, fault.NotFound, "there is no such thing")
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(cause, fault.Unavailable, "the database did not answer in time")
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		switch {
		case server.Code == "23505": // unique_violation
			return fault.Wrap(cause, fault.Conflict, "something else holds that place")
		case server.Code == "42P01": // undefined_table
			return fault.Wrap(cause, fault.Unavailable, "the database schema is behind this program: run mediastack-runtime migrate")
		case unavailable(server.Code):
			return fault.Wrap(cause, fault.Unavailable, "the database can't be reached")
		}
		return cause
	}
	if disconnected(err) {
		return fault.Wrap(cause, fault.Unavailable, "the database can't be reached")
	}
	return cause
}

// unavailable reports whether an error code of the server passes by itself: connection
// exceptions, a login or a database that is not there yet, lack of resources, operator
// intervention, errors of its system, locks, timeouts, a server that became read-only, and
// transactions that lost against another one.
func unavailable(code string) bool {
	for _, prefix := range []string{"08", "28", "3D", "53", "57", "58", "40", "55P03", "25006", "25P03", "25P04"} {
		if strings.HasPrefix(code, prefix) {
			return true
		}
	}
	return false
}

// passes tells the errors that another try right now would meet again.
func passes(err error) bool { return fault.Is(classify(err, ""), fault.Unavailable) }

// disconnected reports whether an error means that the connection was not made, or ended
// before the answer was complete. The driver wraps some of these errors and repeats only
// the text of others.
func disconnected(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) {
		return true
	}
	for _, end := range []error{net.ErrClosed, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE,
		pgconn.ErrConnClosed, pgx.ErrTxClosed, pgx.ErrTxCommitRollback, puddle.ErrClosedPool, driver.ErrBadConn, sql.ErrConnDone} {
		if errors.Is(err, end) {
			return true
		}
	}
	return strings.Contains(err.Error(), "unexpected EOF") || strings.Contains(err.Error(), "conn closed")
}

// migrationFiles returns the embedded migrations at the root of a file system.
func migrationFiles() (fs.FS, error) { return fs.Sub(embedded, "migrations") }
