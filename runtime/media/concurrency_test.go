package media_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/settings"
)

// Invariant 5: the cap is exact under any concurrency.
func TestCap_IsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	const room, uploads, workers = 50_000, 400, 16
	b := setup(t)
	p := b.tenant(room)
	// Two runtimes share only the database.
	second, err := media.New(config, media.Deps{Store: b.open().Items, Objects: b.objects, Settings: settings.NewService(b.store.Settings),
		Now: b.clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	replicas := []*media.Service{b.service, second}
	sizes := rand.New(rand.NewPCG(1, 2))
	jobs := make(chan int, uploads)
	for range uploads {
		jobs <- 1 + sizes.IntN(1500)
	}
	close(jobs)
	var stored, smallestRejected atomic.Int64
	smallestRejected.Store(1 << 30)
	watching := make(chan struct{})
	watched := make(chan struct{})
	go func() { // the cap is never exceeded
		defer close(watched)
		for {
			select {
			case <-watching:
				return
			default:
				if held := b.number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID); held > room {
					t.Errorf("the account uses %d bytes of %d", held, room)
				}
			}
		}
	}()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for size := range jobs {
				_, err := upload(t.Context(), replicas[w%2], p, bytes.NewReader(make([]byte, size)), media.Fields{})
				switch {
				case err == nil:
					stored.Add(int64(size))
				case fault.Is(err, fault.QuotaExceeded):
					for low := smallestRejected.Load(); int64(size) < low && !smallestRejected.CompareAndSwap(low, int64(size)); low = smallestRejected.Load() {
					}
				default:
					t.Errorf("an upload failed: %v", err)
				}
			}
		})
	}
	all.Wait()
	close(watching)
	<-watched
	b.balanced(p)
	held := b.number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID)
	if held != stored.Load() || held > room {
		t.Errorf("%d bytes are used, %d were stored, the cap is %d", held, stored.Load(), room)
	}
	// With no upload running, exactly the remaining bytes fit, and not a byte more.
	if _, err := upload(t.Context(), b.service, p, bytes.NewReader(make([]byte, room-held+1)), media.Fields{}); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("one byte over the cap: %v", err)
	}
	b.upload(p, make([]byte, room-held), media.Fields{})
}

func TestLoweredCap_RejectsUploadsAndKeepsItems(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(10_000)
	data := random(5000)
	item := b.sealed(p, data, media.Fields{})
	must(t, check.ErrorOf(b.registry.Ensure(t.Context(), account.Spec{Namespace: p.Account.Namespace, Name: p.Account.Name, MaxStorage: 1000, MaxUploadSize: 1000})))
	if _, err := upload(t.Context(), b.service, p, bytes.NewReader(random(1)), media.Fields{}); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("an upload under a lowered cap: %v", err)
	}
	if got := b.bytesOf(p, item.File()); !bytes.Equal(got, data) {
		t.Error("the item has changed")
	}
	must(t, deleteItem(t.Context(), b.service, p, item.ID))
	b.upload(p, random(1), media.Fields{})
	b.balanced(p)
}

