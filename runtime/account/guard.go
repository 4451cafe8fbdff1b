package account

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// Rule says which changes of assistants and connected applications wait for the yes of an owner. The zero value is none of them.
type Rule string

// The rules.
const (
	// RuleBulk is for deletes: those beyond Approval.BulkItems in a window wait.
	RuleBulk   Rule = "Bulk"
	RuleAlways Rule = "Always"
)

// Approval says which changes wait for the yes of an owner. The JSON form is stored, so a field is never renamed. The zero value asks for none.
type Approval struct {
	Delete Rule `json:"delete,omitempty"`
	// Publish is for what makes a file public: RuleAlways or none.
	Publish Rule `json:"publish,omitempty"`
	// Settings is for changes of the media settings: RuleAlways or none.
	Settings Rule `json:"settings,omitempty"`
	// BulkItems is how many deletes of one connection pass in BulkWindow with RuleBulk.
	BulkItems  int64         `json:"bulkItems,omitempty"`
	BulkWindow time.Duration `json:"bulkWindow,omitempty"`
}

// On reports whether any change waits for a yes.
func (a Approval) On() bool { return a.Delete != "" || a.Publish != "" || a.Settings != "" }

// RuleOf returns the rule for an operation; empty = no change by it waits. Of the operations that can make a file public, only those changes wait
// that do.
func (a Approval) RuleOf(one Operation) Rule {
	switch one { //nolint:exhaustive // the others never wait
	case DeleteMedia:
		return a.Delete
	case UpdateMedia, SealMedia, RestoreMedia:
		return a.Publish
	case UpdateMediaSettings:
		return a.Settings
	}
	return ""
}

// Ceiling bounds what is done in a window; 0 = without a bound.
type Ceiling struct {
	UploadBytesPerDay int64 `json:"uploadBytesPerDay,omitempty"`
	DeletesPerHour    int64 `json:"deletesPerHour,omitempty"`
	FetchesPerDay     int64 `json:"fetchesPerDay,omitempty"`
}

// Ceilings bound what assistants and connected applications do. The JSON form is stored, so a field is never renamed. The zero value bounds nothing.
type Ceilings struct {
	// Each is the ceiling of one connection.
	Each Ceiling `json:"each,omitzero"`
	// Total is the ceiling of all connections of the account together.
	Total Ceiling `json:"total,omitzero"`
}

// On reports whether there is a bound.
func (c Ceilings) On() bool { return c != Ceilings{} }

// Guard is what the changes of one connection have to pass, each in its transaction. It is nil where nothing is to be passed: without
// approvals and ceilings, and for programs with a key over REST.
type Guard struct {
	// Connection is the grant of an application, or the key of an assistant: see ConnectionOfGrant and ConnectionOfKey.
	Connection string
	Approval   Approval
	Ceilings   Ceilings
	// Owners has, where deletes wait, each owner's address as events have it: what an owner has allowed in advance ends with the ownership.
	Owners map[string]string
	// Approved is set for a change that an owner has allowed.
	Approved *ApprovedStep
}

// ApprovedStep is a change that an owner has allowed. The transaction that makes the change ends the step, so it is made once.
type ApprovedStep struct {
	ID uuid.UUID
	// Version is that of the item when the owner was asked. Another one is not changed.
	Version int64
}

// The errors of a guard.
var (
	// ErrApprovalRequired is the error of a change that waits for the yes of an owner. Nothing was changed.
	ErrApprovalRequired = fault.New(fault.Forbidden, "the account wants its owner to allow this first: nothing was changed. Ask by the tool of the MCP endpoint that makes this change")
	// ErrStepEnded is the error of an allowed change that was made before, or that is not allowed anymore.
	ErrStepEnded = fault.New(fault.Conflict, "the change was made before, or is not allowed anymore")
	// ErrCeiling is in the chain of the fault of a ceiling that is reached.
	ErrCeiling = errors.New("a ceiling is reached")
	// ErrItemChanged is the error of an allowed change of an item that has changed since the owner was asked.
	ErrItemChanged = fault.New(fault.PreconditionFailed, "the item was changed since it was asked for")
)

// ConnectionOfGrant returns the connection of an application that a user has connected.
func ConnectionOfGrant(id uuid.UUID) string { return "login:" + id.String() }

// ConnectionOfKey returns the connection of an assistant that has an API key.
func ConnectionOfKey(id uuid.UUID) string { return "key:" + id.String() }

// AsConnection returns the principal of a request of a connection, whose changes have to pass the guard of the account.
func (p Principal) AsConnection(connection string) Principal {
	policy := p.Account.ToolPolicy
	if !policy.Approval.On() && !policy.Ceilings.On() {
		p.Guard = nil
		return p
	}
	p.Guard = &Guard{Connection: connection, Approval: policy.Approval, Ceilings: policy.Ceilings}
	if policy.Approval.Delete != "" {
		p.Guard.Owners = make(map[string]string, len(p.Account.Owners))
		for _, owner := range p.Account.Owners {
			p.Guard.Owners[owner] = p.Account.AddressOf(owner)
		}
	}
	return p
}

// ApprovedBy returns the principal that makes a change of a connection which an owner has allowed.
func (p Principal) ApprovedBy(connection, email string, step ApprovedStep) Principal {
	policy := p.Account.ToolPolicy
	p.Guard = &Guard{Connection: connection, Approval: policy.Approval, Ceilings: policy.Ceilings, Approved: &step}
	p.Actor.ApprovedBy = p.Account.AddressOf(email)
	return p
}

// Publishes returns ErrApprovalRequired if a change that makes a file public has to wait for a yes.
func (g *Guard) Publishes() error {
	if g == nil || g.Approved != nil || g.Approval.Publish != RuleAlways {
		return nil
	}
	return ErrApprovalRequired
}
