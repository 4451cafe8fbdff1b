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

// Bounds of the index of pages.
const (
	// deepOffset is up to where walking over items is as quick as looking into the index.
	deepOffset = 500
	// A block of more than blockLargest items is split into blocks of blockSize.
	blockSize    = 1024
	blockLargest = 2 * blockSize
	// foldAfter is how many changes of an app this process makes before it folds them.
	foldAfter   = 500
	foldTimeout = time.Minute
	// pagesLock is the class of the advisory locks that folding takes; it must never change.
	pagesLock = 1_635_017_059
)

// lastID is above every id of an item.
var lastID = uuid.MustParse("ffffffff-ffff-ffff-ffff-ffffffffffff")

// deepPage finds a page by the index of pages.
func (s *Store) deepPage(ctx context.Context, scope media.Scope, filter media.Filter, limit, offset int) ([]media.Item, error) {
	rows, err := s.queries.DeepPage(ctx, sqlgen.DeepPageParams{
		AppID: scope.AppID, Access: string(filter.Access), PageSize: int32(limit), Skip: int64(offset), //nolint:gosec // bounded by media.Service.List
	})
	if err != nil {
		return nil, classify(err, "list items of a deep page")
	}
	items := make([]media.Item, len(rows))
	for i, row := range rows {
		items[i] = itemOf(row.Item)
	}
	return items, nil
}

// pages counts the changes that this process made to the lists of each app, and has
// them folded into the index when they are many. It is safe for concurrent use.
type pages struct {
	fold func(ctx context.Context, appID uuid.UUID) error

	mu      sync.Mutex
	changes map[uuid.UUID]int
	folding sync.WaitGroup
	closed  bool
}

// changed notes one change. What is not folded here, the purge folds.
func (p *pages) changed(appID uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes[appID]++
	if p.changes[appID] < foldAfter || p.closed {
		return
	}
	delete(p.changes, appID)
	p.folding.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), foldTimeout)
		defer cancel()
		_ = p.fold(ctx, appID) // lists are right all the same; the purge tries again
	})
}

// close waits for what is being folded.
func (p *pages) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.folding.Wait()
}

// CompactPageIndex implements media.Store.
func (s *Store) CompactPageIndex(ctx context.Context) error {
	apps, err := s.queries.ChangedApps(ctx)
	if err != nil {
		return classify(err, "find changed apps")
	}
	for _, appID := range apps {
		if err := s.foldPages(ctx, appID); err != nil {
			return err
		}
	}
	return nil
}

// foldPages counts the blocks of an app again in which something changed. All of it
// sees one snapshot, in which the changes that are taken away are exactly those that
// the counted items show. Somebody else who folds the same app is left to it.
func (s *Store) foldPages(ctx context.Context, appID uuid.UUID) error {
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		q := s.queries.WithTx(tx)
		if locked, err := q.LockPages(ctx, sqlgen.LockPagesParams{Class: pagesLock, AppID: appID}); err != nil || !locked {
			return err
		}
		changed, err := q.TakeChanges(ctx, appID)
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
			next := lastID
			if at+1 < len(blocks) {
				next = blocks[at+1]
			}
			if err := recount(ctx, q, appID, blocks[at], next); err != nil {
				return err
			}
		}
		return nil
	})
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == "40001" { // another one folded the app meanwhile
		return nil
	}
	return classify(err, "fold pages")
}

// blocksOf returns the places of the blocks that hold the ids, each once.
func blocksOf(blocks, ids []uuid.UUID) []int {
	found := map[int]bool{}
	var places []int
	for _, id := range ids {
		at, exact := slices.BinarySearchFunc(blocks, id, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		if !exact {
			at--
		}
		if !found[at] {
			found[at] = true
			places = append(places, at)
		}
	}
	return places
}

// recount sets the block from first to next to what is there, in several if it is much.
func recount(ctx context.Context, q *sqlgen.Queries, appID, first, next uuid.UUID) error {
	parts, err := q.CountBlock(ctx, sqlgen.CountBlockParams{AppID: appID, PartSize: blockSize, FirstID: first, NextID: next})
	if err != nil {
		return err
	}
	blocks := []sqlgen.SetBlockParams{{AppID: appID, FirstID: first}}
	total := int64(0)
	for _, part := range parts {
		total += part.Items
	}
	for i, part := range parts {
		if i > 0 && total > blockLargest {
			blocks = append(blocks, sqlgen.SetBlockParams{AppID: appID, FirstID: part.FirstID})
		}
		last := &blocks[len(blocks)-1]
		last.Items, last.PublicItems = last.Items+part.Items, last.PublicItems+part.PublicItems
	}
	if total == 0 && first != uuid.Nil {
		return q.RemoveBlock(ctx, sqlgen.RemoveBlockParams{AppID: appID, FirstID: first})
	}
	for _, block := range blocks {
		if err := q.SetBlock(ctx, block); err != nil {
			return err
		}
	}
	return nil
}
