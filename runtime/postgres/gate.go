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
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/work"
)

var (
	_ gate.Store           = Gates{}
	_ gate.QuarantineStore = Gates{}
)

// Waiting implements gate.Store.
func (s Gates) Waiting(ctx context.Context, accountID, itemID uuid.UUID) (gate.Waiting, error) {
	row, err := s.queries.WaitingItem(ctx, sqlgen.WaitingItemParams{AccountID: accountID, ID: itemID})
	if errors.Is(err, pgx.ErrNoRows) {
		return gate.Waiting{}, gate.ErrNotWaiting
	}
	if err != nil {
		return gate.Waiting{}, toFault(err, "find an item without a result")
	}
	return gate.Waiting{Item: itemOf(row.Item), Bucket: row.Bucket, Gate: gateOf(row.Gate), Resting: row.Resting}, nil
}

// Pass implements gate.Store. The seal is that of Items.Seal, in the transaction of the result.
func (s Gates) Pass(ctx context.Context, accountID, itemID uuid.UUID, now time.Time) (sealed bool, err error) {
	var appID uuid.UUID
	err = s.inTx(ctx, "record a result", func(q *sqlgen.Queries) error {
		sealed = false
		passed, err := q.PassItem(ctx, sqlgen.PassItemParams{AccountID: accountID, ID: itemID})
		switch {
		case errors.Is(err, pgx.ErrNoRows): // there is a result, or the draft was purged
			return nil
		case err != nil || passed.SealActor == nil:
			return err
		}
		appID = passed.AppID
		sealed, err = sealAs(ctx, q, appID, itemID, *passed.SealActor, now)
		return err
	})
	if err == nil && sealed {
		s.pageIndex.recordChange(appID)
	}
	return sealed, err
}

// sealAs seals an item in a transaction, for the actor who wanted that.
func sealAs(ctx context.Context, q *sqlgen.Queries, appID, itemID uuid.UUID, actor string, now time.Time) (bool, error) {
	_, err := q.Seal(ctx, sqlgen.SealParams{AppID: appID, ID: itemID, Now: now, Slot: randomSlot(), Actor: actor})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Deny implements gate.Store.
func (s Gates) Deny(ctx context.Context, accountID, itemID uuid.UUID, notice gate.Notice) (bool, error) {
	return s.reject(ctx, accountID, itemID, "", notice, func(q *sqlgen.Queries) (int64, error) {
		return q.DenyItem(ctx, sqlgen.DenyItemParams{AccountID: accountID, ID: itemID, Actor: byService})
	})
}

// Quarantine implements gate.Store.
func (s Gates) Quarantine(ctx context.Context, accountID, itemID uuid.UUID, finding string, most gate.QuarantineBounds, notice gate.Notice) (bool, error) {
	return s.reject(ctx, accountID, itemID, finding, notice, func(q *sqlgen.Queries) (int64, error) {
		rows, err := q.QuarantineItem(ctx, sqlgen.QuarantineItemParams{AccountID: accountID, ID: itemID, Actor: byService, Finding: finding})
		if err != nil || rows == 0 {
			return rows, err
		}
		_, err = q.TrimQuarantine(ctx, sqlgen.TrimQuarantineParams{AccountID: accountID, Files: int32(most.Files), Percent: int32(most.Percent)}) //nolint:gosec // small numbers
		return rows, err
	})
}

// reject records that an item is not sealed, and queues the e-mails to the owners.
func (s Gates) reject(ctx context.Context, accountID, itemID uuid.UUID, finding string, notice gate.Notice, record func(q *sqlgen.Queries) (int64, error)) (changed bool, err error) {
	err = s.inTx(ctx, "record a result", func(q *sqlgen.Queries) error {
		changed = false
		rows, err := record(q)
		if err != nil || rows == 0 {
			return err
		}
		changed = true
		if !notice.Send {
			return nil
		}
		taken, err := q.TakeNotice(ctx, sqlgen.TakeNoticeParams{AccountID: accountID, Pause: notice.Pause.Microseconds()})
		switch {
		case errors.Is(err, pgx.ErrNoRows): // they were told of another file just now
			return nil
		case err != nil:
			return err
		}
		return s.queueNotices(ctx, q, accountID, taken, gate.NoticeEmail{ItemID: itemID, Finding: finding})
	})
	return changed && err == nil, err
}

// queueNotices adds a task for each owner.
func (s Gates) queueNotices(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID, to sqlgen.TakeNoticeRow, email gate.NoticeEmail) error {
	email.Namespace, email.Account, email.DisplayName, email.At = to.Namespace, to.Name, to.DisplayName, time.Now().UTC().Truncate(time.Second)
	for _, owner := range to.Owners {
		email.To = owner
		payload, err := json.Marshal(email)
		if err != nil {
			return fmt.Errorf("encode an e-mail: %w", err)
		}
		key, err := s.cell.NewID()
		if err != nil {
			return err
		}
		if err := addTask(ctx, q, work.NewTask{Kind: gate.NoticeWork, Key: key, AccountID: accountID, ExpiresAt: time.Now().Add(gate.NoticeLifetime), Payload: payload}); err != nil {
			return err
		}
	}
	return nil
}

// quarantinePage is how many files EachQuarantined reads at once.
const quarantinePage = 500

// EachQuarantined implements gate.QuarantineStore.
func (s Gates) EachQuarantined(ctx context.Context, namespace string, visit func(gate.Quarantined) error) error {
	before, beforeID := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), maxUUID
	for {
		rows, err := s.queries.ListQuarantine(ctx, sqlgen.ListQuarantineParams{Namespace: namespace, Before: before, BeforeID: beforeID, Batch: quarantinePage})
		if err != nil {
			return toFault(err, "list the quarantine")
		}
		for _, row := range rows {
			found := gate.Quarantined{ItemID: row.ItemID, Namespace: row.Namespace, Name: row.Name, App: row.App, FileName: row.FileName, Bytes: row.Bytes, Finding: row.Finding, At: row.At}
			if err := visit(found); err != nil {
				return err
			}
			before, beforeID = row.At, row.ItemID
		}
		if len(rows) < quarantinePage {
			return nil
		}
	}
}

