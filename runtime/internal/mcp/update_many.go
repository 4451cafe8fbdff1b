package mcp

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// maxUpdates bounds the items of one call of update_media.
const maxUpdates = 50

// The outcomes of the change of an item.
const (
	outcomeChanged   = "changed"
	outcomeUnchanged = "unchanged"
	outcomeFailed    = "failed"
)

// changeResult is what became of one item. It has no document: 50 of them are too long for a model.
type changeResult struct {
	MediaID uuid.UUID    `json:"mediaId"`
	Outcome string       `json:"outcome"`
	Fields  []string     `json:"fields,omitempty"`
	Error   *changeError `json:"error,omitempty"`
}

type changeError struct {
	Code       string `json:"code"`
	Detail     string `json:"detail"`
	RetryAfter int    `json:"retryAfter,omitempty"`
}

// changeResults are the results of a call for several items, or with dryRun.
type changeResults struct {
	DryRun    bool           `json:"dryRun"`
	Changed   int            `json:"changed"`
	Unchanged int            `json:"unchanged"`
	Failed    int            `json:"failed"`
	Results   []changeResult `json:"results"`
	// ApprovalRequired is set with DryRun if the call would wait for an owner.
	ApprovalRequired bool `json:"approvalRequired,omitempty"`
}

// manyResults returns the schemas of changeResults.
func manyResults() []property {
	failure := outputObject(prop("code", str(), "Stable name of the reason."), prop("detail", str(), "The reason in words."))
	failure.Properties = append(failure.Properties, prop("retryAfter", intMin(1), "Seconds after which a new attempt may succeed; absent if it would not."))
	result := outputObject(
		prop("mediaId", uuidString(), "Id of the item."),
		prop("outcome", enum(outcomeChanged, outcomeUnchanged, outcomeFailed), "unchanged: the item has the values already."))
	result.Properties = append(result.Properties,
		prop("fields", array(str()), "Names of what was changed, or would be; absent when nothing is."),
		prop("error", failure, "Why the item was not changed, or would not be; absent otherwise."))
	return []property{
		prop("dryRun", boolean(), "Set if nothing was changed, and the results are what would happen."),
		prop("changed", intMin(0), "Items that were changed, or would be."),
		prop("unchanged", intMin(0), "Items that have the values already."),
		prop("failed", intMin(0), "Items that were not changed because of an error, or would not be."),
		prop("results", array(result), "What became of each item, in the order of mediaIds."),
	}
}

// updateTargets reads which items a call changes. many is set if the result is a list.
func (a *arguments) updateTargets() (ids []uuid.UUID, many, dryRun bool) {
	if asked := a.boolean("dryRun"); asked != nil {
		dryRun = *asked
	}
	texts := read[[]string](a, "mediaIds", "a list of ids")
	_, single := a.fields["mediaId"]
	switch {
	case a.err != nil:
	case texts == nil && !single:
		a.err = fault.New(fault.Invalid, "mediaId is missing: send mediaId, or mediaIds for up to %d items", maxUpdates)
	case texts == nil:
		ids = []uuid.UUID{a.id("mediaId")}
	case single:
		a.id("mediaId") // an error of its form says more
		if a.err == nil {
			a.err = fault.New(fault.Invalid, "send mediaId or mediaIds, one of them")
		}
	default:
		ids = a.ids(*texts)
	}
	return ids, texts != nil || dryRun, dryRun
}