// Invariants 2 and 4: seal and purge race through one conditional update; exactly
// one wins, and a sealed item keeps its object.
func TestSeal_WinsOrLosesAgainstPurge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	const drafts, sealers = 120, 3
	ids := make([]uuid.UUID, drafts)
	for i := range ids {
		ids[i] = b.upload(p, random(100+i), media.Fields{Group: "g"}).ID
	}
	b.clock.advance(25 * time.Hour)
	var sealed atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for first := range sealers { // from the newest on; the purge starts with the oldest
		all.Go(func() {
			<-start
			for i := drafts - 1 - first; i >= 0; i -= sealers {
				switch _, err := b.service.Seal(t.Context(), p, ids[i]); {
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
		if summary, err = b.purger.Run(t.Context()); err != nil {
			t.Errorf("purge: %v", err)
		}
	})
	close(start)
	all.Wait()
	last, err := b.purger.Run(t.Context()) // what the first pass skipped because a seal held it
	must(t, err)
	if purged := int64(summary.DraftsPurged + last.DraftsPurged); sealed.Load()+purged != drafts {
		t.Errorf("%d sealed and %d purged of %d", sealed.Load(), purged, drafts)
	}
	count, err := b.service.Count(t.Context(), p, media.Filter{})
	must(t, err)
	if count != sealed.Load() {
		t.Errorf("%d were sealed, %d are counted", sealed.Load(), count)
	}
	b.balanced(p)
	t.Logf("%d sealed, %d purged", sealed.Load(), drafts-sealed.Load())
}

func TestPurge_DeletesOldDraftsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	for range 20 {
		b.upload(p, random(10), media.Fields{})
	}
	kept := b.sealed(p, random(20), media.Fields{})
	b.clock.advance(23*time.Hour + 59*time.Minute)
	young := b.upload(p, random(30), media.Fields{})
	if summary, err := b.purger.Run(t.Context()); err != nil || summary.DraftsPurged != 0 {
		t.Errorf("before 24 h: %+v, %v", summary, err)
	}
	b.clock.advance(2 * time.Minute)
	summary, err := b.purger.Run(t.Context())
	must(t, err)
	if summary != (media.PurgeSummary{Ran: true, DraftsPurged: 20, RemovalsDone: 20}) {
		t.Errorf("after 24 h: %+v", summary)
	}
	for _, item := range []media.Item{kept, young} {
		if _, err := b.service.Get(t.Context(), p, item.ID); err != nil {
			t.Errorf("an item that should stay: %v", err)
		}
	}
	b.balanced(p)
}

func TestPurge_RunsOneAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	inside, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := b.store.Items.WithPurgeLock(t.Context(), func(context.Context) error { close(inside); <-leave; return nil })
		done <- err
	}()
	<-inside
	if summary, err := b.purger.Run(t.Context()); err != nil || summary.Ran {
		t.Errorf("a second purge beside the first: %+v, %v", summary, err)
	}
	close(leave)
	must(t, <-done)
	if summary, err := b.purger.Run(t.Context()); err != nil || !summary.Ran {
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
	purger, err := media.NewPurger(purgeConfig, media.PurgeDeps{Store: b.store.Items, Tasks: b.store.Tasks, Objects: b.objects, Guard: heldGuard{b.guard, &held}, Now: b.clock.Now, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	ran := 0
	step := func(_ context.Context, size int) (int, error) {
		if size != purgeConfig.BatchSize {
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
	_, err = b.store.Items.WithPurgeLock(t.Context(), func(ctx context.Context) error {
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
	p := b.tenant(1 << 30)
	u, err := b.service.Begin(t.Context(), p, 0)
	must(t, err)
	reader, writer := io.Pipe()
	received := make(chan error, 1)
	go func() { received <- u.Receive(t.Context(), reader, "") }()
	must(t, check.ErrorOf(writer.Write(make([]byte, 2*media.PartSize+10))))
	if reserved := b.number(`SELECT reserved FROM upload`); reserved < media.PartSize {
		t.Fatalf("only %d bytes are reserved in the middle of an upload", reserved)
	}
	if summary, err := b.purger.Run(t.Context()); err != nil || summary.UploadsExpired != 0 {
		t.Errorf("a running upload was purged: %+v, %v", summary, err)
	}
	b.clock.advance(config.UploadLease + purgeConfig.UploadGrace + time.Second)
	summary, err := b.purger.Run(t.Context())
	must(t, err)
	if summary.UploadsExpired != 1 || summary.RemovalsDone != 1 || summary.RemovalsPending != 0 {
		t.Errorf("after the lease: %+v", summary)
	}
	b.balanced(p)
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
	b.balanced(p)
	b.counts(0, "items of a purged upload", `SELECT count(*) FROM item`)
}

// A purged upload that still stores its object queues the object's removal.
func TestUpload_LeavesNothingWhenExpiredBeforeItsCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	id := uuid.Must(uuid.NewV7())
	scope := media.ScopeOf(p)
	must(t, b.store.Items.OpenUpload(t.Context(), id, scope, 3, b.clock.Now()))
	b.clock.advance(time.Hour)
	must(t, check.ErrorOf(b.purger.Run(t.Context())))
	key := media.ObjectKey(id, media.Original)
	must(t, b.objects.Put(t.Context(), scope.Bucket, key, "text/plain", strings.NewReader("abc"), 3))
	item := media.Item{ID: id, Access: media.Private, Objects: media.Objects{{Variant: media.Original, Key: key, Bytes: 3}}, CreatedAt: b.clock.Now()}
	if err := b.store.Items.CommitUpload(t.Context(), item); !fault.Is(err, fault.NotFound) {
		t.Errorf("commit of a purged upload: %v", err)
	}
	removal, err := b.store.Items.AbandonUpload(t.Context(), id, scope, []string{key}, b.clock.Now())
	must(t, err)
	if removal == nil {
		t.Fatal("the removal of the late object is not queued")
	}
	must(t, check.ErrorOf(b.purger.Run(t.Context())))
	b.balanced(p)
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
	for name, size := range map[string]int{"small": 1000, "in parts": 2 * media.PartSize} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.tenant(1 << 30)
			objects := &lateStore{Store: b.objects}
			service := b.replicaOver(objects, config)
			if _, err := upload(t.Context(), service, p, bytes.NewReader(random(size)), media.Fields{}); !errors.Is(err, errGone) {
				t.Fatalf("the upload: %v", err)
			}
			must(t, objects.late(t.Context()))
			b.clock.advance(2 * time.Minute)
			must(t, check.ErrorOf(b.purger.Run(t.Context())))
			b.balanced(p)
			b.counts(0, "rows are left", `SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM object_removal)`)
		})
	}
}

// A commit whose response was lost may have succeeded: abandoning the upload must not change
// the item.
func TestAbandonUpload_ChangesNothingAfterCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	item := b.upload(p, random(50), media.Fields{})
	removal, err := b.store.Items.AbandonUpload(t.Context(), item.ID, media.ScopeOf(p), []string{item.File().Key}, b.clock.Now())
	if err != nil || removal != nil {
		t.Errorf("abandon after commit: %+v, %v", removal, err)
	}
	b.balanced(p)
}

// A reservation that PostgreSQL lost in a crash is adjusted at the commit, under the cap.
func TestCommit_ReservesMissingBytesUnderTheCap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(100)
	scope := media.ScopeOf(p)
	for _, c := range []struct {
		bytes int64
		want  bool
	}{{60, true}, {41, false}, {40, true}} {
		id := uuid.Must(uuid.NewV7())
		must(t, b.store.Items.OpenUpload(t.Context(), id, scope, 0, b.clock.Now().Add(time.Hour)))
		item := media.Item{ID: id, Access: media.Private, Objects: media.Objects{{Variant: media.Original, Key: "k", Bytes: c.bytes}}, CreatedAt: b.clock.Now()}
		if err := b.store.Items.CommitUpload(t.Context(), item); (err == nil) != c.want || err != nil && !fault.Is(err, fault.QuotaExceeded) {
			t.Errorf("commit of %d unreserved bytes: %v", c.bytes, err)
		}
	}
}

