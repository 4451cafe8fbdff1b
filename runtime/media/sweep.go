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

// SweepConfig bounds one pass of the purge. The tags are flag and environment names.
type SweepConfig struct {
	DraftTTL     time.Duration `env:"SERVICE_DRAFT_TTL" default:"24h" help:"Age at which an unsealed draft is purged."`
	UploadGrace  time.Duration `env:"SERVICE_UPLOAD_GRACE" default:"5m" help:"How long after its lease an upload without progress is given up."`
	BatchSize    int           `env:"SERVICE_PURGE_BATCH" default:"200" help:"Rows in one transaction of the purge."`
	Rest         int           `name:"pause-percent" env:"SERVICE_PURGE_PAUSE_PERCENT" default:"100" help:"Pause after each batch, in percent of the time that it took: what the service beside it feels less."`
	AlarmAfter   int           `name:"max-attempts" env:"SERVICE_PURGE_MAX_ATTEMPTS" default:"10" help:"Failed attempts on one removal after which the exit code asks for a person."`
	RetryLongest time.Duration `name:"max-backoff" env:"SERVICE_PURGE_MAX_BACKOFF" default:"1h" help:"Longest pause before a failed removal is tried again."`
}

// Validate checks the bounds.
func (c SweepConfig) Validate() error {
	switch {
	case c.DraftTTL <= 0:
		return fmt.Errorf("SERVICE_DRAFT_TTL must be positive, not %s", c.DraftTTL)
	case c.UploadGrace < 0:
		return fmt.Errorf("SERVICE_UPLOAD_GRACE must not be negative, but is %s", c.UploadGrace)
	case c.BatchSize < 1 || c.BatchSize > 10_000:
		return fmt.Errorf("SERVICE_PURGE_BATCH must be from 1 to 10000, not %d", c.BatchSize)
	case c.Rest < 0 || c.Rest > 10_000:
		return fmt.Errorf("SERVICE_PURGE_PAUSE_PERCENT must be from 0 to 10000, not %d", c.Rest)
	case c.AlarmAfter < 1:
		return fmt.Errorf("SERVICE_PURGE_MAX_ATTEMPTS must be at least 1, not %d", c.AlarmAfter)
	case c.RetryLongest <= 0:
		return fmt.Errorf("SERVICE_PURGE_MAX_BACKOFF must be positive, not %s", c.RetryLongest)
	}
	return nil
}

// SweepSummary says what a pass did; it prints as one line of JSON.
type SweepSummary struct {
	// Ran is false when another purge was running: this pass then did nothing.
	Ran             bool `json:"ran"`
	DraftsPurged    int  `json:"draftsPurged"`
	UploadsExpired  int  `json:"uploadsExpired"`
	RemovalsDone    int  `json:"removalsDone"`
	RemovalsFailed  int  `json:"removalsFailed"`
	RemovalsPending int  `json:"removalsPending"`
	// NeedsAttention is set when a removal failed AlarmAfter times.
	NeedsAttention bool `json:"needsAttention"`
}

// Sweeper is the purge: one pass over drafts that are too old, uploads that died
// and objects that are to be removed, in bounded batches. A pass that is killed is
// taken up by the next one.
type Sweeper struct {
	store   Store
	objects ObjectStore
	cfg     SweepConfig
	now     func() time.Time
	log     *slog.Logger
}

// NewSweeper joins the purge to its stores.
func NewSweeper(store Store, objects ObjectStore, cfg SweepConfig, now func() time.Time, log *slog.Logger) (*Sweeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Sweeper{store: store, objects: objects, cfg: cfg, now: now, log: log}, nil
}

// Sweep runs one pass, unless another one runs anywhere.
func (s *Sweeper) Sweep(ctx context.Context) (SweepSummary, error) {
	var summary SweepSummary
	ran, err := s.store.ExclusiveSweep(ctx, func(ctx context.Context) error {
		start := s.now()
		if err := s.batches(ctx, &summary.DraftsPurged, func() (int, error) {
			return s.store.PurgeDrafts(ctx, start.Add(-s.cfg.DraftTTL), s.cfg.BatchSize)
		}); err != nil {
			return fmt.Errorf("purge drafts: %w", err)
		}
		if err := s.batches(ctx, &summary.UploadsExpired, func() (int, error) {
			return s.store.ExpireUploads(ctx, start.Add(-s.cfg.UploadGrace), s.cfg.BatchSize, uploadKeys)
		}); err != nil {
			return fmt.Errorf("expire uploads: %w", err)
		}
		var forgotten int
		if err := s.batches(ctx, &forgotten, func() (int, error) {
			return s.store.ForgetResumables(ctx, start, s.cfg.BatchSize)
		}); err != nil {
			return fmt.Errorf("forget resumable uploads: %w", err)
		}
		if err := s.removeDue(ctx, &summary); err != nil {
			return fmt.Errorf("remove objects: %w", err)
		}
		if err := s.store.FoldPages(ctx); err != nil {
			return fmt.Errorf("fold the index of pages: %w", err)
		}
		pending, err := s.store.CountRemovals(ctx)
		summary.RemovalsPending = int(pending)
		return err
	})
	summary.Ran = ran
	return summary, err
}

