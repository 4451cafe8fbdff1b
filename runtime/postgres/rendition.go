package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/rendition"
)

var (
	_ rendition.Store      = Pictures{}
	_ rendition.Claims     = Pictures{}
	_ rendition.Counts     = Pictures{}
	_ rendition.PurgeStore = Pictures{}
)

// own returns the id of this process; zero until it is recorded.
func (s *Store) own() uuid.UUID {
	if id := s.instance.Load(); id != nil {
		return *id
	}
	return uuid.Nil
}

// FindRendition implements rendition.Store.
func (s Pictures) FindRendition(ctx context.Context, accountID uuid.UUID, ref rendition.Ref) (rendition.Stored, rendition.State, error) {
	row, err := s.idempotentFor(accountID).FindRendition(ctx, sqlgen.FindRenditionParams{ItemID: ref.ItemID, Key: ref.Key[:], Own: s.own()})
	switch found := row.Rendition; {
	case errors.Is(err, pgx.ErrNoRows):
		return rendition.Stored{}, rendition.Absent, nil
	case err != nil:
		return rendition.Stored{}, rendition.Absent, toFault(err, "find a rendition")
	case row.ClaimEnded:
		return rendition.Stored{}, rendition.Absent, nil
	case !found.Ready:
		return rendition.Stored{}, rendition.Making, nil
	default:
		return rendition.Stored{UsedAt: found.UsedAt, Result: renditionResult(found)}, rendition.Ready, nil
	}
}

func renditionResult(row sqlgen.Rendition) rendition.Result {
	return rendition.Result{Width: int(row.Width), Height: int(row.Height),
		Object: media.Object{Key: rendition.ObjectKey(row.ItemID, row.ID), Bytes: row.Bytes, MimeType: row.MimeType, SHA256: row.Sha256}}
}

// NearestRendition implements rendition.Store.
func (s Pictures) NearestRendition(ctx context.Context, accountID, itemID uuid.UUID, width, height int) (rendition.Result, string, error) {
	row, err := s.idempotentFor(accountID).NearestRendition(ctx, sqlgen.NearestRenditionParams{ItemID: itemID, AccountID: accountID, Width: int64(width), Height: int64(height), Internal: rendition.Internal()})
	if errors.Is(err, pgx.ErrNoRows) {
		return rendition.Result{}, "", fault.New(fault.NotFound, "the item has no rendition")
	}
	if err != nil {
		return rendition.Result{}, "", toFault(err, "find the nearest rendition")
	}
	return renditionResult(row.Rendition), row.Rendition.Preset, nil
}

// ClaimRendition implements rendition.Claims. It may be repeated: a claim whose answer was lost is found by its id.
func (s Pictures) ClaimRendition(ctx context.Context, claim rendition.Claim) (bool, error) {
	params := sqlgen.ClaimRenditionParams{AccountID: claim.AccountID, ItemID: claim.ItemID, Key: claim.Key[:], ID: claim.ID,
		Preset: claim.Preset, RecipeID: claim.RecipeID[:], Own: s.own(), Lease: claim.Lease.Microseconds()}
	return repeat(ctx, s.Store, claim.AccountID, func(ctx context.Context) (bool, error) {
		rows, err := s.once.ClaimRendition(ctx, params)
		if err != nil || rows > 0 {
			return rows > 0, toFault(err, "claim a rendition")
		}
		ended, err := s.once.EndClaim(ctx, sqlgen.EndClaimParams{LockTimeout: milliseconds(s.finishLockTimeout), AccountID: claim.AccountID, ItemID: claim.ItemID, Key: claim.Key[:], Own: params.Own})
		if err != nil {
			return false, toFault(err, "end the claim of a rendition")
		}
		if ended > 0 {
			if rows, err = s.once.ClaimRendition(ctx, params); err != nil || rows > 0 {
				return rows > 0, toFault(err, "claim a rendition")
			}
		}
		held, err := s.once.HasClaim(ctx, sqlgen.HasClaimParams{ItemID: claim.ItemID, Key: claim.Key[:], ID: claim.ID})
		if err != nil || held {
			return held, toFault(err, "find the claim of a rendition")
		}
		exists, err := s.once.IsItem(ctx, sqlgen.IsItemParams{AccountID: claim.AccountID, ID: claim.ItemID})
		if err == nil && !exists {
			return false, errItemNotFound
		}
		return false, toFault(err, "find the item of a rendition")
	})
}

// How long a rendition waits for a lock of its account until it is sent unstored. One whose object is stored already waits longer, and so does
// what ends a claim, or a rendition: it keeps a connection meanwhile.
const (
	reserveLockTimeout = soloLockTimeout
	finishLockTimeout  = 4 * soloLockTimeout
)

// errNoRoom ends a transaction in which there is no room for a rendition.
var errNoRoom = errors.New("no room for a rendition")

