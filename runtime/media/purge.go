package media

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/google/uuid"
)

// PurgeConfig bounds one run of the purge. The tags are flag and environment names.
type PurgeConfig struct {
	DraftTTL     time.Duration `env:"SERVICE_DRAFT_TTL" default:"24h" help:"Age at which an unsealed draft is purged."`
	UploadGrace  time.Duration `env:"SERVICE_UPLOAD_GRACE" default:"5m" help:"How long after the end of its lease an upload without progress is expired."`
	BatchSize    int           `env:"SERVICE_PURGE_BATCH" default:"200" help:"Rows per transaction of the purge."`
	PausePercent int           `env:"SERVICE_PURGE_PAUSE_PERCENT" default:"100" help:"Pause after each batch, in percent of the batch's duration. A longer pause leaves more of the stores to the service."`
	MaxAttempts  int           `env:"SERVICE_PURGE_MAX_ATTEMPTS" default:"10" help:"Failed attempts at one removal after which the exit code reports that an operator must act."`
	MaxBackoff   time.Duration `env:"SERVICE_PURGE_MAX_BACKOFF" default:"1h" help:"Maximum pause before a failed removal is retried."`
}

// Validate checks the bounds.
func (c PurgeConfig) Validate() error {
	switch {
	case c.DraftTTL <= 0:
		return fmt.Errorf("SERVICE_DRAFT_TTL must be positive, not %s", c.DraftTTL)
	case c.UploadGrace < 0:
		return fmt.Errorf("SERVICE_UPLOAD_GRACE must not be negative, but is %s", c.UploadGrace)
	case c.BatchSize < 1 || c.BatchSize > 10_000:
		return fmt.Errorf("SERVICE_PURGE_BATCH must be from 1 to 10000, not %d", c.BatchSize)
	case c.PausePercent < 0 || c.PausePercent > 10_000:
		return fmt.Errorf("SERVICE_PURGE_PAUSE_PERCENT must be from 0 to 10000, not %d", c.PausePercent)
	case c.MaxAttempts < 1:
		return fmt.Errorf("SERVICE_PURGE_MAX_ATTEMPTS must be at least 1, not %d", c.MaxAttempts)
	case c.MaxBackoff <= 0:
		return fmt.Errorf("SERVICE_PURGE_MAX_BACKOFF must be positive, not %s", c.MaxBackoff)
	}
	return nil
}

// PurgeSummary counts what one run did. Its JSON form is the output of the purge command.
type PurgeSummary struct {
	// Ran is false when another purge was running: this run then did nothing.
	Ran             bool `json:"ran"`
	DraftsPurged    int  `json:"draftsPurged"`
	UploadsExpired  int  `json:"uploadsExpired"`
	RemovalsDone    int  `json:"removalsDone"`
	RemovalsFailed  int  `json:"removalsFailed"`
	RemovalsPending int  `json:"removalsPending"`
	// NeedsAttention is set when a removal has failed MaxAttempts times.
	NeedsAttention bool `json:"needsAttention"`
}

// PurgeDeps are the dependencies of a Purger.
type PurgeDeps struct {
	Store   PurgeStore
	Objects ObjectRemover
	Now     func() time.Time
	Log     *slog.Logger
}

// Purger deletes drafts that are too old, uploads whose lease has ended, and the objects of
// queued removals, in bounded batches. Every batch is one transaction, so a run that is
// killed leaves the rest to the next one.
type Purger struct {
	cfg  PurgeConfig
	deps PurgeDeps
}

// NewPurger returns a Purger that uses deps.
func NewPurger(cfg PurgeConfig, deps PurgeDeps) (*Purger, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Purger{cfg: cfg, deps: deps}, nil
}

// Run purges once. It does nothing while another purge runs in any process.
func (p *Purger) Run(ctx context.Context) (PurgeSummary, error) {
	var summary PurgeSummary
	ran, err := p.deps.Store.WithPurgeLock(ctx, func(ctx context.Context) error { return p.purge(ctx, &summary) })
	summary.Ran = ran
	return summary, err
}

