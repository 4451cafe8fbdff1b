package media

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/work"
)

// DraftConfig bounds the life of drafts. The purge and the documents of drafts have the same value.
type DraftConfig struct {
	DraftTTL time.Duration `env:"SERVICE_DRAFT_TTL" default:"24h" help:"Age at which an unsealed draft is purged. The documents of drafts show it (expiresAt), so give it to all programs."`
}

// Validate checks the bounds.
func (c DraftConfig) Validate() error {
	if c.DraftTTL <= 0 {
		return fmt.Errorf("SERVICE_DRAFT_TTL must be positive, not %s", c.DraftTTL)
	}
	return nil
}

// PurgeConfig bounds one run of the purge. The tags are flag and environment names.
type PurgeConfig struct {
	DraftConfig   `embed:""`
	RemovalConfig `embed:""`

	UploadGrace time.Duration `env:"SERVICE_UPLOAD_GRACE" default:"5m" help:"How long after the end of its lease, or its expiry, the purge removes an upload without progress."`
	MaxAttempts int           `env:"SERVICE_PURGE_MAX_ATTEMPTS" default:"10" help:"Failed attempts at one removal after which exit code 3 reports that an operator must act."`
}

// Validate checks the bounds.
func (c PurgeConfig) Validate() error {
	switch {
	case c.UploadGrace < 0:
		return fmt.Errorf("SERVICE_UPLOAD_GRACE must not be negative, but is %s", c.UploadGrace)
	case c.MaxAttempts < 1:
		return fmt.Errorf("SERVICE_PURGE_MAX_ATTEMPTS must be at least 1, not %d", c.MaxAttempts)
	}
	return cmp.Or(c.DraftConfig.Validate(), c.RemovalConfig.Validate())
}

// PurgeSummary counts what one run did. Its JSON form is the output of the purge command.
type PurgeSummary struct {
	// Ran is false when another purge was running: this run then did nothing.
	Ran          bool `json:"ran"`
	DraftsPurged int  `json:"draftsPurged"`
	// DeletedItemsPurged counts the deleted items that cannot be restored anymore.
	DeletedItemsPurged int `json:"deletedItemsPurged"`
	UploadsExpired     int `json:"uploadsExpired"`
	// RemovalsDone and RemovalsFailed count what this run did. The service carries out removals, too.
	RemovalsDone   int `json:"removalsDone"`
	RemovalsFailed int `json:"removalsFailed"`
	// RemovalsPending counts the removals that are left in the queue.
	RemovalsPending int `json:"removalsPending"`
	// BucketsSkipped counts the buckets with failed removals that belong to another account or installation: their objects stay.
	BucketsSkipped int `json:"bucketsSkipped"`
	// NeedsAttention is set when a removal has failed MaxAttempts times, or a bucket was skipped.
	NeedsAttention bool `json:"needsAttention"`
	// Held says why nothing was removed: the database was restored or cloned, or is that of another
	// installation.
	Held string `json:"held,omitempty"`
}

// hold records why the purge is held, and reports whether err is a reason for that.
func (s *PurgeSummary) hold(err error) bool {
	reason := fault.ReasonOf(err)
	if reason != fault.Held && reason != fault.OtherInstallation {
		return false
	}
	s.Held, s.NeedsAttention = fault.From(err).Public, true
	return true
}

// PurgeDeps are the dependencies of a Purger.
type PurgeDeps struct {
	Store   PurgeStore
	Tasks   work.Store // runs the removals
	Objects ObjectRemover
	Guard   Guard
	Now     func() time.Time
	Log     *slog.Logger
}

// Purger deletes drafts that are too old, deleted items that cannot be restored anymore and uploads whose lease has ended, and carries out
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

// Run purges once, and then does others in their order. It does nothing while another purge runs in any process.
func (p *Purger) Run(ctx context.Context, others ...func(ctx context.Context, batches purge.Batches) error) (PurgeSummary, error) {
	var summary PurgeSummary
	batches := p.cfg.Batches(p.deps.Guard.Writable)
	ran, err := p.deps.Store.WithPurgeLock(ctx, func(ctx context.Context) error {
		run := &purgeRun{Purger: p, summary: &summary, batches: batches}
		if err := run.purge(ctx); err != nil {
			return err
		}
		for _, other := range others {
			if err := other(ctx, batches); err != nil {
				return err
			}
		}
		return nil
	})
	summary.Ran = ran
	if summary.hold(err) {
		p.deps.Log.ErrorContext(ctx, "the purge is held", "error", err)
		return summary, nil
	}
	return summary, err
}

