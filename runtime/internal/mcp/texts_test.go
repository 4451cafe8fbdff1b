package mcp

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
)

// word matches what may be the name of a tool.
var word = regexp.MustCompile(`[a-z]+(_[a-z]+)+`)

// A model that reads of a tool which it does not have calls it, or tells its user to.
func TestTexts_NameOnlyToolsThatTheCallerHas(t *testing.T) {
	t.Parallel()
	a := &API{cfg: Config{DraftTTL: 24 * time.Hour}, base: "https://media.example.org", deps: Deps{Auth: &auth.Authenticator{}, Views: (*rendition.Service)(nil)}, cache: newToolCache()}
	told := map[string]bool{} // each mistake is one line
	random := rand.New(rand.NewPCG(1, 2))
	views := []view{}
	for _, only := range append(account.Operations(), "") { // each tool alone, and all but one
		alone, others := map[account.Operation]bool{}, map[account.Operation]bool{}
		for _, one := range account.Operations() {
			alone[one], others[one] = one == only, one != only
		}
		views = append(views, view{offered: alone}, view{offered: others})
	}
	for range 500 {
		v := view{offered: map[account.Operation]bool{}}
		for _, one := range account.Operations() {
			v.offered[one] = random.IntN(2) == 0
		}
		views = append(views, v)
	}
	for i, v := range views {
		v.policy.Toolsets = []string{}
		for _, set := range account.Toolsets() {
			if i%3 == 0 || i%3 == 1 && random.IntN(2) == 0 {
				v.policy.Toolsets = append(v.policy.Toolsets, set)
			}
		}
		texts := map[string]string{"the instructions": a.instructions(v), "the state of a draft": v.messageOf(api.StateChecking), "the text after a delete": v.howToRestore()}
		for _, err := range []error{media.ErrItemNotFound, fault.New(fault.QuotaExceeded, "full"), fault.New(fault.Forbidden, "no")} {
			texts[err.Error()] = errorText(t.Context(), v, httpapi.Describe(err), err)
		}
		for _, one := range a.newToolsOf(v) {
			if v.offers(one.operation) {
				text, err := json.Marshal(one.definition())
				if err != nil {
					t.Fatal(err)
				}
				texts[one.name()] = string(text)
			}
		}
		for of, text := range texts {
			for _, name := range word.FindAllString(text, -1) {
				if one := account.Operation(name); one.Known() && !v.offers(one) && !told[of+name] {
					told[of+name] = true
					t.Errorf("%s names %s, which the caller does not have: %s", of, name, text)
				}
			}
		}
	}
}

// A request to an owner is no item: a model that reads of lists of items looks for it there.
func TestErrorText_OfARequestSaysNothingOfItems(t *testing.T) {
	t.Parallel()
	v := (&API{}).wholeView()
	for _, err := range []error{approval.ErrNotFound, fetch.ErrNotFound, handover.ErrNotFound} {
		if text := errorText(t.Context(), v, httpapi.Describe(err), err); strings.Contains(text, "list_") || strings.Contains(text, "draft") {
			t.Errorf("the error says %s", text)
		}
	}
	if text := errorText(t.Context(), v, httpapi.Describe(media.ErrItemNotFound), media.ErrItemNotFound); !strings.Contains(text, "list_media") {
		t.Errorf("the error of an item says %s", text)
	}
}

// A client that can try again reads when in a member, and need not look for it in the text.
func TestToolError_SaysWhenToTryAgain(t *testing.T) {
	t.Parallel()
	a := &API{calls: newCalls(nil)}
	ctx := newContext(t.Context(), &requestState{})
	busy := a.toolError(ctx, "list_media", &fault.Error{Kind: fault.Busy, Public: "busy", RetryAfter: 7 * time.Second})
	if seconds, ok := busy.Meta[metaRetryAfter].(int); !ok || seconds < 7 || seconds > 17 {
		t.Errorf("_meta is %v", busy.Meta)
	}
	if wrong := a.toolError(ctx, "list_media", fault.New(fault.Invalid, "wrong")); wrong.Meta[metaRetryAfter] != nil || wrong.Meta[metaCode] == nil {
		t.Errorf("_meta of an error that stays is %v", wrong.Meta)
	}
}