func (p *Purger) purge(ctx context.Context, summary *PurgeSummary) error {
	store, start := p.deps.Store, p.deps.Now()
	if err := p.batches(ctx, &summary.DraftsPurged, func() (int, error) {
		return store.PurgeDrafts(ctx, start.Add(-p.cfg.DraftTTL), p.cfg.BatchSize)
	}); err != nil {
		return fmt.Errorf("purge drafts: %w", err)
	}
	if err := p.batches(ctx, &summary.UploadsExpired, func() (int, error) {
		return store.ExpireUploads(ctx, start.Add(-p.cfg.UploadGrace), p.cfg.BatchSize, uploadKeys)
	}); err != nil {
		return fmt.Errorf("expire uploads: %w", err)
	}
	var deleted int
	if err := p.batches(ctx, &deleted, func() (int, error) {
		return store.DeleteExpiredResumables(ctx, start, p.cfg.BatchSize)
	}); err != nil {
		return fmt.Errorf("delete expired resumable uploads: %w", err)
	}
	if err := p.removeDue(ctx, summary); err != nil {
		return fmt.Errorf("remove objects: %w", err)
	}
	if err := store.CompactPageIndex(ctx); err != nil {
		return fmt.Errorf("compact the pagination index: %w", err)
	}
	pending, err := store.CountRemovals(ctx)
	summary.RemovalsPending = int(pending)
	return err
}

// uploadKeys returns the keys of the objects that an upload may have stored.
func uploadKeys(itemID uuid.UUID) []string {
	return append([]string{ObjectKey(itemID, Original), ObjectKey(itemID, WebP), ObjectKey(itemID, Thumbnail)}, incompletePartKeys(itemID)...)
}

// batches repeats step until it handles less than a full batch, and adds its counts to sum.
func (p *Purger) batches(ctx context.Context, sum *int, step func() (int, error)) error {
	for {
		start := p.deps.Now()
		n, err := step()
		*sum += n
		if err != nil || n < p.cfg.BatchSize {
			return err
		}
		if err := p.pause(ctx, p.deps.Now().Sub(start)); err != nil {
			return err
		}
	}
}

// pause waits after a batch of this duration, so that the service can use the stores.
func (p *Purger) pause(ctx context.Context, worked time.Duration) error {
	select {
	case <-time.After(worked * time.Duration(p.cfg.PausePercent) / 100):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// removalLease is how long a run may take for a batch of removals before they are due again.
const removalLease = 5 * time.Minute

// removeDue carries out the queued removals that are due, each at most once per run.
func (p *Purger) removeDue(ctx context.Context, summary *PurgeSummary) error {
	store, due := p.deps.Store, p.deps.Now()
	for {
		start := p.deps.Now()
		batch, err := store.DueRemovals(ctx, due, due.Add(removalLease), p.cfg.BatchSize)
		if err != nil || len(batch) == 0 {
			return err
		}
		done, failed := p.removeBatch(ctx, batch)
		summary.RemovalsDone += len(done)
		if len(done) > 0 {
			if err := store.FinishRemovals(ctx, done); err != nil {
				return err
			}
		}
		for _, f := range failed {
			summary.RemovalsFailed++
			summary.NeedsAttention = summary.NeedsAttention || f.removal.Attempts >= p.cfg.MaxAttempts
			backoff := min(p.cfg.MaxBackoff, time.Second<<min(f.removal.Attempts, 20))
			if err := store.FailRemovals(ctx, []int64{f.removal.ID}, p.deps.Now().Add(backoff), f.cause.Error()); err != nil {
				return err
			}
			p.deps.Log.WarnContext(ctx, "removing objects failed", "removal", f.removal.ID, "bucket", f.removal.Bucket,
				"attempts", f.removal.Attempts, "retry_in", backoff, "error", f.cause)
		}
		if err := p.pause(ctx, p.deps.Now().Sub(start)); err != nil {
			return err
		}
	}
}

type failedRemoval struct {
	removal Removal
	cause   error
}

// removeBatch removes the objects of one bucket with one request. If that fails, it removes
// those of one removal at a time, to find out which fail.
func (p *Purger) removeBatch(ctx context.Context, due []Removal) (done []int64, failed []failedRemoval) {
	byBucket := map[string][]Removal{}
	for _, removal := range due {
		byBucket[removal.Bucket] = append(byBucket[removal.Bucket], removal)
	}
	for bucket, removals := range byBucket {
		var bulk []string
		for _, removal := range removals {
			if !removal.AbortMultipart {
				bulk = append(bulk, removal.Keys...)
			}
		}
		bulkErr := errors.New("no bulk request was sent")
		if len(bulk) > 0 {
			bulkErr = p.deps.Objects.Remove(ctx, bucket, bulk)
		}
		for _, removal := range removals {
			var err error
			if removal.AbortMultipart || bulkErr != nil {
				err = removeObjects(ctx, p.deps.Objects, removal)
			}
			if err != nil {
				failed = append(failed, failedRemoval{removal, err})
			} else {
				done = append(done, removal.ID)
			}
		}
	}
	return done, failed
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
