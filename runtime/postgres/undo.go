package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/upload"
)

// undoOf returns whose deletes can be undone in an account.
func undoOf(row sqlgen.Account) account.Undo {
	if row.UndoWindow == nil {
		return account.Undo{}
	}
	return account.Undo{Window: durationOf(row.UndoWindow), For: row.UndoFor}
}

// secondsOf returns the column of a duration: null for zero.
func secondsOf(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	return new(int64(d / time.Second))
}

func durationOf(seconds *int64) time.Duration { return time.Duration(valueOf(seconds)) * time.Second }

// errTombstonesLocked is the error of a transaction that needs tombstones which others have locked: they
// are being restored. It is tried again.
var errTombstonesLocked = &fault.Error{Kind: fault.Busy, Public: "deleted items of the account are being restored", RetryAfter: time.Second}

const (
	// The pause before a transaction is tried again is random between these.
	minLockedPause = 5 * time.Millisecond
	maxLockedPause = 25 * time.Millisecond
	// roomBatch bounds the tombstones that one statement ends.
	roomBatch = 100
)

// whileLocked repeats do while it needs tombstones that others have locked, for up to batchTimeout.
func whileLocked(ctx context.Context, do func() error) error {
	ended := time.After(batchTimeout)
	for {
		err := do()
		if !errors.Is(err, errTombstonesLocked) {
			return err
		}
		select {
		case <-ended:
			return err
		case <-ctx.Done():
			return err
		case <-time.After(minLockedPause + rand.N(maxLockedPause-minLockedPause)):
		}
	}
}

// reservation is a transaction that reserves bytes, and may end renditions and tombstones for them.
type reservation struct {
	*sqlgen.Queries
	evicted int       // renditions that ended
	request uuid.UUID // that queues the removal of the objects of tombstones
	account uuid.UUID // of the tombstones that ended; zero if none has
}

// OnRoomMade sets what removes the objects of tombstones that have ended for an upload, before the upload continues. Without it,
// and when it fails, the next purge removes them: until then, the bucket holds more than the cap. It must be called before the
// Store is used.
func (s Uploads) OnRoomMade(remove func(ctx context.Context, removals []media.Removal)) {
	s.onRoomMade = remove
}

// removeEnded removes the objects of the tombstones that a reservation has ended.
func (s Uploads) removeEnded(ctx context.Context, r reservation) {
	if s.onRoomMade == nil || r.account == uuid.Nil {
		return
	}
	rows, err := s.queries.RemovalsOfRequest(ctx, sqlgen.RemovalsOfRequestParams{AccountID: r.account, Request: r.request})
	if err != nil || len(rows) == 0 {
		return // the purge removes them
	}
	removals := make([]media.Removal, len(rows))
	for i, row := range rows {
		removals[i] = media.Removal{ID: row.ID, AccountID: r.account, Bucket: row.Bucket, Keys: row.Keys}
	}
	s.onRoomMade(ctx, removals)
}

// reserve runs do in a transaction, again while it needs tombstones that others have locked, and after it ended
// renditions if it needs the room of very many. Those that the transaction ended count as evicted once it is committed.
func (s Uploads) reserve(ctx context.Context, op string, do func(r *reservation) error) error {
	for {
		var r reservation
		err := whileLocked(ctx, func() error {
			return s.inTx(ctx, op, func(q *sqlgen.Queries) error {
				r = reservation{Queries: q, request: uuid.New()}
				return do(&r)
			})
		})
		if err == nil {
			s.evicted.WithLabelValues(forUpload).Add(float64(r.evicted))
			s.removeEnded(ctx, r)
			return nil
		}
		var many *manyRenditionsError
		if !errors.As(err, &many) {
			return err
		}
		if err := s.Pictures.evictAhead(ctx, many); err != nil {
			return err
		}
	}
}

