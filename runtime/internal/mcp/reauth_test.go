package mcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
)

// heldCall is a call whose body is held back behind its first half.
type heldCall struct {
	body *runtimetest.PausedBody
	done chan answer
}

func (rt *replica) hold(t *testing.T, body string, change ...option) heldCall {
	t.Helper()
	half := len(body) / 2
	h := heldCall{body: runtimetest.NewPausedBody(strings.NewReader(body[:half]), strings.NewReader(body[half:])), done: make(chan answer, 1)}
	change = append(change, func(r *http.Request) { runtimetest.Expect(r.Header) })
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

// Only the headers were judged: a call whose body was begun in time and held back was
// carried out for a key that had been revoked, and for an assistant that had been put
// on a leash.
func TestCall_IsAuthorizedAtTheEndOfItsBody(t *testing.T) {
	t.Parallel()
	for how, tt := range map[string]struct {
		end func(*testing.T, *world, tenant) (goOn string) // gives a key that is good once the account is as before
		// ended tells whether the replica has heard of it.
		ended func(*testing.T, *replica, tenant) bool
		leash bool
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
		"on a leash": {func(t *testing.T, w *world, of tenant) string {
			t.Helper()
			w.Change(t, of, func(s *account.Spec) { s.ToolPolicy = account.ToolPolicy{Tools: []string{}} })
			return of.Key
		}, func(t *testing.T, rt *replica, of tenant) bool { t.Helper(); return len(rt.names(t, of.Key)) == 0 }, true},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rt := w.replica(t)
			for name, row := range rows {
				one := w.tenant(t, strings.ReplaceAll(name, "_", "-"))
				draft := rt.upload(t, one.Key, "one.bin", []byte("one"))
				before := rt.state(t, one.Key, draft)
				held := rt.hold(t, callBody(t, name, row.right(draft)), apiKey(one.Key))
				goOn := tt.end(t, w, one)
				eventually(t, "the replica knows", func() bool { return tt.ended(t, rt, one) })
				got := held.answer()
				if tt.leash {
					if got.status != http.StatusOK || !strings.Contains(string(got.body), name+" is not allowed for assistants") {
						t.Errorf("%s: %d %s", name, got.status, got.body)
					}
				} else if got.status != http.StatusUnauthorized || !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer resource_metadata=") {
					t.Errorf("%s: %d %v %s", name, got.status, got.header, got.body)
				}
				w.Change(t, one, func(*account.Spec) {})
				eventually(t, "the account is as before", func() bool {
					return rt.post(t, listTools, apiKey(goOn)).status == http.StatusOK && len(rt.names(t, goOn)) == len(rows)
				})
				if after := rt.state(t, goOn, draft); after != before {
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
	return rt.post(t, listTools, apiKey(of.Key)).status == http.StatusUnauthorized
}
