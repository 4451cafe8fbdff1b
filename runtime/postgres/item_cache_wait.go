package postgres

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// cacheWait waits for the caches of items of all processes. Callers that come while a round runs share
// the next one. It is safe for concurrent use.
type cacheWait struct {
	round    func(ctx context.Context) error
	duration prometheus.Histogram
	removed  prometheus.Counter

	mu      sync.Mutex
	running bool
	queue   []chan error
}

func newCacheWait(round func(ctx context.Context) error) *cacheWait {
	return &cacheWait{
		round: round,
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mediastack_database_cache_acknowledgement_seconds", Help: "Time of a change (a delete, a suspension) until every cache of items has acknowledged it, or cannot serve anymore.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		removed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mediastack_database_caches_removed_total", Help: "Caches of items that did not acknowledge a change in time, and were waited out.",
		}),
	}
}

// awaitItemCaches returns when no process serves from a cache what was committed differently before
// the call. It goes on when the client has left. If it fails, a process may serve what it cached for
// the time of its lease.
func (s *Store) awaitItemCaches(ctx context.Context) error {
	start := time.Now()
	err := s.caches.wait(context.WithoutCancel(ctx))
	s.caches.duration.Observe(time.Since(start).Seconds())
	return toFault(err, "wait for the caches of items")
}

func (w *cacheWait) wait(ctx context.Context) error {
	done := make(chan error, 1)
	w.mu.Lock()
	w.queue = append(w.queue, done)
	if !w.running {
		w.running = true
		go w.run(ctx)
	}
	w.mu.Unlock()
	return <-done
}

// run runs rounds until nobody waits. A round begins after its callers have come, so that it sees
// every cache that may hold what they changed.
func (w *cacheWait) run(ctx context.Context) {
	for {
		w.mu.Lock()
		callers := w.queue
		w.queue = nil
		w.running = len(callers) > 0
		w.mu.Unlock()
		if len(callers) == 0 {
			return
		}
		err := w.round(ctx)
		for _, done := range callers {
			done <- err
		}
	}
}

// acknowledgeRound waits once for the caches that are registered now.
func (s *Store) acknowledgeRound(ctx context.Context) error {
	_, err := repeat(ctx, s, uuid.Nil, func(ctx context.Context) (struct{}, error) {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return struct{}{}, err
		}
		defer conn.Release()
		q := sqlgen.New(conn)
		caches, err := q.ItemCaches(ctx)
		if err != nil || len(caches) == 0 {
			return struct{}{}, err
		}
		return struct{}{}, s.acknowledge(ctx, conn, q, caches)
	})
	return err
}

// acknowledge asks caches to acknowledge what they were notified of. It ends the rows of those that do
// not answer within their lease: they serve nothing when one more lease is over, since they cannot
// confirm an ended row. Only durations are compared, not the clocks of two machines.
func (s *Store) acknowledge(ctx context.Context, conn *pgxpool.Conn, q *sqlgen.Queries, caches []sqlgen.ItemCache) error {
	pending, lease := map[string]sqlgen.ItemCache{}, time.Duration(0)
	for _, cache := range caches {
		pending[cache.ID.String()] = cache
		lease = max(lease, time.Duration(cache.LeaseMs)*time.Millisecond)
	}
	channel := answerChannel + strings.ReplaceAll(uuid.NewString(), "-", "")
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	defer stopListening(ctx, conn, channel)
	if err := q.Notify(ctx, sqlgen.NotifyParams{Channel: itemChannel, Payload: itemAnswer + " " + channel}); err != nil {
		return err
	}
	if err := receiveAnswers(ctx, conn, channel, pending, lease); err != nil || len(pending) == 0 {
		return err
	}
	var silent, serving []uuid.UUID
	for key, cache := range pending {
		silent = append(silent, cache.ID)
		if cache.Ended { // by another process, a lease ago or more
			delete(pending, key)
			continue
		}
		serving = append(serving, cache.ID)
	}
	if err := q.EndItemCaches(ctx, serving); err != nil {
		return err
	}
	s.caches.removed.Add(float64(len(serving)))
	if err := receiveAnswers(ctx, conn, channel, pending, lease); err != nil {
		return err
	}
	return q.RemoveItemCaches(ctx, silent)
}

// receiveAnswers removes the caches that answer from pending, until none is left or limit is over.
func receiveAnswers(ctx context.Context, conn *pgxpool.Conn, channel string, pending map[string]sqlgen.ItemCache, limit time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for len(pending) > 0 {
		answer, err := conn.Conn().WaitForNotification(waiting)
		switch {
		case err == nil:
			if answer.Channel == channel {
				delete(pending, answer.Payload)
			}
		case ctx.Err() == nil && waiting.Err() != nil && !conn.Conn().IsClosed():
			return nil
		default:
			return err
		}
	}
	return nil
}

// stopListening returns a connection to what it was, or closes it.
func stopListening(ctx context.Context, conn *pgxpool.Conn, channel string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, "UNLISTEN "+channel); err != nil {
		_ = conn.Conn().Close(ctx) // the pool drops a closed connection
	}
}