// ids reads the ids of mediaIds.
func (a *arguments) ids(texts []string) []uuid.UUID {
	if len(texts) == 0 || len(texts) > maxUpdates {
		a.err = fault.New(fault.Invalid, "mediaIds must be a list of 1 to %d ids", maxUpdates)
		return nil
	}
	ids := make([]uuid.UUID, 0, len(texts))
	for _, text := range texts {
		id, err := uuid.Parse(text)
		switch {
		case err != nil || len(text) != 36:
			a.err = fault.New(fault.Invalid, "mediaIds has %q, which is no id", httpapi.Truncate(text))
		case slices.Contains(ids, id):
			a.err = fault.New(fault.Invalid, "mediaIds has %s twice", id)
		}
		if a.err != nil {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

// updateMany changes the items one after the other, as a batch of REST does: a failure of one does not undo the others.
func (a *API) updateMany(ctx context.Context, identity auth.Identity, ids []uuid.UUID, change media.Change, dryRun bool) (any, error) {
	if err := change.Validate(); err != nil {
		return nil, err // it would fail for each item
	}
	if !dryRun {
		if waits, err := a.updateWaits(ctx, identity, ids, change); err != nil {
			return nil, err
		} else if waits { // one question for all of them
			return a.ask(ctx, identity, account.ErrApprovalRequired, approval.Request{Operation: account.UpdateMedia, Items: ids, Change: change})
		}
	}
	results := changeResults{DryRun: dryRun, Results: make([]changeResult, 0, len(ids))}
	v := a.viewOf(identity)
	var limited error // of this item and those after it
	for i, id := range ids {
		if i > 0 && limited == nil { // the first one was counted with the request
			limited = a.countItem(ctx, identity)
		}
		result, err := changeResult{MediaID: id}, limited
		if err == nil {
			var waits bool
			result.Fields, waits, err = a.changeOne(ctx, identity, id, change, dryRun)
			results.ApprovalRequired = results.ApprovalRequired || waits
		}
		switch {
		case err != nil:
			stateFromContext(ctx).addError(err)
			described := httpapi.Describe(err)
			result.Outcome, result.Error = outcomeFailed, &changeError{Code: string(described.Body.Code), Detail: errorText(ctx, v, described, err), RetryAfter: httpapi.Seconds(described.RetryAfter)}
			results.Failed++
		case len(result.Fields) == 0:
			result.Outcome = outcomeUnchanged
			results.Unchanged++
		default:
			result.Outcome = outcomeChanged
			results.Changed++
		}
		results.Results = append(results.Results, result)
	}
	return results, nil
}

// updateWaits reports whether a change of several items waits for an owner: if that of one of them does. Of an item that cannot be changed, its
// result says why.
func (a *API) updateWaits(ctx context.Context, identity auth.Identity, ids []uuid.UUID, change media.Change) (bool, error) {
	if identity.Guard.Publishes() == nil || change.Access == nil || *change.Access != media.Public {
		return false, nil
	}
	for _, id := range ids {
		switch _, waits, err := a.deps.Media.PreviewUpdate(ctx, identity.Principal, id, change); {
		case waits:
			return true, nil
		case ctx.Err() != nil:
			return false, fault.Wrap(ctx.Err(), fault.Unavailable, "the request ended before anything was changed")
		case fault.Is(err, fault.Internal), fault.Is(err, fault.Unavailable):
			return false, err
		}
	}
	return false, nil
}

// changeOne changes an item, or finds out what would change, and whether that would wait for an owner.
func (a *API) changeOne(ctx context.Context, identity auth.Identity, id uuid.UUID, change media.Change, dryRun bool) (fields []string, waits bool, err error) {
	if err := ctx.Err(); err != nil { // nobody waits for the results
		return nil, false, fault.Wrap(err, fault.Unavailable, "the request ended before this item")
	}
	if dryRun {
		return a.deps.Media.PreviewUpdate(ctx, identity.Principal, id, change)
	}
	_, fields, err = a.deps.Media.UpdateFields(ctx, identity.Principal, id, change)
	return fields, false, err
}

// countItem counts an item towards the rate limits.
func (a *API) countItem(ctx context.Context, identity auth.Identity) error {
	decision := a.deps.Limits.AllowKey(identity.Key.ID)
	if !decision.Limited {
		decision = a.deps.Limits.AllowIP(httpapi.FromContext(ctx).ClientIP)
	}
	if decision.Limited {
		return decision.Err()
	}
	return nil
}