// purgeRun is one run of the purge.
type purgeRun struct {
	*Purger
	summary *PurgeSummary
	batches purge.Batches
}

func (p *purgeRun) purge(ctx context.Context) error {
	if err := p.deps.Guard.Beat(ctx); err != nil {
		return err
	}
	store, summary, start := p.deps.Store, p.summary, p.deps.Now()
	for _, step := range []struct {
		what  string
		count *int
		batch func(ctx context.Context, size int) (int, error)
	}{
		{"purge drafts", &summary.DraftsPurged, func(ctx context.Context, size int) (int, error) {
			return store.PurgeDrafts(ctx, start.Add(-p.cfg.DraftTTL), size)
		}},
		{"purge deleted items", &summary.DeletedItemsPurged, func(ctx context.Context, size int) (int, error) {
			return store.EndTombstones(ctx, start, size)
		}},
		{"expire uploads", &summary.UploadsExpired, func(ctx context.Context, size int) (int, error) {
			return store.ExpireUploads(ctx, start.Add(-p.cfg.UploadGrace), size, UploadKeys)
		}},
		{"delete expired resumable uploads", new(int), func(ctx context.Context, size int) (int, error) {
			return store.DeleteExpiredResumables(ctx, start, size)
		}},
		{"delete expired upload capabilities", new(int), func(ctx context.Context, size int) (int, error) {
			return store.DeleteExpiredCapabilities(ctx, start.Add(-CapabilityRetention), size)
		}},
	} {
		handled, err := p.batches.Each(ctx, step.batch)
		if *step.count += handled; err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	if err := p.removeDue(ctx, start); err != nil {
		return fmt.Errorf("remove objects: %w", err)
	}
	if err := store.CompactPageIndex(ctx); err != nil {
		return fmt.Errorf("compact the pagination index: %w", err)
	}
	return p.inspectRemovals(ctx)
}

// removeDue carries out the removals that are due when the run begins, and that no other process works on.
func (p *purgeRun) removeDue(ctx context.Context, start time.Time) error {
	remover := NewRemover(p.cfg.RemovalConfig, RemoverDeps{Store: p.deps.Store, Objects: p.deps.Objects, Guard: p.deps.Guard, Ready: p.deps.Guard.Writable,
		Now: func() time.Time { return start }, Log: p.deps.Log})
	runner, err := work.NewRunner(work.Deps{Store: p.deps.Tasks, Log: p.deps.Log})
	if err != nil {
		return err
	}
	if err := runner.Register(RemovalWork, remover, remover.Policy()); err != nil {
		return err
	}
	defer func() { p.summary.RemovalsDone, p.summary.RemovalsFailed = remover.Counts() }()
	return runner.Drain(ctx, RemovalWork)
}

// inspectRemovals reports what is left in the queue of removals, whichever process has failed at it.
func (p *purgeRun) inspectRemovals(ctx context.Context) error {
	queue, err := p.deps.Store.InspectRemovals(ctx, maxFailingBuckets)
	if err != nil {
		return err
	}
	p.summary.RemovalsPending = int(queue.Pending)
	p.summary.NeedsAttention = queue.MaxAttempts >= p.cfg.MaxAttempts
	for _, bucket := range queue.FailingBuckets {
		if _, err := p.deps.Guard.CheckBucket(ctx, bucket); fault.Is(err, fault.Conflict) {
			p.deps.Log.WarnContext(ctx, "a bucket is skipped", "bucket", bucket.Name, "account", bucket.AccountID, "error", err)
			p.summary.BucketsSkipped++
			p.summary.NeedsAttention = true
		}
	}
	return nil
}

// CapabilityRetention is how long the count of a capability is kept after the expiry.
const CapabilityRetention = 48 * time.Hour

// maxFailingBuckets bounds the buckets whose markers are read at the end of a run.
const maxFailingBuckets = 1000

// UploadKeys returns the keys of the objects that an upload may have stored.
func UploadKeys(itemID uuid.UUID) []string {
	return []string{ObjectKey(itemID, Original), ObjectKey(itemID, WebP), ObjectKey(itemID, Thumbnail), ObjectKey(itemID, Incomplete0), ObjectKey(itemID, Incomplete1)}
}
