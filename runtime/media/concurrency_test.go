package media_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/upload"
)

// Invariants 2 and 4: seal and purge race through one conditional update; exactly
// one wins, and a sealed item keeps its object.
func TestSeal_WinsOrLosesAgainstPurge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	const drafts, sealers = 120, 3
	ids := make([]uuid.UUID, drafts)
	for i := range ids {
		ids[i] = b.Upload(p, random(100+i), media.Fields{Group: "g"}).ID
	}
	b.Clock.Advance(25 * time.Hour)
	var sealed atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for first := range sealers { // from the newest on; the purge starts with the oldest
		all.Go(func() {
			<-start
			for i := drafts - 1 - first; i >= 0; i -= sealers {
				switch _, err := b.Items.Seal(t.Context(), p, ids[i]); {
				case err == nil:
					sealed.Add(1)
				case !fault.Is(err, fault.NotFound):
					t.Errorf("seal: %v", err)
				}
			}
		})
	}
	var summary media.PurgeSummary
	all.Go(func() {
		<-start
		var err error
		if summary, err = b.Purger.Run(t.Context()); err != nil {
			t.Errorf("purge: %v", err)
		}
	})
	close(start)
	all.Wait()
	last, err := b.Purger.Run(t.Context()) // what the first pass skipped because a seal held it
	must(t, err)
	if purged := int64(summary.DraftsPurged + last.DraftsPurged); sealed.Load()+purged != drafts {
		t.Errorf("%d sealed and %d purged of %d", sealed.Load(), purged, drafts)
	}
	count, err := b.Items.Count(t.Context(), p, media.Filter{})
	must(t, err)
	if count != sealed.Load() {
		t.Errorf("%d were sealed, %d are counted", sealed.Load(), count)
	}
	b.Balanced(p)
	t.Logf("%d sealed, %d purged", sealed.Load(), drafts-sealed.Load())
}

func TestPurge_DeletesOldDraftsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	for range 20 {
		b.Upload(p, random(10), media.Fields{})
	}
	kept := b.Sealed(p, random(20), media.Fields{})
	b.Clock.Advance(23*time.Hour + 59*time.Minute)
	young := b.Upload(p, random(30), media.Fields{})
	if summary, err := b.Purger.Run(t.Context()); err != nil || summary.DraftsPurged != 0 {
		t.Errorf("before 24 h: %+v, %v", summary, err)
	}
	b.Clock.Advance(2 * time.Minute)
	summary, err := b.Purger.Run(t.Context())
	must(t, err)
	if summary != (media.PurgeSummary{Ran: true, DraftsPurged: 20, RemovalsDone: 20}) {
		t.Errorf("after 24 h: %+v", summary)
	}
	for _, item := range []media.Item{kept, young} {
		if _, err := b.Items.Get(t.Context(), p, item.ID); err != nil {
			t.Errorf("an item that should stay: %v", err)
		}
	}
	b.Balanced(p)
}

func TestPurge_RunsOneAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := b.Store.Items.WithPurgeLock(t.Context(), func(context.Context) error { close(inside); <-leave; return nil })
		done <- err
	}()
	<-inside
	if summary, err := b.Purger.Run(t.Context()); err != nil || summary.Ran {
		t.Errorf("a second purge beside the first: %+v, %v", summary, err)
	}
	close(leave)
	must(t, <-done)
	if summary, err := b.Purger.Run(t.Context()); err != nil || !summary.Ran {
		t.Errorf("a purge after the first: %+v, %v", summary, err)
	}
}

// heldGuard is a guard of a database that was restored meanwhile.
type heldGuard struct {
	media.Guard
	held *bool
}

func (g heldGuard) Writable() error {
	if *g.held {
		return fault.WithReason(fault.New(fault.Unavailable, "the database was restored"), fault.Held)
	}
	return g.Guard.Writable()
}

