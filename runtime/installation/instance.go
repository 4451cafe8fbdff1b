package installation

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// instanceInterval is the interval between two touches of a replica's row. A replica counts as
// serving for 45 s after one.
const instanceInterval = 10 * time.Second

// instanceTimeout bounds one touch, and the deletion at the end.
const instanceTimeout = 5 * time.Second

// InstanceStore has a row for each replica of the runtime; postgres.Store implements it.
type InstanceStore interface {
	// TouchRuntime inserts or touches the row of a replica, and deletes rows that are 10 minutes old.
	TouchRuntime(ctx context.Context, id uuid.UUID, version string) error
	RemoveRuntime(ctx context.Context, id uuid.UUID) error
}

// Instance is the row of one replica of the runtime.
type Instance struct {
	store    InstanceStore
	id       uuid.UUID
	version  string
	writable func() error
	log      *slog.Logger
}

// NewInstance returns an Instance with an id of its own. It counts as serving while writable
// returns nil.
func NewInstance(store InstanceStore, version string, writable func() error, log *slog.Logger) *Instance {
	return &Instance{store: store, id: uuid.New(), version: version, writable: writable, log: log}
}

// ID returns the id of the replica.
func (i *Instance) ID() uuid.UUID { return i.id }

// Run touches the row until ctx ends, and deletes it then.
func (i *Instance) Run(ctx context.Context) error {
	for {
		interval := instanceInterval
		if i.writable() == nil {
			i.touch(ctx)
		} else {
			interval = uncheckedInterval // Guard logs why
		}
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), instanceTimeout)
			defer cancel()
			if err := i.store.RemoveRuntime(ending, i.id); err != nil {
				i.log.WarnContext(ending, "the runtime instance cannot be removed; it counts as serving for 45 s", "error", err)
			}
			return nil
		case <-time.After(interval):
		}
	}
}

func (i *Instance) touch(ctx context.Context) {
	touching, cancel := context.WithTimeout(ctx, instanceTimeout)
	defer cancel()
	if err := i.store.TouchRuntime(touching, i.id, i.version); err != nil && ctx.Err() == nil {
		i.log.WarnContext(ctx, "the runtime instance cannot be recorded", "error", err)
	}
}