// Invariant 3: objects are removed after the row, with retries until they are gone.
func TestDelete_RemovesObjectsOnceS3IsBack(t *testing.T) {
	t.Parallel()
	b, s3 := setupOwnS3(t)
	p := b.tenant(1 << 30)
	item := b.sealed(p, random(1000), media.Fields{})
	s3.Stop()
	must(t, deleteItem(t.Context(), b.service, p, item.ID))
	if _, err := b.service.Get(t.Context(), p, item.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted item still exists: %v", err)
	}
	b.clock.advance(2 * time.Minute)
	if summary, err := b.purger.Run(t.Context()); !fault.Is(err, fault.Unavailable) || summary.RemovalsFailed != 0 {
		t.Errorf("with S3 down: %+v, %v", summary, err)
	}
	s3.Start()
	summary, err := b.purger.Run(t.Context())
	must(t, err)
	if summary.RemovalsDone != 1 || summary.RemovalsPending != 0 {
		t.Errorf("with S3 back: %+v", summary)
	}
	b.balanced(p)
}

// A bucket that another account has taken over, or whose marker is missing, is not touched.
func TestPurge_LeavesABucketOfAnotherOwnerAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, p := b.tenant(1<<30), b.tenant(1<<30)
	item := b.upload(p, random(100), media.Fields{})
	b.clock.advance(25 * time.Hour)
	marker, err := b.objects.Marker(t.Context(), p.Account.Bucket)
	must(t, err)
	stays := func(what string, skipped int) {
		t.Helper()
		summary, err := b.purger.Run(t.Context())
		if err != nil || summary.RemovalsFailed != 1 || summary.BucketsSkipped != skipped || summary.NeedsAttention != (skipped > 0) {
			t.Errorf("%s: %+v, %v", what, summary, err)
		}
		if _, err := b.objects.Stat(t.Context(), p.Account.Bucket, item.File().Key); err != nil {
			t.Errorf("%s: the object is gone: %v", what, err)
		}
		b.clock.advance(2 * purgeConfig.MaxBackoff)
	}
	put := func(m installation.Marker) {
		t.Helper()
		text, err := json.Marshal(m)
		must(t, err)
		must(t, b.objects.Put(t.Context(), p.Account.Bucket, objectstore.MarkerKey, "application/json", bytes.NewReader(text), int64(len(text))))
	}
	foreign := marker
	foreign.AccountID = other.Account.ID.String()
	put(foreign)
	stays("another account's marker", 1)
	must(t, b.objects.Remove(t.Context(), p.Account.Bucket, []string{objectstore.MarkerKey}))
	stays("no marker", 0)
	put(marker)
	if summary, err := b.purger.Run(t.Context()); err != nil || summary.RemovalsDone != 1 || summary.RemovalsPending != 0 {
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
	objects, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	must(t, err)
	b := setupWith(t, testenv.Postgres(t), objects)
	p := b.tenant(1 << 30)
	item := b.sealed(p, random(1000), media.Fields{})
	denied.Store(true)
	must(t, deleteItem(t.Context(), b.service, p, item.ID))
	b.clock.advance(2 * time.Minute)
	for try := range purgeConfig.MaxAttempts {
		summary, err := b.purger.Run(t.Context())
		must(t, err)
		if summary.RemovalsFailed != 1 || summary.RemovalsPending != 1 || summary.NeedsAttention != (try == purgeConfig.MaxAttempts-1) {
			t.Errorf("try %d: %+v", try, summary)
		}
		b.clock.advance(purgeConfig.MaxBackoff)
	}
	denied.Store(false)
	if summary, err := b.purger.Run(t.Context()); err != nil || summary.RemovalsDone != 1 || summary.RemovalsPending != 0 {
		t.Errorf("when it is allowed again: %+v, %v", summary, err)
	}
	b.balanced(p)
}
