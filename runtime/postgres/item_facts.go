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
		items[i] = media.StoredItem{ID: row.ID, AccountID: row.AccountID, Bucket: row.Bucket, Objects: row.Objects}
	}
	return items, nil
}

// SetFacts implements media.FactsStore.
func (s Items) SetFacts(ctx context.Context, id uuid.UUID, facts media.Facts) error {
	return toFault(s.queries.SetFacts(ctx, sqlgen.SetFactsParams{ID: id, Width: known(facts.Width), Height: known(facts.Height),
		Placeholder: facts.Placeholder, DominantColor: knownText(facts.DominantColor), DurationMs: knownDuration(facts.Duration), Pages: known(facts.Pages), Known: facts.Known()}), "set the facts of an item")
}

// SkipFacts implements media.FactsStore.
func (s Items) SkipFacts(ctx context.Context, ids []uuid.UUID) error {
	return toFault(s.queries.SkipFacts(ctx, ids), "skip items without facts")
}

// factColumns are the columns of media.Facts: null for what is not known.
type factColumns struct {
	width, height *int32
	placeholder   []byte
	color         *string
	duration      *int64 // in milliseconds
	pages         *int32
}

func (c factColumns) facts() media.Facts {
	return media.Facts{Width: int(valueOf(c.width)), Height: int(valueOf(c.height)), Placeholder: c.placeholder, DominantColor: valueOf(c.color),
		Duration: time.Duration(valueOf(c.duration)) * time.Millisecond, Pages: int(valueOf(c.pages))}
}

func valueOf[T int32 | int64 | string](column *T) (value T) {
	if column != nil {
		value = *column
	}
	return value
}

// integer returns the column of a width, a height or a number of pages.
func integer(value int) int32 { return int32(value) } //nolint:gosec // what the image worker and filehead return fits

// known returns the column of a fact: null for zero.
func known(value int) *int32 {
	if value == 0 {
		return nil
	}
	column := integer(value)
	return &column
}

func knownText(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

func knownDuration(value time.Duration) *int64 {
	if value == 0 {
		return nil
	}
	column := value.Milliseconds()
	return &column
}

// notNil returns metadata that is not nil, which the driver would store as null.
func notNil(metadata media.Metadata) media.Metadata {
	if metadata == nil {
		return media.Metadata{}
	}
	return metadata
}
