package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/rendition"
)

// repairLock is the class of the advisory locks that serialize repairs of one account. The
// number is arbitrary and must never change.
const repairLock = 526_871

// AccountByID returns an open or closed account.
func (s Consistency) AccountByID(ctx context.Context, id uuid.UUID) (account.Account, error) {
	row, err := s.queries.AccountByID(ctx, id)
	if err != nil {
		return account.Account{}, toFault(err, "find account by id")
	}
	return accountOf(row), nil
}

// OpenAccountsAfter returns up to limit open accounts with ids after the given one, in the order of ids.
func (s Consistency) OpenAccountsAfter(ctx context.Context, after uuid.UUID, limit int32) ([]account.Account, error) {
	rows, err := s.queries.OpenAccountsAfter(ctx, sqlgen.OpenAccountsAfterParams{ID: after, Limit: limit})
	if err != nil {
		return nil, toFault(err, "list accounts")
	}
	accounts := make([]account.Account, len(rows))
	for i, row := range rows {
		accounts[i] = accountOf(row)
	}
	return accounts, nil
}

// ItemsAfter implements consistency.Store.
func (s Consistency) ItemsAfter(ctx context.Context, accountID, after uuid.UUID, limit int32) ([]consistency.ItemObjects, error) {
	rows, err := s.queries.ItemsAfter(ctx, sqlgen.ItemsAfterParams{AccountID: accountID, After: after, Limit: limit})
	if err != nil {
		return nil, toFault(err, "read items in order")
	}
	items := make([]consistency.ItemObjects, len(rows))
	for i, row := range rows {
		items[i].ID = row.ID
		if err := items[i].Objects.ScanBytes(row.Objects); err != nil {
			return nil, fmt.Errorf("postgres: read the objects of item %s: %w", row.ID, err)
		}
	}
	return items, nil
}

// ItemsByID implements consistency.Store.
func (s Consistency) ItemsByID(ctx context.Context, accountID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]media.Objects, error) {
	rows, err := s.queries.ItemsByID(ctx, sqlgen.ItemsByIDParams{AccountID: accountID, Ids: ids})
	if err != nil {
		return nil, toFault(err, "read items by id")
	}
	items := make(map[uuid.UUID]media.Objects, len(rows))
	for _, row := range rows {
		var objects media.Objects
		if err := objects.ScanBytes(row.Objects); err != nil {
			return nil, fmt.Errorf("postgres: read the objects of item %s: %w", row.ID, err)
		}
		items[row.ID] = objects
	}
	return items, nil
}

// SizeMismatchesAfter implements consistency.Store.
func (s Consistency) SizeMismatchesAfter(ctx context.Context, accountID, after uuid.UUID, limit int32) ([]consistency.SizeMismatch, error) {
	rows, err := s.queries.SizeMismatchesAfter(ctx, sqlgen.SizeMismatchesAfterParams{AccountID: accountID, After: after, Limit: limit})
	if err != nil {
		return nil, toFault(err, "find size mismatches")
	}
	items := make([]consistency.SizeMismatch, len(rows))
	for i, row := range rows {
		items[i] = consistency.SizeMismatch{ItemID: row.ID, Recorded: row.Bytes, Actual: row.ActualBytes}
	}
	return items, nil
}

// OverdueItemsAfter implements consistency.Store.
func (s Consistency) OverdueItemsAfter(ctx context.Context, accountID, after uuid.UUID, cutoff time.Time, limit int32) ([]consistency.OverdueItem, error) {
	rows, err := s.queries.OverdueTombstones(ctx, sqlgen.OverdueTombstonesParams{AccountID: accountID, After: after, Cutoff: cutoff, Batch: limit})
	if err != nil {
		return nil, toFault(err, "find deleted items whose time is over")
	}
	items := make([]consistency.OverdueItem, len(rows))
	for i, row := range rows {
		items[i] = consistency.OverdueItem(row)
	}
	return items, nil
}

// EndOverdueItems implements consistency.Store.
func (s Consistency) EndOverdueItems(ctx context.Context, accountID uuid.UUID, ids []uuid.UUID, cutoff time.Time) ([]uuid.UUID, error) {
	params := sqlgen.EndTombstonesParams{Ids: ids, AccountIds: make([]uuid.UUID, len(ids)), Cutoff: &cutoff, Slot: randomSlot(), Actor: byPurge}
	for i := range ids {
		params.AccountIds[i] = accountID
	}
	rows, err := s.queries.EndTombstones(ctx, params)
	ended := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		ended[i] = row.ID
	}
	return ended, toFault(err, "end deleted items whose time is over")
}

