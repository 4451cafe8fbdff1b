package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
)

// approvalRequired is the state of the result of a call that waits for the yes of an owner.
const approvalRequired = "approval_required"

// asked is the result of a call that waits for a yes. Nothing was changed.
type asked struct {
	State      string    `json:"state"`
	ApprovalID uuid.UUID `json:"approvalId"`
	URL        string    `json:"url"`
	ExpiresAt  time.Time `json:"expiresAt"`
	Summary    string    `json:"summary"`
}

// errNobodyToAsk is the error of a change that waits for a yes, in an installation without a page on which an owner could say it.
var errNobodyToAsk = fault.New(fault.Forbidden, "the owner of the account has to allow this first, and this installation has no page for that: nothing was changed")

// ask returns the result of a call that failed with err: if it waits for a yes, the approval that it waits for.
func (a *API) ask(ctx context.Context, identity auth.Identity, err error, request approval.Request) (any, error) {
	if !errors.Is(err, account.ErrApprovalRequired) {
		return nil, err
	}
	if a.deps.Approvals == nil {
		return nil, errNobodyToAsk
	}
	found, err := a.deps.Approvals.Ask(ctx, approval.Caller{Principal: identity.Principal, GrantID: identity.GrantID}, request)
	if err != nil {
		return nil, err
	}
	return a.waiting(found), nil
}

// waiting returns the result of a call that waits for an approval.
func (a *API) waiting(found approval.Approval) asked {
	return asked{State: approvalRequired, ApprovalID: found.ID, URL: a.approvalURL(found.ID), ExpiresAt: found.ExpiresAt.UTC().Truncate(time.Second), Summary: found.Summary()}
}

// approvalURL returns the address of the page on which an owner decides.
func (a *API) approvalURL(id uuid.UUID) string {
	return a.base + approval.Page + "?" + url.Values{"approval": {id.String()}}.Encode()
}

// asking returns the tool as an account has it in which it may wait for a yes.
func (t tool) asking(v view) tool {
	if v.policy.Approval.RuleOf(t.operation) == "" {
		return t
	}
	t.description += " A result with `state` approval_required means that nothing was changed yet: the owner of the account has to allow it. Give the user `url`, wait until the user says that it is done, then call get_approval with `approvalId`. Don't repeat the call: the service carries it out."
	alternatives := t.output.AnyOf
	if alternatives == nil {
		alternatives = []schema{{Required: t.output.Required}}
	}
	t.output.Properties = slices.Concat(t.output.Properties, askedResult())
	if t.operation == account.UpdateMedia {
		t.output.Properties = append(t.output.Properties, prop("approvalRequired", boolean(), "Set with dryRun if the same call without it has to wait for the owner of the account."))
	}
	t.output.AnyOf = append(slices.Clone(alternatives), schema{Required: askedResult().names()})
	t.output.Required = nil
	return t
}

// askedResult returns the schema of asked.
func askedResult() properties {
	return properties{
		prop("state", enum(approvalRequired), "Set if nothing was changed, because the owner of the account has to allow it first."),
		prop("approvalId", uuidString(), "Id of the request to the owner, for get_approval."),
		prop("url", schema{Type: "string", Format: "uri"}, "Page on which the owner decides. Give it to the user; only the owner can open it."),
		prop("expiresAt", dateTime(), "Until when the owner can decide."),
		prop("summary", str(), "All that this request asks for, with what was asked before and still waits."),
	}
}

// approvalTools returns the tool of accounts in which changes wait for a yes.
func (a *API) approvalTools() []tool {
	states := enum(string(approval.Waiting), string(approval.Allowed), string(approval.Denied), string(approval.Expired), string(approval.Done))
	steps := enum(string(approval.StepWaiting), string(approval.StepDone), outcomeOutdated, string(approval.StepFailed), string(approval.Denied), string(approval.Expired))
	step := outputObject(prop("tool", str(), "Name of the tool that was called."), prop("outcome", steps, "done: the change was made, once. outdated: nothing was done, since the item was changed or deleted after the owner was asked. failed, denied and expired: nothing was done."))
	step.Properties = append(step.Properties,
		prop("mediaId", uuidString(), "Id of the item; absent for the settings."),
		prop("detail", str(), "Why nothing was done; absent otherwise."))
	output := outputObject(
		prop("approvalId", uuidString(), "Id of the request."),
		prop("state", states, "waiting: the owner has not decided. allowed: it is being carried out. done: results says what became of each change. denied and expired: nothing was done."),
		prop("url", schema{Type: "string", Format: "uri"}, "Page on which the owner decides."),
		prop("expiresAt", dateTime(), "Until when the owner can decide."),
		prop("summary", str(), "What was asked for."),
		prop("results", array(step), "What became of each change."))
	return []tool{{
		operation: account.GetApproval, title: "Get an approval",
		description: "Returns what the owner of the account has decided about calls whose result had `state` approval_required, and what became of each change. The service carries out what is allowed: don't repeat the calls. While state is waiting, ask the user instead of calling this again and again.",
		input:       inputObject([]string{"approvalId"}, prop("approvalId", uuidString(), "`approvalId` of such a result.")),
		output:      output, run: a.getApproval,
	}}
}

// approvalDocument is the result of get_approval.
type approvalDocument struct {
	ApprovalID uuid.UUID        `json:"approvalId"`
	State      approval.State   `json:"state"`
	URL        string           `json:"url"`
	ExpiresAt  time.Time        `json:"expiresAt"`
	Summary    string           `json:"summary"`
	Results    []approvalResult `json:"results"`
}

type approvalResult struct {
	Tool    account.Operation `json:"tool"`
	Outcome string            `json:"outcome"`
	MediaID *uuid.UUID        `json:"mediaId,omitempty"`
	Detail  string            `json:"detail,omitempty"`
}

// outcomeOutdated is approval.StepChanged for a model, to which update_media says changed of what it has changed.
const outcomeOutdated = "outdated"

// outcomeOf returns what became of a change: nothing waits anymore in an approval that was denied, or has expired.
func outcomeOf(found approval.Approval, step approval.Step) string {
	switch {
	case step.State == approval.StepChanged:
		return outcomeOutdated
	case step.State == approval.StepWaiting && (found.State == approval.Denied || found.State == approval.Expired):
		return string(found.State)
	}
	return string(step.State)
}

func (a *API) getApproval(ctx context.Context, identity auth.Identity, args *arguments) (any, error) {
	id := args.idFrom("approvalId", "a result with the state "+approvalRequired)
	if args.err != nil {
		return nil, args.err
	}
	if a.deps.Approvals == nil {
		return nil, approval.ErrNotFound
	}
	found, err := a.deps.Approvals.OfConnection(ctx, identity.Principal, id)
	if err != nil {
		return nil, fmt.Errorf("get an approval: %w", err)
	}
	document := approvalDocument{ApprovalID: found.ID, State: found.State, URL: a.approvalURL(found.ID), ExpiresAt: found.ExpiresAt.UTC().Truncate(time.Second), Summary: found.Summary(),
		Results: make([]approvalResult, 0, len(found.Steps))}
	for _, step := range found.Steps {
		result := approvalResult{Tool: step.Operation, Outcome: outcomeOf(found, step), Detail: step.Failure}
		if step.ItemID != uuid.Nil {
			result.MediaID = new(step.ItemID)
		}
		document.Results = append(document.Results, result)
	}
	return document, nil
}
