package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/upload"
)

var _ upload.DerivativesStore = Uploads{}

// PendingItem implements upload.DerivativesStore.
func (s Uploads) PendingItem(ctx context.Context, accountID, itemID uuid.UUID) (upload.PendingItem, error) {
	row, err := s.queries.PendingItem(ctx, sqlgen.PendingItemParams{AccountID: accountID, ID: itemID})
	if errors.Is(err, pgx.ErrNoRows) {
		return upload.PendingItem{}, upload.ErrNotPending
	}
	if err != nil {
		return upload.PendingItem{}, toFault(err, "find an item without its derivatives")
	}
	return upload.PendingItem{Item: itemOf(row.Item), Bucket: row.Bucket, KeepLocation: row.KeepLocation, Resting: row.Resting, Claimed: row.Claimed}, nil
}

// FinishDerivatives implements upload.DerivativesStore. A commit whose answer was lost is not tried again: the item may have been deleted
// since, with its objects.
func (s Uploads) FinishDerivatives(ctx context.Context, made upload.MadeDerivatives) error {
	ctx = s.db.withRetryDeadline(ctx)
	var err error
	for range maxCommits {
		if err = s.finishDerivatives(ctx, made); !errors.Is(err, errFenceRaised) {
			break
		}
	}
	if err == nil || len(made.Objects) == 0 || !isUncertain(err) {
		return toFault(err, "finish derivatives")
	}
	if committed, cause := s.resolveCommit(ctx, made.ItemID, made.Objects[0].Key, made.Writer); !committed {
		return toFault(errors.Join(err, cause), "finish derivatives")
	}
	return nil
}

// finishDerivatives finishes once: with the statement alone, or in a transaction that makes room.
func (s Uploads) finishDerivatives(ctx context.Context, made upload.MadeDerivatives) error {
	params, err := s.derivativesParams(made)
	if err != nil {
		return err
	}
	row, err := s.queries.FinishDerivatives(ctx, params)
	switch {
	case err != nil:
		return err
	case row.Finished:
		return nil
	case !row.Pending:
		return upload.ErrNotPending
	}
	return s.reserve(ctx, "finish derivatives", func(r *reservation) error {
		if len(made.Objects) > 0 {
			fence, err := r.LockWriter(ctx, sqlgen.LockWriterParams{Number: made.Writer.Number, Own: s.own(), AccountID: made.AccountID})
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				return errWriterEnded
			case err != nil:
				return err
			case fence != params.Fence:
				made.Writer.RaiseFence(fence)
				return errFenceRaised
			}
		}
		// Before the usage, as in the statement.
		if locked, err := r.LockPending(ctx, sqlgen.LockPendingParams{AccountID: made.AccountID, ID: made.ItemID}); err != nil {
			return err
		} else if len(locked) == 0 {
			return upload.ErrNotPending
		}
		if err := r.requireRoom(ctx, made.AccountID, params.Bytes); err != nil {
			return err
		}
		params.LockTimeout = milliseconds(noLockTimeout)
		row, err := r.FinishDerivatives(ctx, params)
		if err == nil && !row.Finished { // the cap was lowered meanwhile
			err = r.quotaExceeded(ctx, made.AccountID)
		}
		return err
	})
}

// derivativesLockTimeout bounds the wait for the locks of one statement.
const derivativesLockTimeout = 5 * time.Second

// byService is the actor of what the service does by itself.
var byService = account.Actor{Kind: account.ActorService}.Text()

// fieldsOf returns the members of a document that derivatives change.
func fieldsOf(derivatives media.Objects) []string {
	fields := []string{}
	for _, derivative := range derivatives {
		if derivative.Variant == media.Thumbnail {
			fields = append(fields, "thumbnail")
		} else {
			fields = append(fields, "file")
		}
	}
	return fields
}

func (s Uploads) derivativesParams(made upload.MadeDerivatives) (sqlgen.FinishDerivativesParams, error) {
	objects := made.Objects
	if objects == nil {
		objects = media.Objects{}
	}
	text, err := json.Marshal(objects)
	if err != nil {
		return sqlgen.FinishDerivativesParams{}, fmt.Errorf("encode the derivatives of item %s: %w", made.ItemID, err)
	}
	params := sqlgen.FinishDerivativesParams{LockTimeout: milliseconds(derivativesLockTimeout), Own: s.own(), AccountID: made.AccountID, ItemID: made.ItemID,
		Bytes: objects.Bytes(), Objects: string(text), Slot: randomSlot(),
		Width: known(made.Facts.Width), Height: known(made.Facts.Height), Placeholder: made.Facts.Placeholder, DominantColor: knownText(made.Facts.DominantColor), Capture: captureColumn(made.Facts), Actor: byService, Fields: fieldsOf(objects)}
	params.Fields = append(params.Fields, captureFields(made.Facts.Capture)...)
	if made.Writer != nil {
		params.Writer, params.Fence = made.Writer.Number, made.Writer.Fence()
	}
	return params, nil
}
