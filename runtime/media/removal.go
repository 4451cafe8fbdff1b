package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/work"
)

// RemovalWork is the kind of the tasks that carry out queued removals. A task is of an account, whose id is its key, so one process
// at a time removes the objects of an account. It exists while removals of the account are due.
const RemovalWork work.Kind = "removal"

// RemovalConfig bounds how queued removals are carried out. The tags are flag and environment names.
type RemovalConfig struct {
	BatchSize    int           `env:"SERVICE_PURGE_BATCH" default:"50" help:"Rows in one transaction of the purge, and removals in one request to the object store."`
	PausePercent int           `env:"SERVICE_PURGE_PAUSE_PERCENT" default:"200" help:"Pause after each batch, in percent of the batch's duration, which follows the load."`
	MaxBackoff   time.Duration `env:"SERVICE_PURGE_MAX_BACKOFF" default:"1h" help:"Maximum pause before a failed removal is retried."`
}

// Validate checks the bounds.
func (c RemovalConfig) Validate() error {
	switch {
	case c.BatchSize < 1 || c.BatchSize > 10_000:
		return fmt.Errorf("SERVICE_PURGE_BATCH must be from 1 to 10000, not %d", c.BatchSize)
	case c.PausePercent < 0 || c.PausePercent > 10_000:
		return fmt.Errorf("SERVICE_PURGE_PAUSE_PERCENT must be from 0 to 10000, not %d", c.PausePercent)
	case c.MaxBackoff <= 0:
		return fmt.Errorf("SERVICE_PURGE_MAX_BACKOFF must be positive, not %s", c.MaxBackoff)
	}
	return nil
}

// Batches returns how every step of the purge works, while writable returns nil.
func (c RemovalConfig) Batches(writable func() error) purge.Batches {
	return purge.Batches{Size: c.BatchSize, Writable: writable, Pause: purge.Percent(c.PausePercent)}
}

const (
	// removalSlots is for how many accounts a process removes objects at once.
	removalSlots = 2
	// removalTurn is after how long an account lets others have the slot.
	removalTurn = 10 * time.Second
	// removalTimeout bounds one attempt: a batch that began at the end of the turn, when the object store is slow.
	removalTimeout = 2 * time.Minute
)

// RemovalStore keeps the queued removals. PostgreSQL implements it.
type RemovalStore interface {
	// EnqueueRemovals adds a task of RemovalWork for each account with removals that are due at now, and returns how many.
	EnqueueRemovals(ctx context.Context, now time.Time) (int, error)
	// DueRemovals returns up to batch removals of an account that are due at now, in the order in which they are.
	DueRemovals(ctx context.Context, accountID uuid.UUID, now time.Time, batch int) ([]Removal, error)
	// FinishRemovals deletes removals that were carried out from the queue.
	FinishRemovals(ctx context.Context, ids []int64) error
	// FailRemovals counts a failed attempt at removals, makes them due again at notBefore, and records the reason.
	FailRemovals(ctx context.Context, ids []int64, notBefore time.Time, reason string) error
}

// RemoverDeps are the dependencies of a Remover.
type RemoverDeps struct {
	Store   RemovalStore
	Objects ObjectRemover
	Guard   Guard
	// Ready returns an error while nothing can be removed.
	Ready func() error
	Now   func() time.Time
	Log   *slog.Logger
}

// Remover carries out queued removals: those that a request could not, and those that no request waits for. It is the worker of RemovalWork.
type Remover struct {
	cfg  RemovalConfig
	deps RemoverDeps

	mu           sync.Mutex
	done, failed int
}

// NewRemover returns a Remover that uses deps.
func NewRemover(cfg RemovalConfig, deps RemoverDeps) *Remover { return &Remover{cfg: cfg, deps: deps} }

// Policy returns how the tasks run. A removal that fails has a backoff of its own; that of the task is for failures of the database.
func (r *Remover) Policy() work.Policy {
	return work.Policy{
		Slots: removalSlots, Timeout: removalTimeout, MinBackoff: time.Second, MaxBackoff: time.Minute, Ready: r.deps.Ready,
		Enqueue: func(ctx context.Context) (int, error) { return r.deps.Store.EnqueueRemovals(ctx, r.deps.Now()) },
	}
}

// Counts returns how many removals were carried out, and how many attempts failed.
func (r *Remover) Counts() (done, failed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done, r.failed
}

