package postgres

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// openRequest is an upload to open.
type openRequest struct {
	itemID, accountID, appID uuid.UUID
	bytes                    int64
	leaseEnds                time.Time
}

func (r openRequest) account() uuid.UUID { return r.accountID }

// OpenUpload implements upload.Store.
func (s Uploads) OpenUpload(ctx context.Context, itemID uuid.UUID, scope media.Scope, bytes int64, leaseEnds time.Time) error {
	request := openRequest{itemID: itemID, accountID: scope.AccountID, appID: scope.AppID, bytes: bytes, leaseEnds: leaseEnds}
	opened, err := s.openBatch.Do(ctx, request)
	if err == nil && !opened {
		// The uploads of the account in the batch exceed the storage cap; this one alone may fit.
		return s.reserve(ctx, "open upload", func(r *reservation) error {
			return r.openOrReject(ctx, s.ofProcess(openParams(noLockTimeout, []openRequest{request})))
		})
	}
	return toFault(err, "open upload")
}

// noLockTimeout is the lock timeout of a statement that only its own timeout bounds.
const noLockTimeout = 0

func (s Uploads) openUploads(ctx context.Context, lockTimeout time.Duration, requests []openRequest) ([]bool, error) {
	params := s.ofProcess(openParams(lockTimeout, requests))
	opened, err := s.queries.OpenUploads(ctx, params)
	return contains(params.ItemIds, opened), err
}

// ofProcess returns the parameters that open uploads of this process.
func (s Uploads) ofProcess(params sqlgen.OpenUploadsParams) sqlgen.OpenUploadsParams {
	if id := s.instance.Load(); id != nil {
		params.InstanceID = *id
	}
	return params
}

// openParams are the parameters that open uploads of no process.
func openParams(lockTimeout time.Duration, requests []openRequest) sqlgen.OpenUploadsParams {
	params := sqlgen.OpenUploadsParams{LockTimeout: milliseconds(lockTimeout)}
	for _, request := range requests {
		params.ItemIds = append(params.ItemIds, request.itemID)
		params.AccountIds = append(params.AccountIds, request.accountID)
		params.AppIds = append(params.AppIds, request.appID)
		params.Bytes = append(params.Bytes, request.bytes)
		params.LeaseEnds = append(params.LeaseEnds, request.leaseEnds)
	}
	return params
}

// maxBatchPause bounds the pause after a batch, maxPauseReplicas how often its duration is in it.
const (
	maxBatchPause    = 10 * time.Millisecond
	maxPauseReplicas = 4
)

// batchPause returns the pause after a batch of this duration. Each of n replicas gets one nth of the
// uploads; if it paused for no longer than one replica does, its batches would be that much smaller, and
// PostgreSQL would execute n times as many. A call that comes after the pause is executed at once.
func (s Uploads) batchPause(took time.Duration) time.Duration {
	others := min(max(0, s.replicas.Load()-1), maxPauseReplicas)
	return min(time.Duration(others)*took, maxBatchPause)
}

// milliseconds returns a duration as a setting of PostgreSQL without a unit.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// contains reports for each of ids whether it is in found.
func contains(ids, found []uuid.UUID) []bool {
	in := make([]bool, len(ids))
	for i, id := range ids {
		in[i] = slices.Contains(found, id)
	}
	return in
}

