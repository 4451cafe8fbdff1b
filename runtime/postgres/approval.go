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
	"github.com/jackc/pgx/v5/pgtype"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/work"
)

var (
	_ approval.Store      = Approvals{}
	_ approval.PurgeStore = Approvals{}
)

// ItemToApprove implements approval.Store.
func (s Approvals) ItemToApprove(ctx context.Context, scope media.Scope, id uuid.UUID) (version, bytes int64, deleted bool, err error) {
	row, err := s.idempotentFor(scope.AccountID).ItemToApprove(ctx, sqlgen.ItemToApproveParams{AppID: scope.AppID, ID: id})
	original, _ := row.Objects.Find(media.Original)
	return int64(row.Version), original.Bytes, row.Deleted, itemFault(err, "read an item")
}

// tooMuchWaits is when a caller should ask again whose account has too many requests that wait.
const tooMuchWaits = 10 * time.Minute

// Ask implements approval.Store. An approval that collects has its row locked until the end, so its owner sees all of it or decides about what was
// before.
func (s Approvals) Ask(ctx context.Context, asked approval.Asked) (id uuid.UUID, err error) {
	of := sqlgen.WaitingWithParams{AccountID: asked.AccountID, Connection: asked.Connection}
	for _, step := range asked.Steps {
		of.Digests = append(of.Digests, step.Digest)
	}
	err = s.inTx(ctx, "ask for a yes", func(q *sqlgen.Queries) error {
		if id, err = q.WaitingWith(ctx, of); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err := q.CloseExpired(ctx, sqlgen.CloseExpiredParams{AccountID: asked.AccountID, Connection: asked.Connection}); err != nil {
			return err
		}
		params := sqlgen.CollectApprovalParams{ID: asked.ID, AccountID: asked.AccountID, AppID: asked.AppID, Connection: asked.Connection, KeyID: asked.KeyID,
			Actor: asked.Actor.Text(), Seconds: asked.TTL.Seconds(), GrantID: nullable(asked.GrantID), Operations: operationsOf(asked.Steps)}
		if id, err = q.CollectApproval(ctx, params); err != nil {
			return err
		}
		if id == asked.ID { // a new one: the row excludes another new one of the connection
			waiting, err := q.CountWaitingApprovals(ctx, sqlgen.CountWaitingApprovalsParams{AccountID: asked.AccountID, Connection: asked.Connection})
			if err == nil && waiting > approval.MaxWaiting {
				err = tooManyWait(fmt.Sprintf("%d requests wait for the owner already", approval.MaxWaiting))
			}
			if err != nil {
				return err
			}
		}
		for _, step := range asked.Steps {
			if err := q.AddStep(ctx, sqlgen.AddStepParams{ID: step.ID, ApprovalID: id, Operation: string(step.Operation), Arguments: step.Arguments, Digest: step.Digest,
				ItemID: nullable(step.ItemID), Version: step.Version, Bytes: step.Bytes}); err != nil {
				return err
			}
		}
		steps, err := q.CountSteps(ctx, id)
		if err == nil && steps > approval.MaxSteps {
			err = tooManyWait(fmt.Sprintf("%d changes wait for the owner already", approval.MaxSteps))
		}
		if err != nil || !asked.Email {
			return err
		}
		return s.tellOwners(ctx, q, asked.AccountID, id, asked.TTL)
	})
	return id, toFault(err, "ask for a yes")
}

// tellOwners adds a task for each owner, unless they were told of something just now.
func (s Approvals) tellOwners(ctx context.Context, q *sqlgen.Queries, accountID, id uuid.UUID, until time.Duration) error {
	to, err := q.TakeApprovalNotice(ctx, sqlgen.TakeApprovalNoticeParams{AccountID: accountID, Pause: approval.EmailPause.Microseconds()})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	email := approval.Email{Namespace: to.Namespace, Account: to.Name, DisplayName: to.DisplayName, ApprovalID: id, At: now, Until: now.Add(until)}
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
		if err := addTask(ctx, q, work.NewTask{Kind: approval.EmailWork, Key: key, AccountID: accountID, ExpiresAt: email.Until, Payload: payload}); err != nil {
			return err
		}
	}
	return nil
}

func tooManyWait(public string) error {
	return &fault.Error{Kind: fault.Busy, Public: public + ": have the user decide about them first", RetryAfter: tooMuchWaits}
}