// DeleteItemUndoably implements media.Store. It may be repeated: an attempt whose response was lost has
// left the tombstone, or the removal of the objects of a draft. It returns when no process serves the
// item from a cache.
func (s Items) DeleteItemUndoably(ctx context.Context, scope media.Scope, id uuid.UUID, window media.UndoWindow, notBefore time.Time) (*media.Removal, error) {
	attempts, draft, request := 0, false, uuid.New()
	tombstone := sqlgen.TombstoneItemParams{AppID: scope.AppID, ID: id, Now: window.From, RestorableUntil: window.Until}
	removal, err := repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) (*media.Removal, error) {
		attempts++
		var removal *media.Removal
		err := s.guarded(ctx, scope, permitted(ctx, scope, id), func(q *sqlgen.Queries, actor string) error {
			// A draft may be sealed between the two statements. A sealed item is not unsealed, so that the
			// third one finds it, unless it was deleted.
			removal, draft = nil, false
			for _, next := range []bool{false, true, false} {
				if next {
					row, err := q.DeleteItem(ctx, sqlgen.DeleteItemParams{AppID: scope.AppID, ID: id, DraftsOnly: true, Slot: randomSlot(), NotBefore: notBefore, Request: request, Actor: actor})
					if err == nil {
						draft, removal = true, &media.Removal{ID: row.ID, Bucket: row.Bucket, Keys: row.Keys}
						return nil
					}
					if !errors.Is(err, pgx.ErrNoRows) {
						return toFault(err, "delete draft")
					}
					continue
				}
				tombstone.Slot, tombstone.Actor = randomSlot(), actor
				if _, err := q.TombstoneItem(ctx, tombstone); !errors.Is(err, pgx.ErrNoRows) {
					return toFault(err, "delete item")
				}
			}
			return errItemNotFound
		})
		if err == nil && removal == nil {
			s.pageIndex.recordChange(scope.AppID)
		}
		if !errors.Is(err, errItemNotFound) {
			return removal, err
		}
		if attempts == 1 {
			return nil, errItemNotFound
		}
		if _, err := s.once.TombstoneSince(ctx, sqlgen.TombstoneSinceParams{AppID: scope.AppID, ID: id, Now: window.From}); !errors.Is(err, pgx.ErrNoRows) {
			return nil, toFault(err, "find a deleted item")
		}
		queued, err := s.queuedRemoval(ctx, scope, request)
		return &queued, err
	})
	if err != nil && !errors.Is(err, errItemNotFound) {
		return nil, err
	}
	if !draft { // also of an item that is not found, as in DeleteItem
		if err := s.awaitItemCaches(ctx); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	return removal, nil
}

// endTombstone ends a tombstone before its time, and returns the removal of its objects.
func (s Items) endTombstone(ctx context.Context, scope media.Scope, id uuid.UUID, notBefore time.Time, request uuid.UUID) (media.Removal, error) {
	if _, err := s.once.TombstoneOf(ctx, sqlgen.TombstoneOfParams{AppID: scope.AppID, ID: id}); err != nil {
		return media.Removal{}, itemFault(err, "find a deleted item")
	}
	ended, err := s.once.EndTombstones(ctx, sqlgen.EndTombstonesParams{AccountIds: []uuid.UUID{scope.AccountID}, Ids: []uuid.UUID{id}, Slot: randomSlot(),
		NotBefore: &notBefore, Request: pgtype.UUID{Bytes: request, Valid: true}, Actor: scope.Actor.Text()})
	if err != nil {
		return media.Removal{}, toFault(err, "end a deleted item")
	}
	if len(ended) == 0 {
		return media.Removal{}, errTombstonesLocked
	}
	return s.queuedRemoval(ctx, scope, request)
}

// RestoreItem implements media.Store. It may be repeated: an item that is not deleted stays as it is.
func (s Items) RestoreItem(ctx context.Context, scope media.Scope, id uuid.UUID) (item media.Item, restored bool, err error) {
	ctx, release, err := s.db.share(ctx, scope.AccountID)
	if err != nil {
		return media.Item{}, false, err
	}
	defer release()
	if scope.Guard != nil {
		return s.restoreGuarded(ctx, scope, id)
	}
	row, err := s.idempotent.RestoreItem(ctx, sqlgen.RestoreItemParams{AppID: scope.AppID, ID: id, Slot: randomSlot(), Actor: scope.Actor.Text()})
	if errors.Is(err, pgx.ErrNoRows) {
		item, err = readItem(ctx, s.idempotent, scope, id)
		return item, false, err
	}
	if err != nil {
		return media.Item{}, false, toFault(err, "restore item")
	}
	s.pageIndex.recordChange(scope.AppID)
	return itemOf(sqlgen.Item(row)), true, nil
}

// Deleted implements media.Store.
func (s Items) Deleted(ctx context.Context, scope media.Scope, id uuid.UUID) (media.DeletedItem, error) {
	row, err := s.idempotentFor(scope.AccountID).Tombstone(ctx, sqlgen.TombstoneParams{AppID: scope.AppID, ID: id})
	if err != nil {
		return media.DeletedItem{}, itemFault(err, "read a deleted item")
	}
	return deletedItemOf(row), nil
}

func deletedItemOf(row sqlgen.StoredItem) media.DeletedItem {
	deleted := media.DeletedItem{Item: itemOf(sqlgen.Item(row)), DeletedAt: *row.DeletedAt, RestorableUntil: *row.RestorableUntil}
	deleted.SealedAt = row.WasSealedAt
	return deleted
}

