package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/work"
)

var (
	_ fetch.Store      = Fetches{}
	_ fetch.PurgeStore = Fetches{}
)

// fetchLock is the class of the advisory locks that serialize what counts the jobs of an account. The number is arbitrary and must never
// change.
const fetchLock = 526_874

// fullFetchQueue is when a caller of a full queue should try again.
const fullFetchQueue = 30 * time.Second

// AddFetch implements fetch.Store.
func (s Fetches) AddFetch(ctx context.Context, job fetch.Job, guard *account.Guard, maxOpen int) error {
	fields := job.Request.Fields
	metadata, err := json.Marshal(fields.Metadata)
	if err != nil {
		return fmt.Errorf("encode the metadata of a job: %w", err)
	}
	params := sqlgen.AddFetchParams{ID: job.ID, AccountID: job.AccountID, AppID: job.AppID, KeyID: job.KeyID, Assistant: job.Assistant, Url: job.Request.URL,
		FileName: fields.FileName, Access: string(fields.Access), Caption: fields.Caption, GroupLabel: fields.Group, Metadata: metadata,
		Seal: job.Request.Seal, CreatedAt: job.CreatedAt, MaxOpen: batchSize(maxOpen)}
	if job.GrantID != uuid.Nil {
		params.GrantID = pgtype.UUID{Bytes: job.GrantID, Valid: true}
	}
	return s.inTx(ctx, "add an upload from a URL", func(q *sqlgen.Queries) error {
		if err := q.LockFetchQueue(ctx, sqlgen.LockFetchQueueParams{Class: fetchLock, Queue: job.AccountID.String()}); err != nil {
			return err
		}
		added, err := q.AddFetch(ctx, params)
		if err == nil && added == 0 {
			return &fault.Error{Kind: fault.Busy, Public: fmt.Sprintf("the account has %d uploads from a URL that have not ended", maxOpen), RetryAfter: fullFetchQueue}
		}
		if err != nil {
			return err
		}
		if guard != nil {
			if err := spend(ctx, q, job.AccountID, guard.Connection, fetchesOf(guard.Ceilings), 1); err != nil {
				return err
			}
		}
		return addTask(ctx, q, work.NewTask{Kind: fetch.JobWork, Key: job.ID, AccountID: job.AccountID})
	})
}

// EnqueueFetches implements fetch.Store.
func (s Fetches) EnqueueFetches(ctx context.Context) (int, error) {
	rows, err := s.queries.EnqueueFetches(ctx, sqlgen.EnqueueFetchesParams{Kind: string(fetch.JobWork), Own: s.own()})
	return int(rows), toFault(err, "look for uploads from a URL without a task")
}

// Fetch implements fetch.Store.
func (s Fetches) Fetch(ctx context.Context, scope media.Scope, id uuid.UUID) (fetch.Job, error) {
	row, err := s.idempotent.FetchJob(ctx, sqlgen.FetchJobParams{ID: id, AccountID: scope.AccountID, AppID: scope.AppID})
	if errors.Is(err, pgx.ErrNoRows) {
		return fetch.Job{}, fetch.ErrNotFound
	}
	if err != nil {
		return fetch.Job{}, toFault(err, "read an upload from a URL")
	}
	return jobOf(row), nil
}

// BeginFetch implements fetch.Store.
func (s Fetches) BeginFetch(ctx context.Context, id uuid.UUID, keysOf func(uuid.UUID) []string, notBefore time.Time) (claim fetch.Claim, err error) {
	instance := s.instance.Load()
	if instance == nil {
		return fetch.Claim{}, fetch.ErrLost
	}
	itemID, err := s.cell.NewID()
	if err != nil {
		return fetch.Claim{}, err
	}
	err = s.inTx(ctx, "begin an upload from a URL", func(q *sqlgen.Queries) error {
		job, err := q.LockFetch(ctx, sqlgen.LockFetchParams{ID: id, InstanceID: *instance})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return fetch.ErrNotFound
		case err != nil:
			return err
		case job.Held:
			return fetch.ErrLost
		}
		if job.ItemID.Valid {
			earlier := uuid.UUID(job.ItemID.Bytes)
			if claim.Committed, err = endAttempt(ctx, q, earlier, keysOf, notBefore); err != nil {
				return err
			}
			if claim.Committed {
				itemID = earlier
			}
		}
		begun, err := q.BeginFetch(ctx, sqlgen.BeginFetchParams{ID: id, InstanceID: *instance, ItemID: itemID})
		claim.Job, claim.ItemID, claim.Attempt = jobOf(begun), itemID, int(begun.Attempts)
		return err
	})
	return claim, err
}

