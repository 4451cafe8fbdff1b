package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/work"
)

var _ work.Worker = (*Service)(nil)

// Policy returns how the tasks of Work are run.
func (s *Service) Policy() work.Policy {
	return work.Policy{Slots: 2, PerAccount: 1, Timeout: 5 * time.Minute, MinBackoff: time.Second, MaxBackoff: time.Minute, Ready: s.deps.Ready}
}

// Work implements work.Worker: it carries out the steps of an allowed approval that have not ended. A process that dies leaves each step made or
// not, and another one goes on.
func (s *Service) Work(ctx context.Context, task work.Task) error {
	approval, err := s.deps.Store.Approval(ctx, task.Key)
	if errors.Is(err, ErrNotFound) || err == nil && approval.State != Allowed {
		return nil
	}
	if err != nil {
		return err
	}
	principal, err := s.deps.Store.PrincipalOf(ctx, approval)
	ended := ""
	switch {
	case fault.Is(err, fault.NotFound) || err == nil && principal.Account.ClosedAt != nil:
		ended = "the connection has ended"
	case err != nil:
		return err
	case principal.Account.Suspended:
		ended = "the account is suspended"
	case !slices.Contains(principal.Account.Owners, approval.DecidedBy):
		ended = "the owner who allowed it was removed from the account"
	}
	for _, step := range approval.Steps {
		if step.State != StepWaiting {
			continue
		}
		failure := ended
		if failure == "" {
			if failure, err = s.carryOut(ctx, principal, approval, step); err != nil {
				return err
			}
		}
		if failure == "" {
			continue
		}
		state, outcome := StepFailed, outcomeFailed
		if failure == changedSince {
			state, outcome = StepChanged, outcomeOutdated
		}
		if err := s.deps.Store.FailStep(ctx, step.ID, state, failure); err != nil {
			return err
		}
		s.metrics.changes.WithLabelValues(outcome).Inc()
	}
	return nil
}

// changedSince is the failure of a step whose item is not the one that the owner was asked about.
const changedSince = "it was changed or deleted since its owner was asked"

// carryOut makes one change, and returns why it was not made. An error is one after which it is tried again.
func (s *Service) carryOut(ctx context.Context, of account.Principal, approval Approval, step Step) (failure string, err error) {
	switch {
	case !bytes.Equal(step.Digest, digestOf(step)):
		return "the request was changed since it was made", nil
	case !of.Account.ToolPolicy.Allows(step.Operation):
		return "the account does not allow this anymore", nil
	}
	err = s.do(ctx, of.ApprovedBy(approval.Connection, approval.DecidedBy, account.ApprovedStep{ID: step.ID, Version: step.Version}), step)
	kind := fault.From(err).Kind
	switch {
	case err == nil:
		s.metrics.changes.WithLabelValues(outcomeDone).Inc()
		return "", nil
	case errors.Is(err, account.ErrStepEnded): // another process has made it
		return "", nil
	case errors.Is(err, account.ErrItemChanged), kind == fault.NotFound:
		return changedSince, nil
	case errors.Is(err, account.ErrCeiling):
		return fault.From(err).Public, nil
	case kind == fault.Internal, kind == fault.Unavailable, kind == fault.Busy:
		return "", err
	}
	return fault.From(err).Public, nil
}

// do makes the change of a step by the use case that a tool calls.
func (s *Service) do(ctx context.Context, p account.Principal, step Step) error {
	switch step.Operation { //nolint:exhaustive // the others never wait
	case account.DeleteMedia:
		_, err := s.deps.Media.Delete(ctx, p, step.ItemID, media.DeleteOptions{Agent: true})
		return err
	case account.SealMedia:
		_, err := s.deps.Media.Seal(ctx, p, step.ItemID)
		return err
	case account.RestoreMedia:
		_, err := s.deps.Media.Restore(ctx, p, step.ItemID)
		return err
	case account.UpdateMedia:
		var stored change
		if err := json.Unmarshal([]byte(step.Arguments), &stored); err != nil {
			return fault.Wrap(err, fault.Invalid, "the request cannot be read")
		}
		_, err := s.deps.Media.Update(ctx, p, step.ItemID, media.Change(stored), media.Condition{})
		return err
	case account.UpdateMediaSettings:
		var layer settings.Layer
		if err := json.Unmarshal([]byte(step.Arguments), &layer); err != nil {
			return fault.Wrap(err, fault.Invalid, "the request cannot be read")
		}
		_, err := s.deps.Settings.UpdateFor(ctx, p, layer)
		return err
	}
	return fault.New(fault.Invalid, "%s does not wait for an owner", step.Operation)
}
