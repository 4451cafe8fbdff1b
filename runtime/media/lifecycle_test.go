package media_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

func TestItem_CompletesItsLifecycle(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"empty": 0, "one byte": 1, "small": 100_000, "exactly one part": media.PartSize,
		"one byte over a part": media.PartSize + 1, "exactly two parts": 2 * media.PartSize, "the largest single put": media.MaxSinglePut, "one byte over it": media.MaxSinglePut + 1, "several parts": 3*media.PartSize + 4711} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.tenant(1 << 30)
			data := random(size)
			draft := b.upload(p, data, media.Fields{FileName: "a/b/写真.bin", Caption: "c", Group: "g", Access: media.Public})
			if !draft.Draft() || draft.FileName != "写真.bin" || draft.File().Bytes != int64(size) {
				t.Errorf("the draft is %+v", draft)
			}
			if sum := sha256.Sum256(data); !bytes.Equal(draft.File().SHA256, sum[:]) {
				t.Error("the hash of the upload is wrong")
			}
			if page, err := b.service.List(t.Context(), p, media.Filter{}, 1, 10); err != nil || len(page.Items) != 0 || page.Total != 0 {
				t.Errorf("a draft is listed: %+v, %v", page, err)
			}
			b.balanced(p)

			sealed, err := b.service.Seal(t.Context(), p, draft.ID)
			must(t, err)
			again, err := b.service.Seal(t.Context(), p, draft.ID)
			must(t, err)
			if sealed.Draft() || again.SealedAt == nil || !again.SealedAt.Equal(*sealed.SealedAt) || len(sealed.Objects) != 1 {
				t.Errorf("sealed %+v, then %+v", sealed, again)
			}
			if got := b.bytesOf(p, sealed.File()); !bytes.Equal(got, data) {
				t.Error("other bytes came back")
			}
			page, err := b.service.List(t.Context(), p, media.Filter{Group: "g", Access: media.Public}, 1, 10)
			must(t, err)
			if len(page.Items) != 1 || page.Total != 1 || page.Items[0].ID != draft.ID {
				t.Errorf("listed %+v", page)
			}
			totals, err := b.service.Totals(t.Context(), p)
			must(t, err)
			if totals.Storage != int64(size) || totals.MaxStorage != 1<<30 {
				t.Errorf("totals are %+v", totals)
			}
			b.balanced(p)

			must(t, deleteItem(t.Context(), b.service, p, draft.ID))
			if err := deleteItem(t.Context(), b.service, p, draft.ID); !fault.Is(err, fault.NotFound) {
				t.Errorf("deleting twice: %v", err)
			}
			if left := b.stored(p); len(left) != 0 {
				t.Errorf("objects are left: %v", left)
			}
			b.counts(0, "removals are left", `SELECT count(*) FROM object_removal`)
			b.balanced(p)
		})
	}
}

func TestItem_OfAnotherTenantIsNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mine, yours := b.tenant(1<<30), b.tenant(1<<30)
	item := b.sealed(mine, random(10), media.Fields{})
	for name, call := range map[string]func(id uuid.UUID) error{
		"get":    func(id uuid.UUID) error { _, err := b.service.Get(t.Context(), yours, id); return err },
		"seal":   func(id uuid.UUID) error { _, err := b.service.Seal(t.Context(), yours, id); return err },
		"delete": func(id uuid.UUID) error { return deleteItem(t.Context(), b.service, yours, id) },
	} {
		foreign, missing := call(item.ID), call(uuid.New())
		if !fault.Is(foreign, fault.NotFound) || fault.From(foreign).Public != fault.From(missing).Public {
			t.Errorf("%s: the error for another tenant's item is %v, for a missing one %v", name, foreign, missing)
		}
	}
	if page, err := b.service.List(t.Context(), yours, media.Filter{}, 1, 10); err != nil || page.Total != 0 || len(page.Items) != 0 {
		t.Errorf("another tenant's list shows %+v, %v", page, err)
	}
	if _, err := b.service.Get(t.Context(), mine, item.ID); err != nil {
		t.Errorf("the owner's own item: %v", err)
	}
}

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