// Steps of other packages once ran on while the purge was held, without the pauses, and beside another purge.
func TestPurge_HoldsAndPausesTheStepsOfOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var held bool
	purger, err := media.NewPurger(mediatest.PurgeConfig, media.PurgeDeps{Store: b.Store.Items, Tasks: b.Store.Tasks, Objects: b.Objects, Guard: heldGuard{b.Guard, &held}, Now: b.Clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	ran := 0
	step := func(_ context.Context, size int) (int, error) {
		if size != mediatest.PurgeConfig.BatchSize {
			t.Errorf("a batch has %d rows", size)
		}
		ran, held = ran+1, true
		return size, nil
	}
	other := func(ctx context.Context, batches purge.Batches) error {
		if batches.Pause == nil {
			t.Error("the step has no pauses")
		}
		_, err := batches.Each(ctx, step)
		return err
	}
	summary, err := purger.Run(t.Context(), other, other)
	if err != nil || !summary.Ran || summary.Held != "the database was restored" || !summary.NeedsAttention || ran != 1 {
		t.Errorf("%d batches, %+v, %v", ran, summary, err)
	}
	held = false
	_, err = b.Store.Items.WithPurgeLock(t.Context(), func(ctx context.Context) error {
		summary, err = purger.Run(ctx, other)
		return err
	})
	if err != nil || summary.Ran || ran != 1 {
		t.Errorf("beside another purge: %d batches, %+v, %v", ran, summary, err)
	}
}

// Invariant 1: what a crash leaves behind is known and purged. The upload is dropped
// without Close, as a killed process drops it.
func TestPurge_RemovesWhatACrashedUploadLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	u, err := b.Uploads.Begin(t.Context(), p, 0)
	must(t, err)
	reader, writer := io.Pipe()
	received := make(chan error, 1)
	go func() { received <- u.Receive(t.Context(), reader, "") }()
	must(t, check.ErrorOf(writer.Write(make([]byte, 2*upload.PartSize+10))))
	if reserved := b.Number(`SELECT reserved FROM upload`); reserved < upload.PartSize {
		t.Fatalf("only %d bytes are reserved in the middle of an upload", reserved)
	}
	if summary, err := b.Purger.Run(t.Context()); err != nil || summary.UploadsExpired != 0 {
		t.Errorf("a running upload was purged: %+v, %v", summary, err)
	}
	b.Clock.Advance(mediatest.Config.UploadLease + mediatest.PurgeConfig.UploadGrace + time.Second)
	summary, err := b.Purger.Run(t.Context())
	must(t, err)
	if summary.UploadsExpired != 1 || summary.RemovalsDone != 1 || summary.RemovalsPending != 0 {
		t.Errorf("after the lease: %+v", summary)
	}
	b.Balanced(p)
	// The upload was still running: it must not be committed any more.
	must(t, writer.Close())
	err = <-received
	if err == nil {
		_, err = u.Commit(t.Context(), media.Fields{})
	}
	if err == nil {
		t.Error("a purged upload could be committed")
	}
	u.Close(t.Context())
	b.Balanced(p)
	b.Counts(0, "items of a purged upload", `SELECT count(*) FROM item`)
}

// lateStore executes a write after its request was canceled, as a store does that has
// received the bytes when its client disconnects.
type lateStore struct {
	*objectstore.Store
	late func(context.Context) error
}

var errGone = errors.New("the client has gone")

func (s *lateStore) Put(_ context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	data, err := io.ReadAll(body)
	s.late = func(ctx context.Context) error {
		return errors.Join(err, s.Store.Put(ctx, bucket, key, contentType, bytes.NewReader(data), size))
	}
	return errGone
}

func (s *lateStore) StartMultipart(ctx context.Context, bucket, key, contentType string) (media.Multipart, error) {
	parts, err := s.Store.StartMultipart(ctx, bucket, key, contentType)
	return &lateParts{parts, s}, err
}

type lateParts struct {
	media.Multipart
	store *lateStore
}

func (p *lateParts) Complete(_ context.Context, contentType string) error {
	p.store.late = func(ctx context.Context) error {
		_ = p.Multipart.Complete(ctx, contentType) // may find nothing left to complete
		return nil
	}
	return errGone
}

// A client that disconnected just after its last byte once left an object without a row: S3
// stored it after the objects of the abandoned upload had been removed.
func TestPurge_RemovesAnObjectStoredAfterItsUploadWasAbandoned(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 1000, "in parts": 2 * upload.PartSize} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.Tenant(1 << 30)
			objects := &lateStore{Store: b.Objects}
			service := b.Another(mediatest.Config, mediatest.Over(objects))
			if _, err := uploadFile(t.Context(), service.Uploads, p, bytes.NewReader(random(size)), media.Fields{}); !errors.Is(err, errGone) {
				t.Fatalf("the upload: %v", err)
			}
			must(t, objects.late(t.Context()))
			b.Clock.Advance(2 * time.Minute)
			must(t, check.ErrorOf(b.Purger.Run(t.Context())))
			b.Balanced(p)
			b.Counts(0, "rows are left", `SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM object_removal)`)
		})
	}
}

