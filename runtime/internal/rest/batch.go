package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

const (
	// maxBatchBody bounds the body of a batch, in bytes: 10 KiB for each item.
	maxBatchBody = 1 << 20
	maxBatchIDs  = 100
)

// batch is the body of a batch.
type batch struct {
	operation account.Operation
	ids       []uuid.UUID
	changes   map[uuid.UUID]media.Change // of an update
}

// batchOperations are the operations of a batch by their names.
var batchOperations = map[string]account.Operation{"seal": account.SealMedia, "delete": account.DeleteMedia, "restore": account.RestoreMedia, "update": account.UpdateMedia}

// ChangeManyMedia answers POST /media/batch.
func (a *API) ChangeManyMedia(w http.ResponseWriter, r *http.Request) {
	accountID := principal(r).Account.ID
	if a.batches.TryAcquire(accountID) != nil { // before the body, which is read as a whole
		httpapi.WriteError(w, r, &fault.Error{Kind: fault.Busy, Public: "too many batches at once", RetryAfter: time.Second})
		return
	}
	defer a.batches.Release(accountID)
	b, err := a.readBatch(w, r)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	results := api.BatchResults{Results: make([]api.BatchResult, 0, len(b.ids))}
	var limited error // of this item and those after it
	for i, id := range b.ids {
		if i > 0 && limited == nil { // the first one was counted with the request
			limited = a.countItem(r)
		}
		result := api.BatchResult{MediaId: id, Status: http.StatusOK}
		err := limited
		if err == nil {
			err = a.changeOne(r.Context(), auth.FromContext(r.Context()), b, &result)
		}
		if err != nil {
			described := httpapi.Describe(err)
			result.Status, result.Error = described.Status, &described.Body
			httpapi.SetError(r.Context(), fmt.Errorf("item %s: %w", id, err))
		}
		results.Results = append(results.Results, result)
	}
	httpapi.WriteJSON(w, r, http.StatusOK, results)
}

// changeOne carries out the operation for the item of a result, to which it adds the item, or until when a deleted one
// can be restored.
func (a *API) changeOne(ctx context.Context, identity auth.Identity, b batch, result *api.BatchResult) error {
	if err := ctx.Err(); err != nil { // nobody waits for the results
		return fault.Wrap(err, fault.Unavailable, "the request ended before this item")
	}
	var item media.Item
	var err error
	p, id := identity.Principal, result.MediaId
	switch b.operation { //nolint:exhaustive // the values of batchOperations
	case account.DeleteMedia:
		until, err := a.deps.Media.Delete(ctx, p, id, media.DeleteOptions{Agent: identity.GrantID != uuid.Nil})
		result.ExpiresAt = a.deps.Documents.DeletedAnswer(id, until).ExpiresAt
		return err
	case account.RestoreMedia:
		item, err = a.deps.Media.Restore(ctx, p, id)
	case account.UpdateMedia:
		item, err = a.deps.Media.Update(ctx, p, id, b.changes[id], media.Condition{})
	default:
		if item, err = a.deps.Media.Seal(ctx, p, id); err == nil {
			result.Status = sealStatus(item)
		}
	}
	if err == nil {
		result.Item = new(a.deps.Documents.Of(ctx, p.Account.ID).Item(item))
	}
	return err
}

// countItem counts an item of a batch towards the rate limits.
func (a *API) countItem(r *http.Request) error {
	decision := a.deps.Limits.AllowKey(auth.FromContext(r.Context()).Key.ID)
	if !decision.Limited {
		decision = a.deps.Limits.AllowIP(httpapi.FromContext(r.Context()).ClientIP)
	}
	if decision.Limited {
		return decision.Err()
	}
	return nil
}

// readBatch reads the body of a batch that the credential permits.
func (a *API) readBatch(w http.ResponseWriter, r *http.Request) (batch, error) {
	if err := rejectCondition(r); err != nil {
		return batch{}, err
	}
	text, err := readBodyOf(w, r, maxBatchBody)
	if err != nil {
		return batch{}, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil { // an empty body included
		return batch{}, fault.New(fault.Invalid, "the body must be a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains([]string{"operation", "ids", "patch", "patches"}, name) {
			return batch{}, fault.New(fault.Invalid, "unknown field %q", httpapi.Truncate(name))
		}
	}
	var b batch
	var operation string
	if json.Unmarshal(fields["operation"], &operation) != nil || batchOperations[operation] == "" {
		return batch{}, fault.New(fault.Invalid, "operation must be %s", httpapi.Or(slices.Sorted(maps.Keys(batchOperations))))
	}
	b.operation = batchOperations[operation]
	if err := a.deps.Auth.Authorize(w, r, b.operation); err != nil {
		return batch{}, err
	}
	if b.ids, err = readIDs(fields["ids"]); err != nil {
		return batch{}, err
	}
	b.changes, err = readChanges(b, fields["patch"], fields["patches"])
	return b, err
}

func readIDs(text json.RawMessage) ([]uuid.UUID, error) {
	var texts []string
	if json.Unmarshal(text, &texts) != nil || len(texts) == 0 || len(texts) > maxBatchIDs {
		return nil, fault.New(fault.Invalid, "ids must be a list of 1 to %d ids", maxBatchIDs)
	}
	ids := make([]uuid.UUID, len(texts))
	for i, text := range texts {
		id, err := uuid.Parse(text)
		if err != nil || len(text) != 36 {
			return nil, fault.New(fault.Invalid, "ids has %q, which is no id", httpapi.Truncate(text))
		}
		if slices.Contains(ids[:i], id) {
			return nil, fault.New(fault.Invalid, "ids has %s twice", id)
		}
		ids[i] = id
	}
	return ids, nil
}

// readChanges reads the changes of an update: patch, which is that of all items, or patches, which has
// that of each. Other operations have neither.
func readChanges(b batch, patch, patches json.RawMessage) (map[uuid.UUID]media.Change, error) {
	if b.operation != account.UpdateMedia {
		if patch != nil || patches != nil {
			return nil, fault.New(fault.Invalid, "only an update has patch or patches")
		}
		return map[uuid.UUID]media.Change{}, nil
	}
	if (patch == nil) == (patches == nil) {
		return nil, fault.New(fault.Invalid, "an update needs patch or patches, one of them")
	}
	changes := map[uuid.UUID]media.Change{}
	if patch != nil {
		change, err := readChange(patch)
		for _, id := range b.ids {
			changes[id] = change
		}
		return changes, err
	}
	var byID map[string]json.RawMessage
	if err := json.Unmarshal(patches, &byID); err != nil {
		return nil, fault.New(fault.Invalid, "patches must be an object of patches by id")
	}
	for _, text := range slices.Sorted(maps.Keys(byID)) {
		id, err := uuid.Parse(text)
		if err != nil || len(text) != 36 || !slices.Contains(b.ids, id) {
			return nil, fault.New(fault.Invalid, "patches has %q, which is not among ids", httpapi.Truncate(text))
		}
		if _, twice := changes[id]; twice { // in another case
			return nil, fault.New(fault.Invalid, "patches has %s twice", id)
		}
		if changes[id], err = readChange(byID[text]); err != nil {
			return nil, fault.Wrap(err, fault.Invalid, "patches of %s: %s", id, fault.From(err).Public)
		}
	}
	for _, id := range b.ids {
		if _, ok := changes[id]; !ok {
			return nil, fault.New(fault.Invalid, "patches must have a patch for each of ids, and has none for %s", id)
		}
	}
	return changes, nil
}
