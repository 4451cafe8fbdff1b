package media

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
)

// CheckConfig says how far a check goes. The tags are flag and environment names.
type CheckConfig struct {
	Repair bool          `help:"Mend what is found. What would lose an original is never touched: an operator must look at it."`
	Deep   bool          `help:"Also read every object and compare its SHA-256 with the row's."`
	Grace  time.Duration `env:"SERVICE_CHECK_GRACE" default:"1h" help:"Objects and unfinished uploads younger than this that nothing explains are reported as recent, and never removed."`
}

// Validate checks the bounds.
func (c CheckConfig) Validate() error {
	if c.Grace < 0 {
		return fmt.Errorf("SERVICE_CHECK_GRACE must not be negative, but is %s", c.Grace)
	}
	return nil
}

// Stored is an object as the store describes it.
type Stored struct {
	Key      string
	Bytes    int64
	Modified time.Time
}

// Unfinished is a multipart upload that was begun, and neither completed nor aborted.
type Unfinished struct {
	Key   string
	Begun time.Time
}

// ItemObjects is what the row of an item says it has in the bucket.
type ItemObjects struct {
	ID      uuid.UUID
	Objects Objects
}

// ItemOff is an item whose bytes are not the sum of its objects'.
type ItemOff struct {
	ID          uuid.UUID
	Noted, Real int64
}

// The counters of an account.
const (
	AppTotal    = "app_total"
	GroupTotal  = "group_total"
	AccountHold = "account_usage"
	PageIndex   = "item_page_block"
)

// Counted is what a counter says: of AccountHold the bytes only, of GroupTotal and PageIndex no bytes.
type Counted struct {
	Public, Private, Bytes int64
}

// Drift is a counter that differs from a recount.
type Drift struct {
	Counter     string
	AppID       uuid.UUID // zero for AccountHold
	Group       string
	FirstID     uuid.UUID // of a block of PageIndex
	Noted, Real Counted
}

// Explanations says what accounts for keys of a bucket, all seen in one snapshot.
type Explanations struct {
	Items    map[string]bool // keys that items name
	Uploads  map[string]bool // ids of items that are being uploaded
	Removals map[string]bool // keys that are queued for removal
	Aborts   map[string]bool // those of them whose unfinished uploads go too
}

// CheckStore is what a check asks of the rows; postgres.Store implements it.
type CheckStore interface {
	// ItemsAfter returns up to limit items, drafts included, with ids after the given one, in the order of ids.
	ItemsAfter(ctx context.Context, accountID, after uuid.UUID, limit int32) ([]ItemObjects, error)
	// ItemsByID returns the objects of those of the items that are there.
	ItemsByID(ctx context.Context, accountID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]Objects, error)
	// ItemsOffAfter returns up to limit items whose bytes are off, as ItemsAfter does.
	ItemsOffAfter(ctx context.Context, accountID, after uuid.UUID, limit int32) ([]ItemOff, error)
	// Explain looks for keys, which belong to the items with these ids, in one snapshot.
	Explain(ctx context.Context, accountID uuid.UUID, bucket string, ids []uuid.UUID, keys []string) (Explanations, error)
	// CountPending counts running uploads and queued removals of the account.
	CountPending(ctx context.Context, accountID uuid.UUID) (uploads, removals int64, err error)
	// Drifts compares the counters with a recount, in one snapshot.
	Drifts(ctx context.Context, accountID uuid.UUID) ([]Drift, error)
	// MendCounters sets right what Drifts finds, beside a running service, and gives what it was.
	MendCounters(ctx context.Context, accountID uuid.UUID) ([]Drift, error)
	// MendItemBytes makes an item's bytes the sum of its objects', and no counter.
	MendItemBytes(ctx context.Context, accountID, itemID uuid.UUID) error
	// DropObject takes a derivative out of an item: row, counters and a queued removal
	// in one transaction. No removal when the item does not name it any more.
	DropObject(ctx context.Context, accountID uuid.UUID, bucket string, itemID uuid.UUID, object Object) (*Removal, error)
	// FinishRemovals forgets removals that are done.
	FinishRemovals(ctx context.Context, ids []int64) error
}

// CheckObjects is what a check asks of the bucket; objectstore.Store implements it.
type CheckObjects interface {
	// OwnerID returns the account that the bucket is marked for; NotFound without bucket or marker.
	OwnerID(ctx context.Context, bucket string) (string, error)
	BucketExists(ctx context.Context, bucket string) (bool, error)
	// List visits objects in the order of keys.
	List(ctx context.Context, bucket, prefix string, visit func(Stored) error) error
	// ListUnfinished visits unfinished uploads; prefix is empty or a whole key.
	ListUnfinished(ctx context.Context, bucket, prefix string, visit func(Unfinished) error) error
	// Stat returns NotFound for an object that is missing.
	Stat(ctx context.Context, bucket, key string) (Stored, error)
	Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error)
	Remove(ctx context.Context, bucket string, keys []string) error
	AbortIncomplete(ctx context.Context, bucket, key string) error
}

