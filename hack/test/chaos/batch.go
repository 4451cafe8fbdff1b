package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"
)

// batches change several items in one request, of which each succeeds or fails by itself.
var batches = []operation{
	{"seal a batch", 4, func(ctx context.Context, c *client) { c.batch(ctx, "seal") }},
	{"delete a batch", 2, func(ctx context.Context, c *client) { c.batch(ctx, "delete") }},
	{"restore a batch", 3, func(ctx context.Context, c *client) { c.batch(ctx, "restore") }},
	{"change a batch", 6, func(ctx context.Context, c *client) { c.batch(ctx, "update") }},
}

// batchResult is the result for one item.
type batchResult struct {
	MediaID string    `json:"mediaId"`
	Status  int       `json:"status"`
	Item    *document `json:"item"`
}

// batch carries out an operation for a few of the client's items, for one that does not exist, and for one of
// another tenant.
func (c *client) batch(ctx context.Context, operation string) {
	chosen := map[string]*item{}
	for range 1 + c.draw.IntN(8) {
		c.each(ctx, func(_ context.Context, i *item) { chosen[i.id] = i })
	}
	ids := []string{uuid.Must(uuid.NewV7()).String()}
	if foreign := c.model.foreign(c.tenant); foreign != "" {
		ids = append(ids, foreign)
	}
	for id := range chosen {
		ids = append(ids, id)
	}
	slices.Sort(ids) // the order of a map is another one in each run
	c.draw.Shuffle(len(ids), func(a, b int) { ids[a], ids[b] = ids[b], ids[a] })
	body := map[string]any{"operation": operation, "ids": ids}
	caption := fmt.Sprintf("client %d batch %d", c.number, c.made)
	if operation == "update" {
		c.made++
		body["patch"] = map[string]any{"caption": caption, "group": fmt.Sprintf("g%d", c.made%5)}
		for _, i := range chosen {
			i.changing(caption)
		}
	}
	text, _ := json.Marshal(body)
	replica := c.pickReplica()
	got := c.send(context.WithoutCancel(ctx), http.MethodPost, replica.BaseURL+"/media/batch", "application/json", bytes.NewReader(text), int64(len(text)))
	c.recordAnswer("POST /media/batch", nil, got)
	var answered struct{ Results []batchResult }
	if got.status == http.StatusOK && (json.Unmarshal(got.body, &answered) != nil || len(answered.Results) != len(ids)) {
		c.model.wrong(nil, "a batch of %d items was answered %s", len(ids), got.body)
		return
	}
	for n, id := range ids {
		result := batchResult{MediaID: id, Status: got.status} // of a batch that was not answered, nobody knows what was done
		if got.status == http.StatusOK {
			result = answered.Results[n]
		}
		i := chosen[id]
		if result.MediaID != id || result.wrong() {
			c.model.wrong(i, "%s of a batch: the result of item %s is %+v", operation, id, result)
			continue
		}
		if i == nil {
			if result.Status == http.StatusOK {
				c.model.wrong(nil, "%s of a batch found item %s, which tenant %s does not have", operation, id, c.tenant.name)
			}
			continue
		}
		c.model.count(fmt.Sprintf("batch %s: %d", operation, result.Status))
		i.note(c.model.begun, "%s of a batch at %s: %d", operation, replica.name, result.Status)
		if wrong := c.batched(operation, i, result, caption); wrong != "" {
			c.model.wrong(i, "%s of a batch: %s", operation, wrong)
		}
	}
}

// wrong reports whether a result is none that an item may have, whatever is broken.
func (r batchResult) wrong() bool {
	return !slices.Contains([]int{0, http.StatusOK, http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable}, r.Status)
}

// batched records the result of an item, and returns what is wrong with it.
func (c *client) batched(operation string, i *item, result batchResult, caption string) string {
	switch operation {
	case "seal":
		c.checkNotPurged(i, result.Status)
		return i.sealAnswered(result.Status)
	case "delete":
		return i.deleteAnswered(result.Status)
	case "restore":
		return i.restoreAnswered(result.Status, c.tenant.undo)
	}
	if result.Status == http.StatusOK && (result.Item == nil || result.Item.MediaID != i.id || result.Item.Caption != caption) {
		return fmt.Sprintf("the changed item is answered as %+v", result.Item)
	}
	return i.changeAnswered(result.Status, caption)
}

// foreign returns the id of an item of another tenant; empty if there is none.
func (m *model) foreign(t *tenant) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range slices.Backward(m.items) {
		if i.tenant != t {
			return i.id
		}
	}
	return ""
}
