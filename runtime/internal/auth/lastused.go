package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
)

// The interval of flushes, and the timeout of one.
const (
	flushEvery   = time.Minute
	flushTimeout = 10 * time.Second
)

// lastUsedRecorder buffers when keys, or grants, were last used and how often, so that a request costs no
// write. The requests of the last minute are lost with a process that is killed.
type lastUsedRecorder struct {
	write func(context.Context, map[uuid.UUID]account.Use) error
	mu    sync.Mutex
	last  map[uuid.UUID]account.Use
}

func newLastUsedRecorder(write func(context.Context, map[uuid.UUID]account.Use) error) *lastUsedRecorder {
	return &lastUsedRecorder{write: write, last: map[uuid.UUID]account.Use{}}
}

func (l *lastUsedRecorder) record(id uuid.UUID, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[id] = l.last[id].And(account.Use{At: at, Requests: 1})
}

// run flushes every minute, and once more when ctx ends.
func (l *lastUsedRecorder) run(ctx context.Context, log *slog.Logger) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		l.flush(ctx, log)
	}
}

func (l *lastUsedRecorder) flush(ctx context.Context, log *slog.Logger) {
	l.mu.Lock()
	batch := l.last
	l.last = map[uuid.UUID]account.Use{}
	l.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := l.write(ctx, batch); err != nil {
		log.WarnContext(ctx, "flushing last-used timestamps failed, will retry", "uses", len(batch), "error", err)
		l.restore(batch)
	}
}

// restore puts a batch that could not be written back into the buffer.
func (l *lastUsedRecorder) restore(batch map[uuid.UUID]account.Use) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.last)+len(batch) > maxCachedSessions {
		return
	}
	for id, use := range batch {
		l.last[id] = l.last[id].And(use)
	}
}
