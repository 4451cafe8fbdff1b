package rendition_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/rendition"
)

// claims is a store of claims that have ended, and of stale renditions.
type claims struct {
	rendition.PurgeStore
	left, stale int
	takes       time.Duration // of a batch of stale renditions
}

func (c *claims) EndClaims(_ context.Context, _ time.Time, batch int) (int, error) {
	n := min(batch, c.left)
	c.left -= n
	return n, nil
}

func (*claims) AccountsWithRenditions(context.Context, uuid.UUID, int) ([]uuid.UUID, error) {
	return nil, nil
}

func (c *claims) EndStaleRenditions(_ context.Context, _ time.Time, _ []uuid.UUID, batch int) (int, error) {
	time.Sleep(c.takes) //nolint:forbidigo // the clock of synctest
	n := min(batch, c.stale)
	c.stale -= n
	return n, nil
}

// Each batch locks what uploads of its accounts need: batches without a pause slowed them down.
func TestPurge_PausesBetweenBatches(t *testing.T) {
	t.Parallel()
	store, pauses := &claims{left: 1001}, 0
	n, err := rendition.Purge(t.Context(), rendition.PurgeConfig{}, rendition.PurgeDeps{Store: store, Batches: purge.Batches{Size: 200, Pause: func(context.Context, time.Duration) error { pauses++; return nil }}}, time.Now())
	if err != nil || n != 1001 || pauses != 5 {
		t.Errorf("%d claims ended with %d pauses, %v", n, pauses, err)
	}
	interrupted := errors.New("interrupted")
	store.left = 1001
	_, err = rendition.Purge(t.Context(), rendition.PurgeConfig{}, rendition.PurgeDeps{Store: store, Batches: purge.Batches{Size: 200, Pause: func(context.Context, time.Duration) error { return interrupted }}}, time.Now())
	if !errors.Is(err, interrupted) || store.left != 801 {
		t.Errorf("%d claims are left, %v", store.left, err)
	}
}

// A preset of many items changes in one moment: the end of its renditions must not load the database all at once.
func TestPurge_EndsStaleRenditionsAtARate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &claims{stale: 1010, takes: 20 * time.Millisecond}
		run := func(ctx context.Context, rate int) (n int, took time.Duration, err error) {
			started := time.Now()
			n, err = rendition.Purge(ctx, rendition.PurgeConfig{StaleRate: rate}, rendition.PurgeDeps{Store: store, Batches: purge.Batches{Size: 50}}, time.Now())
			return n, time.Since(started), err
		}
		if n, took, err := run(t.Context(), 500); err != nil || n != 1010 || took != 2020*time.Millisecond {
			t.Errorf("%d ended in %s, %v", n, took, err)
		}
		store.stale = 1010
		if n, took, err := run(t.Context(), 0); err != nil || n != 1010 || took != 420*time.Millisecond {
			t.Errorf("not bounded, %d ended in %s, %v", n, took, err)
		}
		store.stale = 1010
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if n, _, err := run(ctx, 500); !errors.Is(err, context.DeadlineExceeded) || n != 50 {
			t.Errorf("interrupted, %d ended, %v", n, err)
		}
	})
	for _, rate := range []int{-1, 100_001} {
		if err := (rendition.PurgeConfig{StaleRate: rate}).Validate(); err == nil {
			t.Errorf("a rate of %d is valid", rate)
		}
	}
}