// FindingKind says what a check found.
type FindingKind string

// The kinds of finding.
const (
	// BucketMissing, BucketForeign and BucketUnmarked: nothing in such a bucket is
	// mended, and what is in the first two is not looked at.
	BucketMissing  FindingKind = "bucket-missing"
	BucketForeign  FindingKind = "bucket-foreign"
	BucketUnmarked FindingKind = "bucket-unmarked"
	// StrayObject is an object that no item, running upload or queued removal names.
	StrayObject FindingKind = "object-without-row"
	// StrayUpload is an unfinished multipart upload that no running upload or queued removal explains.
	StrayUpload FindingKind = "unfinished-upload"
	// ObjectMissing, ObjectSize and ObjectHash: an item's object is lost or damaged. A
	// derivative can be dropped; an operator must look at an original.
	ObjectMissing FindingKind = "object-missing"
	ObjectSize    FindingKind = "object-size"
	ObjectHash    FindingKind = "object-hash"
	// ItemBytes: an item's bytes are not the sum of its objects'.
	ItemBytes FindingKind = "item-bytes"
	// CounterOff: a counter differs from a recount.
	CounterOff FindingKind = "counter"
)

// Finding is one thing that is not as it should be; it prints as a line of JSON.
type Finding struct {
	Kind    FindingKind `json:"kind"`
	Account uuid.UUID   `json:"account"`
	Item    string      `json:"item,omitempty"`
	Key     string      `json:"key,omitempty"`
	Detail  string      `json:"detail,omitempty"`
	// Recent findings are younger than the grace: they may pass by themselves, and are left alone.
	Recent   bool `json:"recent,omitempty"`
	Repaired bool `json:"repaired,omitempty"`
}

// CheckSummary says what a check saw; it prints as one line of JSON.
type CheckSummary struct {
	Accounts int   `json:"accounts"`
	Items    int64 `json:"items"`
	Objects  int64 `json:"objects"`
	Bytes    int64 `json:"bytes"` // of Objects
	// Foreign objects have keys that the service never makes, as an adopted bucket can hold. They are left alone.
	Foreign  int64 `json:"foreign"`
	Uploads  int64 `json:"uploads"`  // running, or waiting for the purge
	Removals int64 `json:"removals"` // queued
	// Found counts findings by kind, without recent ones.
	Found    map[FindingKind]int64 `json:"found"`
	Recent   int64                 `json:"recent"`
	Repaired int64                 `json:"repaired"`
	// NeedsAttention counts what was found and not mended.
	NeedsAttention int64 `json:"needsAttention"`
}

// checkBatch bounds the rows, and the suspects, that are held in memory and looked up together.
const checkBatch = 500

// Checker compares rows, counters and buckets in both directions, and mends what
// differs when it may. It is safe beside a running service and beside other checkers.
//
// Nothing stands still while it reads, so whatever looks wrong is a suspect only, and
// is looked at again in the order that can prove it:
//
// An object without a row. An intent row is committed before the first byte is sent,
// and every later step (commit, abandon, delete, purge) puts the next explanation in
// place in the transaction that takes the last one away; the end of the queue is
// reached after the object is gone. So an object that was listed, that one later
// snapshot of the rows does not explain, and that is still there after that, has none.
// Nor will it get one: ids are never used twice, and nothing but an upload row leads
// to an item. That is why it can be removed without a lock. One thing can make such an
// object by right: a runtime that was taken for dead (its lease ran out, the purge
// swept its upload) and still sends bytes, or a store that carries out a write long
// after its client left. The runtime queues the removal when it finds out; until then
// the object is young, and the grace, which must be longer than lease and stall, keeps
// hands off it.
//
// An unfinished upload: the same, with "aborts" instead of "removals", and an item is
// no explanation, since its parts were completed before its row was committed.
//
// A row without its object. Bytes are durable before the row that names them, and
// are removed after the row is gone. So a row that was read, whose object is missing
// later, and that is still there after that, has lost it. The same order holds for an
// object of the wrong size or hash: objects are never written twice with different bytes.
//
// Counters are compared within one snapshot, in which they are always right.
type Checker struct {
	store   CheckStore
	objects CheckObjects
	cfg     CheckConfig
	now     func() time.Time
	log     *slog.Logger
}

// NewChecker joins the check to its stores.
func NewChecker(store CheckStore, objects CheckObjects, cfg CheckConfig, now func() time.Time, log *slog.Logger) (*Checker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Checker{store: store, objects: objects, cfg: cfg, now: now, log: log}, nil
}

// Check checks one open account, adds what it saw to summary, also when it fails, and
// hands every finding to report, whose error ends the check.
func (c *Checker) Check(ctx context.Context, a account.Account, summary *CheckSummary, report func(Finding) error) error {
	if a.ClosedAt != nil {
		return fault.New(fault.Conflict, "account %s is closed: its rows and its bucket are being kept or removed as they are", a.ID)
	}
	if summary.Found == nil {
		summary.Found = map[FindingKind]int64{}
	}
	summary.Accounts++
	check := &check{Checker: c, account: a, summary: summary, report: report, logged: c.now()}
	return check.run(ctx)
}

