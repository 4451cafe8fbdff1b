package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// itemChannel is the channel of changed items, which the schema's triggers notify, and of requests to
// acknowledge. The kind is the first word of a payload; an id, or the channel of the answer, follows.
const (
	itemChannel   = "mediastack_item"
	itemChanged   = "item"
	itemAnswer    = "acknowledge"
	answerChannel = "mediastack_ack_"
)

// confirmationsPerLease is how often a registration is confirmed within its lease: one that is late
// does not interrupt the cache.
const confirmationsPerLease = 3

// Follow is Listen for a process with a cache of items: it also registers the cache while it is in
// use, delivers the changes of items, and acknowledges them. All of it is done by one connection, so
// that a cache without notifications has no registration either. Without a cache it is Listen.
func (s Items) Follow(ctx context.Context, items media.ItemCache, onConnect func(), onChange func(accountID uuid.UUID), onLost func(error)) error {
	if items == nil {
		return s.Listen(ctx, onConnect, onChange, onLost)
	}
	r := &registration{items: items, lease: items.Lease()}
	listen(ctx, s.pool.Config().ConnConfig, accountChannel, func(l *listener) error {
		r.queries = sqlgen.New(l.conn)
		defer r.leave(ctx, l)
		if _, err := l.conn.Exec(ctx, "LISTEN "+itemChannel); err != nil {
			return err
		}
		onConnect()
		for {
			if err := r.confirm(ctx); err != nil {
				return err
			}
			channel, payload, err := r.next(ctx, l)
			switch {
			case err != nil:
				return err
			case channel == itemChannel:
				if err := r.receive(ctx, payload); err != nil {
					return err
				}
			case channel == accountChannel:
				if id, err := uuid.Parse(payload); err == nil {
					onChange(id)
				}
			}
		}
	}, func(err error) { onLost(toFault(err, "listen")) })
	return nil
}

// registration is the row of a cache of items. Only the goroutine of Follow uses it.
type registration struct {
	items   media.ItemCache
	lease   time.Duration
	queries *sqlgen.Queries

	id         uuid.UUID // of the last connection that registered
	registered bool
	due        time.Time // of the next confirmation
}

// confirm registers the cache when it is in use, confirms the registration when that is due, and ends
// it when the cache is not in use anymore.
func (r *registration) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if !r.items.InUse() {
		return r.end(ctx)
	}
	if r.registered && time.Now().Before(r.due) {
		return nil
	}
	r.items.Confirming()
	if r.registered {
		exists, err := r.queries.ItemCacheExists(ctx, r.id)
		if err != nil {
			return err
		}
		if !exists { // a writer did not wait for this process
			r.registered = false
			r.items.Unregistered()
			r.items.Confirming()
		}
	}
	if !r.registered {
		id := uuid.New()
		err := r.queries.RegisterItemCache(ctx, sqlgen.RegisterItemCacheParams{ID: id, LeaseMs: r.lease.Milliseconds(), Earlier: r.id})
		if err != nil {
			return err
		}
		r.id, r.registered = id, true
	}
	r.items.Confirmed()
	r.due = time.Now().Add(r.lease / confirmationsPerLease)
	return nil
}

// end ends the registration, if there is one.
func (r *registration) end(ctx context.Context) error {
	if !r.registered {
		return nil
	}
	r.items.Unregistered()
	r.registered = false
	return r.queries.RemoveItemCaches(ctx, []uuid.UUID{r.id})
}

// leave ends the registration with the connection. If the row stays, a writer deletes it, or the next
// connection of the process.
func (r *registration) leave(ctx context.Context, l *listener) {
	r.items.Unregistered()
	if r.registered && !l.conn.IsClosed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = r.queries.RemoveItemCaches(ctx, []uuid.UUID{r.id})
	}
	r.registered = false
}

// next waits for a notification, until a confirmation is due or the cache is in use again.
func (r *registration) next(ctx context.Context, l *listener) (channel, payload string, err error) {
	waiting, interrupt := context.WithCancel(ctx)
	defer interrupt()
	if r.registered {
		defer time.AfterFunc(time.Until(r.due), interrupt).Stop()
	} else {
		go func() {
			select {
			case <-r.items.InUseAgain():
				interrupt()
			case <-waiting.Done():
			}
		}()
	}
	return l.nextOf(ctx, waiting)
}

// receive handles a notification of itemChannel. What was notified before it, of accounts too, has
// been delivered.
func (r *registration) receive(ctx context.Context, payload string) error {
	switch kind, rest, _ := strings.Cut(payload, " "); {
	case kind == itemChanged:
		if id, err := uuid.Parse(rest); err == nil {
			r.items.ItemChanged(id)
		}
	case kind == itemAnswer && strings.HasPrefix(rest, answerChannel) && r.registered:
		ctx, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		return r.queries.Notify(ctx, sqlgen.NotifyParams{Channel: rest, Payload: r.id.String()})
	}
	return nil
}
