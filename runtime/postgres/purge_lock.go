package postgres

import (
	"context"

	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// purgeLock is the advisory lock of the purge. The number is arbitrary and must never change.
const purgeLock = 5_268_713_942

// WithPurgeLock implements media.PurgeStore. The lock belongs to a connection of its own and
// ends with it, so that a purge that was killed does not block the next one.
func (s Items) WithPurgeLock(ctx context.Context, purge func(ctx context.Context) error) (bool, error) {
	conn, err := s.db.acquire(ctx)
	if err != nil {
		return false, toFault(err, "acquire the purge's connection")
	}
	defer conn.Release()
	q := sqlgen.New(conn)
	locked, err := q.TryPurgeLock(ctx, purgeLock)
	if err != nil || !locked {
		return false, toFault(err, "lock the purge")
	}
	defer func() {
		// The unlock must also run after ctx was canceled. Closing a connection that can't
		// unlock releases the lock as well.
		unlocking, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
		defer cancel()
		if err := q.PurgeUnlock(unlocking, purgeLock); err != nil {
			_ = conn.Conn().Close(unlocking)
		}
	}()
	return true, purge(ctx)
}
