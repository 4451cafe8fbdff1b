package erasure

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
)

// rows is a database with one account that is erased.
type rows struct {
	account.Store
	account account.Account
	left    int64
	gone    bool
	now     *time.Time
	// abandon is called by AbandonErasure.
	abandon func()
}

func (r *rows) BeginErasure(context.Context, uuid.UUID) (account.Account, error) {
	if r.gone {
		return account.Account{}, fault.New(fault.NotFound, "not found")
	}
	return r.account, nil
}

func (r *rows) SetBucketRemoved(context.Context, uuid.UUID) error {
	r.account.BucketRemovedAt = r.now
	return nil
}

func (r *rows) ItemsToErase(ctx context.Context, _ uuid.UUID) (int64, error) {
	if ctx.Err() != nil {
		return 0, fault.Wrap(ctx.Err(), fault.Unavailable, "the database did not respond in time")
	}
	return r.left, nil
}

// EraseRows erases 1,000 items in a second of the test's clock.
func (r *rows) EraseRows(_ context.Context, _ uuid.UUID, more func() bool) (bool, error) {
	for more() && r.left > 0 {
		*r.now = r.now.Add(time.Second)
		r.left = max(r.left-1000, 0)
	}
	r.gone = r.left == 0
	return r.gone, nil
}

func (r *rows) AbandonErasure(context.Context, uuid.UUID) (account.Account, error) {
	r.abandon()
	return r.account, nil
}

// versions is a bucket: pages of versions, some of which the store keeps.
type versions struct {
	marker  installation.Marker
	missing bool // the marker is missing
	pages   int
	locked  int64 // on the last page
	removed bool
	calls   []time.Time
	now     *time.Time
	block   chan struct{} // Drain waits for it
	drains  chan struct{} // receives when a Drain begins
	waiting atomic.Bool   // a Drain runs

	beats    int
	restored error // the database was restored
}

func (v *versions) call() { v.calls = append(v.calls, *v.now) }

// Beat is that of a database that may have been restored.
func (v *versions) Beat(context.Context) error {
	v.beats++
	return v.restored
}

func (v *versions) CheckBucket(_ context.Context, bucket installation.Bucket) (installation.Marker, error) {
	v.call()
	switch {
	case v.missing:
		return installation.Marker{}, fault.New(fault.NotFound, "not found")
	case v.marker.InstallationID != identity.ID:
		return v.marker, fault.WithReason(fault.New(fault.Conflict, "of another installation"), fault.OtherInstallation)
	case v.marker.AccountID != bucket.AccountID.String():
		return v.marker, fault.New(fault.Conflict, "of another account")
	case v.marker.Epoch > identity.Epoch:
		return v.marker, fault.WithReason(fault.New(fault.Unavailable, "restored"), fault.Held)
	}
	return v.marker, nil
}

// Drain removes a page in a second of the test's clock.
func (v *versions) Drain(ctx context.Context, _, _ string, more func() bool) (objectstore.Drained, error) {
	var drained objectstore.Drained
	if v.block != nil {
		v.waiting.Store(true)
		defer v.waiting.Store(false)
		v.drains <- struct{}{}
		select {
		case <-v.block:
		case <-ctx.Done():
			return drained, fault.Wrap(ctx.Err(), fault.Unavailable, "the object store did not respond in time")
		}
	}
	for more() && v.pages > 0 {
		v.call()
		v.call()
		*v.now = v.now.Add(time.Second)
		v.pages--
		drained.Removed += 1000
	}
	if v.pages > 0 {
		drained.Next = "somewhere"
		return drained, nil
	}
	if v.locked > 0 {
		v.call()
		v.call()
		drained.Kept, drained.Denial = v.locked, "AccessDenied for media/x/original"
	}
	v.call() // incomplete uploads
	return drained, nil
}

func (v *versions) RemoveDrained(context.Context, string) error {
	v.call()
	v.call()
	v.call()
	v.removed = true
	return nil
}