// ReserveRendition implements rendition.Claims.
func (s Pictures) ReserveRendition(ctx context.Context, claim rendition.Claim, bytes int64) (bool, error) {
	ctx, release, err := s.db.share(ctx, claim.AccountID)
	if err != nil {
		return false, err
	}
	defer release()
	params := sqlgen.ReserveRenditionParams{LockTimeout: milliseconds(reserveLockTimeout), AccountID: claim.AccountID, ItemID: claim.ItemID, Key: claim.Key[:], ID: claim.ID, Bytes: bytes}
	if rows, err := s.queries.ReserveRendition(ctx, params); err != nil || rows > 0 {
		return rows > 0, toFault(err, "reserve the bytes of a rendition")
	}
	if claim.Eager {
		held, err := s.queries.HasClaim(ctx, sqlgen.HasClaimParams{ItemID: claim.ItemID, Key: claim.Key[:], ID: claim.ID})
		if err == nil && !held {
			err = rendition.ErrLost
		}
		return false, toFault(err, "reserve the bytes of a rendition")
	}
	evicted := 0
	err = s.inTx(ctx, "make room for a rendition", func(q *sqlgen.Queries) error {
		if _, err := q.LockUsageWithin(ctx, sqlgen.LockUsageWithinParams{LockTimeout: params.LockTimeout, AccountID: claim.AccountID}); err != nil {
			return err
		}
		held, err := q.HasClaim(ctx, sqlgen.HasClaimParams{ItemID: claim.ItemID, Key: claim.Key[:], ID: claim.ID})
		if err == nil && !held {
			err = rendition.ErrLost
		}
		if err != nil {
			return err
		}
		room, err := q.Room(ctx, claim.AccountID)
		if err != nil {
			return err
		}
		if short := bytes - room.Free; short > 0 {
			if short > room.RenditionBytes {
				return errNoRoom
			}
			for e := (eviction{accountID: claim.AccountID, readyOnly: true}); short > 0; {
				ended, freed, err := e.next(ctx, q, short)
				if err != nil {
					return err
				}
				if e.over() {
					return errNoRoom
				}
				short -= freed
				evicted += ended
			}
		}
		rows, err := q.ReserveRendition(ctx, params)
		if err == nil && rows == 0 { // the cap was lowered meanwhile
			err = errNoRoom
		}
		return err
	})
	if errors.Is(err, errNoRoom) {
		return false, nil
	}
	if err == nil {
		s.evicted.WithLabelValues(forRendition).Add(float64(evicted))
	}
	return err == nil, err
}

// FinishRendition implements rendition.Claims.
func (s Pictures) FinishRendition(ctx context.Context, claim rendition.Claim, result rendition.Result) error {
	params := sqlgen.FinishRenditionParams{AccountID: claim.AccountID, ItemID: claim.ItemID, Key: claim.Key[:], ID: claim.ID,
		MimeType: result.Object.MimeType, Width: integer(result.Width), Height: integer(result.Height), Sha256: result.Object.SHA256, Eager: claim.Eager}
	ctx, release, err := s.db.share(ctx, claim.AccountID)
	if err != nil {
		return err
	}
	defer release()
	return s.inTx(ctx, "finish a rendition", func(q *sqlgen.Queries) error {
		// In a statement of its own: the next one sees what was finished until the lock was there.
		if _, err := q.LockUsageWithin(ctx, sqlgen.LockUsageWithinParams{LockTimeout: milliseconds(s.finishLockTimeout), AccountID: claim.AccountID}); err != nil {
			return err
		}
		rows, err := q.FinishRendition(ctx, params)
		if err == nil && rows == 0 {
			return rendition.ErrLost
		}
		return err
	})
}

// AbandonRendition implements rendition.Claims. It may be repeated. A claim without bytes ends also while the usage of the account
// is locked: others that need the rendition wait for the end of the claim.
func (s Pictures) AbandonRendition(ctx context.Context, claim rendition.Claim) error {
	rows, err := s.idempotentFor(claim.AccountID).EndUnreservedClaim(ctx, sqlgen.EndUnreservedClaimParams{ItemID: claim.ItemID, Key: claim.Key[:], ID: claim.ID})
	if err != nil || rows > 0 {
		return toFault(err, "end the claim of a rendition")
	}
	return s.endRendition(ctx, sqlgen.EndRenditionParams{AccountID: claim.AccountID, ItemID: claim.ItemID, Key: claim.Key[:], ID: claim.ID, Ready: false})
}

// EndRendition implements rendition.Store. It may be repeated.
func (s Pictures) EndRendition(ctx context.Context, accountID uuid.UUID, ref rendition.Ref, id uuid.UUID) error {
	return s.endRendition(ctx, sqlgen.EndRenditionParams{AccountID: accountID, ItemID: ref.ItemID, Key: ref.Key[:], ID: id, Ready: true})
}

func (s Pictures) endRendition(ctx context.Context, params sqlgen.EndRenditionParams) error {
	params.LockTimeout = milliseconds(s.finishLockTimeout)
	_, err := s.idempotentFor(params.AccountID).EndRendition(ctx, params)
	return toFault(err, "end a rendition")
}

