package upload_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// broken returns some bytes and then an error, as a connection that is cut does.
type broken struct{ left int }

var errCut = errors.New("the connection was cut")

func (r *broken) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, errCut
	}
	n := min(len(p), r.left)
	r.left -= n
	return n, nil
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// An account without maxUploadSize has maxStorage as its maximum, which the error names.
func TestUpload_TooLargeNamesTheLimitThatIsSmaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 20)
	for _, tt := range []struct {
		maxStorage, maxUploadSize int64
		want                      string
	}{{10, 10, "maxStorage, 10 bytes"}, {20, 10, "maxUploadSize, 10 bytes"}} {
		p.Account.MaxStorage, p.Account.MaxUploadSize = tt.maxStorage, tt.maxUploadSize
		_, err := b.Uploads.Begin(t.Context(), p, 11)
		if !fault.Is(err, fault.TooLarge) || !strings.Contains(fault.From(err).Public, tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

func TestUpload_LeavesNothingWhenItFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	small := b.Tenant(upload.MaxSinglePut + 100)
	for name, c := range map[string]struct {
		run  func() error
		want func(error) bool
	}{
		"cut in the first part": {func() error {
			_, err := uploadFile(t.Context(), b.Uploads, p, &broken{1000}, media.Fields{})
			return err
		}, func(err error) bool { return errors.Is(err, errCut) }},
		"cut in the third part": {func() error {
			_, err := uploadFile(t.Context(), b.Uploads, p, &broken{2*upload.MaxSinglePut + 500}, media.Fields{})
			return err
		}, func(err error) bool { return errors.Is(err, errCut) }},
		"bad field after a large file": {func() error {
			_, err := uploadFile(t.Context(), b.Uploads, p, bytes.NewReader(make([]byte, 2*upload.MaxSinglePut)), media.Fields{Access: "secret"})
			return err
		}, func(err error) bool { return fault.Is(err, fault.Invalid) }},
		"larger than maxUploadSize": {func() error {
			_, err := uploadFile(t.Context(), b.Uploads, p, io.LimitReader(endless{}, 100<<20+1), media.Fields{})
			return err
		}, func(err error) bool { return fault.Is(err, fault.TooLarge) }},
		"over the cap in the second part": {func() error {
			_, err := uploadFile(t.Context(), b.Uploads, small, bytes.NewReader(make([]byte, upload.MaxSinglePut+101)), media.Fields{})
			return err
		}, func(err error) bool { return fault.Is(err, fault.QuotaExceeded) }},
		"announced to be over the cap": {func() error {
			_, err := b.Uploads.Begin(t.Context(), small, upload.MaxSinglePut+101)
			return err
		}, func(err error) bool { return fault.Is(err, fault.QuotaExceeded) }},
		"announced to be larger than maxUploadSize": {func() error {
			_, err := b.Uploads.Begin(t.Context(), p, 100<<20+1)
			return err
		}, func(err error) bool { return fault.Is(err, fault.TooLarge) }},
	} {
		if err := c.run(); !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
		if n := b.Number(`SELECT (SELECT count(*) FROM item) + (SELECT count(*) FROM upload) + (SELECT count(*) FROM object_removal)`); n != 0 {
			t.Errorf("%s: %d rows are left", name, n)
		}
		b.Balanced(p)
		b.Balanced(small)
	}
	b.Upload(small, make([]byte, upload.MaxSinglePut+100), media.Fields{}) // exactly the cap still fits
}

// An account that waited for a bucket of another owner once had keys already, and its uploads
// went into that bucket.
func TestUpload_UnavailableWithoutABucketOfTheAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	must(t, b.Registry.SetBucketOwned(t.Context(), p.Account.ID, false))
	p, err := b.Store.Credentials.FindPrincipalByKeyID(t.Context(), p.Key.ID)
	must(t, err)
	if _, err := uploadFile(t.Context(), b.Uploads, p, bytes.NewReader(random(10)), media.Fields{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an upload into a bucket that is not owned: %v", err)
	}
	if left := b.Stored(p); len(left) != 0 {
		t.Errorf("objects are in the bucket: %v", left)
	}
}

func TestUpload_WaitsForASlotAndIsRejectedWhenTheQueueIsFull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	cfg := mediatest.Config
	cfg.MaxUploads, cfg.UploadQueue, cfg.UploadQueueTimeout = 1, 1, time.Hour
	replica := b.Another(cfg)
	first, err := replica.Uploads.Begin(t.Context(), p, 0)
	must(t, err)
	queued := make(chan error, 2)
	for range 2 { // one waits, the other is rejected: the queue is full
		go func() {
			u, err := replica.Uploads.Begin(t.Context(), p, 0)
			if err == nil {
				u.Close(t.Context())
			}
			queued <- err
		}()
	}
	if err := <-queued; !fault.Is(err, fault.Busy) || fault.From(err).RetryAfter == 0 {
		t.Errorf("with the queue full: %v", err)
	}
	first.Close(t.Context())
	if err := <-queued; err != nil {
		t.Errorf("the one that waited: %v", err)
	}
}

