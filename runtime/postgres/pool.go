package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"mediastack.dev/runtime/cell"
)

// Config configures the database connection. The tags are flag and environment names.
type Config struct {
	DatabaseURL    string        `env:"SERVICE_DATABASE_URL" required:"" help:"PostgreSQL 15 or later, one database for one cluster: postgres://user:password@host/db (prefer the environment over the flag)."`
	DatabaseConns  int32         `name:"database-max-conns" env:"SERVICE_DATABASE_MAX_CONNS" default:"8" help:"Maximum number of pooled connections of a process, from 1 to 1000."`
	ConnectTimeout time.Duration `env:"SERVICE_DATABASE_CONNECT_TIMEOUT" default:"5s" help:"Time for one connection attempt, from 100ms to 1m."`
	IdleTimeout    time.Duration `name:"database-idle-timeout" env:"SERVICE_DATABASE_IDLE_TIMEOUT" default:"1m" help:"How long a pooled connection may be idle before it is closed, from 1s to 1h."`
	Cell           cell.Number   `env:"SERVICE_CELL" default:"0" help:"Number of the installation among those that serve one base URL, from 0 to 4095. It is fixed when migrate makes the schema: another number is rejected from then on."`
	RetryTimeout   time.Duration `name:"database-retry-timeout" env:"SERVICE_DATABASE_RETRY_TIMEOUT" default:"5s" help:"How long a request waits for a database that cannot be reached before it is answered 503, from 0s to 30s. The operator does not wait."`

	// StatementTimeout bounds statements and transactions, so that a server that accepts them and
	// does not answer holds no request; 0 = no limit. The maintenance commands have none: their
	// statements may take long.
	StatementTimeout time.Duration `kong:"-"`
	// Maintenance plans each statement for the tables as they are. Otherwise the plans of prepared statements are kept, which
	// saves time with each of many requests, also if a table was empty when its plan was made.
	Maintenance bool `kong:"-"`
	// Search bounds searches; empty = the defaults. Only serve searches, so only serve has the settings.
	Search SearchConfig `kong:"-"`
	// MigrationLockTimeout is how long Migrate waits for a lock, from MinLockTimeout to MaxLockTimeout; 0 = the default.
	MigrationLockTimeout time.Duration `kong:"-"`
}

// Bounds of the configuration.
const (
	maxConns          = 1000
	minConnectTimeout = 100 * time.Millisecond
	maxConnectTimeout = time.Minute
	minIdleTimeout    = time.Second
	maxIdleTimeout    = time.Hour
	maxRetryTimeout   = 30 * time.Second
)

// Validate checks the bounds.
func (c Config) Validate() error {
	switch {
	case c.DatabaseConns < 1 || c.DatabaseConns > maxConns:
		return fmt.Errorf("SERVICE_DATABASE_MAX_CONNS must be from 1 to %d, not %d", maxConns, c.DatabaseConns)
	case c.ConnectTimeout < minConnectTimeout || c.ConnectTimeout > maxConnectTimeout:
		return fmt.Errorf("SERVICE_DATABASE_CONNECT_TIMEOUT must be from %s to %s, not %s", minConnectTimeout, maxConnectTimeout, c.ConnectTimeout)
	case c.IdleTimeout < minIdleTimeout || c.IdleTimeout > maxIdleTimeout:
		return fmt.Errorf("SERVICE_DATABASE_IDLE_TIMEOUT must be from %s to %s, not %s", minIdleTimeout, maxIdleTimeout, c.IdleTimeout)
	case c.RetryTimeout < 0 || c.RetryTimeout > maxRetryTimeout:
		return fmt.Errorf("SERVICE_DATABASE_RETRY_TIMEOUT must be from 0s to %s, not %s", maxRetryTimeout, c.RetryTimeout)
	case c.Cell > cell.Max:
		return fmt.Errorf("SERVICE_CELL must be from 0 to %d, not %d", cell.Max, c.Cell)
	}
	return nil
}

// ForMaintenance returns the configuration of a program that works in batches, with at most n pooled connections.
func (c Config) ForMaintenance(n int32) Config {
	c.Maintenance = true
	return c.WithMaxConns(n)
}

// WithMaxConns returns the configuration with at most n pooled connections.
func (c Config) WithMaxConns(n int32) Config {
	if c.DatabaseConns == 0 || c.DatabaseConns > n {
		c.DatabaseConns = n
	}
	return c
}

// Address names the servers and the database for a log, without credentials.
func (c Config) Address() string {
	cfg, err := pgxpool.ParseConfig(c.DatabaseURL)
	if err != nil {
		return "an invalid address"
	}
	var hosts []string
	add := func(host string, port uint16) {
		address := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if strings.HasPrefix(host, "/") { // the folder of a socket
			address = host
		}
		for _, known := range hosts { // the driver lists a host again for each TLS mode
			if known == address {
				return
			}
		}
		hosts = append(hosts, address)
	}
	add(cfg.ConnConfig.Host, cfg.ConnConfig.Port)
	for _, fallback := range cfg.ConnConfig.Fallbacks {
		add(fallback.Host, fallback.Port)
	}
	return strings.Join(hosts, ",") + "/" + cfg.ConnConfig.Database
}

