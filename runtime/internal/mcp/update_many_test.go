package mcp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/ratelimit"
)

// changes is the result of update_media for several items.
type changes struct {
	DryRun    bool `json:"dryRun"`
	Changed   int  `json:"changed"`
	Unchanged int  `json:"unchanged"`
	Failed    int  `json:"failed"`
	Results   []struct {
		MediaID string   `json:"mediaId"`
		Outcome string   `json:"outcome"`
		Fields  []string `json:"fields"`
		Error   struct {
			Code       string `json:"code"`
			Detail     string `json:"detail"`
			RetryAfter int    `json:"retryAfter"`
		} `json:"error"`
	} `json:"results"`
}

func (c changes) String() string {
	text := ""
	for _, one := range c.Results {
		text += fmt.Sprintf("%s %v %s; ", one.Outcome, one.Fields, one.Error.Code)
	}
	return text
}

// A dry run tells what the same call does then, and changes nothing. A failure of one item does not end the others.
func TestUpdateMedia_ChangesMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one", withOrganize), w.tenant(t, "other")
	rt := w.replica(t)
	foreign := rt.upload(t, other.Key, "theirs", []byte("theirs"))
	plain, same, full := rt.upload(t, one.Key, "a.txt", []byte("a")), rt.upload(t, one.Key, "b.txt", []byte("b"), object{"group": "g", "access": "public"}), rt.upload(t, one.Key, "c.txt", []byte("c"))
	succeeded[any](t, rt.call(t, one.Key, "seal_media", object{"mediaId": plain}))
	pairs := object{}
	for i := range 24 {
		pairs[fmt.Sprintf("k%d", i)] = "v"
	}
	succeeded[any](t, rt.call(t, one.Key, "update_media", object{"mediaId": full, "metadata": pairs}))
	succeeded[any](t, rt.call(t, one.Key, "update_media", object{"mediaId": same, "metadata": object{"new": "x"}}))
	missing := uuid.NewString()
	arguments := object{"mediaIds": []string{plain, same, foreign, full, missing}, "group": "g", "access": "public", "metadata": object{"new": "x"}}
	const want = "changed [access group metadata] ; unchanged [] ; failed [] not_found; failed [] invalid_request; failed [] not_found; "
	versions := func() string {
		return fmt.Sprint(w.QueryInt(t, `SELECT sum(version) FROM item`), w.QueryInt(t, `SELECT count(*) FROM item WHERE access = 'public'`))
	}
	before := versions()
	arguments["dryRun"] = true
	for range 2 {
		got := succeeded[changes](t, rt.call(t, one.Key, "update_media", arguments))
		if got.String() != want || !got.DryRun || got.Changed != 1 || got.Unchanged != 1 || got.Failed != 3 {
			t.Errorf("the dry run returns %+v", got)
		}
	}
	if after := versions(); after != before {
		t.Errorf("the dry run changed the items from %s to %s", before, after)
	}
	// Of a single item, too.
	if got := succeeded[changes](t, rt.call(t, one.Key, "update_media", object{"mediaId": plain, "caption": "c", "dryRun": true})); got.String() != "changed [caption] ; " || versions() != before {
		t.Errorf("the dry run of one item returns %+v", got)
	}
	delete(arguments, "dryRun")
	call := rt.call(t, one.Key, "update_media", arguments)
	if got := succeeded[changes](t, call); got.String() != want || got.DryRun || got.Results[0].MediaID != plain || got.Results[3].MediaID != full || !strings.Contains(got.Results[3].Error.Detail, "at most 24 pairs") {
		t.Errorf("the change returns %+v", got)
	}
	if strings.Contains(string(call.StructuredContent), "http") {
		t.Errorf("the results have URLs: %s", call.StructuredContent)
	}
	if after := versions(); after == before {
		t.Error("nothing was changed")
	}
	if got := succeeded[changes](t, rt.call(t, one.Key, "update_media", arguments)); got.Changed != 0 || got.Unchanged != 2 {
		t.Errorf("the second time it returns %+v", got)
	}
	for _, tool := range rt.tools(t, one.Key) {
		if tool.Name != "update_media" {
			continue
		}
		output, err := tool.OutputSchema.Resolve(nil)
		must(t, err)
		must(t, output.Validate(succeeded[any](t, call)))
		if err := output.Validate(map[string]any{"mediaId": plain}); err == nil {
			t.Error("the output schema accepts a part of either result")
		}
	}
}

// Fifty items are fifty requests to the rate limits, as in a batch.
func TestUpdateMedia_CountsEveryItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.ToolPolicy.Toolsets = []string{account.ToolsetOrganize} })
	for name, limits := range map[string]ratelimit.Config{"key": {Key: 0.001, KeyBurst: 3}, "address": {IP: 0.001, IPBurst: 3}} {
		rt := w.replica(t, func(o *options) { o.Limits = limits })
		var ids []string
		for range 5 {
			ids = append(ids, uuid.NewString())
		}
		got := succeeded[changes](t, rt.call(t, one.Key, "update_media", object{"mediaIds": ids, "caption": "c"}))
		codes := []string{}
		for _, one := range got.Results {
			codes = append(codes, one.Error.Code)
			if (one.Error.RetryAfter > 0) != (one.Error.Code == "too_many_requests") {
				t.Errorf("%s: %+v", name, one)
			}
		}
		if !slices.Equal(codes, []string{"not_found", "not_found", "not_found", "too_many_requests", "too_many_requests"}) {
			t.Errorf("%s: %q", name, codes)
		}
	}
}
