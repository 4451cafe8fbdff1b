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
		switch {
		case server.Code == otherCluster:
			return fault.WithReason(fault.Wrap(cause, fault.Unavailable, "the database belongs to another cluster, or was restored"), fault.OtherInstallation)
		case server.Code == "23505": // unique_violation
			return fault.Wrap(cause, fault.Conflict, "already exists")
		case server.Code == undefinedTable:
			return fault.Wrap(cause, fault.Unavailable, "the database schema is older than this program: run mediastack-runtime migrate")
		case isTransientCode(server.Code):
			return fault.Wrap(cause, fault.Unavailable, "the database is unreachable")
		}
		return cause
	}
	if isDisconnected(err) {
		return fault.Wrap(cause, fault.Unavailable, "the database is unreachable")
	}
	return cause
}

// undefinedTable is the error code of a table that does not exist.
const undefinedTable = "42P01"

// isTransientCode reports whether an error code of the server denotes a condition that ends
// by itself: connection exceptions, a role or database that does not exist yet, insufficient
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
