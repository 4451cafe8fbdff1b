package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/runtime/preflight"
)

const (
	preflightPart = "database"
	// minServerVersion is that of PostgreSQL 15, as server_version_num has it.
	minServerVersion = 150_000
	// dedicatedConns are the connections of serve that are not of its pool: those of notifications
	// and of the locks of uploads.
	dedicatedConns = 2
)

// Codes of PostgreSQL's errors that a preflight explains.
const (
	invalidPassword      = "28P01"
	invalidAuthorization = "28000"
	unknownDatabase      = "3D000"
	noConnectPrivilege   = "42501"
)

// Preflight reports whether the database can be used. It changes nothing.
func Preflight(ctx context.Context, cfg Config, report *preflight.Report) {
	parsed, err := pgx.ParseConfig(cfg.DatabaseURL)
	if err != nil { // the error could have the password
		report.Missing(preflightPart, "SERVICE_DATABASE_URL is not a PostgreSQL URL such as postgres://user:password@host/db")
		return
	}
	parsed.ConnectTimeout = cfg.ConnectTimeout
	conn, err := pgx.ConnectConfig(ctx, parsed)
	if err != nil {
		report.Missing(preflightPart, "%s", explainConnect(parsed, err))
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := inspect(ctx, conn, parsed, cfg, report); err != nil {
		report.Missing(preflightPart, "a query fails: %v", err)
	}
}

// inspect adds what the server and the schema are.
func inspect(ctx context.Context, conn *pgx.Conn, parsed *pgx.ConnConfig, cfg Config, report *preflight.Report) error {
	var (
		version, limit, used int
		text, schema         string
		create, recovering   bool
	)
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('max_connections')::int, (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
		coalesce(current_schema(), ''), coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), pg_is_in_recovery()`).
		Scan(&version, &text, &limit, &used, &schema, &create, &recovering)
	if err != nil {
		return err
	}
	report.Works(preflightPart, "PostgreSQL %s at %s:%d accepts the user %s in the database %s", text, parsed.Host, parsed.Port, parsed.User, parsed.Database)
	if version < minServerVersion {
		report.Missing(preflightPart, "PostgreSQL 15 or later is needed")
	}
	if recovering {
		report.Missing(preflightPart, "the server is a replica, which accepts no writes: use the address of the primary")
	}
	found, err := readSchema(ctx, conn)
	switch {
	case errors.Is(err, errNotMigrated) && create:
		report.Works(preflightPart, "the schema %s is empty, and the user may create tables in it: mediastack-runtime migrate does", schema)
	case errors.Is(err, errNotMigrated):
		report.Missing(preflightPart, "the user may not create tables: as the owner of the database, run GRANT CREATE ON SCHEMA public TO the user")
	case err != nil:
		return err
	case found.check() != nil:
		report.Missing(preflightPart, "%v", found.check())
	case found.isPending():
		report.Note(preflightPart, "the schema has version %d: mediastack-runtime migrate brings it to %d", found.newest, latestVersion())
	case found.isNewer():
		report.Works(preflightPart, "the schema has version %d, which this program may use: it knows versions up to %d", found.newest, latestVersion())
	default:
		report.Works(preflightPart, "the schema is that of this version")
	}
	report.Note(preflightPart, "the server allows %d connections, of which %d are in use; each replica of the runtime uses up to %d (SERVICE_DATABASE_MAX_CONNS and %d)", limit, used, cfg.DatabaseConns+dedicatedConns, dedicatedConns)
	return nil
}

// explainConnect says why there is no connection. No error of the driver has the password.
func explainConnect(parsed *pgx.ConnConfig, err error) string {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return fmt.Sprintf("%s:%d cannot be reached: %v: check the host and the port of SERVICE_DATABASE_URL, and networkPolicy.database of the chart", parsed.Host, parsed.Port, preflight.Cause(err))
	}
	switch server.Code {
	case invalidPassword, invalidAuthorization:
		return fmt.Sprintf("the server at %s:%d does not accept the user %s: check the user and the password of SERVICE_DATABASE_URL", parsed.Host, parsed.Port, parsed.User)
	case unknownDatabase:
		return fmt.Sprintf("the database %s does not exist: create it, with the user %s as its owner", parsed.Database, parsed.User)
	case noConnectPrivilege:
		return fmt.Sprintf("the user %s may not connect to the database %s: run GRANT CONNECT ON DATABASE", parsed.User, parsed.Database)
	case tooManyConnections:
		return "the server has no connection left: raise its max_connections, or lower SERVICE_DATABASE_MAX_CONNS or the number of replicas"
	}
	return strings.TrimSuffix(server.Message, ".") + " (" + server.Code + ")"
}