// ListDeleted implements media.Store.
func (s Items) ListDeleted(ctx context.Context, scope media.Scope, limit, offset int) (media.DeletedList, error) {
	return repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) (media.DeletedList, error) {
		rows, err := s.once.ListTombstones(ctx, sqlgen.ListTombstonesParams{AppID: scope.AppID, PageSize: int64(limit), Skip: int64(offset)})
		if err != nil {
			return media.DeletedList{}, toFault(err, "list deleted items")
		}
		total, err := s.once.CountTombstones(ctx, scope.AppID)
		if err != nil {
			return media.DeletedList{}, toFault(err, "count deleted items")
		}
		list := media.DeletedList{Items: make([]media.DeletedItem, 0, len(rows)), Total: total}
		for _, row := range rows {
			list.Items = append(list.Items, deletedItemOf(row))
		}
		return list, nil
	})
}

// EndTombstones implements media.PurgeStore.
func (s Items) EndTombstones(ctx context.Context, cutoff time.Time, batch int) (int, error) {
	rows, err := s.queries.DueTombstones(ctx, sqlgen.DueTombstonesParams{Cutoff: cutoff, Batch: batchSize(batch)})
	if err != nil || len(rows) == 0 {
		return 0, toFault(err, "find deleted items whose time is over")
	}
	params := sqlgen.EndTombstonesParams{Cutoff: &cutoff, Slot: randomSlot(), NotBefore: &cutoff, Actor: byPurge}
	for _, row := range rows {
		params.AccountIds, params.Ids = append(params.AccountIds, row.AccountID), append(params.Ids, row.ID)
	}
	done, err := s.queries.EndTombstones(ctx, params)
	return len(done), toFault(err, "end deleted items")
}

// makeRoom ends renditions of an account, and after them its oldest tombstones, as many as are needed, until its storage cap has
// room for bytes, and reports whether it has. If it has not, the caller rolls the transaction back, as after a
// manyRenditionsError. The
// transaction has locked the usage of the account: that serializes everything that ends tombstones or renditions, or
// reserves bytes. It does not wait for a tombstone that is being restored (errTombstonesLocked): the
// other transaction may wait for the usage.
func (r *reservation) makeRoom(ctx context.Context, accountID uuid.UUID, bytes int64) (bool, error) {
	room, err := r.Room(ctx, accountID)
	if err != nil {
		return false, err
	}
	short := bytes - room.Free
	if short > room.Deleted+room.RenditionBytes {
		return false, nil
	}
	if short > 0 && room.RenditionBytes > 0 {
		freed, err := r.evict(ctx, accountID, short, room.RenditionBytes, bytes)
		if err != nil {
			return false, err
		}
		short -= freed
	}
	locked, params := false, sqlgen.OldestTombstonesParams{AccountID: accountID, Batch: roomBatch}
	for short > 0 {
		oldest, err := r.OldestTombstones(ctx, params)
		if err != nil {
			return false, err
		}
		if len(oldest) == 0 && locked {
			return false, errTombstonesLocked
		}
		if len(oldest) == 0 {
			return false, nil
		}
		end := sqlgen.EndTombstonesParams{Slot: randomSlot(), Request: pgtype.UUID{Bytes: r.request, Valid: true}, Actor: byPurge}
		for sum := int64(0); len(end.Ids) < len(oldest) && sum < short; {
			next := oldest[len(end.Ids)]
			end.AccountIds, end.Ids = append(end.AccountIds, accountID), append(end.Ids, next.ID)
			params.After, params.AfterID = next.DeletedAt, next.ID
			sum += next.Bytes
		}
		ended, err := r.EndTombstones(ctx, end)
		if err != nil {
			return false, err
		}
		for _, tombstone := range ended {
			short -= tombstone.Bytes
			r.account = accountID
		}
		locked = locked || len(ended) < len(end.Ids)
	}
	return true, nil
}

// requireRoom locks the usage of an account and makes room for bytes; QuotaExceeded if there is none.
func (r *reservation) requireRoom(ctx context.Context, accountID uuid.UUID, bytes int64) error {
	if _, err := r.LockUsage(ctx, accountID); err != nil {
		return err
	}
	enough, err := r.makeRoom(ctx, accountID, bytes)
	if err != nil || enough {
		return err
	}
	return r.quotaExceeded(ctx, accountID)
}

func (r *reservation) quotaExceeded(ctx context.Context, accountID uuid.UUID) error {
	available, err := r.AvailableBytes(ctx, accountID)
	if err != nil {
		return err
	}
	return upload.QuotaExceeded(available.MaxStorage)
}

// openOrReject opens one upload; QuotaExceeded if the account has no room for it, even without tombstones.
func (r *reservation) openOrReject(ctx context.Context, params sqlgen.OpenUploadsParams) error {
	if err := r.requireRoom(ctx, params.AccountIds[0], params.Bytes[0]); err != nil {
		return err
	}
	opened, err := r.OpenUploads(ctx, params)
	if err == nil && len(opened) == 0 { // the cap was lowered meanwhile
		err = r.quotaExceeded(ctx, params.AccountIds[0])
	}
	return err
}
