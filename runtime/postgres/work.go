package postgres

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/cdn"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/upload"
	"mediastack.dev/runtime/webhook"
	"mediastack.dev/runtime/work"
)

var _ work.Store = Tasks{}

// claimLock is the class of the advisory locks that serialize the claims of a kind. The number is arbitrary and must never change.
const claimLock = 526_877

// workKinds are the kinds of tasks.
func workKinds() []string {
	return []string{string(oauth.EmailWork), string(media.RemovalWork), string(media.FactsWork), string(fetch.JobWork), string(rendition.PictureWork), string(upload.SearchWork), string(upload.DerivativesWork), string(webhook.DeliveryWork), string(gate.ScanWork), string(gate.NoticeWork), string(cdn.PurgeWork), string(media.CaptureWork), string(media.CapturesWork), string(media.LocationsWork)}
}

// optionalTime returns nil for the zero time.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// addTask adds a task within a transaction, of which it is the last statement.
func addTask(ctx context.Context, q *sqlgen.Queries, task work.NewTask) error {
	return q.AddTask(ctx, sqlgen.AddTaskParams{Kind: string(task.Kind), Key: task.Key, AccountID: task.AccountID,
		DueAt: optionalTime(task.DueAt), ExpiresAt: optionalTime(task.ExpiresAt), Payload: append([]byte{}, task.Payload...)})
}

// ClaimTasks implements work.Store. A claim whose answer is lost ends by its time.
func (s Tasks) ClaimTasks(ctx context.Context, claim work.Claim) ([]work.Task, error) {
	id, err := s.cell.NewID()
	if err != nil {
		return nil, err
	}
	params := sqlgen.ClaimTasksParams{Kind: string(claim.Kind), Claim: id, Own: s.own(), Batch: batchSize(claim.Limit), PerAccount: math.MaxInt32,
		Duration: claim.Duration.Microseconds(), Leased: claim.Leased, Now: optionalTime(claim.Now)}
	params.Accounts, params.Most, params.Those = listed(claim.Of)
	var rows []sqlgen.ClaimTasksRow
	if claim.PerAccount == 0 {
		rows, err = s.queries.ClaimTasks(ctx, params)
	} else {
		params.PerAccount = batchSize(claim.PerAccount)
		err = s.inTx(ctx, "claim tasks", func(q *sqlgen.Queries) (err error) {
			if err := q.LockClaims(ctx, sqlgen.LockClaimsParams{Class: claimLock, Kind: params.Kind}); err != nil {
				return err
			}
			rows, err = q.ClaimTasks(ctx, params)
			return err
		})
	}
	if err != nil {
		return nil, toFault(err, "claim tasks")
	}
	tasks := make([]work.Task, len(rows))
	for i, row := range rows {
		tasks[i] = work.Task{Kind: claim.Kind, Key: row.Key, AccountID: row.AccountID, Payload: row.Payload, Attempt: int(row.Attempts), Expired: row.Expired, Claim: id}
	}
	return tasks, nil
}

// listed returns the accounts of a selection, as parallel arrays.
func listed(of work.Selection) (accounts []uuid.UUID, most []int32, only bool) {
	accounts, most = append([]uuid.UUID{}, of.Except...), make([]int32, len(of.Except), len(of.Except)+len(of.Only))
	for account, tasks := range of.Only {
		accounts, most = append(accounts, account), append(most, batchSize(tasks))
	}
	return accounts, most, of.Only != nil
}

// ClaimTask implements work.Store. A claim whose answer is lost ends by its time.
func (s Tasks) ClaimTask(ctx context.Context, claim work.Claim, key uuid.UUID) (task work.Task, claimed bool, err error) {
	id, err := s.cell.NewID()
	if err != nil {
		return work.Task{}, false, err
	}
	rows, err := s.queries.ClaimTask(ctx, sqlgen.ClaimTaskParams{Kind: string(claim.Kind), Key: key, Claim: id, Own: s.own(), Duration: claim.Duration.Microseconds(), Leased: claim.Leased})
	if err != nil || len(rows) == 0 {
		return work.Task{}, false, toFault(err, "claim a task")
	}
	row := rows[0]
	return work.Task{Kind: claim.Kind, Key: key, AccountID: row.AccountID, Payload: row.Payload, Attempt: int(row.Attempts), Expired: row.Expired, Claim: id}, true, nil
}

// FinishTask implements work.Store.
func (s Tasks) FinishTask(ctx context.Context, task work.Task) (work.Ending, error) {
	rows, err := s.queries.FinishTask(ctx, sqlgen.FinishTaskParams{Kind: string(task.Kind), Key: task.Key, Claim: task.Claim})
	if err == nil && rows == 0 {
		return work.Lost, nil
	}
	return work.Recorded, toFault(err, "finish a task")
}

// ReturnTask implements work.Store.
func (s Tasks) ReturnTask(ctx context.Context, task work.Task, why work.Return) (work.Ending, error) {
	row, err := s.queries.ReturnTask(ctx, sqlgen.ReturnTaskParams{Kind: string(task.Kind), Key: task.Key, Claim: task.Claim,
		Delay: why.Delay.Microseconds(), Failure: why.Failure, Uncounted: why.Uncounted || why.Failure == "", Rest: why.Rest.Microseconds(), Now: optionalTime(why.Now)})
	switch {
	case err != nil:
		return work.Lost, toFault(err, "return a task")
	case row.Expired:
		return work.Expired, nil
	case !row.Returned:
		return work.Lost, nil
	}
	return work.Recorded, nil
}

// ReleaseTasks implements work.Store.
func (s Tasks) ReleaseTasks(ctx context.Context, kind work.Kind) (int, error) {
	rows, err := s.queries.ReleaseTasks(ctx, sqlgen.ReleaseTasksParams{Kind: string(kind), Own: s.own()})
	return int(rows), toFault(err, "release tasks")
}

// AdoptEmails makes tasks of the e-mails that replicas of a version before package work have queued, and returns how many.
func (s Tasks) AdoptEmails(ctx context.Context) (int, error) {
	rows, err := s.queries.AdoptEmails(ctx, string(oauth.EmailWork))
	return int(rows), toFault(err, "adopt e-mails")
}