// Reserve implements upload.Store.
func (s Uploads) Reserve(ctx context.Context, itemID uuid.UUID, scope media.Scope, bytes int64, leaseEnds time.Time) error {
	_, err := s.queries.Reserve(ctx, sqlgen.ReserveParams{ItemID: itemID, Bytes: bytes, LeaseEnds: leaseEnds})
	if !errors.Is(err, pgx.ErrNoRows) {
		return toFault(err, "reserve")
	}
	return s.reserve(ctx, "reserve", func(r *reservation) error {
		// The upload first, as in the statement: one that the purge has locked must not wait for the usage.
		if _, err := r.LockUpload(ctx, itemID); errors.Is(err, pgx.ErrNoRows) {
			return errUploadExpired
		} else if err != nil {
			return err
		}
		if err := r.requireRoom(ctx, scope.AccountID, bytes); err != nil {
			return err
		}
		_, err := r.Reserve(ctx, sqlgen.ReserveParams{ItemID: itemID, Bytes: bytes, LeaseEnds: leaseEnds})
		if errors.Is(err, pgx.ErrNoRows) { // the cap was lowered meanwhile
			return r.quotaExceeded(ctx, scope.AccountID)
		}
		return err
	})
}

// errUploadExpired is the error for an upload whose lease ended and that the purge removed.
var errUploadExpired = fault.New(fault.NotFound, "the upload expired because it made no progress")

// AvailableBytes implements media.Store.
func (s Items) AvailableBytes(ctx context.Context, scope media.Scope) (int64, int64, error) {
	row, err := s.idempotent.AvailableBytes(ctx, scope.AccountID)
	if err != nil {
		return 0, 0, toFault(err, "read available bytes")
	}
	return row.Bytes, row.MaxStorage, nil
}

// draft is an item to commit, and who uploaded it.
type draft struct {
	media.Item
	by account.Actor
}

func (d draft) account() uuid.UUID { return d.AccountID }

// CommitUpload implements upload.Store.
func (s Uploads) CommitUpload(ctx context.Context, item media.Item, by account.Actor) error {
	made := draft{item, by}
	if item.SealedAt != nil || item.Check == media.CheckSealWanted {
		return s.commitSealed(ctx, made)
	}
	committed, err := s.commitBatch.Do(ctx, made)
	if err != nil {
		return toFault(err, "commit upload")
	}
	if committed {
		return nil
	}
	return s.commitAlone(ctx, made)
}

// commitAlone commits one upload.
func (s Uploads) commitAlone(ctx context.Context, made draft) error {
	return s.reserve(ctx, "commit upload", func(r *reservation) error { return r.commitAdjusted(ctx, made) })
}

func (s Uploads) commitUploads(ctx context.Context, lockTimeout time.Duration, drafts []draft) ([]bool, error) {
	params, err := commitParams(lockTimeout, drafts)
	if err != nil {
		return nil, err
	}
	committed, err := s.queries.CommitUploads(ctx, params)
	return contains(params.Ids, committed), err
}

// commitAdjusted commits an upload and adjusts the usage, if the reservation differs from the
// stored bytes. It seals the item if that is sealed.
func (r *reservation) commitAdjusted(ctx context.Context, item draft) error {
	params, err := commitParams(noLockTimeout, []draft{item})
	if err != nil {
		return err
	}
	bytes := item.Objects.Bytes()
	before, err := r.ReserveExactly(ctx, sqlgen.ReserveExactlyParams{ItemID: item.ID, Bytes: bytes})
	if errors.Is(err, pgx.ErrNoRows) {
		return errUploadExpired
	}
	if err != nil {
		return err
	}
	if more := bytes - before.Reserved; more > 0 {
		if err := r.requireRoom(ctx, before.AccountID, more); err != nil {
			return err
		}
	}
	adjusted, err := r.AdjustUsage(ctx, sqlgen.AdjustUsageParams{AccountID: before.AccountID, Delta: bytes - before.Reserved})
	if err == nil && adjusted == 0 { // the cap was lowered meanwhile
		err = r.quotaExceeded(ctx, before.AccountID)
	}
	if err != nil {
		return err
	}
	if _, err := r.CommitUploads(ctx, params); err != nil {
		return err
	}
	return sealCommitted(ctx, r.Queries, item)
}

