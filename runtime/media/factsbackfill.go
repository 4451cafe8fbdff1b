package media

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/filehead"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/work"
)

// FactsWork is the kind of the one task that reads the facts of items of before there were facts.
const FactsWork work.Kind = "facts"

// FactsConfig bounds the backfill of facts. The tags are flag and environment names.
type FactsConfig struct {
	FactsRate int `env:"SERVICE_FACTS_RATE" default:"60" help:"Files per minute, of items that were stored before their facts were, of which the replicas together read width, height, placeholder, dominant color, duration and pages; from 0 to 6000, 0 = none."`
}

// maxFactsRate is the maximum of FactsRate.
const maxFactsRate = 6000

// Validate checks the bounds.
func (c FactsConfig) Validate() error {
	if c.FactsRate < 0 || c.FactsRate > maxFactsRate {
		return fmt.Errorf("SERVICE_FACTS_RATE must be from 0 to %d, not %d", maxFactsRate, c.FactsRate)
	}
	return nil
}

// StoredItem is an item whose file was not read for its facts.
type StoredItem struct {
	ID           uuid.UUID
	AccountID    uuid.UUID
	Bucket       string
	Objects      Objects
	KeepLocation bool
}

// FactsStore is where the backfill finds items, and records their facts. Package postgres implements it.
type FactsStore interface {
	// EnqueueFacts adds the task of FactsWork, due after the delay, unless it is there, and returns how many were added.
	EnqueueFacts(ctx context.Context, delay time.Duration) (int, error)
	// ItemsWithoutFacts returns up to limit items, in the order of their account and id, after this one.
	ItemsWithoutFacts(ctx context.Context, after StoredItem, limit int) ([]StoredItem, error)
	// SetFacts records the facts of an item, unless there are some: zero ones if there is nothing to
	// know.
	SetFacts(ctx context.Context, id uuid.UUID, facts Facts) error
	// SkipFacts records that there is nothing to know of items.
	SkipFacts(ctx context.Context, ids []uuid.UUID) error
}

// FactsDeps are the dependencies of a FactsBackfill.
type FactsDeps struct {
	Store   FactsStore
	Objects interface {
		Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error)
	}
	Deriver Deriver
	// Writable returns an error while nothing may be changed.
	Writable func() error
	// Wait waits, or returns the error of ctx.
	Wait func(ctx context.Context, duration time.Duration) error
	Log  *slog.Logger
}

// FactsBackfill reads the facts of items of before there were facts: one file after the other, with
// pauses. It reads the whole of an image, and the first bytes of a recording or a document. Each item is recorded when it was read, so a
// process continues where another one was stopped. It is the worker of FactsWork, which one process has at a time.
type FactsBackfill struct {
	cfg  FactsConfig
	deps FactsDeps
	head []byte // of the last file that was read
	// last is where the pass of this process is; another one begins anew, and finds what is left.
	last StoredItem
	pass FactsPass
}

// NewFactsBackfill returns a FactsBackfill that uses deps.
func NewFactsBackfill(cfg FactsConfig, deps FactsDeps) *FactsBackfill {
	return &FactsBackfill{cfg: cfg, deps: deps}
}

const (
	// factsBatch is how many items are read from the database at once.
	factsBatch = 100
	// factsInterval is the pause before the first pass and between two. A later one finds the items that could not be
	// read, and those of a replica of an earlier version.
	factsInterval = 10 * time.Minute
	// factsTurn is after how long an attempt ends and the next one continues: a claim lasts as long as factsTimeout at most.
	factsTurn    = time.Minute
	factsTimeout = 10 * time.Minute
)

// Policy returns how the task runs. It is not there if the rate is 0.
func (b *FactsBackfill) Policy() work.Policy {
	policy := work.Policy{Slots: 1, Timeout: factsTimeout, MinBackoff: time.Minute, MaxBackoff: factsInterval, Ready: b.deps.Writable}
	if b.cfg.FactsRate > 0 {
		policy.Enqueue = func(ctx context.Context) (int, error) { return b.deps.Store.EnqueueFacts(ctx, factsInterval) }
	}
	return policy
}

// Pass returns what the pass of this process did. It is not safe while Work runs.
func (b *FactsBackfill) Pass() FactsPass { return b.pass }

// FactsPass counts what one pass did.
type FactsPass struct {
	Read    int // files of which something is known now
	Skipped int // files of which there is nothing to know
	Failed  int // files that could not be read: the next pass tries again
}

