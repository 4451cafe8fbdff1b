package media_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
	"mediastack.dev/runtime/work"
)

// turned is a photo of 40 x 60 pixels that a camera stored with 60 x 40.
func turned() []byte {
	return imagetest.WithEXIF(imagetest.JPEG(imagetest.Stored(imagetest.Picture(40, 60), 6)), 6)
}

// recording is a WAV file of 8,000 bytes per second, which says that it has so many bytes of samples.
func recording(declared uint32, samples int) []byte {
	file := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data")
	return append(binary.LittleEndian.AppendUint32(file, declared), make([]byte, samples)...)
}

// pages is a linearized PDF file of 1,000 bytes.
func pages(n int) []byte {
	file := fmt.Appendf(nil, "%%PDF-1.7\n1 0 obj\n<</Linearized 1/L 1000/H[ 600 100]/O 3/E 900/N %d/T 950>>\nendobj\n", n)
	return append(file, make([]byte, 1000-len(file))...)
}

func TestFacts_AreStoredWithTheItem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool, p := runtimetest.Images(t, prometheus.NewRegistry(), discard), b.Tenant(1<<30)
	replica := b.Another(mediatest.Config, func(deps *upload.Deps) { deps.Deriver = pool })
	for name, tt := range map[string]struct {
		file          []byte
		width, height int
	}{
		"a turned photo": {turned(), 40, 60},
		"a drawing":      {imagetest.PNG(imagetest.Picture(30, 20)), 30, 20},
		"an animation":   {imagetest.GIF(50, 50, 3), 50, 50},
		"a broken photo": {turned()[:900], 0, 0},
		"a text":         {[]byte("a text"), 0, 0},
	} {
		item, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(tt.file), media.Fields{})
		must(t, err)
		read, err := replica.Items.Get(t.Context(), p, item.ID)
		must(t, err)
		if facts := item.Facts; facts.Width != tt.width || facts.Height != tt.height || (len(facts.Placeholder) > 0) != (tt.width > 0) || (facts.DominantColor != "") != (tt.width > 0) {
			t.Errorf("%s: the facts %+v", name, facts)
		}
		if read.Facts.Width != tt.width || read.Facts.Height != tt.height || !bytes.Equal(read.Facts.Placeholder, item.Facts.Placeholder) || read.Facts.DominantColor != item.Facts.DominantColor || read.Version != 1 {
			t.Errorf("%s: %+v was read, %+v was stored", name, read.Facts, item.Facts)
		}
	}
	if n := b.left(); n != 0 {
		t.Errorf("the backfill would read %d new items", n)
	}
}

// A file says how long it is in its first bytes, wherever those are when the last ones arrive: in memory, or
// in the first part.
func TestFacts_OfTheFirstBytesAreStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	for name, tt := range map[string]struct {
		file     []byte
		hint     int64
		duration time.Duration
		pages    int
	}{
		"a recording":               {recording(12_345, 12_345), 0, 1543 * time.Millisecond, 0},
		"a long one":                {recording(16_000_000, 16_000_000), 0, 2000 * time.Second, 0},
		"one of a length it hints":  {recording(16_000_000, 16_000_000), 16_000_044, 2000 * time.Second, 0},
		"a long one that is cut":    {recording(16_000_000, 15_999_999), 0, 0, 0},
		"a document":                {pages(7), 0, 0, 7},
		"a document that was added": {append(pages(7), 'x'), 0, 0, 0},
		"a text":                    {[]byte("a text"), 0, 0, 0},
	} {
		u, err := b.Uploads.Begin(t.Context(), p, tt.hint)
		must(t, err)
		must(t, u.Receive(t.Context(), bytes.NewReader(tt.file), ""))
		item, err := u.Commit(t.Context(), media.Fields{})
		u.Close(t.Context())
		must(t, err)
		read, err := b.Items.Get(t.Context(), p, item.ID)
		must(t, err)
		for _, facts := range []media.Facts{item.Facts, read.Facts} {
			if facts.Duration != tt.duration || facts.Pages != tt.pages || facts.Width != 0 {
				t.Errorf("%s: the facts are %+v", name, facts)
			}
		}
	}
	if n := b.left(); n != 0 {
		t.Errorf("the backfill would read %d new items", n)
	}
}