// AbandonUpload implements upload.Store.
func (s Uploads) AbandonUpload(ctx context.Context, itemID uuid.UUID, scope media.Scope, keys []string, notBefore time.Time) (*media.Removal, error) {
	var removal *media.Removal
	err := s.inTx(ctx, "abandon upload", func(q *sqlgen.Queries) error {
		upload, err := q.DeleteUploadReturning(ctx, itemID)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			// The upload was committed, or the purge removed it while it was still running.
			if exists, err := q.ItemExists(ctx, itemID); err != nil || exists {
				return err
			}
		case err != nil:
			return err
		default:
			if _, err := q.AdjustUsage(ctx, sqlgen.AdjustUsageParams{AccountID: upload.AccountID, Delta: -upload.Reserved}); err != nil {
				return err
			}
			if err := releaseCapabilities(ctx, q, upload.CapabilityID); err != nil {
				return err
			}
		}
		if len(keys) == 0 {
			return nil // nothing was sent to the object store
		}
		id, err := q.QueueRemoval(ctx, sqlgen.QueueRemovalParams{AccountID: scope.AccountID, Bucket: scope.Bucket, Keys: keys, AbortMultipart: true, NotBefore: notBefore})
		if err != nil {
			return err
		}
		removal = &media.Removal{ID: id, Bucket: scope.Bucket, Keys: keys, AbortMultipart: true}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return removal, nil
}

// ExpireUploads implements media.PurgeStore.
func (s Items) ExpireUploads(ctx context.Context, cutoff time.Time, batch int, keysOf func(uuid.UUID) []string) (expired int, err error) {
	err = s.inTx(ctx, "expire uploads", func(q *sqlgen.Queries) error {
		uploads, err := q.ExpiredUploads(ctx, sqlgen.ExpiredUploadsParams{LeaseEnds: cutoff, Limit: batchSize(batch)})
		if err != nil {
			return err
		}
		expired = len(uploads)
		return endUploads(ctx, q, uploads, endParams(uploads, keysOf, cutoff))
	})
	return expired, err
}

// EndUploadsOfDeadProcesses implements upload.Store.
func (s Uploads) EndUploadsOfDeadProcesses(ctx context.Context, batch int, keysOf func(uuid.UUID) []string, notBefore time.Time) (ended int, err error) {
	err = s.inTx(ctx, "end the uploads of dead processes", func(q *sqlgen.Queries) error {
		found, err := q.UploadsOfDeadRuntimes(ctx, batchSize(batch))
		if err != nil {
			return err
		}
		uploads := make([]sqlgen.ExpiredUploadsRow, len(found))
		for i, upload := range found {
			uploads[i] = sqlgen.ExpiredUploadsRow(upload)
		}
		ended = len(uploads)
		return endUploads(ctx, q, uploads, endParams(uploads, keysOf, notBefore))
	})
	return ended, err
}

// endUploads ends uploads, and gives back their uses of capabilities.
func endUploads(ctx context.Context, q *sqlgen.Queries, uploads []sqlgen.ExpiredUploadsRow, params sqlgen.EndUploadsParams) error {
	if err := q.EndUploads(ctx, params); err != nil {
		return err
	}
	capabilities := make([][]byte, len(uploads))
	for i, upload := range uploads {
		capabilities[i] = upload.CapabilityID
	}
	return releaseCapabilities(ctx, q, capabilities...)
}

// endParams are the parameters that end uploads and queue the removal of their objects.
func endParams(uploads []sqlgen.ExpiredUploadsRow, keysOf func(uuid.UUID) []string, notBefore time.Time) sqlgen.EndUploadsParams {
	params := sqlgen.EndUploadsParams{NotBefore: notBefore}
	for _, upload := range uploads {
		params.ItemIds = append(params.ItemIds, upload.ItemID)
		if !upload.KeepObjects {
			params.AccountIds = append(params.AccountIds, upload.AccountID)
			params.Buckets = append(params.Buckets, upload.Bucket)
			params.Keys = append(params.Keys, strings.Join(keysOf(upload.ItemID), " "))
		}
	}
	return params
}
