package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// opening is one upload to note.
type opening struct {
	itemID, appID uuid.UUID
	bytes         int64
	leaseEnds     time.Time
}

// OpenUpload implements media.Store.
func (s *Store) OpenUpload(ctx context.Context, itemID uuid.UUID, scope media.Scope, bytes int64, leaseEnds time.Time) error {
	what := opening{itemID: itemID, appID: scope.AppID, bytes: bytes, leaseEnds: leaseEnds}
	opened, err := s.openings.do(ctx, scope.AccountID, what)
	if err == nil && !opened {
		// The cap had no room for all that came together: there may be some for this one.
		var alone []bool
		if alone, err = s.openUploads(ctx, scope.AccountID, []opening{what}); err == nil {
			opened = alone[0]
		}
	}
	if err != nil {
		return classify(err, "open upload")
	}
	if !opened {
		_, maxStorage, err := s.AvailableBytes(ctx, scope)
		if err != nil {
			return err
		}
		return media.QuotaExceeded(maxStorage)
	}
	return nil
}

func (s *Store) openUploads(ctx context.Context, accountID uuid.UUID, what []opening) ([]bool, error) {
	params := sqlgen.OpenUploadsParams{AccountID: accountID}
	for _, one := range what {
		params.ItemIds = append(params.ItemIds, one.itemID)
		params.AppIds = append(params.AppIds, one.appID)
		params.Bytes = append(params.Bytes, one.bytes)
		params.LeaseEnds = append(params.LeaseEnds, one.leaseEnds)
	}
	opened, err := s.queries.OpenUploads(ctx, params)
	return among(params.ItemIds, opened), err
}

// among tells which of ids are in found.
func among(ids, found []uuid.UUID) []bool {
	in := make([]bool, len(ids))
	for i, id := range ids {
		in[i] = slices.Contains(found, id)
	}
	return in
}

// Reserve implements media.Store.
func (s *Store) Reserve(ctx context.Context, itemID uuid.UUID, scope media.Scope, bytes int64, leaseEnds time.Time) error {
	_, err := s.queries.Reserve(ctx, sqlgen.ReserveParams{ItemID: itemID, Bytes: bytes, LeaseEnds: leaseEnds})
	if !errors.Is(err, pgx.ErrNoRows) {
		return classify(err, "reserve")
	}
	room, maxStorage, err := s.AvailableBytes(ctx, scope)
	if err != nil {
		return err
	}
	if bytes > room {
		return media.QuotaExceeded(maxStorage)
	}
	return swept()
}

// swept is the fault of an upload that made no progress for so long that the purge ended it.
func swept() error {
	return fault.New(fault.NotFound, "the upload made no progress for too long and was given up")
}

// AvailableBytes implements media.Store.
func (s *Store) AvailableBytes(ctx context.Context, scope media.Scope) (int64, int64, error) {
	row, err := s.queries.Headroom(ctx, scope.AccountID)
	if err != nil {
		return 0, 0, classify(err, "read headroom")
	}
	return row.Bytes, row.MaxStorage, nil
}

// CommitUpload implements media.Store.
func (s *Store) CommitUpload(ctx context.Context, item media.Item) error {
	made, err := s.commits.do(ctx, item.AccountID, item)
	if err != nil {
		return classify(err, "commit upload")
	}
	if made {
		return nil
	}
	return s.inTx(ctx, "settle upload", func(q *sqlgen.Queries) error { return settle(ctx, q, item) })
}

func (s *Store) commitUploads(ctx context.Context, _ uuid.UUID, items []media.Item) ([]bool, error) {
	var params sqlgen.CommitUploadsParams
	for _, item := range items {
		objects, err := json.Marshal(item.Objects)
		if err != nil {
			return nil, fmt.Errorf("encode the objects of item %s: %w", item.ID, err)
		}
		params.Ids = append(params.Ids, item.ID)
		params.FileNames = append(params.FileNames, item.FileName)
		params.Accesses = append(params.Accesses, string(item.Access))
		params.Captions = append(params.Captions, item.Caption)
		params.Groups = append(params.Groups, item.Group)
		params.Objects = append(params.Objects, string(objects))
		params.Bytes = append(params.Bytes, item.Objects.Bytes())
		params.CreatedAt = append(params.CreatedAt, item.CreatedAt)
	}
	made, err := s.queries.CommitUploads(ctx, params)
	return among(params.Ids, made), err
}

// settle commits an upload whose reservation may not be what is stored.
func settle(ctx context.Context, q *sqlgen.Queries, item media.Item) error {
	bytes := item.Objects.Bytes()
	upload, err := q.TakeUpload(ctx, item.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return swept()
	}
	if err != nil {
		return err
	}
	settled, err := q.SettleHold(ctx, sqlgen.SettleHoldParams{AccountID: upload.AccountID, Delta: bytes - upload.Reserved})
	if err != nil {
		return err
	}
	if settled == 0 {
		return fault.New(fault.QuotaExceeded, "the account's storage cap has no room for this file")
	}
	return q.InsertItem(ctx, sqlgen.InsertItemParams{
		ID: item.ID, AccountID: upload.AccountID, AppID: upload.AppID, FileName: item.FileName, Access: string(item.Access),
		Caption: item.Caption, GroupLabel: item.Group, Objects: item.Objects, Bytes: bytes, CreatedAt: item.CreatedAt,
	})
}

// AbandonUpload implements media.Store.
func (s *Store) AbandonUpload(ctx context.Context, itemID uuid.UUID, scope media.Scope, keys []string, notBefore time.Time) (*media.Removal, error) {
	var removal *media.Removal
	err := s.inTx(ctx, "abandon upload", func(q *sqlgen.Queries) error {
		upload, err := q.TakeUpload(ctx, itemID)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			// Committed after all, or swept while bytes were still on their way.
			if exists, err := q.ItemExists(ctx, itemID); err != nil || exists {
				return err
			}
		case err != nil:
			return err
		default:
			if _, err := q.SettleHold(ctx, sqlgen.SettleHoldParams{AccountID: upload.AccountID, Delta: -upload.Reserved}); err != nil {
				return err
			}
		}
		if len(keys) == 0 {
			return nil // refused before a byte was sent
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

// ExpireUploads implements media.Store.
func (s *Store) ExpireUploads(ctx context.Context, cutoff time.Time, batch int, keysOf func(uuid.UUID) []string) (int, error) {
	expired := 0
	err := s.inTx(ctx, "expire uploads", func(q *sqlgen.Queries) error {
		uploads, err := q.ExpiredUploads(ctx, sqlgen.ExpiredUploadsParams{LeaseEnds: cutoff, Limit: int32(min(batch, 100_000))}) //nolint:gosec // bounded just there
		if err != nil {
			return err
		}
		for _, upload := range uploads {
			if err := q.DeleteUpload(ctx, upload.ItemID); err != nil {
				return err
			}
			if _, err := q.SettleHold(ctx, sqlgen.SettleHoldParams{AccountID: upload.AccountID, Delta: -upload.Reserved}); err != nil {
				return err
			}
			if _, err := q.QueueRemoval(ctx, sqlgen.QueueRemovalParams{AccountID: upload.AccountID, Bucket: upload.Bucket,
				Keys: keysOf(upload.ItemID), AbortMultipart: true, NotBefore: cutoff}); err != nil {
				return err
			}
		}
		expired = len(uploads)
		return nil
	})
	return expired, err
}
