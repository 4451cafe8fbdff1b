package rendition_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/rendition"
)

// claims is a store of claims that have ended.
type claims struct {
	rendition.PurgeStore
	left int
}

func (c *claims) EndClaims(_ context.Context, _ time.Time, batch int) (int, error) {
	n := min(batch, c.left)
	c.left -= n
	return n, nil
}

func (*claims) AccountsWithRenditions(context.Context, uuid.UUID, int) ([]uuid.UUID, error) {
	return nil, nil
}

func (*claims) EndStaleRenditions(context.Context, time.Time, []uuid.UUID, int) (int, error) {
	return 0, nil
}

// Each batch locks what uploads of its accounts need: batches without a pause slowed them down.
func TestPurge_PausesBetweenBatches(t *testing.T) {
	t.Parallel()
	store, pauses := &claims{left: 1001}, 0
	n, err := rendition.Purge(t.Context(), rendition.PurgeConfig{}, rendition.PurgeDeps{Store: store, BatchSize: 200, Pause: func(context.Context, time.Duration) error { pauses++; return nil }}, time.Now())
	if err != nil || n != 1001 || pauses != 5 {
		t.Errorf("%d claims ended with %d pauses, %v", n, pauses, err)
	}
	interrupted := errors.New("interrupted")
	store.left = 1001
	_, err = rendition.Purge(t.Context(), rendition.PurgeConfig{}, rendition.PurgeDeps{Store: store, BatchSize: 200, Pause: func(context.Context, time.Duration) error { return interrupted }}, time.Now())
	if !errors.Is(err, interrupted) || store.left != 801 {
		t.Errorf("%d claims are left, %v", store.left, err)
	}
}
