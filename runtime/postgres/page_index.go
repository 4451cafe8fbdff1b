package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// Bounds of the pagination index.
const (
	// A block of more than maxBlockItems items is split into blocks of blockItems. A list has blocks
	// from more than maxBlockItems on until it has blockItems or less.
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
func (s Items) CompactPageIndex(ctx context.Context) error {
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
func (s Items) compactApp(ctx context.Context, appID uuid.UUID) error {
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		if locked, err := q.TryCompactLock(ctx, sqlgen.TryCompactLockParams{Class: compactLock, AppID: appID}); err != nil || !locked {
			return err
		}
		deltas, err := q.DeleteDeltas(ctx, appID)
		if err != nil || len(deltas) == 0 {
			return err
		}
		changed := map[string][]uuid.UUID{} // by list
		for _, delta := range deltas {
			changed[""] = append(changed[""], delta.ID)
			if delta.GroupLabel != "" {
				changed[delta.GroupLabel] = append(changed[delta.GroupLabel], delta.ID)
			}
		}
		groups := slices.DeleteFunc(slices.Sorted(maps.Keys(changed)), func(label string) bool { return label == "" })
		lists, err := q.IndexedLists(ctx, sqlgen.IndexedListsParams{AppID: appID, Labels: groups, MaxItems: maxBlockItems})
		if err != nil {
			return err
		}
		for _, list := range lists {
			if err := (listIndex{q, appID, list.Label}).recount(ctx, list.Items, changed[list.Label]); err != nil {
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

// listIndex is the blocks of one list: of an app, or of the group label.
type listIndex struct {
	q     *sqlgen.Queries
	appID uuid.UUID
	label string
}

// recount counts the blocks that contain the ids, all of them if the list had none. items is the
// length of the list.
func (l listIndex) recount(ctx context.Context, items int64, ids []uuid.UUID) error {
	if items <= blockItems {
		return l.q.DeleteBlocks(ctx, sqlgen.DeleteBlocksParams{AppID: l.appID, GroupLabel: l.label})
	}
	blocks, err := l.q.Blocks(ctx, sqlgen.BlocksParams{AppID: l.appID, GroupLabel: l.label})
	if err != nil {
		return err
	}
	if len(blocks) == 0 || blocks[0] != uuid.Nil {
		blocks, ids = slices.Insert(blocks, 0, uuid.Nil), append(ids, uuid.Nil)
	}
	for _, at := range blocksOf(blocks, ids) {
		next := maxUUID
		if at+1 < len(blocks) {
			next = blocks[at+1]
		}
		if err := l.recountBlock(ctx, blocks[at], next); err != nil {
			return err
		}
	}
	return nil
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
func (l listIndex) recountBlock(ctx context.Context, first, next uuid.UUID) error {
	parts, err := l.count(ctx, first, next)
	if err != nil {
		return err
	}
	blocks := []sqlgen.SetBlockParams{{AppID: l.appID, GroupLabel: l.label, FirstID: first}}
	total := int32(0)
	for _, part := range parts {
		total += part.Items
	}
	for i, part := range parts {
		if i > 0 && total > maxBlockItems {
			blocks = append(blocks, sqlgen.SetBlockParams{AppID: l.appID, GroupLabel: l.label, FirstID: part.FirstID})
		}
		last := &blocks[len(blocks)-1]
		last.Items, last.PublicItems = last.Items+part.Items, last.PublicItems+part.PublicItems
	}
	if total == 0 && first != uuid.Nil {
		return l.q.DeleteBlock(ctx, sqlgen.DeleteBlockParams{AppID: l.appID, GroupLabel: l.label, FirstID: first})
	}
	for _, block := range blocks {
		if err := l.q.SetBlock(ctx, block); err != nil {
			return err
		}
	}
	return nil
}

// count counts the items from first to next, in parts of blockItems.
func (l listIndex) count(ctx context.Context, first, next uuid.UUID) ([]sqlgen.CountBlockRow, error) {
	if l.label == "" {
		return l.q.CountBlock(ctx, sqlgen.CountBlockParams{AppID: l.appID, PartSize: blockItems, FirstID: first, NextID: next})
	}
	rows, err := l.q.CountGroupBlock(ctx, sqlgen.CountGroupBlockParams{AppID: l.appID, PartSize: blockItems, GroupLabel: l.label, FirstID: first, NextID: next})
	parts := make([]sqlgen.CountBlockRow, len(rows))
	for i, row := range rows {
		parts[i] = sqlgen.CountBlockRow(row)
	}
	return parts, err
}
