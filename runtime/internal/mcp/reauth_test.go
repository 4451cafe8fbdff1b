package mcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
)

// heldCall is a call whose client has sent the first half of its body.
type heldCall struct {
	body *runtimetest.PausedBody
	done chan answer
}

func (rt *replica) hold(t *testing.T, body string, change ...option) heldCall {
	t.Helper()
	half := len(body) / 2
	h := heldCall{body: runtimetest.NewPausedBody(strings.NewReader(body[:half]), strings.NewReader(body[half:])), done: make(chan answer, 1)}
	change = append(change, func(r *request) { runtimetest.Expect(r.Header) })
	go func() { h.done <- rt.send(t, http.MethodPost, "/mcp", h.body, change...) }()
	h.body.Wait(t)
	return h
}

func (h heldCall) answer() answer {
	h.body.Release()
	return <-h.done
}

func callBody(t *testing.T, name string, arguments any) string {
	t.Helper()
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": name, "arguments": arguments}})
	must(t, err)
	return string(body)
}

// A call is not carried out if its key is revoked, its account suspended or its tool denied while
// its body arrives.
func TestCall_IsAuthorizedAtTheEndOfItsBody(t *testing.T) {
	t.Parallel()
	for how, tt := range map[string]struct {
		// end returns a key that is valid once the account is as before.
		end func(*testing.T, *world, tenant) (validKey string)
		// ended reports whether the change has reached the replica.
		ended  func(*testing.T, *replica, tenant) bool
		denied bool
	}{
		"revoked": {func(t *testing.T, w *world, of tenant) string {
			t.Helper()
			token, _, err := w.Registry.IssueKey(t.Context(), of.App.ID, 2, 0)
			must(t, err)
			return token.Reveal()
		}, rejectedKey, false},
		"suspended": {func(t *testing.T, w *world, of tenant) string {
			t.Helper()
			w.Change(t, of, func(s *account.Spec) { s.Suspended = true })
			return of.Key
		}, rejectedKey, false},
		"denied": {func(t *testing.T, w *world, of tenant) string {
			t.Helper()
			w.Change(t, of, func(s *account.Spec) { s.ToolPolicy.Tools = []string{} })
			return of.Key
		}, func(t *testing.T, rt *replica, of tenant) bool { t.Helper(); return len(rt.names(t, of.Key)) == 0 }, true},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rt := w.replica(t)
			for name, row := range rows {
				one := w.tenant(t, strings.ReplaceAll(name, "_", "-"), withOrganize)
				draft := rt.upload(t, one.Key, "one.bin", []byte("one"))
				before := rt.state(t, one.Key, draft)
				held := rt.hold(t, callBody(t, name, row.right(draft)), apiKey(one.Key))
				validKey := tt.end(t, w, one)
				wait.Until(t, "the change reaches the replica", func() bool { return tt.ended(t, rt, one) })
				got := held.answer()
				if tt.denied {
					if got.Status != http.StatusOK || !strings.Contains(string(got.Body), name+" is not allowed for assistants") {
						t.Errorf("%s: %d %s", name, got.Status, got.Body)
					}
				} else if got.Status != http.StatusUnauthorized || !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer resource_metadata=") {
					t.Errorf("%s: %d %v %s", name, got.Status, got.Header, got.Body)
				}
				w.Change(t, one, func(*account.Spec) {})
				wait.Until(t, "the account is as before", func() bool {
					return rt.post(t, listTools, apiKey(validKey)).Status == http.StatusOK && len(rt.names(t, validKey)) == len(rows)
				})
				if after := rt.state(t, validKey, draft); after != before {
					t.Errorf("%s changed something: %s, before %s", name, after, before)
				}
				if n := w.QueryInt(t, `SELECT count(*) FROM item WHERE account_id = $1`, one.Account.ID); n != 1 {
					t.Errorf("%s: there are %d items", name, n)
				}
			}
		})
	}
}

func rejectedKey(t *testing.T, rt *replica, of tenant) bool {
	t.Helper()
	return rt.post(t, listTools, apiKey(of.Key)).Status == http.StatusUnauthorized
}
