package purge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mediastack.dev/runtime/purge"
)

// counting returns a step that handles rows, and takes so long for each batch.
func counting(rows int, took time.Duration) func(context.Context, int) (int, error) {
	return func(_ context.Context, size int) (int, error) {
		time.Sleep(took) //nolint:forbidigo // the clock of synctest
		n := min(size, rows)
		rows -= n
		return n, nil
	}
}

func TestEach_PausesAfterFullBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			batches purge.Batches
			rows    int
			took    time.Duration // of all batches and pauses
		}{
			"none":                            {purge.Batches{Size: 10, Pause: purge.Percent(200)}, 0, time.Second},
			"less than a batch":               {purge.Batches{Size: 10, Pause: purge.Percent(200)}, 9, time.Second},
			"a full batch, and an empty one":  {purge.Batches{Size: 10, Pause: purge.Percent(200)}, 10, 4 * time.Second},
			"three batches":                   {purge.Batches{Size: 10, Pause: purge.Percent(200)}, 25, 7 * time.Second},
			"without pauses":                  {purge.Batches{Size: 10}, 25, 3 * time.Second},
			"at a rate":                       {purge.Batches{Size: 10}.AtRate(2), 25, 11 * time.Second},
			"at a rate that is never reached": {purge.Batches{Size: 10}.AtRate(1000), 25, 3 * time.Second},
			"at any rate":                     {purge.Batches{Size: 10, Pause: purge.Percent(200)}.AtRate(0), 25, 3 * time.Second},
		} {
			began := time.Now()
			total, err := c.batches.Each(t.Context(), counting(c.rows, time.Second))
			if took := time.Since(began); err != nil || total != c.rows || took != c.took {
				t.Errorf("%s: %d rows, %v, after %s; want %d rows after %s", name, total, err, took, c.rows, c.took)
			}
		}
	})
}

func TestEach_ReturnsWhatWasHandledBeforeAnError(t *testing.T) {
	t.Parallel()
	failure := errors.New("held")
	checks := 0
	held := purge.Batches{Size: 10, Writable: func() error {
		if checks++; checks > 2 {
			return failure
		}
		return nil
	}}
	if total, err := held.Each(t.Context(), counting(100, 0)); total != 20 || !errors.Is(err, failure) {
		t.Errorf("a purge that is held after two batches handled %d rows, %v", total, err)
	}
	steps := 0
	failing := func(context.Context, int) (int, error) {
		if steps++; steps > 1 {
			return 3, failure
		}
		return 10, nil
	}
	if total, err := (purge.Batches{Size: 10}).Each(t.Context(), failing); total != 13 || !errors.Is(err, failure) {
		t.Errorf("a step that fails handled %d rows, %v", total, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, pausing := range []purge.Batches{{Size: 10, Pause: func(ctx context.Context, _ time.Duration) error { return purge.Percent(100)(ctx, time.Hour) }}, purge.Batches{Size: 10_000_000}.AtRate(1)} {
		full := func(_ context.Context, size int) (int, error) { return size, nil }
		if total, err := pausing.Each(ctx, full); total != pausing.Size || !errors.Is(err, context.Canceled) {
			t.Errorf("a purge that ends during a pause handled %d rows, %v", total, err)
		}
	}
}