// Work goes on with the pass over all items without facts. The next pass begins later.
func (b *FactsBackfill) Work(ctx context.Context, _ work.Task) error {
	if b.cfg.FactsRate == 0 {
		return work.Snooze(factsInterval) // a replica that has a rate may have added the task
	}
	if b.last.ID == uuid.Nil {
		b.pass = FactsPass{}
	}
	for began := time.Now(); ; {
		items, err := b.deps.Store.ItemsWithoutFacts(ctx, b.last, factsBatch)
		switch {
		case err != nil:
			return err
		case len(items) == 0:
			b.last = StoredItem{}
			return work.Snooze(factsInterval)
		}
		ended, err := b.batch(ctx, items, began.Add(factsTurn))
		b.deps.Log.InfoContext(ctx, "facts of stored files", "read", b.pass.Read, "skipped", b.pass.Skipped, "failed", b.pass.Failed)
		switch {
		case b.deps.Writable() != nil:
			return work.Snooze(0) // Policy.Ready says when it goes on
		case err != nil:
			return err
		case ended:
			return work.Snooze(0)
		}
	}
}

// batch reads the facts of items until the end of the turn, and reports whether that was reached. It pauses after each file, and once if
// there is none.
func (b *FactsBackfill) batch(ctx context.Context, items []StoredItem, turnEnds time.Time) (ended bool, err error) {
	pause := time.Minute / time.Duration(b.cfg.FactsRate)
	var others []uuid.UUID
	files := items[:0:0]
	for _, item := range items {
		if original, _ := item.Objects.Find(Original); b.deps.Deriver.Handles(original.MimeType, original.Bytes) || filehead.MayKnow(original.MimeType) {
			files = append(files, item)
		} else {
			others = append(others, item.ID)
		}
	}
	if len(others) > 0 {
		if err := b.deps.Store.SkipFacts(ctx, others); err != nil {
			return false, err
		}
		b.pass.Skipped += len(others)
	}
	if len(files) == 0 {
		b.last = items[len(items)-1]
		return time.Now().After(turnEnds), b.deps.Wait(ctx, pause)
	}
	for _, file := range files {
		if err := b.deps.Writable(); err != nil {
			return false, err
		}
		if err := b.read(ctx, file); err != nil {
			return false, err
		}
		b.last = file
		if err := b.deps.Wait(ctx, pause); err != nil {
			return false, err
		}
		if time.Now().After(turnEnds) {
			return true, nil
		}
	}
	return false, nil
}

// factsSide is the size of the thumbnail of which the placeholder is made.
const factsSide = 100

// read reads the facts of a file, and records them. One that the object store does not return is left to
// the next pass.
func (b *FactsBackfill) read(ctx context.Context, item StoredItem) error {
	original, _ := item.Objects.Find(Original)
	read := b.readHead
	if b.deps.Deriver.Handles(original.MimeType, original.Bytes) {
		read = b.readImage
	}
	facts, err := read(ctx, item, original)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		b.pass.Failed++
		return nil
	case facts.Known():
		b.pass.Read++
	default:
		b.pass.Skipped++
	}
	return b.deps.Store.SetFacts(ctx, item.ID, facts)
}

// readImage reads the facts of an image. One that is broken or over a limit has none.
func (b *FactsBackfill) readImage(ctx context.Context, item StoredItem, original Object) (Facts, error) {
	var unopened error
	facts, _, err := b.deps.Deriver.Derive(ctx, ImageJob{
		ItemID: item.ID, AccountID: item.AccountID, MimeType: original.MimeType, Bytes: original.Bytes,
		Source: func(ctx context.Context) (file io.ReadCloser, err error) {
			file, err = b.deps.Objects.Open(ctx, item.Bucket, original.Key, 0, original.Bytes)
			unopened = err
			return file, err
		},
		Settings: settings.Effective{ThumbnailWidth: factsSide, ThumbnailHeight: factsSide}, KeepLocation: item.KeepLocation,
	})
	if unopened == nil && fault.Is(err, fault.Unavailable) {
		unopened = err
	}
	return facts, unopened
}

// readHead reads what the first bytes of a file say.
func (b *FactsBackfill) readHead(ctx context.Context, item StoredItem, original Object) (Facts, error) {
	length := min(original.Bytes, filehead.Length)
	file, err := b.deps.Objects.Open(ctx, item.Bucket, original.Key, 0, length)
	if err != nil {
		return Facts{}, err
	}
	defer func() { _ = file.Close() }()
	b.head = slices.Grow(b.head[:0], filehead.Length)[:length]
	if _, err := io.ReadFull(file, b.head); err != nil {
		return Facts{}, err
	}
	head := filehead.Read(b.head).Of(original.Bytes)
	return Facts{Duration: head.Duration, Pages: head.Pages}, nil
}
