package postgres

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// otherCluster is the error code of a write that the trigger reject_other_cluster rejects.
	otherCluster = "MS001"
	// takeoverLock is the advisory lock that a fenced write shares, and that a take-over and the
	// begin of a leader term exclude. The trigger has the same number, which is arbitrary and must
	// never change.
	takeoverLock = 5_268_713_943
)

// fence sets the parameter mediastack.cluster of the sessions of an operator. A trigger rejects
// the writes of a session whose cluster, epoch and leader term are not those of the installation,
// so that an operator that lost a take-over or its lease changes no row, even before it knows.
type fence struct {
	session  atomic.Pointer[string] // nil: the sessions are not fenced
	rejected atomic.Pointer[func()]
}

// SetFence makes every write to accounts, apps, keys and pins require that the installation is
// bound to the cluster at this epoch, and that the leader term is this one; 0 permits any term.
// Epochs begin at 1: with 0, every such write is rejected.
func (s *Store) SetFence(clusterUID string, epoch, leaderTerm int64) {
	session := fmt.Sprintf("%s/%d", clusterUID, epoch)
	if leaderTerm > 0 {
		session += fmt.Sprintf("/%d", leaderTerm)
	}
	s.fence.session.Store(&session)
}

// OnFenced sets the function that is called when the fence rejected a write. It is called
// before the write returns its error.
func (s *Store) OnFenced(rejected func()) { s.fence.rejected.Store(&rejected) }

// sessionParameter is the key of the value that a connection has for mediastack.cluster.
const sessionParameter = "mediastack.cluster"

// install adds the fence to the configuration of a pool.
func (f *fence) install(cfg *pgxpool.Config) {
	prepare := cfg.PrepareConn
	cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		if use, err := prepare(ctx, conn); !use || err != nil {
			return use, err
		}
		session := f.session.Load()
		if session == nil || conn.PgConn().CustomData()[sessionParameter] == *session {
			return true, nil
		}
		if _, err := conn.Exec(ctx, "SELECT set_config('mediastack.cluster', $1, false)", *session); err != nil {
			return false, err
		}
		conn.PgConn().CustomData()[sessionParameter] = *session
		return true, nil
	}
	next := cfg.ConnConfig.OnPgError
	cfg.ConnConfig.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if call := f.rejected.Load(); err.Code == otherCluster && call != nil {
			(*call)()
		}
		return next(conn, err)
	}
}