var identity = installation.Identity{ID: uuid.New(), Epoch: 7}

type fixture struct {
	*Eraser
	t      *testing.T
	now    time.Time
	rows   *rows
	bucket *versions
	id     uuid.UUID
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, now: time.Unix(1000, 0), id: uuid.New()}
	f.rows = &rows{account: account.Account{ID: f.id, Bucket: "b"}, now: &f.now}
	f.bucket = &versions{marker: installation.Marker{AccountID: f.id.String(), Witness: installation.Witness{InstallationID: identity.ID, Epoch: 7}}, now: &f.now}
	clock := func() time.Time { return f.now }
	f.Eraser = New(Deps{Accounts: account.NewRegistry(f.rows, "media", clock), Buckets: f.bucket, Installation: f.bucket, Now: clock})
	return f
}

func (f *fixture) erase() Progress {
	f.t.Helper()
	progress, err := f.Erase(f.t.Context(), Target{AccountID: f.id, Bucket: "b"})
	if err != nil {
		f.t.Fatal(err)
	}
	return progress
}

func TestErase_WorksInTimeSlicesBucketFirst(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket.pages, f.rows.left = 12, 7000
	for _, want := range []string{
		"Emptying bucket b: 5,000 versions removed", "Emptying bucket b: 10,000 versions removed",
		"Deleting the media: the bucket is gone, 4,000 items left",
	} {
		progress := f.erase()
		if progress.Done || progress.Message != want || progress.Blocked != nil || progress.RetryAfter != time.Millisecond {
			t.Errorf("got %+v, want %q, repeated at once", progress, want)
		}
		if strings.HasPrefix(want, "Emptying") && (f.rows.left != 7000 || f.bucket.removed) {
			t.Error("rows are deleted before the bucket is gone")
		}
		f.now = f.now.Add(progress.RetryAfter)
	}
	if progress := f.erase(); !progress.Done || !f.rows.gone || !f.bucket.removed {
		t.Errorf("after the last slice: %+v", progress)
	}
}

// A store that kept objects was once sent hundreds of requests a second, and the count of removed
// objects rose with each.
func TestErase_ReportsDenialsAndSendsAtMostTwoCallsASecond(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket.pages, f.bucket.locked, f.rows.left = 3, 61, 10
	f.erase()
	start, before := f.now, len(f.bucket.calls)
	for f.now.Sub(start) < time.Hour { // a caller that does not pause
		progress := f.erase()
		if progress.Done || progress.ObjectsLeft != 61 || progress.Blocked.Reason() != v1alpha1.ReasonDeletionBlocked || progress.ItemsLeft != 10 ||
			progress.Message != "the object store denies the removal of 61 versions in bucket b: AccessDenied for media/x/original" {
			t.Fatalf("got %+v", progress)
		}
		f.now = f.now.Add(100 * time.Millisecond)
	}
	calls := f.bucket.calls[before:]
	for i, at := range calls {
		if i >= 10 && at.Sub(calls[i-10]) < 5*time.Second {
			t.Fatalf("10 calls in %s", at.Sub(calls[i-10]))
		}
	}
	if perHour := len(calls); perHour > 200 || perHour < 20 {
		t.Errorf("%d calls in an hour", perHour)
	}
	if f.bucket.removed || f.rows.left != 10 {
		t.Error("the bucket or rows were removed")
	}
	f.bucket.locked = 0
	f.now = f.now.Add(maxPause)
	if progress := f.erase(); !progress.Done || !f.bucket.removed || !f.rows.gone {
		t.Errorf("after the lock ended: %+v", progress)
	}
}

