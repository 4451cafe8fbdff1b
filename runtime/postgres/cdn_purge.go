package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/cdn"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var (
	_ cdn.Store      = CDN{}
	_ cdn.PurgeStore = CDN{}
)

// KeepPurger implements cdn.Store.
func (s CDN) KeepPurger(ctx context.Context) (uuid.UUID, error) {
	id, err := s.idempotent.KeepPurger(ctx)
	return id, toFault(err, "record the purger")
}

// EnqueueCDNPurges implements cdn.Store.
func (s CDN) EnqueueCDNPurges(ctx context.Context, stalled time.Duration) (int, error) {
	added, err := s.idempotent.EnqueueCDNPurges(ctx, sqlgen.EnqueueCDNPurgesParams{Kind: string(cdn.PurgeWork), Stalled: stalled.Microseconds()})
	return int(added), toFault(err, "find purges of the CDN")
}

// DueCDNPurges implements cdn.Store.
func (s CDN) DueCDNPurges(ctx context.Context, most int) ([]cdn.Purge, error) {
	rows, err := s.queries.DueCDNPurges(ctx, batchSize(most))
	if err != nil {
		return nil, toFault(err, "read purges of the CDN")
	}
	due := make([]cdn.Purge, len(rows))
	for i, row := range rows {
		due[i] = cdn.Purge{ID: row.ID, AccountID: row.AccountID, ItemID: row.ItemID.Bytes, Again: row.Again}
		if row.Preset != nil {
			due[i].Preset = *row.Preset
		}
	}
	return due, nil
}

// AwaitItemCaches implements cdn.Store.
func (s CDN) AwaitItemCaches(ctx context.Context) error { return s.awaitItemCaches(ctx) }

// CDNPurgesSent implements cdn.Store.
func (s CDN) CDNPurgesSent(ctx context.Context, sent []cdn.Purge, pause time.Duration) error {
	first, again := make([]int64, 0, len(sent)), make([]int64, 0, len(sent))
	for _, p := range sent {
		if p.Again {
			again = append(again, p.ID)
		} else {
			first = append(first, p.ID)
		}
	}
	return toFault(s.queries.CDNPurgesSent(ctx, sqlgen.CDNPurgesSentParams{Pause: pause.Microseconds(), First: first, Again: again}), "record purges of the CDN")
}

// WaitingCDNPurges implements cdn.Store.
func (s CDN) WaitingCDNPurges(ctx context.Context) (purges int64, oldest time.Duration, err error) {
	row, err := s.queries.WaitingCDNPurges(ctx)
	return row.Purges, time.Duration(row.OldestSeconds * float64(time.Second)), toFault(err, "count purges of the CDN")
}

// ForgetPurger implements cdn.PurgeStore.
func (s CDN) ForgetPurger(ctx context.Context) error {
	_, err := s.queries.ForgetPurger(ctx)
	return toFault(err, "look whether there is a purger")
}

// ForgetPurges implements cdn.PurgeStore.
func (s CDN) ForgetPurges(ctx context.Context, size int) (int, error) {
	removed, err := s.queries.ForgetPurges(ctx, batchSize(size))
	return int(removed), toFault(err, "remove purges of the CDN")
}
