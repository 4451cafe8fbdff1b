package auth

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
)

// The interval of flushes, and the timeout of one.
const (
	flushEvery   = time.Minute
	flushTimeout = 10 * time.Second
)

// lastUsedRecorder buffers when keys, or grants, were last used, so that a request costs no
// write.
type lastUsedRecorder struct {
	write func(context.Context, map[uuid.UUID]time.Time) error
	mu    sync.Mutex
	last  map[uuid.UUID]time.Time
}

func newLastUsedRecorder(write func(context.Context, map[uuid.UUID]time.Time) error) *lastUsedRecorder {
	return &lastUsedRecorder{write: write, last: map[uuid.UUID]time.Time{}}
}

func (l *lastUsedRecorder) record(id uuid.UUID, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.After(l.last[id]) {
		l.last[id] = at
	}
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
	l.last = map[uuid.UUID]time.Time{}
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

// restore puts a batch that could not be written back into the buffer. Newer entries win.
func (l *lastUsedRecorder) restore(batch map[uuid.UUID]time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.last)+len(batch) > maxCachedSessions {
		return
	}
	maps.Copy(batch, l.last)
	l.last = batch
}
