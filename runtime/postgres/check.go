package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var _ media.CheckStore = (*Store)(nil)

// mendLock is the class of the advisory locks that menders of one account hold; the
// number is arbitrary and must never change.
const mendLock = 526_871

// AccountByID returns an open or closed account.
func (s *Store) AccountByID(ctx context.Context, id uuid.UUID) (account.Account, error) {
	row, err := s.queries.AccountByID(ctx, id)
	if err != nil {
		return account.Account{}, classify(err, "find account by id")
	}
	return accountOf(row), nil
}

// OpenAccountsAfter returns up to limit open accounts with ids after the given one, in the order of ids.
func (s *Store) OpenAccountsAfter(ctx context.Context, after uuid.UUID, limit int32) ([]account.Account, error) {
	rows, err := s.queries.OpenAccountsAfter(ctx, sqlgen.OpenAccountsAfterParams{ID: after, Limit: limit})
	if err != nil {
		return nil, classify(err, "list accounts")
	}
	accounts := make([]account.Account, len(rows))
	for i, row := range rows {
		accounts[i] = accountOf(row)
	}
	return accounts, nil
}

// ItemsAfter implements media.CheckStore.
func (s *Store) ItemsAfter(ctx context.Context, accountID, after uuid.UUID, limit int32) ([]media.ItemObjects, error) {
	rows, err := s.queries.ItemsAfter(ctx, sqlgen.ItemsAfterParams{AccountID: accountID, After: after, Limit: limit})
	if err != nil {
		return nil, classify(err, "read items in order")
	}
	items := make([]media.ItemObjects, len(rows))
	for i, row := range rows {
		items[i] = media.ItemObjects(row)
	}
	return items, nil
}

// ItemsByID implements media.CheckStore.
func (s *Store) ItemsByID(ctx context.Context, accountID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]media.Objects, error) {
	rows, err := s.queries.ItemsByID(ctx, sqlgen.ItemsByIDParams{AccountID: accountID, Ids: ids})
	if err != nil {
		return nil, classify(err, "read items by id")
	}
	items := make(map[uuid.UUID]media.Objects, len(rows))
	for _, row := range rows {
		items[row.ID] = row.Objects
	}
	return items, nil
}

// ItemsOffAfter implements media.CheckStore.
func (s *Store) ItemsOffAfter(ctx context.Context, accountID, after uuid.UUID, limit int32) ([]media.ItemOff, error) {
	rows, err := s.queries.ItemsOffAfter(ctx, sqlgen.ItemsOffAfterParams{AccountID: accountID, After: after, Limit: limit})
	if err != nil {
		return nil, classify(err, "look for items whose bytes are off")
	}
	items := make([]media.ItemOff, len(rows))
	for i, row := range rows {
		items[i] = media.ItemOff{ID: row.ID, Noted: row.Bytes, Real: row.RealBytes}
	}
	return items, nil
}

// Explain implements media.CheckStore.
func (s *Store) Explain(ctx context.Context, accountID uuid.UUID, bucket string, ids []uuid.UUID, keys []string) (media.Explanations, error) {
	rows, err := s.queries.Explanations(ctx, sqlgen.ExplanationsParams{AccountID: accountID, Ids: ids, Bucket: bucket, Keys: keys})
	if err != nil {
		return media.Explanations{}, classify(err, "explain objects")
	}
	found := media.Explanations{Items: map[string]bool{}, Uploads: map[string]bool{}, Removals: map[string]bool{}, Aborts: map[string]bool{}}
	for _, row := range rows {
		switch row.By {
		case "item":
			found.Items[row.Key] = true
		case "upload":
			found.Uploads[row.Key] = true
		default:
			found.Removals[row.Key] = true
			if row.AbortMultipart {
				found.Aborts[row.Key] = true
			}
		}
	}
	return found, nil
}

// CountPending implements media.CheckStore.
func (s *Store) CountPending(ctx context.Context, accountID uuid.UUID) (uploads, removals int64, err error) {
	row, err := s.queries.CountPending(ctx, accountID)
	return row.Uploads, row.Removals, classify(err, "count what is pending")
}

// Drifts implements media.CheckStore.
func (s *Store) Drifts(ctx context.Context, accountID uuid.UUID) ([]media.Drift, error) {
	return drifts(ctx, s.queries, accountID)
}

func drifts(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID) ([]media.Drift, error) {
	rows, err := q.Drifts(ctx, accountID)
	if err != nil {
		return nil, classify(err, "recount")
	}
	found := make([]media.Drift, len(rows))
	for i, row := range rows {
		found[i] = media.Drift{
			Counter: row.Counter, AppID: row.AppID, Group: row.GroupLabel,
			Noted: media.Counted{Public: row.NotedPublic, Private: row.NotedPrivate, Bytes: row.NotedBytes},
			Real:  media.Counted{Public: row.RealPublic, Private: row.RealPrivate, Bytes: row.RealBytes},
		}
	}
	blocks, err := q.BlockDrifts(ctx, accountID)
	if err != nil {
		return nil, classify(err, "recount the index of pages")
	}
	for _, row := range blocks {
		found = append(found, media.Drift{
			Counter: media.PageIndex, AppID: row.AppID, FirstID: row.FirstID,
			Noted: media.Counted{Public: row.PublicItems, Private: row.Items - row.PublicItems},
			Real:  media.Counted{Public: row.RealPublic, Private: row.RealItems - row.RealPublic},
		})
	}
	return found, nil
}