// dropRendition ends a rendition whose object is missing or damaged, and queues the removal of the object.
func (s Pictures) dropRendition(ctx context.Context, accountID uuid.UUID, bucket string, itemID, id uuid.UUID) (*media.Removal, error) {
	var removal *media.Removal
	err := s.Consistency.withRepairLock(ctx, "drop a rendition", accountID, func(q *sqlgen.Queries) error {
		removal = nil
		rows, err := q.DropRendition(ctx, sqlgen.DropRenditionParams{AccountID: accountID, ItemID: itemID, ID: id})
		if err != nil || rows == 0 { // ended meanwhile
			return err
		}
		keys := []string{rendition.ObjectKey(itemID, id)}
		queued, err := q.QueueRemoval(ctx, sqlgen.QueueRemovalParams{AccountID: accountID, Bucket: bucket, Keys: keys, NotBefore: time.Now()})
		removal = &media.Removal{ID: queued, Bucket: bucket, Keys: keys}
		return err
	})
	if err != nil {
		return nil, err
	}
	return removal, nil
}

// TouchRenditions implements rendition.Store.
func (s Pictures) TouchRenditions(ctx context.Context, used []rendition.Ref, now, before time.Time) error {
	params := sqlgen.TouchRenditionsParams{Now: now, Before: before}
	for _, ref := range used {
		params.ItemIds, params.Keys = append(params.ItemIds, ref.ItemID), append(params.Keys, ref.Key[:])
	}
	return toFault(s.queries.TouchRenditions(ctx, params), "record the use of renditions")
}

// PresetCounts implements rendition.Counts.
func (s Pictures) PresetCounts(ctx context.Context, accountID uuid.UUID) ([]rendition.PresetCount, error) {
	rows, err := s.queries.RenditionTotals(ctx, accountID)
	if err != nil {
		return nil, toFault(err, "count renditions")
	}
	counts := make([]rendition.PresetCount, len(rows))
	for i, row := range rows {
		counts[i] = rendition.PresetCount{Preset: row.Preset, RecipeID: media.RecipeID(row.RecipeID), Items: row.Items, Bytes: row.Bytes}
	}
	return counts, nil
}

// presetTotalsPage is how many accounts one statement of EachPresetTotal reads.
const presetTotalsPage = 1000

// EachPresetTotal calls visit for every open account of the namespaces (nil = all) and each of its presets of which
// something is stored.
func (s Pictures) EachPresetTotal(ctx context.Context, namespaces []string, visit func(rendition.PresetTotal)) error {
	for after := uuid.Nil; ; {
		rows, err := s.queries.PresetTotalsAfter(ctx, sqlgen.PresetTotalsAfterParams{After: after, Namespaces: namespaces, Page: presetTotalsPage})
		if err != nil {
			return toFault(err, "count the renditions of all accounts")
		}
		accounts := 0
		for _, row := range rows {
			if row.ID != after {
				after, accounts = row.ID, accounts+1
			}
			visit(rendition.PresetTotal{Namespace: row.Namespace, Account: row.Name, Preset: row.Preset, Items: row.Items, Bytes: row.Bytes})
		}
		if accounts < presetTotalsPage {
			return nil
		}
	}
}

// EndClaims implements rendition.PurgeStore.
func (s Pictures) EndClaims(ctx context.Context, cutoff time.Time, batch int) (int, error) {
	rows, err := s.queries.EndClaims(ctx, sqlgen.EndClaimsParams{Cutoff: cutoff, Batch: batchSize(batch)})
	return int(rows), toFault(err, "end the claims of renditions")
}

// AccountsWithRenditions implements rendition.PurgeStore.
func (s Pictures) AccountsWithRenditions(ctx context.Context, after uuid.UUID, limit int) ([]uuid.UUID, error) {
	ids, err := s.queries.AccountsWithRenditions(ctx, sqlgen.AccountsWithRenditionsParams{After: after, Page: batchSize(limit)})
	return ids, toFault(err, "list the accounts with renditions")
}

// MarkStaleRenditions implements rendition.PurgeStore.
func (s Pictures) MarkStaleRenditions(ctx context.Context, accountID uuid.UUID, current []media.RecipeID, now time.Time) error {
	params := sqlgen.MarkStaleRenditionsParams{AccountID: accountID, Now: now, RecipeIds: [][]byte{}}
	for _, id := range current {
		params.RecipeIds = append(params.RecipeIds, id[:])
	}
	return toFault(s.queries.MarkStaleRenditions(ctx, params), "mark stale renditions")
}

// EndStaleRenditions implements rendition.PurgeStore.
func (s Pictures) EndStaleRenditions(ctx context.Context, cutoff time.Time, kept []uuid.UUID, batch int) (int, error) {
	if kept == nil {
		kept = []uuid.UUID{} // no account; null would be every one
	}
	rows, err := s.queries.EndStaleRenditions(ctx, sqlgen.EndStaleRenditionsParams{Cutoff: cutoff, Kept: kept, Batch: batchSize(batch)})
	if err == nil && int(rows) < batch {
		err = s.queries.ForgetStaleTotals(ctx, cutoff)
	}
	return int(rows), toFault(err, "end stale renditions")
}
