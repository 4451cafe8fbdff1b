package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var _ media.FactsStore = Items{}

// EnqueueFacts implements media.FactsStore.
func (s Items) EnqueueFacts(ctx context.Context, delay time.Duration) (int, error) {
	added, err := s.queries.EnqueueOnce(ctx, sqlgen.EnqueueOnceParams{Kind: string(media.FactsWork), Delay: delay.Microseconds()})
	return int(added), toFault(err, "enqueue the task of facts")
}

// ItemsWithoutFacts implements media.FactsStore.
func (s Items) ItemsWithoutFacts(ctx context.Context, after media.StoredItem, limit int) ([]media.StoredItem, error) {
	rows, err := s.queries.ItemsWithoutFacts(ctx, sqlgen.ItemsWithoutFactsParams{AccountID: after.AccountID, ID: after.ID, Batch: batchSize(limit)})
	if err != nil {
		return nil, toFault(err, "find items without facts")
	}
	items := make([]media.StoredItem, len(rows))
	for i, row := range rows {
		items[i] = media.StoredItem{ID: row.ID, AccountID: row.AccountID, Bucket: row.Bucket, Objects: row.Objects, KeepLocation: row.KeepLocation}
	}
	return items, nil
}

// SetFacts implements media.FactsStore.
func (s Items) SetFacts(ctx context.Context, id uuid.UUID, facts media.Facts) error {
	return toFault(s.queries.SetFacts(ctx, sqlgen.SetFactsParams{ID: id, Width: known(facts.Width), Height: known(facts.Height),
		Placeholder: facts.Placeholder, DominantColor: knownText(facts.DominantColor), DurationMs: knownDuration(facts.Duration), Pages: known(facts.Pages), Known: facts.Known() || facts.Capture.Known(), Capture: captureColumn(facts)}), "set the facts of an item")
}

// SkipFacts implements media.FactsStore.
func (s Items) SkipFacts(ctx context.Context, ids []uuid.UUID) error {
	return toFault(s.queries.SkipFacts(ctx, ids), "skip items without facts")
}