func TestErase_LeavesTheBucketOfAnotherAlone(t *testing.T) {
	t.Parallel()
	other := uuid.New()
	for want, marker := range map[string]installation.Marker{
		"it belongs to another account":                {AccountID: other.String(), Witness: installation.Witness{InstallationID: identity.ID}},
		"it belongs to installation " + other.String(): {AccountID: "", Witness: installation.Witness{InstallationID: other}},
	} {
		f := setup(t)
		f.bucket.marker, f.bucket.pages, f.rows.left = marker, 3, 10
		if progress := f.erase(); !progress.Done || progress.BucketRetained != want {
			t.Errorf("got %+v, want %q", progress, want)
		}
		if f.bucket.removed || f.bucket.pages != 3 || !f.rows.gone {
			t.Error("the bucket was touched, or the rows stay")
		}
	}
}

// The database was restored: the account may have been opened again since.
func TestErase_StopsAtAMarkerOfALaterEpoch(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket.pages, f.bucket.marker.Epoch, f.rows.left = 3, 8, 10
	if progress := f.erase(); progress.Done || fault.ReasonOf(progress.Blocked.Err) != fault.Held || f.bucket.pages != 3 || f.rows.left != 10 {
		t.Errorf("got %+v", progress)
	}
}

// A store that does not respond uses up the time of the call. That is no failure of the database,
// which would stop the other accounts, too.
func TestErase_ReportsAHangingStoreAsThatOfTheStore(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket.pages, f.rows.left = 1, 10
	f.bucket.block, f.bucket.drains = make(chan struct{}), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-f.bucket.drains
		cancel()
	}()
	progress, err := f.Erase(ctx, Target{AccountID: f.id, Bucket: "b"})
	if err != nil || progress.Blocked == nil || progress.ItemsLeft != 10 {
		t.Errorf("got %+v, %v", progress, err)
	}
}

// Until the restored database is found, its closed accounts may be open.
func TestErase_RemovesNothingForADatabaseThatIsNotProven(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket.pages, f.rows.left = 3, 10
	f.bucket.restored = fault.WithReason(fault.New(fault.Unavailable, "the database was restored"), fault.Held)
	if progress := f.erase(); progress.Done || fault.ReasonOf(progress.Blocked.Err) != fault.Held || f.bucket.pages != 3 || f.bucket.removed || f.rows.left != 10 {
		t.Errorf("got %+v", progress)
	}
	f.bucket.restored = nil
	f.now = f.now.Add(maxPause)
	if progress := f.erase(); !progress.Done || f.bucket.beats != 2 {
		t.Errorf("got %+v after %d proofs", progress, f.bucket.beats)
	}
}

func TestErase_RejectsAnotherBucketThanTheDatabaseNames(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket.pages = 1
	if _, err := f.Erase(t.Context(), Target{AccountID: f.id, Bucket: "other"}); !fault.Is(err, fault.Conflict) || len(f.bucket.calls) != 0 {
		t.Errorf("got %v after %d calls", err, len(f.bucket.calls))
	}
}

// An abandoned account may be opened again at once: a deletion that still ran would remove its new
// objects.
func TestAbandon_EndsARunningErasureFirst(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.bucket.pages, f.bucket.block, f.bucket.drains = 3, make(chan struct{}), make(chan struct{}, 1)
	ended := make(chan Progress, 1)
	go func() {
		progress, _ := f.Erase(context.Background(), Target{AccountID: f.id})
		ended <- progress
	}()
	<-f.bucket.drains
	if resting := f.erase(); resting.Done || resting.RetryAfter < minPause {
		t.Errorf("a second call while the first runs: %+v", resting)
	}
	f.rows.abandon = func() {
		if f.bucket.waiting.Load() {
			t.Error("the account is retained while its erasure runs")
		}
	}
	if _, err := f.Abandon(t.Context(), f.id); err != nil {
		t.Fatal(err)
	}
	if progress := <-ended; progress.Done || f.bucket.pages != 3 {
		t.Errorf("the erasure went on: %+v", progress)
	}
}

func TestFormatThousands_GroupsDigits(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 4500: "4,500", 1234567: "1,234,567"} {
		if got := formatThousands(n); got != want {
			t.Errorf("formatThousands(%d) is %q, want %q", n, got, want)
		}
	}
}
