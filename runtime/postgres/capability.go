package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/upload"
)

// OpenCountedUpload implements upload.Store. It is not batched with other uploads: a capability of which
// every use is taken must not undo theirs.
func (s Uploads) OpenCountedUpload(ctx context.Context, itemID uuid.UUID, scope media.Scope, capability upload.Capability, bytes int64, leaseEnds time.Time) error {
	params := s.ofProcess(openParams(noLockTimeout, []openRequest{{itemID: itemID, accountID: scope.AccountID, appID: scope.AppID, bytes: bytes, leaseEnds: leaseEnds}}))
	return s.reserve(ctx, "open upload", func(r *reservation) error { return r.openWithin(ctx, params, scope, &capability) })
}

// openWithin opens one upload, with a use of its capability if that has a count.
func (r *reservation) openWithin(ctx context.Context, params sqlgen.OpenUploadsParams, scope media.Scope, capability *upload.Capability) error {
	opened, err := r.OpenUploads(ctx, params)
	if err != nil {
		return err
	}
	if len(opened) == 0 {
		if err := r.openOrReject(ctx, params); err != nil {
			return err
		}
	}
	if capability == nil || capability.Count == 0 {
		return nil
	}
	_, err = r.UseCapability(ctx, sqlgen.UseCapabilityParams{ID: capability.ID, AccountID: scope.AccountID, ExpiresAt: capability.ExpiresAt,
		Count: int32(capability.Count), ItemID: params.ItemIds[0]}) //nolint:gosec // at most upload.MaxCapabilityCount
	if errors.Is(err, pgx.ErrNoRows) {
		return capability.Used()
	}
	if err != nil || !capability.Requested {
		return err
	}
	return r.BeginRequestedUpload(ctx, sqlgen.BeginRequestedUploadParams{ItemID: params.ItemIds[0], CapabilityID: capability.ID})
}

// releaseCapabilities releases the uses of uploads that ended without an item. The rows of the
// accounts' usage are locked already.
func releaseCapabilities(ctx context.Context, q *sqlgen.Queries, uploads ...[]byte) error {
	var ids [][]byte
	for _, id := range uploads {
		if id != nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return q.ReleaseCapabilities(ctx, ids)
}

// commitSealed makes an item that is sealed at once: the draft is in no snapshot.
func (s Uploads) commitSealed(ctx context.Context, item draft) error {
	err := s.commitAlone(ctx, item)
	if err == nil {
		s.pageIndex.recordChange(item.AppID)
	}
	return err
}

// sealCommitted seals an item that the transaction has made, if it is to be sealed, or records that it is once its file was checked.
func sealCommitted(ctx context.Context, q *sqlgen.Queries, item draft) error {
	switch {
	case item.Check == media.CheckSealWanted:
		_, err := q.WantSeal(ctx, sqlgen.WantSealParams{AppID: item.AppID, ID: item.ID, Actor: item.by.Text()})
		return err
	case item.SealedAt == nil:
		return nil
	}
	_, err := q.Seal(ctx, sqlgen.SealParams{AppID: item.AppID, ID: item.ID, Now: *item.SealedAt, Slot: randomSlot(), Actor: item.by.Text()})
	return err
}

// DeleteExpiredCapabilities implements media.PurgeStore.
func (s Items) DeleteExpiredCapabilities(ctx context.Context, cutoff time.Time, batch int) (int, error) {
	n, err := s.queries.DeleteExpiredCapabilities(ctx, sqlgen.DeleteExpiredCapabilitiesParams{Cutoff: cutoff, Batch: batchSize(batch)})
	return int(n), toFault(err, "delete expired capabilities")
}
