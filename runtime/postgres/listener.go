package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// accountChannel is the channel on which the schema's triggers notify account changes.
const accountChannel = "mediastack_account"

const (
	// The pause before a listener reconnects doubles from minReconnectPause to maxReconnectPause.
	// They are short, because requests wait for the connection of UploadLocks.
	minReconnectPause = 100 * time.Millisecond
	maxReconnectPause = time.Second
	// probeInterval is the time without a notification after which a listener probes its connection.
	probeInterval = 15 * time.Second
	// queryTimeout bounds a query of a listener. A connection that does not answer in time is
	// closed.
	queryTimeout = 5 * time.Second
)

// listener is a connection of its own, apart from the pool, that listens on one channel.
type listener struct {
	conn *pgx.Conn
}

// listen calls serve with a connection that listens on channel. When serve returns or the
// connection can't be made, listen calls onLost, and connects again after a pause. It returns
// when ctx ends.
func listen(ctx context.Context, config *pgx.ConnConfig, channel string, serve func(*listener) error, onLost func(error)) {
	pause := minReconnectPause
	for {
		err := listenOnce(ctx, config, channel, func(l *listener) error {
			pause = minReconnectPause
			return serve(l)
		})
		if ctx.Err() != nil {
			return
		}
		onLost(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxReconnectPause)
	}
}

func listenOnce(ctx context.Context, config *pgx.ConnConfig, channel string, serve func(*listener) error) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	return serve(&listener{conn: conn})
}

// next waits for a notification and returns its payload. It returns an empty payload when
// waiting, which is derived from ctx, is canceled, and whenever a probe succeeded. After an
// error the connection can't be used.
func (l *listener) next(ctx, waiting context.Context) (payload string, err error) {
	_, payload, err = l.nextOf(ctx, waiting)
	return payload, err
}

// nextOf is next for a connection that listens on several channels.
func (l *listener) nextOf(ctx, waiting context.Context) (channel, payload string, err error) {
	waiting, cancel := context.WithTimeout(waiting, probeInterval)
	defer cancel()
	notification, err := l.conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		return notification.Channel, notification.Payload, nil
	case ctx.Err() != nil || l.conn.IsClosed() || waiting.Err() == nil:
		return "", "", err
	case errors.Is(waiting.Err(), context.Canceled):
		return "", "", nil
	}
	probing, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return "", "", l.conn.Ping(probing)
}

// Listen calls onChange for every change of an account, by any process, until ctx ends. It
// uses a connection of its own and reconnects when it is lost: onConnect is called when
// changes are received from now on, onLost when changes may be missed. The callbacks must
// return quickly.
func (s *Store) Listen(ctx context.Context, onConnect func(), onChange func(accountID uuid.UUID), onLost func(error)) error {
	listen(ctx, s.pool.Config().ConnConfig, accountChannel, func(l *listener) error {
		onConnect()
		for {
			payload, err := l.next(ctx, ctx)
			if err != nil {
				return err
			}
			if id, err := uuid.Parse(payload); err == nil {
				onChange(id)
			}
		}
	}, func(err error) { onLost(toFault(err, "listen")) })
	return nil
}