// errNotQuarantined is the fault of a file that is not in quarantine.
var errNotQuarantined = fault.New(fault.NotFound, "there is no such file in quarantine, or its account is closed, or its app was removed")

// byOperator is the actor of what an admin does by the operator.
var byOperator = account.Actor{Kind: account.ActorOperator}.Text()

// Release implements gate.QuarantineStore.
func (s Gates) Release(ctx context.Context, itemID uuid.UUID, now time.Time) (sealed bool, err error) {
	var appID uuid.UUID
	err = s.Uploads.reserve(ctx, "release a file", func(r *reservation) error {
		sealed = false
		taken, err := r.TakeQuarantined(ctx, itemID)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNotQuarantined
		}
		if err != nil {
			return err
		}
		if err := r.requireRoom(ctx, taken.AccountID, taken.Bytes); err != nil {
			return err
		}
		if adjusted, err := r.AdjustUsage(ctx, sqlgen.AdjustUsageParams{AccountID: taken.AccountID, Delta: taken.Bytes}); err != nil {
			return err
		} else if adjusted == 0 { // the cap was lowered meanwhile
			return r.quotaExceeded(ctx, taken.AccountID)
		}
		if _, err := r.RestoreQuarantined(ctx, sqlgen.RestoreQuarantinedParams{Item: taken.Item, Actor: byOperator}); err != nil {
			return err
		}
		if appID = taken.AppID; taken.SealActor == "" {
			return nil
		}
		sealed, err = sealAs(ctx, r.Queries, appID, itemID, taken.SealActor, now)
		return err
	})
	if err == nil && sealed {
		s.pageIndex.recordChange(appID)
	}
	return sealed, err
}

// Delete implements gate.QuarantineStore.
func (s Gates) Delete(ctx context.Context, itemID uuid.UUID) error {
	_, err := s.queries.DeleteQuarantined(ctx, itemID)
	if errors.Is(err, pgx.ErrNoRows) {
		return errNotQuarantined
	}
	return toFault(err, "delete a file in quarantine")
}

// ExpireQuarantine implements gate.QuarantineStore.
func (s Gates) ExpireQuarantine(ctx context.Context, cutoff time.Time, batch int) (int, error) {
	ended, err := s.queries.ExpireQuarantine(ctx, sqlgen.ExpireQuarantineParams{Cutoff: cutoff, Batch: batchSize(batch)})
	return len(ended), toFault(err, "end files in quarantine")
}
