package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// Bounds of the pagination index.
const (
	// indexOffset is the offset up to which a scan over the items is as fast as the index.
	indexOffset = 500
	// A block of more than maxBlockItems items is split into blocks of blockItems.
	blockItems    = 1024
	maxBlockItems = 2 * blockItems
	// compactAfter is the number of changes to an app by this process after which it compacts
	// the app's deltas.
	compactAfter   = 500
	compactTimeout = time.Minute
	// compactLock is the class of the advisory locks of a compaction; it must never change.
	compactLock = 1_635_017_059
)

// maxUUID is above the id of every item.
var maxUUID = uuid.MustParse("ffffffff-ffff-ffff-ffff-ffffffffffff")

// listByIndex lists a page with the pagination index.
func (s *Store) listByIndex(ctx context.Context, scope media.Scope, filter media.Filter, limit, offset int) ([]media.Item, error) {
	rows, err := s.queries.ListItemsByIndex(ctx, sqlgen.ListItemsByIndexParams{
		AppID: scope.AppID, Access: string(filter.Access), PageSize: int32(limit), Skip: int64(offset), //nolint:gosec // bounded by media.Service.List
	})
	if err != nil {
		return nil, toFault(err, "list items by index")
	}
	items := make([]media.Item, len(rows))
	for i, row := range rows {
		items[i] = itemOf(row.Item)
	}
	return items, nil
}

// pageIndex counts the changes of this process to the lists of each app, and compacts the
// deltas of an app after many of them. It is safe for concurrent use.
type pageIndex struct {
	compact func(ctx context.Context, appID uuid.UUID) error

	mu         sync.Mutex
	changes    map[uuid.UUID]int
	compacting sync.WaitGroup
	closed     bool
}

func newPageIndex(compact func(ctx context.Context, appID uuid.UUID) error) *pageIndex {
	return &pageIndex{compact: compact, changes: map[uuid.UUID]int{}}
}

// recordChange counts one change. The purge compacts the deltas that no process does.
func (p *pageIndex) recordChange(appID uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes[appID]++
	if p.changes[appID] < compactAfter || p.closed {
		return
	}
	delete(p.changes, appID)
	p.compacting.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), compactTimeout)
		defer cancel()
		_ = p.compact(ctx, appID) // lists are correct without it; the purge tries again
	})
}

// close waits for running compactions.
func (p *pageIndex) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.compacting.Wait()
}

// CompactPageIndex implements media.PurgeStore.
func (s *Store) CompactPageIndex(ctx context.Context) error {
	apps, err := s.queries.AppsWithDeltas(ctx)
	if err != nil {
		return toFault(err, "find apps with page deltas")
	}
	for _, appID := range apps {
		if err := s.compactApp(ctx, appID); err != nil {
			return err
		}
	}
	return nil
}

// compactApp deletes the deltas of an app and recounts their blocks in one snapshot: the
// deleted deltas are exactly those that the counted items reflect. It does nothing while
// another process compacts the same app.
func (s *Store) compactApp(ctx context.Context, appID uuid.UUID) error {
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		if locked, err := q.TryCompactLock(ctx, sqlgen.TryCompactLockParams{Class: compactLock, AppID: appID}); err != nil || !locked {
			return err
		}
		changed, err := q.DeleteDeltas(ctx, appID)
		if err != nil || len(changed) == 0 {
			return err
		}
		blocks, err := q.Blocks(ctx, appID)
		if err != nil {
			return err
		}
		if len(blocks) == 0 || blocks[0] != uuid.Nil {
			blocks = slices.Insert(blocks, 0, uuid.Nil)
		}
		for _, at := range blocksOf(blocks, changed) {
			next := maxUUID
			if at+1 < len(blocks) {
				next = blocks[at+1]
			}
			if err := recountBlock(ctx, q, appID, blocks[at], next); err != nil {
				return err
			}
		}
		return nil
	})
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "40001" { // serialization_failure: another process compacted the app meanwhile
		return nil
	}
	return toFault(err, "compact the pagination index")
}

// blocksOf returns the indexes of the blocks that contain the ids, each once.
func blocksOf(blocks, ids []uuid.UUID) []int {
	found := map[int]bool{}
	var indexes []int
	for _, id := range ids {
		at, exact := slices.BinarySearchFunc(blocks, id, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		if !exact {
			at--
		}
		if !found[at] {
			found[at] = true
			indexes = append(indexes, at)
		}
	}
	return indexes
}

// recountBlock counts the items from first to next, and splits the block if it is too large.
func recountBlock(ctx context.Context, q *sqlgen.Queries, appID, first, next uuid.UUID) error {
	parts, err := q.CountBlock(ctx, sqlgen.CountBlockParams{AppID: appID, PartSize: blockItems, FirstID: first, NextID: next})
	if err != nil {
		return err
	}
	blocks := []sqlgen.SetBlockParams{{AppID: appID, FirstID: first}}
	total := int64(0)
	for _, part := range parts {
		total += part.Items
	}
	for i, part := range parts {
		if i > 0 && total > maxBlockItems {
			blocks = append(blocks, sqlgen.SetBlockParams{AppID: appID, FirstID: part.FirstID})
		}
		last := &blocks[len(blocks)-1]
		last.Items, last.PublicItems = last.Items+part.Items, last.PublicItems+part.PublicItems
	}
	if total == 0 && first != uuid.Nil {
		return q.DeleteBlock(ctx, sqlgen.DeleteBlockParams{AppID: appID, FirstID: first})
	}
	for _, block := range blocks {
		if err := q.SetBlock(ctx, block); err != nil {
			return err
		}
	}
	return nil
}
