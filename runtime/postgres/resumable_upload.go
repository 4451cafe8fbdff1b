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
)

// OpenResumable implements media.ResumableStore.
func (s Items) OpenResumable(ctx context.Context, upload media.ResumableState) error {
	return s.reserve(ctx, "open resumable upload", func(r *reservation) error {
		open := openParams(noLockTimeout, []openRequest{{itemID: upload.ItemID, accountID: upload.Scope.AccountID,
			appID: upload.Scope.AppID, bytes: upload.Reserved, leaseEnds: upload.Expires}})
		if err := r.openWithin(ctx, open, upload.Scope, upload.Capability); err != nil {
			return err
		}
		params := sqlgen.InsertResumableParams{
			ItemID: upload.ItemID, AccountID: upload.Scope.AccountID, AppID: upload.Scope.AppID, FileName: upload.Fields.FileName,
			DeclaredType: upload.Fields.MimeType, Access: string(upload.Fields.Access), Caption: upload.Fields.Caption,
			GroupLabel: upload.Fields.Group, Metadata: upload.Metadata, ExpiresAt: upload.Expires, ItemMetadata: notNil(upload.Fields.Metadata), Capability: upload.Capability,
		}
		if upload.Length != media.UnknownLength {
			params.Length = &upload.Length
		}
		return r.InsertResumable(ctx, params)
	})
}

// errUploadNotFound is also the error for an upload that ended and for one of another tenant:
// callers can't tell them apart.
var errUploadNotFound = fault.New(fault.NotFound, "upload not found")

// FindResumable implements media.ResumableStore.
func (s Items) FindResumable(ctx context.Context, scope media.Scope, itemID uuid.UUID) (media.ResumableState, error) {
	return repeat(ctx, s.Store, func(ctx context.Context) (media.ResumableState, error) { return s.findResumable(ctx, scope, itemID) })
}

func (s Items) findResumable(ctx context.Context, scope media.Scope, itemID uuid.UUID) (media.ResumableState, error) {
	row, err := s.queries.FindResumable(ctx, sqlgen.FindResumableParams{AppID: scope.AppID, ItemID: itemID})
	if errors.Is(err, pgx.ErrNoRows) {
		return media.ResumableState{}, errUploadNotFound
	}
	if err != nil {
		return media.ResumableState{}, toFault(err, "read resumable upload")
	}
	r := row.ResumableUpload
	upload := media.ResumableState{
		ItemID: itemID, Scope: scope, Length: media.UnknownLength,
		Fields:   media.Fields{FileName: r.FileName, MimeType: r.DeclaredType, Access: media.Access(r.Access), Caption: r.Caption, Group: r.GroupLabel, Metadata: r.ItemMetadata},
		Metadata: r.Metadata, Capability: r.Capability,
		Progress: media.Progress{Received: r.Received, Digest: r.Digest, MultipartID: r.MultipartID, Parts: r.Parts, SinglePut: r.SinglePut,
			IncompletePart: media.Variant(r.IncompletePart), IncompleteBytes: r.IncompleteBytes, IncompleteHash: r.IncompleteHash, MimeType: r.MimeType, Head: r.Head},
		Expires: r.ExpiresAt,
	}
	if r.Length != nil {
		upload.Length = *r.Length
	}
	if row.Reserved != nil && row.LeaseEnds != nil {
		upload.Reserved, upload.Expires = *row.Reserved, *row.LeaseEnds
		return upload, nil
	}
	item, err := s.Item(ctx, scope, itemID)
	if fault.Is(err, fault.NotFound) {
		return media.ResumableState{}, errUploadNotFound
	}
	upload.Item = &item
	return upload, err
}