// Invariant 3: objects are removed after the row, with retries until they are gone.
func TestDelete_RemovesObjectsOnceS3IsBack(t *testing.T) {
	t.Parallel()
	b, s3 := mediatest.NewWithOwnS3(t)
	p := b.Tenant(1 << 30)
	item := b.Sealed(p, random(1000), media.Fields{})
	s3.Stop()
	must(t, deleteItem(t.Context(), b.Items, p, item.ID))
	if _, err := b.Items.Get(t.Context(), p, item.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted item still exists: %v", err)
	}
	b.Clock.Advance(2 * time.Minute)
	if summary, err := b.Purger.Run(t.Context()); !fault.Is(err, fault.Unavailable) || summary.RemovalsFailed != 0 {
		t.Errorf("with S3 down: %+v, %v", summary, err)
	}
	s3.Start()
	summary, err := b.Purger.Run(t.Context())
	must(t, err)
	if summary.RemovalsDone != 1 || summary.RemovalsPending != 0 {
		t.Errorf("with S3 back: %+v", summary)
	}
	b.Balanced(p)
}

// A bucket that another account has taken over, or whose marker is missing, is not touched.
func TestPurge_LeavesABucketOfAnotherOwnerAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, p := b.Tenant(1<<30), b.Tenant(1<<30)
	item := b.Upload(p, random(100), media.Fields{})
	b.Clock.Advance(25 * time.Hour)
	marker, err := b.Objects.Marker(t.Context(), p.Account.Bucket)
	must(t, err)
	stays := func(what string, skipped int) {
		t.Helper()
		summary, err := b.Purger.Run(t.Context())
		if err != nil || summary.RemovalsFailed != 1 || summary.BucketsSkipped != skipped || summary.NeedsAttention != (skipped > 0) {
			t.Errorf("%s: %+v, %v", what, summary, err)
		}
		if _, err := b.Objects.Stat(t.Context(), p.Account.Bucket, item.File().Key); err != nil {
			t.Errorf("%s: the object is gone: %v", what, err)
		}
		b.Clock.Advance(2 * mediatest.PurgeConfig.MaxBackoff)
	}
	put := func(m installation.Marker) {
		t.Helper()
		text, err := json.Marshal(m)
		must(t, err)
		must(t, b.Objects.Put(t.Context(), p.Account.Bucket, objectstore.MarkerKey, "application/json", bytes.NewReader(text), int64(len(text))))
	}
	foreign := marker
	foreign.AccountID = other.Account.ID.String()
	put(foreign)
	stays("another account's marker", 1)
	must(t, b.Objects.Remove(t.Context(), p.Account.Bucket, []string{objectstore.MarkerKey}))
	stays("no marker", 0)
	put(marker)
	if summary, err := b.Purger.Run(t.Context()); err != nil || summary.RemovalsDone != 1 || summary.RemovalsPending != 0 {
		t.Errorf("with its marker: %+v, %v", summary, err)
	}
}

func TestPurge_ReportsARemovalThatFailsForLong(t *testing.T) {
	t.Parallel()
	var denied atomic.Bool
	access := testenv.S3Proxy(t, testenv.S3(t), func(w http.ResponseWriter, r *http.Request) bool {
		if !denied.Load() || r.Method != http.MethodPost && r.Method != http.MethodDelete {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code></Error>"))
		return true
	})
	b := mediatest.NewWith(t, access)
	p := b.Tenant(1 << 30)
	item := b.Sealed(p, random(1000), media.Fields{})
	denied.Store(true)
	must(t, deleteItem(t.Context(), b.Items, p, item.ID))
	b.Clock.Advance(2 * time.Minute)
	for try := range mediatest.PurgeConfig.MaxAttempts {
		summary, err := b.Purger.Run(t.Context())
		must(t, err)
		if summary.RemovalsFailed != 1 || summary.RemovalsPending != 1 || summary.NeedsAttention != (try == mediatest.PurgeConfig.MaxAttempts-1) {
			t.Errorf("try %d: %+v", try, summary)
		}
		b.Clock.Advance(mediatest.PurgeConfig.MaxBackoff)
	}
	denied.Store(false)
	if summary, err := b.Purger.Run(t.Context()); err != nil || summary.RemovalsDone != 1 || summary.RemovalsPending != 0 {
		t.Errorf("when it is allowed again: %+v, %v", summary, err)
	}
	b.Balanced(p)
}
