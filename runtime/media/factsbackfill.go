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
)

// FactsConfig bounds the backfill of facts. The tags are flag and environment names.
type FactsConfig struct {
	FactsRate int `env:"SERVICE_FACTS_RATE" default:"60" help:"Files per minute, of items that were stored before their facts were, of which one replica reads width, height, placeholder, dominant color, duration and pages; from 0 to 6000, 0 = none."`
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
	ID        uuid.UUID
	AccountID uuid.UUID
	Bucket    string
	Objects   Objects
}

// FactsStore is where the backfill finds items, and records their facts. postgres.Store implements it.
type FactsStore interface {
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
	// Elected reports whether this process is the one that reads.
	Elected func(ctx context.Context) (bool, error)
	// Writable returns an error while nothing may be changed.
	Writable func() error
	// Wait waits, or returns the error of ctx.
	Wait func(ctx context.Context, duration time.Duration) error
	Log  *slog.Logger
}

// FactsBackfill reads the facts of items of before there were facts: one file after the other, with
// pauses. It reads the whole of an image, and the first bytes of a recording or a document. Each item is recorded when it was read, so that a process continues where another one was
// stopped.
type FactsBackfill struct {
	cfg  FactsConfig
	deps FactsDeps
	head []byte // of the last file that was read
}

// NewFactsBackfill returns a FactsBackfill that uses deps.
func NewFactsBackfill(cfg FactsConfig, deps FactsDeps) *FactsBackfill {
	return &FactsBackfill{cfg: cfg, deps: deps}
}

const (
	// factsBatch is how many items are read from the database at once.
	factsBatch = 100
	// factsInterval is the pause between two passes. A later one finds the items that could not be
	// read, and those of a replica of an earlier version.
	factsInterval = 10 * time.Minute
)

// Run passes through the items until ctx ends. It does nothing if the rate is 0.
func (b *FactsBackfill) Run(ctx context.Context) error {
	if b.cfg.FactsRate == 0 {
		return nil
	}
	for {
		// First, because a process knows only after its start whether it is the elected one.
		if b.deps.Wait(ctx, factsInterval) != nil {
			return nil
		}
		if _, err := b.Pass(ctx); err != nil && ctx.Err() == nil {
			b.deps.Log.WarnContext(ctx, "reading the facts of stored files was interrupted; the next pass continues", "error", err)
		}
	}
}

// FactsPass counts what one pass did.
type FactsPass struct {
	Read    int // files of which something is known now
	Skipped int // files of which there is nothing to know
	Failed  int // files that could not be read: the next pass tries again
}

// Pass reads the facts of all items that have none, while this process is the elected one.
func (b *FactsBackfill) Pass(ctx context.Context) (done FactsPass, err error) {
	var last StoredItem
	for {
		if elected, err := b.deps.Elected(ctx); err != nil || !elected {
			return done, err
		}
		items, err := b.deps.Store.ItemsWithoutFacts(ctx, last, factsBatch)
		if err != nil || len(items) == 0 {
			return done, err
		}
		if err := b.batch(ctx, items, &done); err != nil {
			return done, err
		}
		last = items[len(items)-1]
		b.deps.Log.InfoContext(ctx, "facts of stored files", "read", done.Read, "skipped", done.Skipped, "failed", done.Failed)
	}
}

// batch reads the facts of items. It pauses after each file, and once if there is none.
func (b *FactsBackfill) batch(ctx context.Context, items []StoredItem, done *FactsPass) error {
	if err := b.deps.Writable(); err != nil {
		return err
	}
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
			return err
		}
		done.Skipped += len(others)
	}
	if len(files) == 0 {
		return b.deps.Wait(ctx, pause)
	}
	for _, file := range files {
		if err := b.deps.Writable(); err != nil {
			return err
		}
		if err := b.read(ctx, file, done); err != nil {
			return err
		}
		if err := b.deps.Wait(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// factsSide is the size of the thumbnail of which the placeholder is made.
const factsSide = 100

// read reads the facts of a file, and records them. One that the object store does not return is left to
// the next pass.
func (b *FactsBackfill) read(ctx context.Context, item StoredItem, done *FactsPass) error {
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
		done.Failed++
		return nil
	case facts.Known():
		done.Read++
	default:
		done.Skipped++
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
		Settings: settings.Effective{ThumbnailWidth: factsSide, ThumbnailHeight: factsSide},
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
