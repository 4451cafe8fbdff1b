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
func (s *Store) OpenResumable(ctx context.Context, upload media.ResumableState) error {
	return s.inTx(ctx, "open resumable upload", func(q *sqlgen.Queries) error {
		opened, err := q.OpenUploads(ctx, sqlgen.OpenUploadsParams{
			AccountID: upload.Scope.AccountID, ItemIds: []uuid.UUID{upload.ItemID}, AppIds: []uuid.UUID{upload.Scope.AppID},
			Bytes: []int64{upload.Reserved}, LeaseEnds: []time.Time{upload.Expires},
		})
		if err != nil {
			return err
		}
		if len(opened) == 0 {
			room, err := q.Headroom(ctx, upload.Scope.AccountID)
			if err != nil {
				return err
			}
			return media.QuotaExceeded(room.MaxStorage)
		}
		params := sqlgen.InsertResumableParams{
			ItemID: upload.ItemID, AccountID: upload.Scope.AccountID, AppID: upload.Scope.AppID, FileName: upload.Fields.FileName,
			DeclaredType: upload.Fields.MimeType, Access: string(upload.Fields.Access), Caption: upload.Fields.Caption,
			GroupLabel: upload.Fields.Group, Metadata: upload.Metadata, ExpiresAt: upload.Expires,
		}
		if upload.Length != media.UnknownLength {
			params.Length = &upload.Length
		}
		return q.InsertResumable(ctx, params)
	})
}

// noUpload is the one answer for an upload that is missing, over, and another tenant's.
func noUpload() error { return fault.New(fault.NotFound, "there is no such upload") }

// FindResumable implements media.ResumableStore.
func (s *Store) FindResumable(ctx context.Context, scope media.Scope, itemID uuid.UUID) (media.ResumableState, error) {
	row, err := s.queries.Resumable(ctx, sqlgen.ResumableParams{AppID: scope.AppID, ItemID: itemID})
	if errors.Is(err, pgx.ErrNoRows) {
		return media.ResumableState{}, noUpload()
	}
	if err != nil {
		return media.ResumableState{}, classify(err, "read resumable upload")
	}
	r := row.ResumableUpload
	upload := media.ResumableState{
		ItemID: itemID, Scope: scope, Length: media.UnknownLength,
		Fields:   media.Fields{FileName: r.FileName, MimeType: r.DeclaredType, Access: media.Access(r.Access), Caption: r.Caption, Group: r.GroupLabel},
		Metadata: r.Metadata,
		Progress: media.Progress{Received: r.Received, Digest: r.Digest, MultipartID: r.MultipartID, Parts: r.Parts, SinglePut: r.Whole,
			IncompletePart: media.Variant(r.Tail), IncompleteBytes: r.TailBytes, IncompleteHash: r.TailHash, MimeType: r.MimeType},
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
		return media.ResumableState{}, noUpload()
	}
	upload.Item = &item
	return upload, err
}

// SetLength implements media.ResumableStore.
func (s *Store) SetLength(ctx context.Context, scope media.Scope, itemID uuid.UUID, length int64) error {
	set, err := s.queries.SetLength(ctx, sqlgen.SetLengthParams{AppID: scope.AppID, ItemID: itemID, Length: &length})
	if err == nil && set == 0 {
		err = fault.New(fault.Conflict, "the upload's length is known already")
	}
	return classify(err, "set an upload's length")
}

// SaveProgress implements media.ResumableStore.
func (s *Store) SaveProgress(ctx context.Context, itemID uuid.UUID, before int64, p media.Progress, expires time.Time) error {
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
		ItemID: itemID, Before: before, Received: p.Received, Digest: p.Digest, MultipartID: p.MultipartID, Parts: p.Parts, Whole: p.SinglePut,
		Tail: string(p.IncompletePart), TailBytes: p.IncompleteBytes, TailHash: p.IncompleteHash, MimeType: p.MimeType, ExpiresAt: expires,
	})
	if err == nil && saved == 0 {
		err = fault.New(fault.Conflict, "the upload was ended, or went on elsewhere")
	}
	return classify(err, "save an upload's progress")
}

// CommitResumable implements media.ResumableStore.
func (s *Store) CommitResumable(ctx context.Context, item media.Item, incompleteParts []string, notBefore time.Time) (*media.Removal, error) {
	var removal *media.Removal
	err := s.inTx(ctx, "commit resumable upload", func(q *sqlgen.Queries) error {
		if err := settle(ctx, q, item); err != nil || len(incompleteParts) == 0 {
			return err
		}
		bucket, err := q.BucketOf(ctx, item.AccountID)
		if err != nil {
			return err
		}
		id, err := q.QueueRemoval(ctx, sqlgen.QueueRemovalParams{AccountID: item.AccountID, Bucket: bucket, Keys: incompleteParts, NotBefore: notBefore})
		removal = &media.Removal{ID: id, Bucket: bucket, Keys: incompleteParts}
		return err
	})
	if err != nil {
		return nil, err
	}
	return removal, nil
}

// DeleteExpiredResumables implements media.ResumableStore.
func (s *Store) DeleteExpiredResumables(ctx context.Context, cutoff time.Time, batch int) (int, error) {
	n, err := s.queries.ForgetResumables(ctx, sqlgen.ForgetResumablesParams{Cutoff: cutoff, Batch: int32(min(batch, 100_000))}) //nolint:gosec // bounded just there
	return int(n), classify(err, "forget resumable uploads")
}