// FindReferences implements consistency.Store.
func (s Consistency) FindReferences(ctx context.Context, accountID uuid.UUID, bucket string, ids []uuid.UUID, keys []string) (consistency.References, error) {
	params := sqlgen.FindReferencesParams{AccountID: accountID, Ids: ids, Bucket: bucket, Keys: keys, Writers: make([]int64, len(keys))}
	for i, key := range keys {
		_, params.Writers[i], _ = media.WriterOfKey(key)
	}
	rows, err := s.queries.FindReferences(ctx, params)
	if err != nil {
		return consistency.References{}, toFault(err, "find references")
	}
	found := consistency.References{Items: map[string]bool{}, Uploads: map[string]bool{}, Writers: map[string]bool{}, Removals: map[string]bool{}, Aborts: map[string]bool{}}
	for _, row := range rows {
		switch row.Referrer {
		case "item":
			found.Items[row.Key] = true
		case "upload":
			found.Uploads[row.Key] = true
		case "writer":
			found.Writers[row.Key] = true
		default:
			found.Removals[row.Key] = true
			if row.AbortMultipart {
				found.Aborts[row.Key] = true
			}
		}
	}
	return found, nil
}

// CountPending implements consistency.Store.
func (s Consistency) CountPending(ctx context.Context, accountID uuid.UUID) (uploads, removals int64, err error) {
	row, err := s.queries.CountPending(ctx, accountID)
	return row.Uploads, row.Removals, toFault(err, "count uploads and removals")
}

// CountRestored implements consistency.RestoreStore.
func (s Consistency) CountRestored(ctx context.Context, accountID uuid.UUID, cutoff time.Time) (consistency.RestoreCounts, error) {
	row, err := s.queries.CountRestored(ctx, sqlgen.CountRestoredParams{AccountID: accountID, Cutoff: cutoff})
	return consistency.RestoreCounts{ExpiredDrafts: row.Drafts, ExpiredDraftsBytes: row.DraftBytes, Keys: row.Keys}, toFault(err, "count what a restore turned back")
}

// FindDrift implements consistency.Store.
func (s Consistency) FindDrift(ctx context.Context, accountID uuid.UUID) ([]consistency.Drift, error) {
	return findDrift(ctx, s.queries, accountID)
}

func findDrift(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID) ([]consistency.Drift, error) {
	rows, err := q.CounterDrift(ctx, accountID)
	if err != nil {
		return nil, toFault(err, "recount")
	}
	found := make([]consistency.Drift, len(rows))
	for i, row := range rows {
		found[i] = consistency.Drift{
			Counter: row.Counter, AppID: row.AppID, Group: row.GroupLabel,
			Recorded: consistency.CounterValue{Public: row.RecordedPublic, Private: row.RecordedPrivate, Bytes: row.RecordedBytes},
			Actual:   consistency.CounterValue{Public: row.ActualPublic, Private: row.ActualPrivate, Bytes: row.ActualBytes},
		}
	}
	blocks, err := q.PageIndexDrift(ctx, accountID)
	if err != nil {
		return nil, toFault(err, "recount the pagination index")
	}
	for _, row := range blocks {
		found = append(found, consistency.Drift{
			Counter: consistency.PageIndex, AppID: row.AppID, Group: row.GroupLabel, FirstID: row.FirstID,
			Recorded: consistency.CounterValue{Public: row.PublicItems, Private: row.Items - row.PublicItems},
			Actual:   consistency.CounterValue{Public: row.ActualPublic, Private: row.ActualItems - row.ActualPublic},
		})
	}
	return found, nil
}

// withRepairLock runs do in a transaction that excludes other repairs of the account.
func (s Consistency) withRepairLock(ctx context.Context, op string, accountID uuid.UUID, do func(q *sqlgen.Queries) error) error {
	return s.inTx(ctx, op, func(q *sqlgen.Queries) error {
		if err := q.LockRepair(ctx, sqlgen.LockRepairParams{Class: repairLock, Account: accountID.String()}); err != nil {
			return err
		}
		return do(q)
	})
}

// RepairCounters implements consistency.Store. It excludes other repairs, but not the
// service: it adds the difference between a counter and its recount in one snapshot. That
// difference is not changed by concurrent uploads, seals, deletes and purges, because each of
// them changes rows and counters together. Setting a counter to its recount would have to
// stop all of them.
func (s Consistency) RepairCounters(ctx context.Context, accountID uuid.UUID) ([]consistency.Drift, error) {
	var repaired []consistency.Drift
	err := s.withRepairLock(ctx, "repair counters", accountID, func(q *sqlgen.Queries) error {
		var err error
		if repaired, err = findDrift(ctx, q, accountID); err != nil {
			return err
		}
		for _, d := range repaired {
			if err := repairCounter(ctx, q, accountID, d); err != nil {
				return err
			}
		}
		return q.EnsureTotals(ctx, sqlgen.EnsureTotalsParams{AccountID: accountID, Slots: totalSlots})
	})
	if err != nil {
		return nil, err
	}
	apps := map[uuid.UUID]bool{}
	for _, d := range repaired {
		if d.Counter == consistency.PageIndex && !apps[d.AppID] {
			apps[d.AppID] = true
			if err := s.Items.compactApp(ctx, d.AppID); err != nil {
				return repaired, err
			}
		}
	}
	return repaired, nil
}