// uploadKeys names the objects that an upload may have stored.
func uploadKeys(itemID uuid.UUID) []string {
	return []string{ObjectKey(itemID, Original), ObjectKey(itemID, WebP), ObjectKey(itemID, Thumbnail),
		ObjectKey(itemID, tailVariants[0]), ObjectKey(itemID, tailVariants[1])}
}

// batches calls step until it comes back short, and adds up what it did.
func (s *Sweeper) batches(ctx context.Context, sum *int, step func() (int, error)) error {
	for {
		begun := time.Now()
		n, err := step()
		*sum += n
		if err != nil || n < s.cfg.BatchSize {
			return err
		}
		if err := s.rest(ctx, time.Since(begun)); err != nil {
			return err
		}
	}
}

// rest leaves the stores to others after a batch that took so long.
func (s *Sweeper) rest(ctx context.Context, worked time.Duration) error {
	select {
	case <-time.After(worked * time.Duration(s.cfg.Rest) / 100):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// removeDue works off the queue of removals, each at most once in a pass.
func (s *Sweeper) removeDue(ctx context.Context, summary *SweepSummary) error {
	start := s.now()
	for {
		begun := time.Now()
		// Whatever this batch does not settle, because of a kill, is due again soon.
		due, err := s.store.DueRemovals(ctx, start, start.Add(5*time.Minute), s.cfg.BatchSize)
		if err != nil || len(due) == 0 {
			return err
		}
		done, failed := s.removeBatch(ctx, due)
		summary.RemovalsDone += len(done)
		if len(done) > 0 {
			if err := s.store.FinishRemovals(ctx, done); err != nil {
				return err
			}
		}
		for _, f := range failed {
			summary.RemovalsFailed++
			summary.NeedsAttention = summary.NeedsAttention || f.removal.Attempts >= s.cfg.AlarmAfter
			pause := min(s.cfg.RetryLongest, time.Second<<min(f.removal.Attempts, 20))
			if err := s.store.FailRemovals(ctx, []int64{f.removal.ID}, s.now().Add(pause), f.cause.Error()); err != nil {
				return err
			}
			s.log.WarnContext(ctx, "objects could not be removed", "removal", f.removal.ID, "bucket", f.removal.Bucket,
				"attempts", f.removal.Attempts, "again_in", pause, "error", f.cause)
		}
		if err := s.rest(ctx, time.Since(begun)); err != nil {
			return err
		}
	}
}

type failedRemoval struct {
	removal Removal
	cause   error
}

// removeBatch removes the objects of one bucket together; when that fails, it tries
// them one removal at a time to tell which.
func (s *Sweeper) removeBatch(ctx context.Context, due []Removal) (done []int64, failed []failedRemoval) {
	byBucket := map[string][]Removal{}
	for _, removal := range due {
		byBucket[removal.Bucket] = append(byBucket[removal.Bucket], removal)
	}
	for bucket, removals := range byBucket {
		var together []string
		for _, removal := range removals {
			if !removal.Unfinished {
				together = append(together, removal.Keys...)
			}
		}
		bulk := errors.New("nothing to remove together")
		if len(together) > 0 {
			bulk = s.objects.Remove(ctx, bucket, together)
		}
		for _, removal := range removals {
			var err error
			if removal.Unfinished || bulk != nil {
				err = removeObjects(ctx, s.objects, removal)
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

// remover is what a removal needs of S3.
type remover interface {
	Remove(ctx context.Context, bucket string, keys []string) error
	RemoveUnfinished(ctx context.Context, bucket, key string) error
}

// removeObjects carries out one removal. It is safe to repeat.
func removeObjects(ctx context.Context, objects remover, removal Removal) error {
	if removal.Unfinished {
		for _, key := range removal.Keys {
			if path.Base(key) != string(Original) {
				continue // stored in one request, always
			}
			if err := objects.RemoveUnfinished(ctx, removal.Bucket, key); err != nil {
				return err
			}
		}
	}
	return objects.Remove(ctx, removal.Bucket, removal.Keys)
}