// maintenancePlans is the setting plan_cache_mode of the programs that work in batches.
const maintenancePlans = "force_custom_plan"

// maxIdleInTransaction is how long other processes wait for the locks of one that was paused, or whose host is gone, in the middle of a
// transaction. Then PostgreSQL ends its session.
const maxIdleInTransaction = 10 * time.Second

// pingTimeout bounds the ping of a connection that was idle, before it is used.
const pingTimeout = 2 * time.Second

// poolConfig returns the pool's configuration. Its error never contains the URL, which has a
// password.
func (c Config) poolConfig() (*pgxpool.Config, error) {
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
	if c.IdleTimeout > 0 {
		cfg.MaxConnIdleTime = c.IdleTimeout
		cfg.HealthCheckPeriod = max(c.IdleTimeout/4, minIdleTimeout/4)
	}
	cfg.PingTimeout = pingTimeout
	cfg.ConnConfig.RuntimeParams["application_name"] = "mediastack"
	// The planner overestimates the lists of large apps (list_statement.go): compiling their plans takes
	// longer than executing them.
	cfg.ConnConfig.RuntimeParams["jit"] = "off"
	cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(maxIdleInTransaction.Milliseconds(), 10)
	if c.Maintenance {
		cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = maintenancePlans
	}
	cfg.ConnConfig.Tracer = tracer{}
	cfg.AfterConnect = recordOpened(registerTypes(rejectUnknownSchema))
	cfg.PrepareConn = replaceReadOnly
	return cfg, nil
}

// readOnlyLifetime is how long a session is used that began as read-only.
const readOnlyLifetime = 2 * time.Second

// openedAt is the key of the time at which a connection was made, in its custom data.
const openedAt = "mediastack opened at"

// recordOpened lets a connection know when it was made.
func recordOpened(next func(context.Context, *pgx.Conn) error) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		conn.PgConn().CustomData()[openedAt] = time.Now()
		return next(ctx, conn)
	}
}

// replaceReadOnly reports whether a connection is used: not if its session has been read-only by default for some time. A
// session has the default of the moment at which it began, and a connection in use lasts for an hour: without it, changes would
// fail for as long after an administrator has ended the default. PostgreSQL reports the parameter, so this asks nothing.
func replaceReadOnly(_ context.Context, conn *pgx.Conn) (use bool, err error) {
	opened, known := conn.PgConn().CustomData()[openedAt].(time.Time)
	return !known || conn.PgConn().ParameterStatus("default_transaction_read_only") != "on" || time.Since(opened) < readOnlyLifetime, nil
}

// serverLimits are the limits of connections that the server has for this process. They are read
// with every new connection; all are zero before the first one, and limits of a role or a database
// are -1 if there are none.
type serverLimits struct {
	server, role, database int32
}

// readLimits adds the reading of limits to the configuration of a pool.
func readLimits(cfg *pgxpool.Config, limits *atomic.Pointer[serverLimits]) {
	next := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		var found serverLimits
		err := conn.QueryRow(ctx, `SELECT current_setting('max_connections')::int, rolconnlimit, datconnlimit
			FROM pg_catalog.pg_roles, pg_catalog.pg_database WHERE rolname = current_user AND datname = current_database()`).
			Scan(&found.server, &found.role, &found.database)
		switch {
		case err == nil:
			limits.Store(&found)
		case conn.IsClosed():
			return err
		}
		return next(ctx, conn)
	}
}

// tooManyConnections is the error code of a server that has no connection left, for anyone or for
// the role or the database.
const tooManyConnections = "53300"

// exhaustedError is an error of a server that has no connection left, with numbers that say why.
type exhaustedError struct {
	cause        error
	held, allows int32
	limits       *serverLimits
}

// Error implements error.
func (e exhaustedError) Error() string {
	known := "max_connections of the server is not known yet"
	if e.limits != nil {
		known = fmt.Sprintf("max_connections of the server is %d", e.limits.server)
		if e.limits.role >= 0 {
			known += fmt.Sprintf(", the limit of the role is %d", e.limits.role)
		}
		if e.limits.database >= 0 {
			known += fmt.Sprintf(", the limit of the database is %d", e.limits.database)
		}
	}
	return fmt.Sprintf("PostgreSQL has no connection left: this process has %d and may have %d (SERVICE_DATABASE_MAX_CONNS), %s: %v", e.held, e.allows, known, e.cause)
}

// Unwrap returns the error of the server.
func (e exhaustedError) Unwrap() error { return e.cause }

// explain adds numbers to an error of a server that has no connection left.
func (c *connections) explain(err error) error {
	var server *pgconn.PgError
	if !errors.As(err, &server) || server.Code != tooManyConnections || errors.As(err, new(exhaustedError)) {
		return err
	}
	stat := c.pool.Stat()
	return exhaustedError{cause: err, held: stat.TotalConns() - stat.ConstructingConns(), allows: cmp.Or(c.pool.Config().MaxConns, 1), limits: c.limits.Load()}
}
