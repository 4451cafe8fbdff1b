package upload

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fault"
)

var must = check.NoError

func testLimits(t *testing.T, cfg Config) limits {
	t.Helper()
	l, err := newLimits(cfg, nil)
	must(t, err)
	return l
}

func TestLimits_ReturnBusyWithRetryAfter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		queue   int
		timeout time.Duration
		leaves  bool
	}{
		"the queue is full":      {queue: 0, timeout: time.Minute},
		"the timeout has passed": {queue: 1, timeout: time.Nanosecond},
		"the client disconnects": {queue: 1, timeout: time.Minute, leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := testLimits(t, Config{MaxUploads: 1, UploadPerAccountPercent: 100, UploadQueue: c.queue, UploadQueueTimeout: c.timeout})
			if _, err := l.acquire(t.Context(), l.uploads, uuid.New()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.leaves {
				cancel()
			}
			if _, err := l.acquire(ctx, l.uploads, uuid.New()); !fault.Is(err, fault.Busy) || fault.From(err).RetryAfter <= 0 {
				t.Error(err)
			}
		})
	}
}

// Uploads of a few accounts with slow clients once held all slots, and those of another account waited.
func TestLimits_OfManyAccountsLeaveSlotsAndMemory(t *testing.T) {
	t.Parallel()
	const queued = 4 // of each account: those that get no slot wait
	cfg := Config{MaxUploads: 128, UploadMemory: 24 * bufferSize, UploadPerAccountPercent: 75, UploadQueue: 256, UploadQueueTimeout: time.Hour}
	for _, accounts := range []int{2, 5, 10} {
		synctest.Test(t, func(t *testing.T) {
			l := testLimits(t, cfg)
			for name, limiter := range map[string]*fairlimit.Limiter[uuid.UUID]{"slots": l.uploads, "memory": l.partMemory} {
				most := map[string]int{"slots": 128, "memory": 24}[name]
				if name == "memory" && accounts > 5 {
					continue // six accounts share what is left of it
				}
				ctx, leave := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for range accounts {
					id := uuid.New()
					for limiter.TryAcquire(id) == nil {
					}
					for range queued {
						all.Go(func() { _, _ = l.acquire(ctx, limiter, id) })
					}
				}
				synctest.Wait()
				before := time.Now()
				if _, err := l.acquire(t.Context(), limiter, uuid.New()); err != nil || time.Since(before) != 0 {
					t.Errorf("%s: beside %d accounts, one more waits for %s: %v", name, accounts, time.Since(before), err)
				}
				if held := limiter.InFlight(); held > most {
					t.Errorf("%s: %d are held of %d", name, held, most)
				}
				leave()
				all.Wait()
			}
		})
	}
}

func TestLimits_ExportGaugesOfSlotsAndMemory(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	l, err := newLimits(Config{MaxUploads: 8, UploadMemory: 4 * bufferSize, UploadPerAccountPercent: 75, UploadQueue: 4, UploadQueueTimeout: time.Minute}, registry)
	must(t, err)
	if _, err := l.acquire(t.Context(), l.uploads, uuid.New()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, family := range families {
		got[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
	}
	for name, want := range map[string]float64{
		"mediastack_uploads_in_flight": 1, "mediastack_uploads_waiting": 0, "mediastack_uploads_limit": 8,
		"mediastack_upload_part_buffers_in_flight": 0, "mediastack_upload_part_buffers_waiting": 0, "mediastack_upload_part_buffers_limit": 4,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v (%t), want %v", name, value, ok, want)
		}
	}
	if _, err := newLimits(Config{MaxUploads: 1}, registry); err == nil {
		t.Error("the same gauges were registered twice")
	}
}
