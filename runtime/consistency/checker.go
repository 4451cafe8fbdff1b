// Package consistency checks accounts offline: it compares the rows and counters of an
// account in PostgreSQL with its bucket in S3, in both directions, and repairs what differs
// without losing an original. The command `mediastack-runtime check` runs it.
package consistency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
)

// Config configures a check. The tags are flag and environment names.
type Config struct {
	Repair bool `help:"Repair what is found. Lost or damaged originals are only reported: they need the attention of an operator."`
	Deep   bool `help:"Also read every object and compare its SHA-256 with the row's."`
	// RemoveUnknown removes what a restore may have lost the rows of.
	RemoveUnknown bool          `name:"remove-unknown-after-restore" help:"With --repair: also remove objects without a row that are older than the last resume after a restore. They may be files whose rows the restore lost."`
	Grace         time.Duration `env:"SERVICE_CHECK_GRACE" default:"1h" help:"Orphaned objects and multipart uploads that are younger are reported as recent, and never removed."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if c.RemoveUnknown && !c.Repair {
		return errors.New("--remove-unknown-after-restore needs --repair")
	}
	if c.Grace < 0 {
		return fmt.Errorf("SERVICE_CHECK_GRACE must not be negative, but is %s", c.Grace)
	}
	return nil
}

// batchSize is the number of rows, and of candidates, that are held in memory and looked up
// together.
const batchSize = 500

// progressInterval is the time between two log lines of a long check.
const progressInterval = 10 * time.Second

// Checker compares rows, counters and buckets in both directions, and repairs differences if
// Config.Repair is set. It may run beside a running service and beside other checkers.
//
// Rows and objects change while a check reads them. A difference is therefore only a
// candidate, and is confirmed by reading both sides again in the order that proves it:
//
// Orphaned object. An intent row is committed before the first byte is sent to S3, or the writer
// of a small upload, of which there is one for all uploads of a process. Every
// later step (commit, abandon, delete, purge) adds the next reference in the transaction that
// removes the previous one, and a removal leaves the queue after its objects are gone. An
// object that was listed, that a later snapshot of the rows does not refer to, and that still
// exists after that, is an orphan. It stays one: ids are never reused, and only an upload row
// leads to an item. It can be removed without a lock. There is one legitimate cause of such an
// object: a runtime whose lease expired and whose upload was purged still sends bytes, or a
// store executes a write long after its client disconnected. That runtime queues the removal
// when it notices; until then the object is young, and the grace period, which must be longer
// than lease and stall timeout, protects it.
//
// Orphaned multipart upload. The same holds with References.Aborts in place of Removals. An
// item is no reference, because its parts were completed before its row was committed.
//
// Missing object. Bytes are durable before the row that refers to them, and are removed after
// the row is gone. A row that was read, whose object is missing later, and that still exists
// after that, has lost the object. The same order confirms an object of the wrong size or
// hash: objects are never overwritten with different bytes.
//
// Counters are compared within one snapshot, in which they are always exact.
type Checker struct {
	store   Store
	objects ObjectStore
	guard   Guard
	cfg     Config
	now     func() time.Time
	log     *slog.Logger
}

// NewChecker returns a Checker of these stores. With Config.Repair, guard is an
// installation.Guard that has beaten.
func NewChecker(store Store, objects ObjectStore, guard Guard, cfg Config, now func() time.Time, log *slog.Logger) (*Checker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Checker{store: store, objects: guardedObjects{objects, guard.Writable}, guard: guard, cfg: cfg, now: now, log: log}, nil
}

// Check checks one open account. It adds its counts to summary, also when it fails, and
// passes every finding to report; an error of report aborts the check.
func (c *Checker) Check(ctx context.Context, a account.Account, summary *Summary, report func(Finding) error) error {
	if a.ClosedAt != nil {
		return fault.New(fault.Conflict, "account %s is closed: its rows and its bucket are being kept or removed as they are", a.ID)
	}
	if summary.Found == nil {
		summary.Found = map[FindingKind]int64{}
	}
	summary.Accounts++
	check := &check{Checker: c, account: a, summary: summary, report: report, loggedAt: c.now()}
	return check.run(ctx)
}

// check is the check of one account.
type check struct {
	*Checker
	account      account.Account
	summary      *Summary
	report       func(Finding) error
	repairBucket bool      // whether objects of the bucket may be removed
	claimedAt    time.Time // objects that are older were there before the account
	resumedAt    time.Time // objects that are older and have no row may have lost it
	loggedAt     time.Time
}

func (c *check) run(ctx context.Context) error {
	state, err := c.store.Installation(ctx)
	if err != nil {
		return err
	}
	if state.ResumedAt != nil {
		c.resumedAt = *state.ResumedAt
	}
	readable, err := c.checkOwner(ctx)
	if err != nil {
		return err
	}
	// Items before counters, because counters are sums of items; counters before objects,
	// because dropping an object decrements counters, which must not become negative.
	if err := c.checkItemBytes(ctx); err != nil {
		return err
	}
	if err := c.checkCounters(ctx); err != nil {
		return err
	}
	// After counters, from which an ended item is taken off.
	if err := c.checkOverdue(ctx); err != nil {
		return err
	}
	if readable {
		if err := c.compareObjects(ctx); err != nil {
			return err
		}
		if err := c.checkMultipartUploads(ctx); err != nil {
			return err
		}
	}
	uploads, removals, err := c.store.CountPending(ctx, c.account.ID)
	c.summary.Uploads += uploads
	c.summary.Removals += removals
	return err
}

// addFinding counts and reports a finding.
func (c *check) addFinding(f Finding) error {
	f.Account = c.account.ID
	c.summary.add(f)
	return c.report(f)
}

// logProgress logs the progress of a long check.
func (c *check) logProgress(ctx context.Context) {
	if now := c.now(); now.Sub(c.loggedAt) >= progressInterval {
		c.loggedAt = now
		c.log.InfoContext(ctx, "checking", "account", c.account.ID, "items", c.summary.Items, "objects", c.summary.Objects,
			"repaired", c.summary.Repaired, "needs_attention", c.summary.NeedsAttention)
	}
}

// checkOwner reads the bucket's ownership marker. It decides whether the bucket is read, and
// sets repairBucket and claimedAt.
func (c *check) checkOwner(ctx context.Context) (readable bool, err error) {
	marker, err := c.guard.CheckBucket(ctx, installation.Bucket{AccountID: c.account.ID, Name: c.account.Bucket})
	switch {
	case err == nil:
		c.repairBucket = c.cfg.Repair
		c.claimedAt = marker.ClaimedAt.Truncate(time.Second) // the resolution of the times of objects
		return true, nil
	case errors.Is(err, installation.ErrNoBucket):
		return false, c.addFinding(Finding{Kind: BucketMissing, Detail: fault.From(err).Public})
	case errors.Is(err, installation.ErrNoMarker):
		return true, c.addFinding(Finding{Kind: BucketUnmarked, Detail: fault.From(err).Public})
	case fault.Is(err, fault.Conflict):
		return false, c.addFinding(Finding{Kind: BucketForeign, Detail: fault.From(err).Public})
	}
	return false, err
}

// checkItemBytes finds items whose recorded bytes are not the sum of their objects'.
func (c *check) checkItemBytes(ctx context.Context) error {
	var after uuid.UUID
	for {
		mismatches, err := c.store.SizeMismatchesAfter(ctx, c.account.ID, after, batchSize)
		if err != nil {
			return err
		}
		for _, m := range mismatches {
			if c.cfg.Repair {
				if err := c.store.RepairItemBytes(ctx, c.account.ID, m.ItemID); err != nil {
					return err
				}
			}
			if err := c.addFinding(Finding{Kind: ItemBytes, Item: m.ItemID.String(), Repaired: c.cfg.Repair,
				Detail: fmt.Sprintf("the row records %d bytes, its objects have %d", m.Recorded, m.Actual)}); err != nil {
				return err
			}
			after = m.ItemID
		}
		if len(mismatches) < batchSize {
			return nil
		}
	}
}

// overdueAfter is how long after its time a deleted item is left to the purge, unless the grace period is
// longer.
const overdueAfter = 24 * time.Hour

// checkOverdue finds deleted items that the purge should have ended.
func (c *check) checkOverdue(ctx context.Context) error {
	var after uuid.UUID
	cutoff := c.now().Add(-max(overdueAfter, c.cfg.Grace))
	for {
		items, err := c.store.OverdueItemsAfter(ctx, c.account.ID, after, cutoff, batchSize)
		if err != nil || len(items) == 0 {
			return err
		}
		ids := make([]uuid.UUID, len(items))
		for i, item := range items {
			ids[i], after = item.ID, item.ID
		}
		var ended []uuid.UUID
		if c.repairBucket {
			if err := c.guard.Writable(); err != nil {
				return err
			}
			if ended, err = c.store.EndOverdueItems(ctx, c.account.ID, ids, cutoff); err != nil {
				return err
			}
		}
		for _, item := range items {
			repaired := slices.Contains(ended, item.ID)
			if c.repairBucket && !repaired {
				continue // it was restored or ended meanwhile
			}
			if err := c.addFinding(Finding{Kind: DeletedItemOverdue, Item: item.ID.String(), Repaired: repaired,
				Detail: "it was deleted, and could be restored until " + item.RestorableUntil.UTC().Format(time.RFC3339) + "; the purge has not ended it"}); err != nil {
				return err
			}
		}
	}
}

// checkCounters compares totals and usage with a recount.
func (c *check) checkCounters(ctx context.Context) error {
	recount := c.store.FindDrift
	if c.cfg.Repair {
		recount = c.store.RepairCounters
	}
	drift, err := recount(ctx, c.account.ID)
	if err != nil {
		return err
	}
	for _, d := range drift {
		if err := c.addFinding(Finding{Kind: CounterDrift, Detail: d.String(), Repaired: c.cfg.Repair}); err != nil {
			return err
		}
	}
	return nil
}

// String describes the drift for a Finding.
func (d Drift) String() string {
	switch d.Counter {
	case RenditionTotal:
		return fmt.Sprintf("%s of %s records %d renditions of %d bytes, a recount yields %d of %d", d.Counter, d.Group, d.Recorded.Private, d.Recorded.Bytes, d.Actual.Private, d.Actual.Bytes)
	case AccountUsage, RenditionBytes:
		return fmt.Sprintf("%s records %d bytes, a recount yields %d", d.Counter, d.Recorded.Bytes, d.Actual.Bytes)
	}
	text := fmt.Sprintf("%s of app %s records %d public and %d private items of %d bytes, a recount yields %d, %d and %d", d.Counter, d.AppID,
		d.Recorded.Public, d.Recorded.Private, d.Recorded.Bytes, d.Actual.Public, d.Actual.Private, d.Actual.Bytes)
	switch d.Counter {
	case GroupTotal:
		text += fmt.Sprintf("; group %q", d.Group)
	case PageIndex:
		text += fmt.Sprintf("; the block that begins at %s", d.FirstID)
		if d.Group != "" {
			text += fmt.Sprintf(" of group %q", d.Group)
		}
	}
	return text
}