// StarvedFetch implements fetch.Store.
func (s Fetches) StarvedFetch(ctx context.Context, wait time.Duration) (starved bool, yields uuid.UUID, err error) {
	yields, err = s.queries.StarvedFetch(ctx, sqlgen.StarvedFetchParams{Kind: string(fetch.JobWork), Wait: wait.Microseconds()})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, uuid.Nil, nil
	}
	return err == nil, yields, toFault(err, "look for accounts that wait for uploads from a URL")
}

// endAttempt ends the upload of an earlier attempt, so that it cannot be committed any more, and
// reports whether it was committed before.
func endAttempt(ctx context.Context, q *sqlgen.Queries, itemID uuid.UUID, keysOf func(uuid.UUID) []string, notBefore time.Time) (committed bool, err error) {
	found, err := q.UploadOfFetch(ctx, itemID)
	if err != nil {
		return false, err
	}
	if len(found) > 0 {
		uploads := make([]sqlgen.ExpiredUploadsRow, len(found))
		for i, upload := range found {
			uploads[i] = sqlgen.ExpiredUploadsRow(upload)
		}
		return false, endUploads(ctx, q, uploads, endParams(uploads, keysOf, notBefore))
	}
	return q.ItemExists(ctx, itemID)
}

// ReportFetch implements fetch.Store.
func (s Fetches) ReportFetch(ctx context.Context, claim fetch.Claim, bytes, total int64) error {
	return s.changeClaim(func(instance uuid.UUID) (int64, error) {
		return s.queries.ReportFetch(ctx, sqlgen.ReportFetchParams{ID: claim.ID, ItemID: claim.ItemID, InstanceID: instance, Bytes: bytes, Total: total})
	})
}

// FinishFetch implements fetch.Store.
func (s Fetches) FinishFetch(ctx context.Context, claim fetch.Claim, bytes int64, failure *fetch.Failure) error {
	return s.changeClaim(func(instance uuid.UUID) (int64, error) {
		params := sqlgen.FinishFetchParams{ID: claim.ID, ItemID: claim.ItemID, InstanceID: instance, Bytes: bytes}
		if failure != nil {
			params.ErrorCode, params.ErrorText = string(failure.Code), failure.Text
		}
		return s.queries.FinishFetch(ctx, params)
	})
}

// ReturnFetch implements fetch.Store.
func (s Fetches) ReturnFetch(ctx context.Context, claim fetch.Claim, delay time.Duration, counted bool) error {
	return s.changeClaim(func(instance uuid.UUID) (int64, error) {
		return s.queries.ReturnFetch(ctx, sqlgen.ReturnFetchParams{ID: claim.ID, ItemID: claim.ItemID, InstanceID: instance, Delay: delay.Microseconds(), Counted: counted})
	})
}

// changeClaim changes a job that this process has claimed.
func (s Fetches) changeClaim(change func(instance uuid.UUID) (rows int64, err error)) error {
	instance := s.instance.Load()
	if instance == nil {
		return fetch.ErrLost
	}
	rows, err := change(*instance)
	if err == nil && rows == 0 {
		return fetch.ErrLost
	}
	return toFault(err, "change an upload from a URL")
}

// FindPrincipalOfGrant implements fetch.Store.
func (s Fetches) FindPrincipalOfGrant(ctx context.Context, id uuid.UUID) (account.Principal, error) {
	session, err := s.Credentials.FindSessionOfGrant(ctx, id)
	return session.Principal, err
}

// PurgeFetches implements fetch.PurgeStore.
func (s Fetches) PurgeFetches(ctx context.Context, cutoff time.Time, overdue fetch.Failure, batch int) (int, error) {
	n, err := s.queries.PurgeFetches(ctx, sqlgen.PurgeFetchesParams{Kind: string(fetch.JobWork), Cutoff: cutoff, Batch: batchSize(batch),
		ErrorCode: string(overdue.Code), ErrorText: overdue.Text})
	return int(n), toFault(err, "purge uploads from a URL")
}

func jobOf(row sqlgen.FetchJob) fetch.Job {
	job := fetch.Job{
		ID: row.ID, AccountID: row.AccountID, AppID: row.AppID, KeyID: row.KeyID, Assistant: row.Assistant,
		Request: fetch.Request{URL: row.Url, Seal: row.Seal, Fields: media.Fields{
			FileName: row.FileName, Access: media.Access(row.Access), Caption: row.Caption, Group: row.GroupLabel, Metadata: row.Metadata,
		}},
		State: fetch.State(row.State), Bytes: row.Bytes, Total: row.Total,
		Failure: fetch.Failure{Code: fetch.Code(row.ErrorCode), Text: row.ErrorText}, CreatedAt: row.CreatedAt, EndedAt: row.EndedAt,
	}
	if row.GrantID.Valid {
		job.GrantID = row.GrantID.Bytes
	}
	if row.ItemID.Valid && job.State == fetch.Done {
		job.MediaID = row.ItemID.Bytes
	}
	return job
}