// creeper sends a part of a file, and then one byte per tick, or nothing, until it is
// interrupted.
type creeper struct {
	data  []byte
	tick  <-chan time.Time // for one byte each
	slow  chan struct{}    // closed when the data is sent
	creep func()
	end   chan struct{}
	stop  func()
}

func newCreeper(n int, tick <-chan time.Time) *creeper {
	c := &creeper{data: make([]byte, n), tick: tick, slow: make(chan struct{}), end: make(chan struct{})}
	c.creep, c.stop = sync.OnceFunc(func() { close(c.slow) }), sync.OnceFunc(func() { close(c.end) })
	return c
}

func (c *creeper) Read(p []byte) (int, error) {
	if len(c.data) > 0 {
		n := copy(p, c.data)
		c.data = c.data[n:]
		return n, nil
	}
	c.creep()
	select {
	case <-c.end:
		return 0, errCut
	case <-c.tick:
		return copy(p, "x"), nil
	}
}

// Fifteen connections that sent almost nothing once held all the memory for larger files,
// without a time limit.
func TestUpload_BelowTheMinimumRateReleasesItsMemoryToOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := mediatest.Config
	cfg.UploadMemory, cfg.UploadMinTransferRate = 17<<20, 64<<10
	replica := b.Another(cfg)
	slow, quick := b.Tenant(1<<30), b.Tenant(1<<30)
	const before = 2 << 20
	r, err := replica.Uploads.CreateResumable(t.Context(), slow, 3*before, media.Fields{}, "")
	must(t, err)
	ticker := time.NewTicker(10 * time.Millisecond) //nolint:forbidigo // the pace of a slow client
	defer ticker.Stop()
	creeping, stalled := newCreeper(before, ticker.C), newCreeper(before, nil)
	r.OnSlow(func(error) { stalled.stop() })
	for _, c := range []struct {
		name string
		file *creeper
		run  func(io.Reader) error
	}{
		{"a request that creeping", creeping, func(file io.Reader) error {
			_, err := uploadFile(t.Context(), replica.Uploads, slow, file, media.Fields{})
			return err
		}},
		{"a resumable upload that stalls", stalled, func(file io.Reader) error {
			n, err := r.Append(t.Context(), 0, file, -1, nil)
			if n != before || r.State().Progress.Received != before {
				t.Errorf("%d of %d bytes were received: %+v", n, before, r.State().Progress)
			}
			return err
		}},
	} {
		ended := make(chan error, 1)
		go func() { ended <- c.run(c.file) }()
		<-c.file.slow // it has the memory
		_, err := uploadFile(t.Context(), replica.Uploads, quick, bytes.NewReader(random(before)), media.Fields{})
		must(t, err)
		if err := <-ended; !fault.Is(err, fault.Busy) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	must(t, r.Cancel(t.Context()))
	b.Balanced(slow)
	b.Balanced(quick)
}