// The backfill reads the first bytes of recordings and documents of before they were read, and of nothing
// else.
func TestFactsBackfill_ReadsTheFirstBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := runtimetest.Images(t, prometheus.NewRegistry(), discard)
	p := b.Tenant(1 << 30)
	sound, paper := b.Sealed(p, recording(8000, 8000), media.Fields{}), b.Upload(p, pages(7), media.Fields{})
	b.Upload(p, []byte("a text"), media.Fields{})
	silent := b.Upload(p, recording(0, 8000), media.Fields{})
	photo := b.Upload(p, turned(), media.Fields{})
	b.Number(`WITH old AS (UPDATE item SET facts_version = 1, duration_ms = NULL, pages = NULL RETURNING 1) SELECT count(*) FROM old`)
	if done, err := b.backfill(away{b.Objects}, pool).whole(t.Context()); err != nil || done != (media.FactsPass{Failed: 3}) {
		t.Errorf("without the object store: %+v, %v", done, err)
	}
	if done, err := b.backfill(b.Objects, pool).whole(t.Context()); err != nil || done != (media.FactsPass{Read: 2, Skipped: 1}) {
		t.Errorf("%+v, %v", done, err)
	}
	for _, tt := range []struct {
		item     media.Item
		duration time.Duration
		pages    int
		changes  int
	}{{sound, time.Second, 0, 1}, {paper, 0, 7, 1}, {silent, 0, 0, 0}, {photo, 0, 0, 0}} {
		got, err := b.Items.Get(t.Context(), p, tt.item.ID)
		must(t, err)
		if got.Facts.Duration != tt.duration || got.Facts.Pages != tt.pages || got.Version != tt.item.Version+tt.changes {
			t.Errorf("%s: %+v, version %d", got.File().MimeType, got.Facts, got.Version)
		}
	}
	// An item of before there were any facts is read in the same way.
	b.Number(`WITH old AS (UPDATE item SET facts_version = 0, duration_ms = NULL RETURNING 1) SELECT count(*) FROM old`)
	if done, err := b.backfill(b.Objects, pool).whole(t.Context()); err != nil || done != (media.FactsPass{Read: 3, Skipped: 2}) || b.left() != 0 {
		t.Errorf("%+v, %v; %d are left", done, err, b.left())
	}
	list, err := b.Items.List(t.Context(), p, media.Filter{}, 1, 10)
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].Facts.Duration != time.Second {
		t.Errorf("the list has %+v", list.Items)
	}
}

// The images that an earlier version has read have a placeholder and no dominant color. The backfill reads them again, and
// keeps what it cannot read any more.
func TestFactsBackfill_AddsTheDominantColor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := runtimetest.Images(t, prometheus.NewRegistry(), discard)
	p := b.Tenant(1 << 30)
	sealed, damaged := b.Sealed(p, turned(), media.Fields{}), b.Upload(p, turned()[:900], media.Fields{})
	b.Upload(p, []byte("a text"), media.Fields{})
	b.Number(`WITH old AS (UPDATE item SET facts_version = 0 RETURNING 1) SELECT count(*) FROM old`)
	if done, err := b.backfill(b.Objects, pool).whole(t.Context()); err != nil || done != (media.FactsPass{Read: 1, Skipped: 2}) {
		t.Fatalf("%+v, %v", done, err)
	}
	photo, err := b.Items.Get(t.Context(), p, sealed.ID)
	must(t, err)
	b.Number(`WITH old AS (UPDATE item SET facts_version = 2, dominant_color = NULL RETURNING 1) SELECT count(*) FROM old`)
	b.Number(fmt.Sprintf(`WITH old AS (UPDATE item SET width = 40, height = 60, placeholder = 'earlier' WHERE id = '%s' RETURNING 1) SELECT count(*) FROM old`, damaged.ID))
	if done, err := b.backfill(b.Objects, pool).whole(t.Context()); err != nil || done != (media.FactsPass{Read: 1, Skipped: 1}) {
		t.Errorf("%+v, %v", done, err)
	}
	got, err := b.Items.Get(t.Context(), p, photo.ID)
	must(t, err)
	if photo.Facts.DominantColor == "" || got.Facts.DominantColor != photo.Facts.DominantColor || got.Version != photo.Version+1 {
		t.Errorf("%+v, version %d; the upload had %+v", got.Facts, got.Version, photo.Facts)
	}
	kept, err := b.Items.Get(t.Context(), p, damaged.ID)
	must(t, err)
	if kept.Facts.Width != 40 || string(kept.Facts.Placeholder) != "earlier" || kept.Facts.DominantColor != "" || kept.Version != damaged.Version {
		t.Errorf("%+v, version %d", kept.Facts, kept.Version)
	}
	list, err := b.Items.List(t.Context(), p, media.Filter{}, 1, 10)
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].Facts.DominantColor != photo.Facts.DominantColor {
		t.Errorf("the list has %+v", list.Items)
	}
	if done, err := b.backfill(b.Objects, pool).whole(t.Context()); err != nil || done != (media.FactsPass{}) {
		t.Errorf("the second pass: %+v, %v", done, err)
	}
}

