// Package approval has changes of assistants and connected applications wait for the yes of an owner, in accounts with spec.mcp.approval
// (docs/decisions/0061). A change that needs it changes nothing; Ask records it. The owner decides on a page, with a login of his own. A task of
// package work then carries the changes out, each once and only if its item is as it was when the owner was asked: the transaction that
// makes the change ends its step.
package approval

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/work"
)

// Work is the kind of the tasks that carry out what an owner has allowed. The key of a task is the approval.
const Work work.Kind = "approval"

// Page is the path of the page on which an owner decides. Its parameter approval is the id.
const Page = "/account/approval"

// The bounds of approvals.
const (
	// TTL is how long an owner can decide.
	TTL = 24 * time.Hour
	// Retention is how long an approval can be read after that.
	Retention = 7 * 24 * time.Hour
	// MaxSteps is how many changes collect in one approval, and MaxWaiting how many approvals of a connection wait.
	MaxSteps   = 200
	MaxWaiting = 5
	// AllowanceItems and AllowanceTTL are what an owner can allow in advance: so many deletes in so long.
	AllowanceItems = 20
	AllowanceTTL   = time.Hour
)

// State is what has become of an approval.
type State string

// The states. Expired is stored by the purge, and Done never.
const (
	Waiting State = "waiting"
	Allowed State = "allowed" // it is being carried out
	Denied  State = "denied"
	Expired State = "expired" // nobody has decided in time
	Done    State = "done"    // all steps have ended
)

// StepState is what has become of one change.
type StepState string

// The states of a step.
const (
	StepWaiting StepState = "waiting"
	StepDone    StepState = "done"
	StepChanged StepState = "changed" // the item is another one than the owner was asked about: nothing was done
	StepFailed  StepState = "failed"
)

// Request is what a connection wants to do.
type Request struct {
	Operation account.Operation
	// Items are the items of it; none for the settings.
	Items []uuid.UUID
	// Change is that of UpdateMedia, and Settings that of UpdateMediaSettings.
	Change   media.Change
	Settings settings.Layer
}

// Caller is the connection that asks.
type Caller struct {
	account.Principal
	// GrantID is the authorization of an application; zero for an assistant with a key.
	GrantID uuid.UUID
}

// Step is one change that waits for a yes.
type Step struct {
	ID        uuid.UUID
	Operation account.Operation
	// Arguments are what is needed to carry it out, as JSON, and Digest stands for all of the step.
	Arguments string
	Digest    []byte
	ItemID    uuid.UUID // zero for the settings
	// Version is that of the item or of the settings when the owner was asked.
	Version int64
	// Bytes is the size of the original file, without its pictures.
	Bytes int64
	State StepState
	// Failure says why nothing was done, or why nobody knows.
	Failure string
}

// Approval is what an owner is asked.
type Approval struct {
	ID         uuid.UUID
	AccountID  uuid.UUID
	AppID      uuid.UUID
	Connection string
	GrantID    uuid.UUID // zero for an assistant with a key
	KeyID      uuid.UUID
	// Actor is who asks.
	Actor account.Actor
	State State
	// Revision increases with each change that is added. A decision is about one revision.
	Revision  int
	CreatedAt time.Time
	ExpiresAt time.Time
	DecidedAt *time.Time
	DecidedBy string
	Steps     []Step
}

// Count returns how many steps have a state.
func (a Approval) Count(state StepState) (n int) {
	for _, step := range a.Steps {
		if step.State == state {
			n++
		}
	}
	return n
}

// Deletes returns how many steps delete an item.
func (a Approval) Deletes() (n int) {
	for _, step := range a.Steps {
		if step.Operation == account.DeleteMedia {
			n++
		}
	}
	return n
}

// Asked is a request as it is stored.
type Asked struct {
	ID, AccountID, AppID uuid.UUID
	Connection           string
	GrantID, KeyID       uuid.UUID
	Actor                account.Actor
	Steps                []Step
	TTL                  time.Duration
	// Email is set if the owners are told by e-mail.
	Email bool
}

// Decision is what an owner has decided about one revision of an approval.
type Decision struct {
	ID, AccountID uuid.UUID
	Revision      int
	Allow         bool
	// By is the address of the owner.
	By string
	// Allowance allows AllowanceItems deletes of the connection in advance.
	Allowance bool
}

// Store keeps approvals. PostgreSQL implements it. Errors are faults.
type Store interface {
	// ItemToApprove returns the version of an item, the bytes of its original, and whether it is deleted; NotFound.
	ItemToApprove(ctx context.Context, scope media.Scope, id uuid.UUID) (version, bytes int64, deleted bool, err error)
	// Ask records what waits: with other changes of the connection that its owner has not seen yet. It returns an approval that waits for
	// the same changes already. Busy if too much waits. The tasks of e-mails are in the transaction.
	Ask(ctx context.Context, asked Asked) (uuid.UUID, error)
	// Approval returns an approval with its steps; ErrNotFound.
	Approval(ctx context.Context, id uuid.UUID) (Approval, error)
	// Waiting returns the oldest approvals that wait for the owners of an account, at most so many: their ids, GrantID and Actor.
	Waiting(ctx context.Context, accountID uuid.UUID, most int) ([]Approval, error)
	// Opened records that an owner has seen an approval: nothing is added to it anymore.
	Opened(ctx context.Context, id uuid.UUID) error
	// Decide records a decision and, if it is a yes, adds the task that carries it out, in one transaction. ErrDecided if the approval does not
	// wait, has expired, or is another revision.
	Decide(ctx context.Context, decision Decision) error
	// FailStep ends a step that was not carried out. One that has ended stays as it is.
	FailStep(ctx context.Context, id uuid.UUID, state StepState, failure string) error
	// AwaitItemCaches returns when no process serves what was changed before the call.
	AwaitItemCaches(ctx context.Context) error
	// PrincipalOf returns the principal of the connection that has asked; NotFound if it has ended.
	PrincipalOf(ctx context.Context, a Approval) (account.Principal, error)
}

// The errors of approvals.
var (
	// ErrNotFound is the error for an approval that does not exist, or is that of another owner or connection: callers cannot tell these apart.
	ErrNotFound = fault.New(fault.NotFound, "there is no such request to the owner, or it has expired long ago")
	// ErrDecided is the error of a decision about what does not wait for it.
	ErrDecided = fault.New(fault.Conflict, "This request has changed, was decided before, or has expired. Look at it again.")
)
