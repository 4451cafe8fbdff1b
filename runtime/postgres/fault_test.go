package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"mediastack.dev/runtime/fault"
)

// Two requests of a chaos run got status 500 because a store had been killed.
func TestToFault_KindOfEveryError(t *testing.T) {
	t.Parallel()
	server := func(code string) error { return &pgconn.PgError{Severity: "FATAL", Code: code, Message: "m"} }
	network := func(op string, err error) error {
		return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, err)}
	}
	for name, c := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"admin shutdown":                      {server("57P01"), fault.Unavailable},
		"crash shutdown":                      {server("57P02"), fault.Unavailable},
		"cannot connect now":                  {server("57P03"), fault.Unavailable},
		"a database that was dropped":         {server("57P04"), fault.Unavailable},
		"a statement that was canceled":       {server("57014"), fault.Unavailable},
		"too many connections":                {server("53300"), fault.Unavailable},
		"out of memory":                       {server("53200"), fault.Unavailable},
		"disk full":                           {server("53100"), fault.Unavailable},
		"an I/O error of the server":          {server("58030"), fault.Unavailable},
		"connection failure":                  {server("08006"), fault.Unavailable},
		"serialization failure":               {server("40001"), fault.Unavailable},
		"deadlock":                            {server("40P01"), fault.Unavailable},
		"lock not available":                  {server("55P03"), fault.Unavailable},
		"a standby after a failover":          {server("25006"), fault.Unavailable},
		"idle in transaction":                 {server("25P03"), fault.Unavailable},
		"transaction timeout":                 {server("25P04"), fault.Unavailable},
		"a password that changed":             {server("28P01"), fault.Unavailable},
		"a missing database":                  {server("3D000"), fault.Unavailable},
		"a pending migration":                 {server("42P01"), fault.Unavailable},
		"a unique violation":                  {server("23505"), fault.Conflict},
		"a missing column":                    {server("42703"), fault.Unavailable},
		"a missing permission":                {server("42501"), fault.Unavailable},
		"a check violation":                   {server("23514"), fault.Internal},
		"a syntax error":                      {server("42601"), fault.Internal},
		"an aborted transaction":              {server("25P02"), fault.Internal},
		"no rows":                             {pgx.ErrNoRows, fault.NotFound},
		"a deadline":                          {context.DeadlineExceeded, fault.Unavailable},
		"a cancellation":                      {context.Canceled, fault.Unavailable},
		"connection refused":                  {network("dial", syscall.ECONNREFUSED), fault.Unavailable},
		"connection reset while reading":      {network("read", syscall.ECONNRESET), fault.Unavailable},
		"broken pipe":                         {network("write", syscall.EPIPE), fault.Unavailable},
		"connection reset, bare":              {syscall.ECONNRESET, fault.Unavailable},
		"an I/O timeout":                      {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, fault.Unavailable},
		"an unknown host name":                {&net.DNSError{Err: "no such host", IsNotFound: true}, fault.Unavailable},
		"the end of the connection":           {io.EOF, fault.Unavailable},
		"a truncated response":                {io.ErrUnexpectedEOF, fault.Unavailable},
		"a truncated response, as text":       {errors.New("receive message failed: unexpected EOF"), fault.Unavailable},
		"a closed connection":                 {pgconn.ErrConnClosed, fault.Unavailable},
		"a closed socket":                     {net.ErrClosed, fault.Unavailable},
		"a connection that could not be made": {&pgconn.ConnectError{Config: &pgconn.Config{}}, fault.Unavailable},
		"a transaction that ended":            {pgx.ErrTxClosed, fault.Unavailable},
		"a commit that was rolled back":       {pgx.ErrTxCommitRollback, fault.Unavailable},
		"a pool that is closed":               {puddle.ErrClosedPool, fault.Unavailable},
		"a bad connection of database/sql":    {driver.ErrBadConn, fault.Unavailable},
		"a lost connection of database/sql":   {sql.ErrConnDone, fault.Unavailable},
		"a value that can't be scanned":       {errors.New("can't scan into dest[0]"), fault.Internal},
		"a fault":                             {fault.New(fault.QuotaExceeded, "full"), fault.QuotaExceeded},
	} {
		for form, err := range map[string]error{"": c.err, ", wrapped": fmt.Errorf("query: %w", c.err)} {
			if name == "a connection that could not be made" && form != "" {
				continue // its text can't be formatted without the error inside
			}
			if got := fault.From(toFault(err, "test")).Kind; got != c.want {
				t.Errorf("%s%s: %s, want %s", name, form, got, c.want)
			}
		}
	}
}

func TestToFault_ReasonOfEveryCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]fault.Reason{
		"28P01": fault.Credentials, "28000": fault.Credentials, "42501": fault.Credentials,
		"3D000": fault.DatabaseMissing, "53100": fault.StoreFull,
		"42P01": fault.Schema, "42703": fault.Schema, "42883": fault.Schema,
		"57P01": "", "53200": "", "08006": "", "23505": "", "42601": "",
	} {
		got := fault.From(toFault(&pgconn.PgError{Code: code, Message: "secret"}, "test"))
		if got.Reason != want || want != "" && (got.Kind != fault.Unavailable || got.Detail != code) {
			t.Errorf("%s: kind %s, reason %q, detail %q, want reason %q", code, got.Kind, got.Reason, got.Detail, want)
		}
	}
}

// A deadlock was reported as a database that is unreachable.
func TestToFault_LocksAreNoOutage(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"55P03", "40P01", "40001"} {
		if got := fault.From(toFault(&pgconn.PgError{Code: code}, "test")); got.Kind != fault.Unavailable || strings.Contains(got.Public, "unreachable") {
			t.Errorf("%s: %s: %s", code, got.Kind, got.Public)
		}
	}
}
