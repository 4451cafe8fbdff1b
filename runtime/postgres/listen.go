package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// accountChannel is where the schema's triggers say that something of an account changed.
const accountChannel = "mediastack_account"

// Pauses between two attempts to listen.
const (
	listenPauseFirst   = 100 * time.Millisecond
	listenPauseLongest = 5 * time.Second
	// listenProbe is how often a quiet connection is asked whether it is alive.
	listenProbe = 15 * time.Second
	// listenPing is how long the answer may take, before the connection is taken for dead.
	listenPing = 5 * time.Second
)

// Listen tells of changes to accounts, from any process, until ctx ends. It uses a
// connection of its own and comes back by itself when that is lost: onConnect is
// called when changes are heard from now on, onLost when they may be missed.
// The callbacks must return quickly.
func (s *Store) Listen(ctx context.Context, onConnect func(), onChange func(accountID uuid.UUID), onLost func(error)) error {
	pause := listenPauseFirst
	for {
		err := s.listenOnce(ctx, func() { pause = listenPauseFirst; onConnect() }, onChange)
		if ctx.Err() != nil {
			return nil
		}
		onLost(classify(err, "listen"))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, listenPauseLongest)
	}
}

func (s *Store) listenOnce(ctx context.Context, onConnect func(), onChange func(uuid.UUID)) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+accountChannel); err != nil {
		return err
	}
	onConnect()
	for {
		waiting, cancel := context.WithTimeout(ctx, listenProbe)
		change, err := conn.WaitForNotification(waiting)
		quiet := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			if id, err := uuid.Parse(change.Payload); err == nil {
				onChange(id)
			}
		case quiet && !conn.IsClosed():
			pinging, cancel := context.WithTimeout(ctx, listenPing)
			err := conn.Ping(pinging)
			cancel()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}
