package auth

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
)

// How often, and how long at most, last uses are written down.
const (
	flushEvery   = time.Minute
	flushTimeout = 10 * time.Second
)

// uses gathers when keys, or grants, were last used, so that a request costs no write.
type uses struct {
	touch func(context.Context, map[uuid.UUID]time.Time) error // writes them down
	mu    sync.Mutex
	last  map[uuid.UUID]time.Time
}

func newUses(touch func(context.Context, map[uuid.UUID]time.Time) error) *uses {
	return &uses{touch: touch, last: map[uuid.UUID]time.Time{}}
}

func (u *uses) note(id uuid.UUID, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at.After(u.last[id]) {
		u.last[id] = at
	}
}

// run flushes every minute, and once more when ctx ends.
func (u *uses) run(ctx context.Context, log *slog.Logger) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		u.flush(ctx, log)
	}
}

func (u *uses) flush(ctx context.Context, log *slog.Logger) {
	u.mu.Lock()
	batch := u.last
	u.last = map[uuid.UUID]time.Time{}
	u.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := u.touch(ctx, batch); err != nil {
		log.WarnContext(ctx, "last uses are written down later", "uses", len(batch), "error", err)
		u.restore(batch)
	}
}

// restore takes back a batch that could not be written, under what was noted since.
func (u *uses) restore(batch map[uuid.UUID]time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.last)+len(batch) > keyringLimit {
		return
	}
	maps.Copy(batch, u.last)
	u.last = batch
}
