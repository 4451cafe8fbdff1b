package installation

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// touchesPerLease is how often a process renews its lease until it would end.
const touchesPerLease = 4

// maxTouchTimeout bounds one touch, and the deletion at the end.
const maxTouchTimeout = 5 * time.Second

// InstanceConfig bounds the life of a process that does not respond. The tags are flag and environment
// names.
type InstanceConfig struct {
	InstanceTimeout time.Duration `name:"instance-timeout" env:"SERVICE_INSTANCE_TIMEOUT" default:"30s" help:"Time without a heartbeat after which a process counts as dead, from 10s to 10m. Another process then ends its uploads, so that the bytes that they reserved are free again."`
}

// Bounds of InstanceTimeout.
const (
	minInstanceTimeout = 10 * time.Second
	maxInstanceTimeout = 10 * time.Minute
)

// Validate checks the bounds.
func (c InstanceConfig) Validate() error {
	if c.InstanceTimeout < minInstanceTimeout || c.InstanceTimeout > maxInstanceTimeout {
		return fmt.Errorf("SERVICE_INSTANCE_TIMEOUT must be from 10s to 10m, not %s", c.InstanceTimeout)
	}
	return nil
}

// Touch is the result of renewing the lease of a process.
type Touch struct {
	// Lapsed: the lease had ended, or there was none. The uploads of the process may have been ended.
	Lapsed bool
	// Dead: there are processes that are dead. It is reported only to a process that has renewed its own
	// lease for at least the time of one: otherwise the database may have been away, and the others may
	// be about to renew theirs.
	Dead bool
}

// InstanceStore has a row for each process of the runtime; Package postgres implements it.
type InstanceStore interface {
	// TouchRuntime inserts the row of a process, or renews its lease.
	TouchRuntime(ctx context.Context, id uuid.UUID, version string, lease time.Duration) (Touch, error)
	// RemoveRuntime ends the lease of a process.
	RemoveRuntime(ctx context.Context, id uuid.UUID) error
	// RemoveDeadRuntimes deletes the rows of dead processes that have no uploads.
	RemoveDeadRuntimes(ctx context.Context) error
}

// InstanceDeps are the dependencies of an Instance.
type InstanceDeps struct {
	Store InstanceStore
	// Writable returns an error while the process does not serve.
	Writable func() error
	// EndUploads ends the uploads of dead processes.
	EndUploads func(ctx context.Context) error
	// Renewed is called after each heartbeat, with the end of the lease by the clock of this process. lapsed is set if there was no
	// lease before.
	Renewed func(until time.Time, lapsed bool)
	// Settle ends what the process has recorded about its own uploads, as far as it is not needed anymore. It is called after each
	// heartbeat, and at the end, when no upload runs: then last is set.
	Settle func(ctx context.Context, last bool) error
	Log    *slog.Logger
}

// Instance is one process of the runtime in the database. Its uploads end when its lease does: the
// process is then declared dead, and a commit of an upload that another process has ended is rejected,
// also if the process was only paused.
type Instance struct {
	cfg     InstanceConfig
	deps    InstanceDeps
	id      uuid.UUID
	version string
	touched bool // once at least
}

// NewInstance returns an Instance with an id of its own. It counts as serving while deps.Writable
// returns nil.
func NewInstance(cfg InstanceConfig, version string, deps InstanceDeps) *Instance {
	return &Instance{cfg: cfg, deps: deps, id: uuid.New(), version: version}
}

// ID returns the id of the process.
func (i *Instance) ID() uuid.UUID { return i.id }

// Run renews the lease until ctx ends, and ends it then: other processes continue at once what this one had begun.
func (i *Instance) Run(ctx context.Context) error {
	for {
		interval := i.cfg.InstanceTimeout / touchesPerLease
		if i.deps.Writable() == nil {
			i.touch(ctx)
		} else {
			interval = uncheckedInterval // Guard logs why
		}
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTouchTimeout)
			defer cancel()
			i.settle(context.WithoutCancel(ctx), ending, true)
			if err := i.deps.Store.RemoveRuntime(ending, i.id); err != nil {
				i.deps.Log.WarnContext(ending, "the runtime instance cannot be removed; it counts as serving until its lease ends", "lease", i.cfg.InstanceTimeout, "error", err)
			}
			return nil
		case <-time.After(interval):
		}
	}
}

// settle calls Settle with a context that is bounded.
func (i *Instance) settle(ctx, bounded context.Context, last bool) {
	if err := i.deps.Settle(bounded, last); err != nil && ctx.Err() == nil {
		i.deps.Log.WarnContext(ctx, "uploads that were abandoned cannot be recorded; the next heartbeat tries again", "error", err)
	}
}

// touch renews the lease, and ends the uploads of dead processes.
func (i *Instance) touch(ctx context.Context) {
	touching, cancel := context.WithTimeout(ctx, min(maxTouchTimeout, i.cfg.InstanceTimeout/touchesPerLease))
	defer cancel()
	until := time.Now().Add(i.cfg.InstanceTimeout)
	touch, err := i.deps.Store.TouchRuntime(touching, i.id, i.version, i.cfg.InstanceTimeout)
	if err != nil {
		if ctx.Err() == nil {
			i.deps.Log.WarnContext(ctx, "the runtime instance cannot be recorded", "error", err)
		}
		return
	}
	if touch.Lapsed && i.touched {
		i.deps.Log.WarnContext(ctx, "this process did not renew its lease in time: uploads that were running may have been ended", "lease", i.cfg.InstanceTimeout)
	}
	i.touched = true
	i.deps.Renewed(until, touch.Lapsed)
	i.settle(ctx, touching, false)
	if !touch.Dead {
		return
	}
	if err = i.deps.EndUploads(ctx); err == nil {
		err = i.deps.Store.RemoveDeadRuntimes(ctx)
	}
	if err != nil && ctx.Err() == nil {
		i.deps.Log.WarnContext(ctx, "the uploads of a dead process cannot be ended; the next heartbeat tries again", "error", err)
	}
}
