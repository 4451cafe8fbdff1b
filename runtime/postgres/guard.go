package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// approvalOf returns which changes wait for a yes, of a row.
func approvalOf(stored []byte) (approval account.Approval) {
	_ = json.Unmarshal(stored, &approval) // written by approvalJSON; null is none
	return approval
}

// approvalJSON returns null where nothing waits, as in the rows of before.
func approvalJSON(approval account.Approval) []byte {
	if !approval.On() {
		return nil
	}
	text, _ := json.Marshal(approval) // of texts and numbers, which can be encoded
	return text
}

// ceilingsOf returns the ceilings of a row.
func ceilingsOf(stored []byte) (ceilings account.Ceilings) {
	_ = json.Unmarshal(stored, &ceilings) // written by ceilingsJSON; null is none
	return ceilings
}

// ceilingsJSON returns null without a ceiling, as in the rows of before.
func ceilingsJSON(ceilings account.Ceilings) []byte {
	if !ceilings.On() {
		return nil
	}
	text, _ := json.Marshal(ceilings) // of numbers, which can be encoded
	return text
}

// What is counted of a connection. The names are stored.
const (
	useBulkDeletes = "bulk deletes"
	useDeletes     = string(account.CeilingDeletes)
	useUploadBytes = string(account.CeilingUploadBytes)
	useFetches     = string(account.CeilingFetches)
)

// use is something that a ceiling bounds.
type use struct {
	kind        string
	window      time.Duration
	each, total int64 // 0 = without a bound
	// of says what is bounded: "%d deletes in an hour".
	of string
}

func deletesOf(c account.Ceilings) use {
	return use{kind: useDeletes, window: time.Hour, each: c.Each.DeletesPerHour, total: c.Total.DeletesPerHour, of: "%d deletes in an hour"}
}

func fetchesOf(c account.Ceilings) use {
	return use{kind: useFetches, window: 24 * time.Hour, each: c.Each.FetchesPerDay, total: c.Total.FetchesPerDay, of: "%d uploads from a URL in a day"}
}

func uploadsOf(c account.Ceilings) use {
	return use{kind: useUploadBytes, window: 24 * time.Hour, each: c.Each.UploadBytesPerDay, total: c.Total.UploadBytesPerDay, of: "%d bytes of uploads in a day"}
}

// allConnections is the connection that stands for all of an account.
const allConnections = ""

// spend counts an amount of a use, in the transaction of what is done, and returns a Busy fault if a ceiling does not permit it.
func spend(ctx context.Context, q *sqlgen.Queries, accountID uuid.UUID, connection string, u use, amount int64) error {
	// The row of all connections first: each transaction locks in this order.
	for _, bound := range []struct {
		connection, whose string
		most              int64
	}{{allConnections, "all assistants and applications of the account together", u.total}, {connection, "this assistant or application", u.each}} {
		if bound.most == 0 {
			continue
		}
		params := sqlgen.SpendUseParams{AccountID: accountID, Connection: bound.connection, Kind: u.kind, Amount: amount, Most: bound.most, Seconds: u.window.Seconds()}
		switch spent, err := q.SpendUse(ctx, params); {
		case err != nil:
			return err
		case spent == 0:
			return ceilingReached(ctx, q, params, fmt.Sprintf("the ceiling for %s is "+u.of, bound.whose, bound.most))
		}
	}
	return nil
}

// ceilingReached returns the fault of a ceiling, with the time after which it permits something again.
func ceilingReached(ctx context.Context, q *sqlgen.Queries, params sqlgen.SpendUseParams, public string) error {
	if params.Amount > params.Most {
		return fault.Wrap(account.ErrCeiling, fault.TooLarge, "%s, which is less than this needs", public)
	}
	seconds, err := q.UseEnds(ctx, sqlgen.UseEndsParams{AccountID: params.AccountID, Connection: params.Connection, Kind: params.Kind, Seconds: params.Seconds})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return &fault.Error{Kind: fault.Busy, Public: public, Cause: account.ErrCeiling, RetryAfter: time.Duration(math.Ceil(max(1, seconds))) * time.Second}
}

// guarded runs the statements of a change: as they are, or in a transaction with what the guard of the scope has to permit.
func (s *Store) guarded(ctx context.Context, scope media.Scope, permit func(q *sqlgen.Queries) (account.Actor, error), do func(q *sqlgen.Queries, actor string) error) error {
	if scope.Guard == nil {
		return do(s.once, scope.Actor.Text())
	}
	return s.inTx(ctx, "change with a guard", func(q *sqlgen.Queries) error {
		actor, err := permit(q)
		if err != nil {
			return err
		}
		return do(q, actor.Text())
	})
}

// permitDelete permits the delete of one item, and returns who makes it.
func permitDelete(ctx context.Context, q *sqlgen.Queries, scope media.Scope, id uuid.UUID) (account.Actor, error) {
	actor, guard := scope.Actor, scope.Guard
	if guard.Approved != nil {
		if err := endStep(ctx, q, scope, id); err != nil {
			return actor, err
		}
		return actor, spend(ctx, q, scope.AccountID, guard.Connection, deletesOf(guard.Ceilings), 1)
	}
	wait := guard.Approval.Delete == account.RuleAlways
	if guard.Approval.Delete == account.RuleBulk {
		spent, err := q.SpendUse(ctx, sqlgen.SpendUseParams{AccountID: scope.AccountID, Connection: guard.Connection, Kind: useBulkDeletes, Amount: 1,
			Most: guard.Approval.BulkItems, Seconds: guard.Approval.BulkWindow.Seconds()})
		if err != nil {
			return actor, err
		}
		wait = spent == 0
	}
	if wait {
		by, err := q.TakeAllowance(ctx, sqlgen.TakeAllowanceParams{AccountID: scope.AccountID, Connection: guard.Connection, Operation: string(account.DeleteMedia)})
		if errors.Is(err, pgx.ErrNoRows) {
			return actor, account.ErrApprovalRequired
		}
		if err != nil {
			return actor, err
		}
		owner, found := guard.Owners[by]
		if !found { // who has allowed it has lost the account since
			return actor, account.ErrApprovalRequired
		}
		actor.ApprovedBy = owner
	}
	return actor, spend(ctx, q, scope.AccountID, guard.Connection, deletesOf(guard.Ceilings), 1)
}

// endStep ends the step of an allowed change, and locks its item, which must be as it was when the owner was asked.
func endStep(ctx context.Context, q *sqlgen.Queries, scope media.Scope, id uuid.UUID) error {
	step := scope.Guard.Approved
	if ended, err := q.EndStep(ctx, step.ID); err != nil || ended == 0 {
		return cmp.Or(err, account.ErrStepEnded)
	}
	version, err := q.LockItemVersion(ctx, sqlgen.LockItemVersionParams{AppID: scope.AppID, ID: id})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errItemNotFound
	case err != nil:
		return err
	case int64(version) != step.Version:
		return account.ErrItemChanged
	}
	return nil
}

// permitted returns permitDelete for a delete of an item.
func permitted(ctx context.Context, scope media.Scope, id uuid.UUID) func(q *sqlgen.Queries) (account.Actor, error) {
	return func(q *sqlgen.Queries) (account.Actor, error) { return permitDelete(ctx, q, scope, id) }
}
