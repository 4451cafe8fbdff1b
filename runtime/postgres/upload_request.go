package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var (
	_ handover.Store      = Handovers{}
	_ handover.PurgeStore = Handovers{}
)

// CreateRequest implements handover.Store.
func (s Handovers) CreateRequest(ctx context.Context, request handover.Request, most int) error {
	capability, err := json.Marshal(request.Capability)
	if err != nil {
		return fmt.Errorf("encode an upload capability: %w", err)
	}
	params := sqlgen.InsertUploadRequestParams{ID: request.ID, AccountID: request.AccountID, AppID: request.AppID, KeyID: request.KeyID, GrantID: nullable(request.GrantID),
		Connection: request.Connection(), CapabilityID: request.Capability.ID, Capability: capability, CreatedAt: request.CreatedAt, ExpiresAt: request.Capability.ExpiresAt,
		Most: int32(most)} //nolint:gosec // a constant
	return toFault(s.inTx(ctx, "request a file", func(q *sqlgen.Queries) error {
		if err := q.LockUploadRequests(ctx, params.Connection); err != nil {
			return err
		}
		added, err := q.InsertUploadRequest(ctx, params)
		if err == nil && added == 0 {
			err = &fault.Error{Kind: fault.Busy, Public: fmt.Sprintf("%d requests for a file wait already: have the user hand these files over first, or wait until they expire", most), RetryAfter: time.Minute}
		}
		return err
	}), "request a file")
}

// RequestOf implements handover.Store.
func (s Handovers) RequestOf(ctx context.Context, capability media.SHA256) (uuid.UUID, error) {
	id, err := s.idempotent.UploadRequestOf(ctx, capability)
	return id, requestFault(err)
}

// FindRequest implements handover.Store.
func (s Handovers) FindRequest(ctx context.Context, id uuid.UUID) (handover.Found, error) {
	row, err := s.idempotent.FindUploadRequest(ctx, id)
	if err != nil {
		return handover.Found{}, requestFault(err)
	}
	found := handover.Found{Request: handover.Request{ID: row.ID, AccountID: row.AccountID, AppID: row.AppID, KeyID: row.KeyID, GrantID: row.GrantID.Bytes, CreatedAt: row.CreatedAt},
		State: handover.Waiting, ItemID: row.ItemID.Bytes, Received: row.Received, Length: row.Length, Resumable: row.Resumable}
	found.Capability = *row.Capability
	found.Capability.ID, found.Capability.ExpiresAt = row.CapabilityID, row.ExpiresAt
	switch {
	case row.Stored:
		found.State = handover.Uploaded
	case row.Quarantined:
		found.State = handover.Rejected
	case row.Running:
		found.State = handover.Uploading
	case row.ItemID.Valid && row.Uses > 0:
		found.State = handover.Deleted
	}
	return found, nil
}

// requestFault returns the fault of a request that was not found.
func requestFault(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return handover.ErrNotFound
	}
	return toFault(err, "read a request for a file")
}

// ExpireRequests implements handover.PurgeStore.
func (s Handovers) ExpireRequests(ctx context.Context, cutoff time.Time, batch int) (int, error) {
	ended, err := s.queries.ExpireUploadRequests(ctx, sqlgen.ExpireUploadRequestsParams{Cutoff: cutoff, Batch: batchSize(batch)})
	return int(ended), toFault(err, "delete requests for files that have expired")
}