// check is the check of one account.
type check struct {
	*Checker
	account account.Account
	summary *CheckSummary
	report  func(Finding) error
	mend    bool // may the bucket be touched
	logged  time.Time
}

func (c *check) run(ctx context.Context) error {
	look, err := c.bucket(ctx)
	if err != nil {
		return err
	}
	// Bytes before counters, which are made of them; counters before anything that
	// takes away from them, which a counter that is too small would refuse.
	if err := c.itemBytes(ctx); err != nil {
		return err
	}
	if err := c.counters(ctx); err != nil {
		return err
	}
	if look {
		if err := c.compare(ctx); err != nil {
			return err
		}
		if err := c.unfinished(ctx); err != nil {
			return err
		}
	}
	uploads, removals, err := c.store.CountPending(ctx, c.account.ID)
	c.summary.Uploads += uploads
	c.summary.Removals += removals
	return err
}

// found counts and reports a finding.
func (c *check) found(f Finding) error {
	f.Account = c.account.ID
	switch {
	case f.Recent:
		c.summary.Recent++
		return c.report(f)
	case f.Repaired:
		c.summary.Repaired++
	default:
		c.summary.NeedsAttention++
	}
	c.summary.Found[f.Kind]++
	return c.report(f)
}

// progress logs how far a long check is.
func (c *check) progress(ctx context.Context) {
	if now := c.now(); now.Sub(c.logged) >= 10*time.Second {
		c.logged = now
		c.log.InfoContext(ctx, "checking", "account", c.account.ID, "items", c.summary.Items, "objects", c.summary.Objects,
			"repaired", c.summary.Repaired, "needs_attention", c.summary.NeedsAttention)
	}
}

// bucket decides by the bucket's marker whether to look into it, and whether anything
// in it may be mended.
func (c *check) bucket(ctx context.Context) (look bool, err error) {
	owner, err := c.objects.OwnerID(ctx, c.account.Bucket)
	switch {
	case err == nil && owner == c.account.ID.String():
		c.mend = c.cfg.Repair
		return true, nil
	case err == nil || fault.Is(err, fault.Conflict):
		return false, c.found(Finding{Kind: BucketForeign, Detail: "bucket " + c.account.Bucket + " is marked for another account"})
	case !fault.Is(err, fault.NotFound):
		return false, err
	}
	exists, err := c.objects.BucketExists(ctx, c.account.Bucket)
	if err != nil {
		return false, err
	}
	if !exists {
		return false, c.found(Finding{Kind: BucketMissing, Detail: "bucket " + c.account.Bucket + " is missing, and every object with it"})
	}
	return true, c.found(Finding{Kind: BucketUnmarked, Detail: "bucket " + c.account.Bucket + " has no owner marker"})
}

// itemBytes finds items whose bytes are not the sum of their objects'.
func (c *check) itemBytes(ctx context.Context) error {
	var after uuid.UUID
	for {
		off, err := c.store.ItemsOffAfter(ctx, c.account.ID, after, checkBatch)
		if err != nil {
			return err
		}
		for _, item := range off {
			if c.cfg.Repair {
				if err := c.store.MendItemBytes(ctx, c.account.ID, item.ID); err != nil {
					return err
				}
			}
			if err := c.found(Finding{Kind: ItemBytes, Item: item.ID.String(), Repaired: c.cfg.Repair,
				Detail: fmt.Sprintf("the row says %d bytes, its objects add up to %d", item.Noted, item.Real)}); err != nil {
				return err
			}
			after = item.ID
		}
		if len(off) < checkBatch {
			return nil
		}
	}
}

// counters compares totals and hold with a recount.
func (c *check) counters(ctx context.Context) error {
	recount := c.store.Drifts
	if c.cfg.Repair {
		recount = c.store.MendCounters
	}
	drifts, err := recount(ctx, c.account.ID)
	if err != nil {
		return err
	}
	for _, d := range drifts {
		detail := fmt.Sprintf("%s says %d bytes, a recount gives %d", d.Counter, d.Noted.Bytes, d.Real.Bytes)
		if d.Counter != AccountHold {
			detail = fmt.Sprintf("%s of app %s says %d public and %d private items of %d bytes, a recount gives %d, %d and %d", d.Counter, d.AppID,
				d.Noted.Public, d.Noted.Private, d.Noted.Bytes, d.Real.Public, d.Real.Private, d.Real.Bytes)
		}
		switch d.Counter {
		case GroupTotal:
			detail += fmt.Sprintf("; group %q", d.Group)
		case PageIndex:
			detail += fmt.Sprintf("; the block from %s on", d.FirstID)
		}
		if err := c.found(Finding{Kind: CounterOff, Detail: detail, Repaired: c.cfg.Repair}); err != nil {
			return err
		}
	}
	return nil
}
