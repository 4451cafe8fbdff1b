package upload

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/minrate"
)

// contendedUpload returns an upload that holds the only slot while another account waits
// for it, until stopWaiting is called. It is for synctest.
func contendedUpload(t *testing.T) (u *transfer, stopWaiting func()) {
	t.Helper()
	cfg := Config{MaxUploads: 1, UploadPerAccountPercent: 100, UploadQueue: 9, UploadQueueTimeout: 24 * time.Hour, UploadMinTransferRate: 1000}
	s := &Service{cfg: cfg, limits: testLimits(t, cfg)}
	u = &transfer{service: s, scope: media.Scope{AccountID: uuid.New()}}
	u.rate.budget = minrate.New(cfg.UploadMinTransferRate, idleBudget)
	must(t, u.acquireUploadSlot(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if err := s.limits.uploads.Acquire(ctx, uuid.New()); err == nil {
			t.Error("the other account has the slot")
		}
	}()
	synctest.Wait()
	return u, func() { cancel(); synctest.Wait() }
}

// tooSlowAfter reads bytes a second for n seconds. It returns the second in which the
// upload was too slow, 0 if it was in none.
func (t *transfer) tooSlowAfter(n, bytes int) int {
	for second := 1; second <= n; second++ {
		t.rate.beginRead()
		if t.rate.endRead(bytes) != nil {
			return second
		}
		t.rate.beginRead()
		t.checkRate(time.Second)
		if t.rate.endRead(0) != nil {
			return second
		}
	}
	return 0
}

func TestRateGuard_EnforcesTheRateWhileOthersWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(u *transfer, stopWaiting func()) int
		want int
	}{
		"it stalls":                {func(u *transfer, _ func()) int { return u.tooSlowAfter(20, 0) }, 5},
		"it has half the rate":     {func(u *transfer, _ func()) int { return u.tooSlowAfter(20, 500) }, 10},
		"it has the rate":          {func(u *transfer, _ func()) int { return u.tooSlowAfter(1000, 1000) }, 0},
		"it stops after many fast": {func(u *transfer, _ func()) int { return max(u.tooSlowAfter(100, 1_000_000), u.tooSlowAfter(20, 0)) }, 5},
		"it pauses and continues": {func(u *transfer, _ func()) int {
			return max(u.tooSlowAfter(4, 0), u.tooSlowAfter(4, 10_000), u.tooSlowAfter(4, 0))
		}, 0},
		"no other account waits": {func(u *transfer, stopWaiting func()) int { stopWaiting(); return u.tooSlowAfter(1000, 0) }, 0},
		"another account has waited": {func(u *transfer, stopWaiting func()) int {
			slow := u.tooSlowAfter(4, 0)
			stopWaiting()
			return max(slow, u.tooSlowAfter(20, 0))
		}, 0},
		"the store is slow": {func(u *transfer, _ func()) int {
			for range 100 {
				u.checkRate(time.Second)
			}
			return u.tooSlowAfter(4, 0)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u, stopWaiting := contendedUpload(t)
				if got := c.run(u, stopWaiting); got != c.want {
					t.Errorf("too slow in second %d, want %d", got, c.want)
				}
				stopWaiting()
			})
		})
	}
}

func TestRateGuard_AbortsASlowReadUntilItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u, stopWaiting := contendedUpload(t)
		aborted := 0
		u.rate.abort = func(why error) {
			if aborted++; !fault.Is(why, fault.Busy) {
				t.Error(why)
			}
		}
		u.rate.beginRead()
		for range 5 {
			u.checkRate(time.Second)
		}
		stopWaiting() // an upload that was too slow stays so
		u.checkRate(time.Second)
		if err := u.rate.endRead(1); !fault.Is(err, fault.Busy) || fault.From(err).RetryAfter <= 0 {
			t.Errorf("the read: %v", err)
		}
		u.checkRate(time.Second)
		if aborted != 2 {
			t.Errorf("a read that lasted for two checks was aborted %d times", aborted)
		}
	})
}