// backfill is a backfill that is stopped at the wait with the number stopAt; 0 = it is not.
type backfill struct {
	*media.FactsBackfill
	waits  []time.Duration
	stopAt int
}

// snoozed reports whether err is that of work.Snooze.
func snoozed(err error, delay time.Duration) bool {
	return err != nil && err.Error() == work.Snooze(delay).Error()
}

// whole makes a whole pass, and returns what it did.
func (b *backfill) whole(ctx context.Context) (media.FactsPass, error) {
	err := b.Work(ctx, work.Task{})
	if snoozed(err, 10*time.Minute) {
		err = nil
	}
	return b.Pass(), err
}

var errStopped = errors.New("stopped")

func (b *harness) backfill(objects media.ObjectStore, deriver media.Deriver) *backfill {
	b.T.Helper()
	must(b.T, b.Guard.Beat(b.T.Context()))
	run := &backfill{}
	run.FactsBackfill = media.NewFactsBackfill(media.FactsConfig{FactsRate: 30}, media.FactsDeps{Store: b.Store.Items, Objects: objects, Deriver: deriver,
		Writable: b.Guard.Writable,
		Wait: func(_ context.Context, pause time.Duration) error {
			if run.waits = append(run.waits, pause); len(run.waits) == run.stopAt {
				return errStopped
			}
			return nil
		},
		Log: slog.New(slog.DiscardHandler)})
	return run
}

// withoutFacts are items of before there were facts: two photos, a broken one and a text. The last photo
// is sealed.
func (b *harness) withoutFacts(p account.Principal) (photos [2]media.Item) {
	b.T.Helper()
	for _, file := range [][]byte{turned()[:900], []byte("a text")} {
		b.Upload(p, file, media.Fields{})
	}
	photos = [2]media.Item{b.Upload(p, turned(), media.Fields{}), b.Sealed(p, imagetest.PNG(imagetest.Picture(30, 20)), media.Fields{})}
	if n := b.Number(`WITH old AS (UPDATE item SET facts_version = 0 RETURNING 1) SELECT count(*) FROM old`); n != 4 {
		b.T.Fatalf("%d items are old", n)
	}
	return photos
}

func (b *harness) left() int64 {
	b.T.Helper()
	return b.Number(`SELECT count(*) FROM item WHERE facts_version < 3`)
}

func TestFactsBackfill_ContinuesWhereItWasStopped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := runtimetest.Images(t, prometheus.NewRegistry(), discard)
	p := b.Tenant(1 << 30)
	photos := b.withoutFacts(p)

	stopped := b.backfill(b.Objects, pool)
	stopped.stopAt = 2 // after two images
	if done, err := stopped.whole(t.Context()); !errors.Is(err, errStopped) || done.Read+done.Skipped != 3 || b.left() != 1 {
		t.Errorf("%+v, %v; %d are left", done, err, b.left())
	}
	run := b.backfill(b.Objects, pool)
	if done, err := run.whole(t.Context()); err != nil || done.Read != 1 || done.Skipped != 0 || b.left() != 0 {
		t.Errorf("%+v, %v; %d are left", done, err, b.left())
	}
	if len(run.waits) != 1 || run.waits[0] != 2*time.Second {
		t.Errorf("it waited %v with a rate of 30 per minute", run.waits)
	}
	for i, want := range []media.Facts{{Width: 40, Height: 60}, {Width: 30, Height: 20}} {
		item, err := b.Items.Get(t.Context(), p, photos[i].ID)
		must(t, err)
		if item.Facts.Width != want.Width || item.Facts.Height != want.Height || len(item.Facts.Placeholder) == 0 || item.Version != photos[i].Version+1 {
			t.Errorf("photo %d: %+v, version %d", i, item.Facts, item.Version)
		}
	}
	b.Counts(2, "items are unchanged, of two without facts", `SELECT count(*) FROM item WHERE version = 1 AND width IS NULL AND placeholder IS NULL`)
	again := b.backfill(b.Objects, pool)
	if done, err := again.whole(t.Context()); err != nil || done != (media.FactsPass{}) || len(again.waits) != 0 {
		t.Errorf("a pass with nothing left: %+v, %v", done, err)
	}
	b.Balanced(p)
}

// away is an object store that returns no files.
type away struct{ media.ObjectStore }

func (away) Open(context.Context, string, string, int64, int64) (io.ReadCloser, error) {
	return nil, errors.New("away")
}