// operationsOf returns the operations of steps, each once, in order.
func operationsOf(steps []approval.Step) (names []string) {
	for _, step := range steps {
		names = append(names, string(step.Operation))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nullable returns null for the zero id.
func nullable(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != uuid.Nil} }

// AwaitItemCaches implements approval.Store.
func (s Approvals) AwaitItemCaches(ctx context.Context) error { return s.awaitItemCaches(ctx) }

// Waiting implements approval.Store.
func (s Approvals) Waiting(ctx context.Context, accountID uuid.UUID, most int) ([]approval.Approval, error) {
	return repeat(ctx, s.Store, uuid.Nil, func(ctx context.Context) ([]approval.Approval, error) {
		rows, err := s.once.WaitingApprovals(ctx, sqlgen.WaitingApprovalsParams{AccountID: accountID, Most: int32(most)}) //nolint:gosec // a few
		if err != nil {
			return nil, toFault(err, "list what waits for a yes")
		}
		waiting := make([]approval.Approval, 0, len(rows))
		for _, row := range rows {
			waiting = append(waiting, approval.Approval{ID: row.ID, AccountID: accountID, GrantID: row.GrantID.Bytes, Actor: account.ParseActor(row.Actor), State: approval.Waiting})
		}
		return waiting, nil
	})
}

// Approval implements approval.Store.
func (s Approvals) Approval(ctx context.Context, id uuid.UUID) (approval.Approval, error) {
	return repeat(ctx, s.Store, uuid.Nil, func(ctx context.Context) (approval.Approval, error) {
		row, err := s.once.FindApproval(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return approval.Approval{}, approval.ErrNotFound
		}
		if err != nil {
			return approval.Approval{}, toFault(err, "read a request for a yes")
		}
		found := approval.Approval{ID: row.ID, AccountID: row.AccountID, AppID: row.AppID, Connection: row.Connection, GrantID: row.GrantID.Bytes, KeyID: row.KeyID, Actor: account.ParseActor(row.Actor),
			State: approval.State(row.State), Revision: int(row.Revision), CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt, DecidedAt: row.DecidedAt}
		if row.DecidedBy != nil {
			found.DecidedBy = *row.DecidedBy
		}
		steps, err := s.once.ApprovalSteps(ctx, id)
		if err != nil {
			return approval.Approval{}, toFault(err, "read a request for a yes")
		}
		for _, step := range steps {
			found.Steps = append(found.Steps, approval.Step{ID: step.ID, Operation: account.Operation(step.Operation), Arguments: step.Arguments, Digest: step.Digest, ItemID: step.ItemID.Bytes,
				Version: step.Version, Bytes: step.Bytes, State: approval.StepState(step.State), Failure: step.Failure})
		}
		switch {
		case found.State == approval.Waiting && row.Expired:
			found.State = approval.Expired
		case found.State == approval.Allowed && found.Count(approval.StepWaiting) == 0:
			found.State = approval.Done
		}
		return found, nil
	})
}

// Opened implements approval.Store.
func (s Approvals) Opened(ctx context.Context, id uuid.UUID) error {
	return toFault(s.idempotent.OpenApproval(ctx, id), "record that a request was seen")
}

// Decide implements approval.Store.
func (s Approvals) Decide(ctx context.Context, decision approval.Decision) error {
	state := approval.Denied
	if decision.Allow {
		state = approval.Allowed
	}
	return s.inTx(ctx, "decide about a request", func(q *sqlgen.Queries) error {
		decided, err := q.DecideApproval(ctx, sqlgen.DecideApprovalParams{ID: decision.ID, AccountID: decision.AccountID, Revision: int32(decision.Revision), State: string(state), DecidedBy: decision.By}) //nolint:gosec // as the page has read it
		if err != nil || decided == 0 {
			if err == nil {
				err = approval.ErrDecided
			}
			return err
		}
		if !decision.Allow {
			return nil
		}
		if decision.Allowance {
			row, err := q.FindApproval(ctx, decision.ID)
			if err != nil {
				return err
			}
			if err := q.GrantAllowance(ctx, sqlgen.GrantAllowanceParams{AccountID: decision.AccountID, Connection: row.Connection, Operation: string(account.DeleteMedia),
				Remaining: approval.AllowanceItems, Seconds: approval.AllowanceTTL.Seconds(), GrantedBy: decision.By}); err != nil {
				return err
			}
		}
		return addTask(ctx, q, work.NewTask{Kind: approval.Work, Key: decision.ID, AccountID: decision.AccountID})
	})
}

// FailStep implements approval.Store.
func (s Approvals) FailStep(ctx context.Context, id uuid.UUID, state approval.StepState, failure string) error {
	_, err := s.idempotent.FailStep(ctx, sqlgen.FailStepParams{ID: id, State: string(state), Failure: failure})
	return toFault(err, "record the end of a request")
}

// PrincipalOf implements approval.Store.
func (s Approvals) PrincipalOf(ctx context.Context, of approval.Approval) (p account.Principal, err error) {
	if of.GrantID != uuid.Nil {
		session, err := s.Credentials.FindSessionOfGrant(ctx, of.GrantID)
		p = session.Principal
		if err != nil {
			return p, err
		}
	} else if p, err = s.Credentials.FindPrincipalByKeyID(ctx, of.KeyID); err != nil {
		return p, err
	}
	if expires := p.Key.ExpiresAt; p.Account.ID != of.AccountID || p.App.ID != of.AppID || expires != nil && time.Now().After(*expires) {
		return account.Principal{}, approval.ErrNotFound
	}
	return p, nil
}

// EndExpiredApprovals implements approval.PurgeStore.
func (s Approvals) EndExpiredApprovals(ctx context.Context, now time.Time, batch int) (int, error) {
	ended, err := s.queries.EndExpiredApprovals(ctx, sqlgen.EndExpiredApprovalsParams{Now: now, Batch: batchSize(batch)})
	return int(ended), toFault(err, "end requests that have expired")
}

// ExpireApprovals implements approval.PurgeStore.
func (s Approvals) ExpireApprovals(ctx context.Context, cutoff time.Time, batch int) (int, error) {
	ended, err := s.queries.ExpireApprovals(ctx, sqlgen.ExpireApprovalsParams{Cutoff: cutoff, Batch: batchSize(batch)})
	return int(ended), toFault(err, "delete requests that have expired")
}