// An account without maxUploadSize has maxStorage as its maximum, which the error names.
func TestUpload_TooLargeNamesTheLimitThatIsSmaller(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 20)
	for _, tt := range []struct {
		maxStorage, maxUploadSize int64
		want                      string
	}{{10, 10, "maxStorage, 10 bytes"}, {20, 10, "maxUploadSize, 10 bytes"}} {
		p.Account.MaxStorage, p.Account.MaxUploadSize = tt.maxStorage, tt.maxUploadSize
		_, err := b.service.Begin(t.Context(), p, 11)
		if !fault.Is(err, fault.TooLarge) || !strings.Contains(fault.From(err).Public, tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

func TestUpload_LeavesNothingWhenItFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	small := b.tenant(media.MaxSinglePut + 100)
	for name, c := range map[string]struct {
		run  func() error
		want func(error) bool
	}{
		"cut in the first part": {func() error {
			_, err := upload(t.Context(), b.service, p, &broken{1000}, media.Fields{})
			return err
		}, func(err error) bool { return errors.Is(err, errCut) }},
		"cut in the third part": {func() error {
			_, err := upload(t.Context(), b.service, p, &broken{2*media.MaxSinglePut + 500}, media.Fields{})
			return err
		}, func(err error) bool { return errors.Is(err, errCut) }},
		"bad field after a large file": {func() error {
			_, err := upload(t.Context(), b.service, p, bytes.NewReader(make([]byte, 2*media.MaxSinglePut)), media.Fields{Access: "secret"})
			return err
		}, func(err error) bool { return fault.Is(err, fault.Invalid) }},
		"larger than maxUploadSize": {func() error {
			_, err := upload(t.Context(), b.service, p, io.LimitReader(endless{}, 100<<20+1), media.Fields{})
			return err
		}, func(err error) bool { return fault.Is(err, fault.TooLarge) }},
		"over the cap in the second part": {func() error {
			_, err := upload(t.Context(), b.service, small, bytes.NewReader(make([]byte, media.MaxSinglePut+101)), media.Fields{})
			return err
		}, func(err error) bool { return fault.Is(err, fault.QuotaExceeded) }},
		"announced to be over the cap": {func() error {
			_, err := b.service.Begin(t.Context(), small, media.MaxSinglePut+101)
			return err
		}, func(err error) bool { return fault.Is(err, fault.QuotaExceeded) }},
		"announced to be larger than maxUploadSize": {func() error {
			_, err := b.service.Begin(t.Context(), p, 100<<20+1)
			return err
		}, func(err error) bool { return fault.Is(err, fault.TooLarge) }},
	} {
		if err := c.run(); !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
		if n := b.number(`SELECT (SELECT count(*) FROM item) + (SELECT count(*) FROM upload) + (SELECT count(*) FROM object_removal)`); n != 0 {
			t.Errorf("%s: %d rows are left", name, n)
		}
		b.balanced(p)
		b.balanced(small)
	}
	b.upload(small, make([]byte, media.MaxSinglePut+100), media.Fields{}) // exactly the cap still fits
}

// An account that waited for a bucket of another owner once had keys already, and its uploads
// went into that bucket.
func TestUpload_UnavailableWithoutABucketOfTheAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	must(t, b.registry.SetBucketOwned(t.Context(), p.Account.ID, false))
	p, err := b.store.Credentials.FindPrincipalByKeyID(t.Context(), p.Key.ID)
	must(t, err)
	if _, err := upload(t.Context(), b.service, p, bytes.NewReader(random(10)), media.Fields{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an upload into a bucket that is not owned: %v", err)
	}
	if left := b.stored(p); len(left) != 0 {
		t.Errorf("objects are in the bucket: %v", left)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestUpload_WaitsForASlotAndIsRejectedWhenTheQueueIsFull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	cfg := config
	cfg.MaxUploads, cfg.UploadQueue, cfg.UploadQueueTimeout = 1, 1, time.Hour
	service := b.replica(cfg)
	first, err := service.Begin(t.Context(), p, 0)
	must(t, err)
	queued := make(chan error, 2)
	for range 2 { // one waits, the other is rejected: the queue is full
		go func() {
			u, err := service.Begin(t.Context(), p, 0)
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

func TestList_ReturnsNewestFirstWithoutGapsBetweenPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	var want []uuid.UUID
	for i := range 23 {
		fields := media.Fields{FileName: fmt.Sprint(i)}
		if i%2 == 0 {
			fields.Access, fields.Group = media.Public, "even"
		}
		want = append(want, b.sealed(p, random(i), fields).ID)
	}
	slices.Reverse(want)
	for name, c := range map[string]struct {
		filter media.Filter
		want   []uuid.UUID
	}{
		"all":             {media.Filter{}, want},
		"by access":       {media.Filter{Access: media.Public}, every(want, 0)},
		"by group":        {media.Filter{Group: "even"}, every(want, 0)},
		"by both":         {media.Filter{Group: "even", Access: media.Public}, every(want, 0)},
		"without a match": {media.Filter{Group: "even", Access: media.Private}, nil},
		"private":         {media.Filter{Access: media.Private}, every(want, 1)},
	} {
		var got []uuid.UUID
		for number := 1; ; number++ {
			page, err := b.service.List(t.Context(), p, c.filter, number, 5)
			must(t, err)
			if page.Total != int64(len(c.want)) {
				t.Errorf("%s: total %d, want %d", name, page.Total, len(c.want))
			}
			if len(page.Items) == 0 {
				break
			}
			for _, item := range page.Items {
				got = append(got, item.ID)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: listed %v, want %v", name, got, c.want)
		}
	}
	for _, bad := range [][2]int{{0, 10}, {1, 0}, {1, 101}, {-1, 10}, {1 << 40, 10}} {
		if _, err := b.service.List(t.Context(), p, media.Filter{}, bad[0], bad[1]); !fault.Is(err, fault.Invalid) {
			t.Errorf("page %d, limit %d: %v", bad[0], bad[1], err)
		}
	}
}

// every returns each second id, beginning with the one at first.
func every(ids []uuid.UUID, first int) []uuid.UUID {
	var half []uuid.UUID
	for i := first; i < len(ids); i += 2 {
		half = append(half, ids[i])
	}
	return half
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
	cfg := config
	cfg.UploadMemory, cfg.UploadMinTransferRate = 17<<20, 64<<10
	service := b.replica(cfg)
	slow, quick := b.tenant(1<<30), b.tenant(1<<30)
	const before = 2 << 20
	r, err := service.CreateResumable(t.Context(), slow, 3*before, media.Fields{}, "")
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
			_, err := upload(t.Context(), service, slow, file, media.Fields{})
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
		_, err := upload(t.Context(), service, quick, bytes.NewReader(random(before)), media.Fields{})
		must(t, err)
		if err := <-ended; !fault.Is(err, fault.Busy) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	must(t, r.Cancel(t.Context()))
	b.balanced(slow)
	b.balanced(quick)
}

// A bucket that is missing while the operator creates it again is not the client's mistake.
// The edges once returned 404 for it.
func TestUpload_UnavailableWhileTheBucketIsMissing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	must(t, b.objects.RemoveDrained(t.Context(), p.Account.Bucket)) // it holds its marker only
	for _, size := range []int{1000, media.MaxSinglePut + 1} {
		if _, err := upload(t.Context(), b.service, p, bytes.NewReader(random(size)), media.Fields{}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("an upload of %d bytes: %v", size, err)
		}
		r := b.create(p, int64(size))
		if n, err := r.Append(t.Context(), 0, bytes.NewReader(random(size)), -1, nil); n != 0 || !fault.Is(err, fault.Unavailable) {
			t.Errorf("a resumable upload of %d bytes: %d, %v", size, n, err)
		}
		must(t, r.Cancel(t.Context()))
	}
}
