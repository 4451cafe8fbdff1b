package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"mediastack.dev/runtime/fault"
)

// toFault returns the fault of a driver error; a fault is returned unchanged. op names the
// operation in the log.
func toFault(err error, op string) error {
	if err == nil {
		return nil
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	cause := fmt.Errorf("postgres: %s: %w", op, err)
	if errors.Is(err, pgx.ErrNoRows) {
		return fault.Wrap(cause, fault.NotFound, "not found")
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(cause, fault.Unavailable, "the database did not respond in time")
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return serverFault(cause, server.Code)
	}
	if isDisconnected(err) {
		return fault.Wrap(cause, fault.Unavailable, "the database is unreachable")
	}
	return cause
}

// serverFault returns the fault of an error code of the server.
func serverFault(cause error, code string) error {
	reason := reasons[code]
	switch {
	case code == "23505": // unique_violation
		return fault.Wrap(cause, fault.Conflict, "already exists")
	case isStalePlan(cause):
		return fault.Wrap(cause, fault.Unavailable, "the database schema has just been changed: try again")
	case code == otherCluster:
		return fault.WithReason(fault.Wrap(cause, fault.Unavailable, "the database belongs to another cluster, or is on hold"), fault.OtherInstallation)
	case reason == fault.Schema:
		return fault.Explain(fault.Wrap(cause, fault.Unavailable, "the database schema is not that of this program: run mediastack-runtime migrate"), reason, code)
	case reason == fault.ReadOnly:
		return fault.Explain(fault.Wrap(cause, fault.Unavailable, readOnlyText), reason, code)
	case reason != "":
		return fault.Explain(fault.Wrap(cause, fault.Unavailable, "the database is unreachable"), reason, code)
	case code == "55P03" || strings.HasPrefix(code, "40"): // lock_not_available, and transactions that lost against another one
		return fault.Wrap(cause, fault.Unavailable, "other requests have locked the same rows: try again")
	case isTransientCode(code):
		return fault.Wrap(cause, fault.Unavailable, "the database is unreachable")
	}
	return cause
}

// readOnlyText is what clients are told: reads go on.
const readOnlyText = "the database accepts no changes now"

// undefinedTable is the error code of a table that does not exist.
const undefinedTable = "42P01"

// reasons are the error codes of the server that end only when an administrator acts.
var reasons = map[string]fault.Reason{
	"28P01":        fault.Credentials, // invalid_password
	"28000":        fault.Credentials, // invalid_authorization_specification
	"42501":        fault.Credentials, // insufficient_privilege
	"3D000":        fault.DatabaseMissing,
	"53100":        fault.StoreFull, // disk_full
	"25006":        fault.ReadOnly,  // read_only_sql_transaction
	undefinedTable: fault.Schema,
	"42703":        fault.Schema, // undefined_column
	"42883":        fault.Schema, // undefined_function
}

// isTransientCode reports whether an error code of the server denotes a condition that is not
// the caller's: connection exceptions, a role or database that does not exist yet, insufficient
// resources, operator intervention, system errors, locks, timeouts, a server that became
// read-only, and transactions that lost against another one.
func isTransientCode(code string) bool {
	for _, prefix := range []string{"08", "28", "3D", "53", "57", "58", "40", "55P03", "25006", "25P03", "25P04"} {
		if strings.HasPrefix(code, prefix) {
			return true
		}
	}
	return false
}

// isLockFailure reports whether a statement failed because it could not lock a row in time, or
// because of a deadlock.
func isLockFailure(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (server.Code == "55P03" || server.Code == "40P01")
}

// isTransient reports whether an immediate retry would fail with the same error.
func isTransient(err error) bool { return fault.Is(toFault(err, ""), fault.Unavailable) }

// isDisconnected reports whether an error means that the connection could not be made, or
// ended before the response was complete. The driver wraps some of these errors and repeats
// only the text of others.
func isDisconnected(err error) bool {
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