// mend runs do in a transaction that no other mender of the account is in.
func (s *Store) mend(ctx context.Context, what string, accountID uuid.UUID, do func(q *sqlgen.Queries) error) error {
	return s.inTx(ctx, what, func(q *sqlgen.Queries) error {
		if err := q.LockMending(ctx, sqlgen.LockMendingParams{Class: mendLock, Account: accountID.String()}); err != nil {
			return err
		}
		return do(q)
	})
}

// MendCounters implements media.CheckStore. It locks out other menders but not the
// service, which need not wait: what is added is the difference between a counter and
// its recount in one snapshot, and that difference stays the same whatever uploads,
// seals, deletes and purges do meanwhile, because each of them changes rows and
// counters together. Setting a counter to its recount would need all of them to stop.
func (s *Store) MendCounters(ctx context.Context, accountID uuid.UUID) ([]media.Drift, error) {
	var mended []media.Drift
	err := s.mend(ctx, "mend counters", accountID, func(q *sqlgen.Queries) error {
		var err error
		if mended, err = drifts(ctx, q, accountID); err != nil {
			return err
		}
		for _, d := range mended {
			if err := mendCounter(ctx, q, accountID, d); err != nil {
				return err
			}
		}
		return q.EnsureTotals(ctx, sqlgen.EnsureTotalsParams{AccountID: accountID, Slots: slots})
	})
	if err != nil {
		return nil, err
	}
	apps := map[uuid.UUID]bool{}
	for _, d := range mended {
		if d.Counter == media.PageIndex && !apps[d.AppID] {
			apps[d.AppID] = true
			if err := s.foldPages(ctx, d.AppID); err != nil {
				return mended, err
			}
		}
	}
	return mended, nil
}

// mendCounter adds to a counter what it lacks. The recount gives counters in the order
// in which a delete happens to lock them, which saves both from deadlocks: the hold,
// groups, apps.
func mendCounter(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID, d media.Drift) error {
	public, private, bytes := d.Real.Public-d.Noted.Public, d.Real.Private-d.Noted.Private, d.Real.Bytes-d.Noted.Bytes
	switch d.Counter {
	case media.AppTotal:
		return q.MendAppTotal(ctx, sqlgen.MendAppTotalParams{AppID: d.AppID, AccountID: accountID, PublicItems: public, PrivateItems: private, Bytes: bytes})
	case media.PageIndex:
		// Counted anew when changes are folded in, which is next.
		return q.RecountBlock(ctx, sqlgen.RecountBlockParams{AppID: d.AppID, FirstID: d.FirstID})
	case media.GroupTotal:
		return q.MendGroupTotal(ctx, sqlgen.MendGroupTotalParams{AppID: d.AppID, GroupLabel: d.Group, PublicItems: public, PrivateItems: private})
	default:
		if err := q.EnsureHold(ctx, accountID); err != nil {
			return err
		}
		return q.MendHold(ctx, sqlgen.MendHoldParams{AccountID: accountID, Delta: bytes})
	}
}

// MendItemBytes implements media.CheckStore. The lock keeps it apart from
// MendCounters, whose differences it changes.
func (s *Store) MendItemBytes(ctx context.Context, accountID, itemID uuid.UUID) error {
	return s.mend(ctx, "mend an item's bytes", accountID, func(q *sqlgen.Queries) error {
		return q.MendItemBytes(ctx, sqlgen.MendItemBytesParams{AccountID: accountID, ID: itemID})
	})
}

// DropObject implements media.CheckStore.
func (s *Store) DropObject(ctx context.Context, accountID uuid.UUID, bucket string, itemID uuid.UUID, object media.Object) (*media.Removal, error) {
	var removal *media.Removal
	err := s.mend(ctx, "drop an object", accountID, func(q *sqlgen.Queries) error {
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
			return fault.New(fault.Conflict, "an item can't be without its original")
		}
		bytes := kept.Bytes()
		if err := q.SetItemObjects(ctx, sqlgen.SetItemObjectsParams{ID: itemID, Objects: kept, Bytes: bytes}); err != nil {
			return err
		}
		if err := q.MendHold(ctx, sqlgen.MendHoldParams{AccountID: accountID, Delta: bytes - item.Bytes}); err != nil {
			return err
		}
		if item.SealedAt != nil {
			if err := q.LessenAppTotal(ctx, sqlgen.LessenAppTotalParams{AppID: item.AppID, Bytes: item.Bytes - bytes}); err != nil {
				return err
			}
		}
		// Whatever is stored there, damaged or late, has no row now.
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