// ListResumables implements media.ResumableStore.
func (s Items) ListResumables(ctx context.Context, scope media.Scope, q media.RunningQuery, now time.Time) (media.RunningPage, error) {
	params := sqlgen.ListResumablesParams{AppID: scope.AppID, Before: uuid.Max, Examine: media.ExaminedUploads, Now: now, PageSize: batchSize(q.Limit + 1)}
	if q.After != uuid.Nil {
		params.Before = q.After
	}
	if q.Capability != nil {
		params.Capability = q.Capability.ID.String()
	}
	rows, err := repeatFor(ctx, s.Store, scope.AccountID, func(ctx context.Context) ([]sqlgen.ListResumablesRow, error) {
		return s.queries.ListResumables(ctx, params)
	})
	if err != nil {
		return media.RunningPage{}, toFault(err, "list resumable uploads")
	}
	var page media.RunningPage
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		page.Next = rows[q.Limit-1].ItemID
	}
	for _, row := range rows {
		if row.LastExamined { // there may be more, which this list did not read
			page.Next = row.ItemID
		}
		if !row.Listed { // the last examined one, or an upload of another kind, whose process has died
			continue
		}
		upload := media.RunningUpload{ID: row.ItemID, Length: media.UnknownLength, Received: row.Received, CreatedAt: row.OpenedAt, ExpiresAt: row.LeaseEnds,
			Fields: media.Fields{FileName: row.FileName, MimeType: row.DeclaredType, Access: media.Access(row.Access), Caption: row.Caption, Group: row.GroupLabel}}
		if row.Length != nil {
			upload.Length = *row.Length
		}
		page.Uploads = append(page.Uploads, upload)
	}
	return page, nil
}

// SetLength implements media.ResumableStore.
func (s Items) SetLength(ctx context.Context, scope media.Scope, itemID uuid.UUID, length int64) error {
	set, err := s.queries.SetLength(ctx, sqlgen.SetLengthParams{AppID: scope.AppID, ItemID: itemID, Length: &length})
	if err == nil && set == 0 {
		err = fault.New(fault.Conflict, "the length of the upload is already set")
	}
	return toFault(err, "set an upload's length")
}

// SaveProgress implements media.ResumableStore.
func (s Items) SaveProgress(ctx context.Context, itemID uuid.UUID, before int64, p media.Progress, expires time.Time) error {
	if p.Parts == nil {
		p.Parts = []media.Part{}
	}
	if p.Digest == nil {
		p.Digest = []byte{}
	}
	if p.IncompleteHash == nil {
		p.IncompleteHash = media.SHA256{}
	}
	saved, err := s.queries.SaveProgress(ctx, sqlgen.SaveProgressParams{
		ItemID: itemID, Before: before, Received: p.Received, Digest: p.Digest, MultipartID: p.MultipartID, Parts: p.Parts, SinglePut: p.SinglePut,
		IncompletePart: string(p.IncompletePart), IncompleteBytes: p.IncompleteBytes, IncompleteHash: p.IncompleteHash, MimeType: p.MimeType, Head: p.Head, ExpiresAt: expires,
	})
	if err == nil && saved == 0 {
		err = fault.New(fault.Conflict, "the upload was terminated or advanced by another request")
	}
	return toFault(err, "save an upload's progress")
}

// CommitResumable implements media.ResumableStore.
func (s Items) CommitResumable(ctx context.Context, item media.Item, incompleteParts []string, notBefore time.Time) (*media.Removal, error) {
	var removal *media.Removal
	err := s.reserve(ctx, "commit resumable upload", func(r *reservation) error {
		if err := r.commitAdjusted(ctx, item); err != nil || len(incompleteParts) == 0 {
			return err
		}
		bucket, err := r.BucketOf(ctx, item.AccountID)
		if err != nil {
			return err
		}
		id, err := r.QueueRemoval(ctx, sqlgen.QueueRemovalParams{AccountID: item.AccountID, Bucket: bucket, Keys: incompleteParts, NotBefore: notBefore})
		removal = &media.Removal{ID: id, Bucket: bucket, Keys: incompleteParts}
		return err
	})
	if err != nil {
		return nil, err
	}
	if item.SealedAt != nil {
		s.pageIndex.recordChange(item.AppID)
	}
	return removal, nil
}

// DeleteExpiredResumables implements media.PurgeStore.
func (s Items) DeleteExpiredResumables(ctx context.Context, cutoff time.Time, batch int) (int, error) {
	n, err := s.queries.DeleteExpiredResumables(ctx, sqlgen.DeleteExpiredResumablesParams{Cutoff: cutoff, Batch: batchSize(batch)})
	return int(n), toFault(err, "delete expired resumable uploads")
}