func TestFactsBackfill_LeavesFilesThatCannotBeReadToTheNextPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := runtimetest.Images(t, prometheus.NewRegistry(), discard)
	b.withoutFacts(b.Tenant(1 << 30))
	if done, err := b.backfill(away{b.Objects}, pool).whole(t.Context()); err != nil || done.Failed != 3 || done.Skipped != 1 || b.left() != 3 {
		t.Errorf("%+v, %v; %d are left", done, err, b.left())
	}
	if done, err := b.backfill(b.Objects, pool).whole(t.Context()); err != nil || done.Read != 2 || done.Skipped != 1 || b.left() != 0 {
		t.Errorf("%+v, %v; %d are left", done, err, b.left())
	}
}

// oldItems is a media.FactsStore in memory, for what a FactsBackfill does when. It has no images.
type oldItems struct {
	media.Deriver
	items []media.StoredItem // in their order
	held  bool
}

func (o *oldItems) EnqueueFacts(context.Context, time.Duration) (int, error) { return 1, nil }

func (o *oldItems) ItemsWithoutFacts(_ context.Context, after media.StoredItem, limit int) ([]media.StoredItem, error) {
	later := slices.DeleteFunc(slices.Clone(o.items), func(item media.StoredItem) bool { return item.ID.String() <= after.ID.String() })
	return later[:min(limit, len(later))], nil
}

func (o *oldItems) SetFacts(_ context.Context, id uuid.UUID, _ media.Facts) error {
	o.items = slices.DeleteFunc(o.items, func(item media.StoredItem) bool { return item.ID == id })
	return nil
}

func (o *oldItems) SkipFacts(context.Context, []uuid.UUID) error { return nil }

func (o *oldItems) Handles(string, int64) bool { return false }

// Open returns a file that is silent, except that every third one cannot be opened.
func (o *oldItems) Open(_ context.Context, _, key string, _, length int64) (io.ReadCloser, error) {
	if key[len(key)-1]%3 == 0 {
		return nil, errors.New("away")
	}
	return io.NopCloser(strings.NewReader(strings.Repeat("0", int(length)))), nil
}

// A pass keeps to its pace over several attempts, each of which ends in time. Files that cannot be read delay nothing.
func TestFactsBackfill_ContinuesItsPassInTheNextAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &oldItems{}
		for n := range 150 {
			id := uuid.UUID{15: byte(n)}
			store.items = append(store.items, media.StoredItem{ID: id, Objects: media.Objects{{Variant: media.Original, Key: id.String(), MimeType: "audio/mpeg", Bytes: 10}}})
		}
		store.items = store.items[1:] // the first id is zero
		waiting := func(_ context.Context, pause time.Duration) error {
			time.Sleep(pause) //nolint:forbidigo // the clock of synctest
			return nil
		}
		writable := func() error {
			if store.held {
				return errors.New("held")
			}
			return nil
		}
		run := media.NewFactsBackfill(media.FactsConfig{FactsRate: 60}, media.FactsDeps{Store: store, Objects: store, Deriver: store, Writable: writable, Wait: waiting, Log: slog.New(slog.DiscardHandler)})
		for i, want := range []struct {
			files int
			delay time.Duration
		}{{61, 0}, {122, 0}, {149, 10 * time.Minute}} {
			err := run.Work(t.Context(), work.Task{})
			if done := run.Pass(); !snoozed(err, want.delay) || done.Skipped+done.Failed != want.files {
				t.Errorf("attempt %d: %v, %+v", i+1, err, done)
			}
		}
		left := len(store.items)
		if done := run.Pass(); left == 0 || done.Failed != left {
			t.Errorf("%d files are left, %+v", left, done)
		}
		store.held = true
		if err := run.Work(t.Context(), work.Task{}); !snoozed(err, 0) || len(store.items) != left || run.Policy().Ready() == nil {
			t.Errorf("while nothing may be changed: %v", err)
		}
		if policy := run.Policy(); policy.Slots != 1 || policy.Enqueue == nil {
			t.Errorf("%+v", policy)
		}
		off := media.NewFactsBackfill(media.FactsConfig{}, media.FactsDeps{})
		if err := off.Work(t.Context(), work.Task{}); !snoozed(err, 10*time.Minute) || off.Policy().Enqueue != nil {
			t.Errorf("with a rate of 0: %v", err)
		}
	})
}

func TestFactsConfig_HasBounds(t *testing.T) {
	t.Parallel()
	for rate, valid := range map[int]bool{-1: false, 0: true, 6000: true, 6001: false} {
		if err := (media.FactsConfig{FactsRate: rate}).Validate(); (err == nil) != valid {
			t.Errorf("%d: %v", rate, err)
		}
	}
}