// Work carries out the removals of an account that are due, until none is, or others have waited for a turn.
func (r *Remover) Work(ctx context.Context, task work.Task) error {
	turn := accountTurn{Remover: r, checks: map[installation.Bucket]bucketCheck{}}
	more, began := false, time.Now()
	_, err := r.cfg.Batches(r.deps.Ready).Each(ctx, func(ctx context.Context, size int) (int, error) {
		if time.Since(began) > removalTurn {
			more = true
			return 0, nil
		}
		due, err := r.deps.Store.DueRemovals(ctx, task.AccountID, r.deps.Now(), size)
		if err != nil || len(due) == 0 {
			return 0, err
		}
		done, failed := turn.remove(ctx, due)
		return len(due), r.record(ctx, done, failed)
	})
	if more || err != nil && r.deps.Ready() != nil {
		return work.Snooze(0)
	}
	return err
}

// record records how the removals of a batch ended.
func (r *Remover) record(ctx context.Context, done []int64, failed []failedRemoval) error {
	r.mu.Lock()
	r.done, r.failed = r.done+len(done), r.failed+len(failed)
	r.mu.Unlock()
	if len(done) > 0 {
		if err := r.deps.Store.FinishRemovals(ctx, done); err != nil {
			return err
		}
	}
	for _, f := range failed {
		attempts := f.removal.Attempts + 1
		backoff := min(r.cfg.MaxBackoff, time.Second<<min(attempts, 20))
		if err := r.deps.Store.FailRemovals(ctx, []int64{f.removal.ID}, r.deps.Now().Add(backoff), f.cause.Error()); err != nil {
			return err
		}
		r.deps.Log.WarnContext(ctx, "removing objects failed", "removal", f.removal.ID, "bucket", f.removal.Bucket,
			"attempts", attempts, "retry_in", backoff, "error", f.cause)
	}
	return nil
}

type failedRemoval struct {
	removal Removal
	cause   error
}

// bucketCheck is whether objects of a bucket may be removed.
type bucketCheck struct {
	gone bool
	err  error
}

// accountTurn is one attempt at the removals of an account.
type accountTurn struct {
	*Remover
	checks map[installation.Bucket]bucketCheck // each is made once
}

// check reads the marker of a bucket.
func (a *accountTurn) check(ctx context.Context, bucket installation.Bucket) bucketCheck {
	checked, known := a.checks[bucket]
	if known {
		return checked
	}
	_, checked.err = a.deps.Guard.CheckBucket(ctx, bucket)
	if errors.Is(checked.err, installation.ErrNoBucket) {
		checked = bucketCheck{gone: true} // with everything in it
	}
	a.checks[bucket] = checked
	return checked
}

// remove removes the objects of each bucket that belongs to the account. An account has had several if its store changed.
func (a *accountTurn) remove(ctx context.Context, due []Removal) (done []int64, failed []failedRemoval) {
	byBucket := map[installation.Bucket][]Removal{}
	for _, removal := range due {
		bucket := installation.Bucket{AccountID: removal.AccountID, Name: removal.Bucket}
		byBucket[bucket] = append(byBucket[bucket], removal)
	}
	for bucket, removals := range byBucket {
		checked := a.check(ctx, bucket)
		var failures map[int64]error
		if checked.err == nil && !checked.gone {
			failures = a.removeFromBucket(ctx, bucket.Name, removals)
		}
		for _, removal := range removals {
			if err := cmp.Or(checked.err, failures[removal.ID]); err != nil {
				failed = append(failed, failedRemoval{removal, err})
			} else {
				done = append(done, removal.ID)
			}
		}
	}
	return done, failed
}

// removeFromBucket removes the objects of one bucket with one request. If that fails, it removes
// those of one removal at a time, and returns the errors by the ids of the removals.
func (a *accountTurn) removeFromBucket(ctx context.Context, bucket string, removals []Removal) map[int64]error {
	var bulk []string
	for _, removal := range removals {
		if !removal.AbortMultipart {
			bulk = append(bulk, removal.Keys...)
		}
	}
	bulkErr := errors.New("no bulk request was sent")
	if len(bulk) > 0 {
		bulkErr = a.deps.Objects.Remove(ctx, bucket, bulk)
	}
	failures := map[int64]error{}
	for _, removal := range removals {
		if removal.AbortMultipart || bulkErr != nil {
			if err := removeObjects(ctx, a.deps.Objects, removal); err != nil {
				failures[removal.ID] = err
			}
		}
	}
	return failures
}

// removeObjects carries out one removal. It is safe to repeat.
func removeObjects(ctx context.Context, objects ObjectRemover, removal Removal) error {
	if removal.AbortMultipart {
		for _, key := range removal.Keys {
			if path.Base(key) != string(Original) {
				continue // stored in one request, always
			}
			if err := objects.AbortIncomplete(ctx, removal.Bucket, key); err != nil {
				return err
			}
		}
	}
	return objects.Remove(ctx, removal.Bucket, removal.Keys)
}
