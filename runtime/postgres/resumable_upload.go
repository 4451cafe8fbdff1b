package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/upload"
)

// OpenResumable implements upload.Store.
func (s Uploads) OpenResumable(ctx context.Context, state upload.ResumableState) error {
	return s.reserve(ctx, "open resumable upload", func(r *reservation) error {
		open := openParams(noLockTimeout, []openRequest{{itemID: state.ItemID, accountID: state.Scope.AccountID,
			appID: state.Scope.AppID, bytes: state.Reserved, leaseEnds: state.Expires}})
		if err := r.openWithin(ctx, open, state.Scope, state.Capability); err != nil {
			return err
		}
		params := sqlgen.InsertResumableParams{
			ItemID: state.ItemID, AccountID: state.Scope.AccountID, AppID: state.Scope.AppID, FileName: state.Fields.FileName,
			DeclaredType: state.Fields.MimeType, Access: string(state.Fields.Access), Caption: state.Fields.Caption,
			GroupLabel: state.Fields.Group, Metadata: state.Metadata, ExpiresAt: state.Expires, ItemMetadata: notNil(state.Fields.Metadata), Capability: state.Capability,
		}
		if state.Length != upload.UnknownLength {
			params.Length = &state.Length
		}
		return r.InsertResumable(ctx, params)
	})
}

// errUploadNotFound is also the error for an upload that ended and for one of another tenant:
// callers can't tell them apart.
var errUploadNotFound = fault.New(fault.NotFound, "upload not found")

// FindResumable implements upload.Store.
func (s Uploads) FindResumable(ctx context.Context, scope media.Scope, itemID uuid.UUID) (upload.ResumableState, error) {
	ctx = s.db.withRetryDeadline(ctx)
	row, err := s.idempotent.FindResumable(ctx, sqlgen.FindResumableParams{AppID: scope.AppID, ItemID: itemID})
	if errors.Is(err, pgx.ErrNoRows) {
		return upload.ResumableState{}, errUploadNotFound
	}
	if err != nil {
		return upload.ResumableState{}, toFault(err, "read resumable upload")
	}
	r := row.ResumableUpload
	state := upload.ResumableState{
		ItemID: itemID, Scope: scope, Length: upload.UnknownLength,
		Fields:   media.Fields{FileName: r.FileName, MimeType: r.DeclaredType, Access: media.Access(r.Access), Caption: r.Caption, Group: r.GroupLabel, Metadata: r.ItemMetadata},
		Metadata: r.Metadata, Capability: r.Capability,
		Progress: upload.Progress{Received: r.Received, Digest: r.Digest, MultipartID: r.MultipartID, Parts: r.Parts, SinglePut: r.SinglePut,
			IncompletePart: media.Variant(r.IncompletePart), IncompleteBytes: r.IncompleteBytes, IncompleteHash: r.IncompleteHash, MimeType: r.MimeType, Head: r.Head},
		Expires: r.ExpiresAt,
	}
	if r.Length != nil {
		state.Length = *r.Length
	}
	if row.Reserved != nil && row.LeaseEnds != nil {
		state.Reserved, state.Expires = *row.Reserved, *row.LeaseEnds
		return state, nil
	}
	item, err := s.Items.Item(ctx, scope, itemID)
	if fault.Is(err, fault.NotFound) {
		return upload.ResumableState{}, errUploadNotFound
	}
	state.Item = &item
	return state, err
}

// ListResumables implements upload.Store.
func (s Uploads) ListResumables(ctx context.Context, scope media.Scope, q upload.RunningQuery, now time.Time) (upload.RunningPage, error) {
	params := sqlgen.ListResumablesParams{AppID: scope.AppID, Before: uuid.Max, Examine: upload.MaxExamined, Now: now, PageSize: batchSize(q.Limit + 1)}
	if q.After != uuid.Nil {
		params.Before = q.After
	}
	if q.Capability != nil {
		params.Capability = q.Capability.ID.String()
	}
	rows, err := repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) ([]sqlgen.ListResumablesRow, error) {
		return s.once.ListResumables(ctx, params)
	})
	if err != nil {
		return upload.RunningPage{}, toFault(err, "list resumable uploads")
	}
	var page upload.RunningPage
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
		running := upload.Running{ID: row.ItemID, Length: upload.UnknownLength, Received: row.Received, CreatedAt: row.OpenedAt, ExpiresAt: row.LeaseEnds,
			Fields: media.Fields{FileName: row.FileName, MimeType: row.DeclaredType, Access: media.Access(row.Access), Caption: row.Caption, Group: row.GroupLabel}}
		if row.Length != nil {
			running.Length = *row.Length
		}
		page.Uploads = append(page.Uploads, running)
	}
	return page, nil
}

// SetLength implements upload.Store.
func (s Uploads) SetLength(ctx context.Context, scope media.Scope, itemID uuid.UUID, length int64) error {
	set, err := s.queries.SetLength(ctx, sqlgen.SetLengthParams{AppID: scope.AppID, ItemID: itemID, Length: &length})
	if err == nil && set == 0 {
		err = fault.New(fault.Conflict, "the length of the upload is already set")
	}
	return toFault(err, "set an upload's length")
}

// SaveProgress implements upload.Store.
func (s Uploads) SaveProgress(ctx context.Context, itemID uuid.UUID, before int64, p upload.Progress, expires time.Time) error {
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

// CommitResumable implements upload.Store.
func (s Uploads) CommitResumable(ctx context.Context, item media.Item, by account.Actor, incompleteParts []string, notBefore time.Time) (*media.Removal, error) {
	var removal *media.Removal
	err := s.reserve(ctx, "commit resumable upload", func(r *reservation) error {
		if err := r.commitAdjusted(ctx, draft{item, by}); err != nil || len(incompleteParts) == 0 {
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