// repairCounter adds the difference to a counter. FindDrift returns counters in the order in
// which a delete locks them (usage, renditions, groups, apps), so that the two do not deadlock.
func repairCounter(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID, d consistency.Drift) error {
	public, private, bytes := d.Actual.Public-d.Recorded.Public, d.Actual.Private-d.Recorded.Private, d.Actual.Bytes-d.Recorded.Bytes
	switch d.Counter {
	case consistency.AppTotal:
		return q.RepairAppTotal(ctx, sqlgen.RepairAppTotalParams{AppID: d.AppID, AccountID: accountID, PublicItems: public, PrivateItems: private, Bytes: bytes})
	case consistency.DeletedTotal:
		return q.RepairDeletedTotal(ctx, sqlgen.RepairDeletedTotalParams{AppID: d.AppID, AccountID: accountID, Items: private, Bytes: bytes})
	case consistency.PageIndex:
		// The compaction of the index, which is next, counts the block again.
		return q.InvalidateBlock(ctx, sqlgen.InvalidateBlockParams{AppID: d.AppID, GroupLabel: d.Group, FirstID: d.FirstID})
	case consistency.RenditionTotal:
		preset, recipe, _ := strings.Cut(d.Group, " ")
		id, err := hex.DecodeString(recipe)
		if err != nil {
			return err
		}
		return q.RepairRenditionTotal(ctx, sqlgen.RepairRenditionTotalParams{AccountID: accountID, Preset: preset, RecipeID: id, Items: private, Bytes: bytes})
	case consistency.RenditionBytes:
		if err := q.EnsureUsage(ctx, accountID); err != nil {
			return err
		}
		return q.AddRenditionUsage(ctx, sqlgen.AddRenditionUsageParams{AccountID: accountID, Delta: bytes})
	case consistency.GroupTotal:
		return q.RepairGroupTotal(ctx, sqlgen.RepairGroupTotalParams{AppID: d.AppID, GroupLabel: d.Group, PublicItems: public, PrivateItems: private})
	default:
		if err := q.EnsureUsage(ctx, accountID); err != nil {
			return err
		}
		return q.AddUsage(ctx, sqlgen.AddUsageParams{AccountID: accountID, Delta: bytes})
	}
}

// RepairItemBytes implements consistency.Store. The lock excludes
// RepairCounters, whose differences it would change.
func (s Consistency) RepairItemBytes(ctx context.Context, accountID, itemID uuid.UUID) error {
	return s.withRepairLock(ctx, "repair an item's bytes", accountID, func(q *sqlgen.Queries) error {
		return q.RepairItemBytes(ctx, sqlgen.RepairItemBytesParams{AccountID: accountID, ID: itemID})
	})
}

// DropObject implements consistency.Store.
func (s Consistency) DropObject(ctx context.Context, accountID uuid.UUID, bucket string, itemID uuid.UUID, object media.Object) (*media.Removal, error) {
	if id, ok := rendition.IDOfObject(object.Key); ok {
		return s.Pictures.dropRendition(ctx, accountID, bucket, itemID, id)
	}
	var removal *media.Removal
	err := s.withRepairLock(ctx, "drop an object", accountID, func(q *sqlgen.Queries) error {
		removal = nil
		item, err := q.LockItem(ctx, sqlgen.LockItemParams{AccountID: accountID, ID: itemID})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return err
		}
		kept := make(media.Objects, 0, len(item.Objects))
		for _, other := range item.Objects {
			if other.Key != object.Key {
				kept = append(kept, other)
			}
		}
		if len(kept) == len(item.Objects) {
			return nil
		}
		if object.Variant == media.Original {
			return fault.New(fault.Conflict, "an original can't be dropped from its item")
		}
		bytes := kept.Bytes()
		if err := q.SetItemObjects(ctx, sqlgen.SetItemObjectsParams{ID: itemID, Objects: kept, Bytes: bytes}); err != nil {
			return err
		}
		if err := q.AddUsage(ctx, sqlgen.AddUsageParams{AccountID: accountID, Delta: bytes - item.Bytes}); err != nil {
			return err
		}
		if item.DeletedAt != nil {
			if err := q.DecrementDeleted(ctx, sqlgen.DecrementDeletedParams{AppID: item.AppID, Bytes: item.Bytes - bytes}); err != nil {
				return err
			}
		}
		if item.SealedAt != nil {
			if err := q.DecrementAppTotal(ctx, sqlgen.DecrementAppTotalParams{AppID: item.AppID, Bytes: item.Bytes - bytes}); err != nil {
				return err
			}
		}
		// An object under this key, damaged or written late, has no row any more.
		keys := []string{object.Key}
		id, err := q.QueueRemoval(ctx, sqlgen.QueueRemovalParams{AccountID: accountID, Bucket: bucket, Keys: keys, AbortMultipart: true, NotBefore: item.CreatedAt})
		removal = &media.Removal{ID: id, Bucket: bucket, Keys: keys, AbortMultipart: true}
		return err
	})
	if err != nil {
		return nil, err
	}
	return removal, nil
}