// A bucket that is missing while the operator creates it again is not the client's mistake.
// The edges once returned 404 for it.
func TestUpload_UnavailableWhileTheBucketIsMissing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	must(t, b.Objects.RemoveDrained(t.Context(), p.Account.Bucket)) // it holds its marker only
	for _, size := range []int{1000, upload.MaxSinglePut + 1} {
		if _, err := uploadFile(t.Context(), b.Uploads, p, bytes.NewReader(random(size)), media.Fields{}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("an upload of %d bytes: %v", size, err)
		}
		r := b.create(p, int64(size))
		if n, err := r.Append(t.Context(), 0, bytes.NewReader(random(size)), -1, nil); n != 0 || !fault.Is(err, fault.Unavailable) {
			t.Errorf("a resumable upload of %d bytes: %d, %v", size, n, err)
		}
		must(t, r.Cancel(t.Context()))
	}
}

// A purged upload that still stores its object queues the object's removal.
func TestUpload_LeavesNothingWhenExpiredBeforeItsCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	id := uuid.Must(uuid.NewV7())
	scope := media.ScopeOf(p)
	must(t, b.Store.Uploads.OpenUpload(t.Context(), id, scope, 3, b.Clock.Now()))
	b.Clock.Advance(time.Hour)
	must(t, check.ErrorOf(b.Purger.Run(t.Context())))
	key := media.ObjectKey(id, media.Original)
	must(t, b.Objects.Put(t.Context(), scope.Bucket, key, "text/plain", strings.NewReader("abc"), 3))
	item := media.Item{ID: id, Access: media.Private, Objects: media.Objects{{Variant: media.Original, Key: key, Bytes: 3}}, CreatedAt: b.Clock.Now()}
	if err := b.Store.Uploads.CommitUpload(t.Context(), item, account.Actor{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("commit of a purged upload: %v", err)
	}
	removal, err := b.Store.Uploads.AbandonUpload(t.Context(), id, scope, []string{key}, b.Clock.Now())
	must(t, err)
	if removal == nil {
		t.Fatal("the removal of the late object is not queued")
	}
	must(t, check.ErrorOf(b.Purger.Run(t.Context())))
	b.Balanced(p)
}

// A commit whose response was lost may have succeeded: abandoning the upload must not change
// the item.
func TestAbandonUpload_ChangesNothingAfterCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	item := b.Upload(p, random(50), media.Fields{})
	removal, err := b.Store.Uploads.AbandonUpload(t.Context(), item.ID, media.ScopeOf(p), []string{item.File().Key}, b.Clock.Now())
	if err != nil || removal != nil {
		t.Errorf("abandon after commit: %+v, %v", removal, err)
	}
	b.Balanced(p)
}

// A reservation that PostgreSQL lost in a crash is adjusted at the commit, under the cap.
func TestCommit_ReservesMissingBytesUnderTheCap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(100)
	scope := media.ScopeOf(p)
	for _, c := range []struct {
		bytes int64
		want  bool
	}{{60, true}, {41, false}, {40, true}} {
		id := uuid.Must(uuid.NewV7())
		must(t, b.Store.Uploads.OpenUpload(t.Context(), id, scope, 0, b.Clock.Now().Add(time.Hour)))
		item := media.Item{ID: id, Access: media.Private, Objects: media.Objects{{Variant: media.Original, Key: "k", Bytes: c.bytes}}, CreatedAt: b.Clock.Now()}
		if err := b.Store.Uploads.CommitUpload(t.Context(), item, account.Actor{}); (err == nil) != c.want || err != nil && !fault.Is(err, fault.QuotaExceeded) {
			t.Errorf("commit of %d unreserved bytes: %v", c.bytes, err)
		}
	}
}
