package auth

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
)

// How often, and how long at most, the last uses of keys are written down.
const (
	flushEvery   = time.Minute
	flushTimeout = 10 * time.Second
)

// uses gathers when keys were last used, so that a request costs no write.
type uses struct {
	mu   sync.Mutex
	last map[uuid.UUID]time.Time
}

func newUses() *uses { return &uses{last: map[uuid.UUID]time.Time{}} }

func (u *uses) note(keyID uuid.UUID, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at.After(u.last[keyID]) {
		u.last[keyID] = at
	}
}

// run flushes every minute, and once more when ctx ends.
func (u *uses) run(ctx context.Context, directory Directory, log *slog.Logger) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		u.flush(ctx, directory, log)
	}
}

func (u *uses) flush(ctx context.Context, directory Directory, log *slog.Logger) {
	u.mu.Lock()
	batch := u.last
	u.last = map[uuid.UUID]time.Time{}
	u.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := directory.TouchKeys(ctx, batch); err != nil {
		log.WarnContext(ctx, "the last use of keys is written down later", "keys", len(batch), "error", err)
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
