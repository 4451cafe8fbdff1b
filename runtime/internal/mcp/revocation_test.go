package mcp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/oauth"
)

// What a user revokes ends at once, at every replica: calls whose body arrives, the next calls, and each token that was
// issued. There is no stream that could outlive it: GET is not answered with one, with or without a valid token.
func TestRevocation_EndsARunningSessionOfAnAssistant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replicas := []*replica{w.replica(t), w.replica(t)}
	one := w.tenant(t, "one")
	token := w.Session(t, one, oauth.Scopes()...)
	var text string
	must(t, testenv.Connections(t, w.Database.DatabaseURL).QueryRow(t.Context(), `SELECT id::text FROM oauth_grant`).Scan(&text))
	grant := uuid.MustParse(text)
	other := w.Session(t, one, oauth.Scopes()...)
	draft := replicas[0].upload(t, one.Key, "one.bin", []byte("one"))
	stream := func(at *replica, of string) answer {
		t.Helper()
		return at.send(t, http.MethodGet, "/mcp", nil, bearer(of), header("Accept", "text/event-stream"))
	}
	var held []heldCall
	for _, at := range replicas {
		at.post(t, listTools, bearer(token)).Is(t, http.StatusOK, "before")
		if got := stream(at, token); got.Status != http.StatusMethodNotAllowed {
			t.Errorf("a request for a stream is answered %d %s", got.Status, got.Body)
		}
		held = append(held, at.hold(t, callBody(t, "delete_media", object{"mediaId": draft}), bearer(token)))
	}
	n, err := w.Store.Logins.RevokeGrants(t.Context(), runtimetest.Owner, grant, time.Now())
	must(t, err)
	if n != 1 {
		t.Fatalf("%d grants were revoked", n)
	}
	for i, at := range replicas {
		wait.Until(t, "the revocation reaches the replica", func() bool { return at.post(t, listTools, bearer(token)).Status == http.StatusUnauthorized })
		if got := held[i].answer(); got.Status != http.StatusUnauthorized {
			t.Errorf("the running call is answered %d %s", got.Status, got.Body)
		}
		if got := stream(at, token); got.Status != http.StatusMethodNotAllowed && got.Status != http.StatusUnauthorized {
			t.Errorf("a request for a stream is answered %d %s", got.Status, got.Body)
		}
		at.post(t, listTools, bearer(other)).Is(t, http.StatusOK, "the other application")
	}
	w.Counts(t, 1, "items are there", `SELECT count(*) FROM item`)
}
