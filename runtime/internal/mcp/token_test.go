package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/internal/auth"
)

func bearer(token string) option { return header("Authorization", "Bearer "+token) }

// A call without the scope of its tool is answered by status, so that the client can ask the user
// for the scope (RFC 6750, section 3.1).
func TestAccessToken_IsLimitedToItsScopes(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	both, read := w.Session(t, one, auth.ScopeRead, auth.ScopeWrite), w.Session(t, one, auth.ScopeRead)
	eraser := w.Session(t, one, auth.ScopeDelete)
	draft := rt.upload(t, one.Key, "f", []byte("f"))
	scopeOf := map[string]string{"seal_media": "media:write", "update_media": "media:write", "delete_media": "media:delete", "upload_media": "media:write", "create_upload_signature": "media:write", "update_media_settings": "media:write"}
	for name := range rows {
		arguments, err := json.Marshal(rows[name].right(draft))
		must(t, err)
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, arguments)
		got := rt.post(t, body, bearer(read))
		challenge := got.Header.Get("WWW-Authenticate")
		if slices.Contains(reading, name) {
			got.Is(t, http.StatusOK, "%s", name)
			continue
		}
		if got.Status != http.StatusForbidden || !bytes.Contains(got.Body, []byte(`"id":7`)) || !bytes.Contains(got.Body, []byte("insufficient scope: "+scopeOf[name]+" required")) ||
			!strings.HasPrefix(challenge, `Bearer error="insufficient_scope", scope="media:read media:write media:delete", resource_metadata="http://media.test/.well-known/`) {
			t.Errorf("%s: %d %q %s", name, got.Status, challenge, got.Body)
		}
	}
	if got := rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, bearer(read)); bytes.Contains(got.Body, []byte("delete_media")) || !bytes.Contains(got.Body, []byte("list_media")) {
		t.Errorf("the list: %s", got.Body)
	}
	batch := `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_media_count","arguments":{}}},` +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"delete_media","arguments":{"mediaId":"` + draft + `"}}}]`
	rt.post(t, batch, bearer(read), header("MCP-Protocol-Version", "2025-03-26")).Is(t, http.StatusForbidden, "in a batch")
	if got := rt.callAs(t, "seal_media", map[string]any{"mediaId": draft}, bearer(both)); got.IsError {
		t.Errorf("with both scopes: %+v", got)
	}
	remove := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"delete_media","arguments":{"mediaId":"` + draft + `"}}}`
	if got := rt.post(t, remove, bearer(both)); got.Status != http.StatusForbidden || !bytes.Contains(got.Body, []byte("insufficient scope: media:delete required")) {
		t.Errorf("a delete by a writer: %d %s", got.Status, got.Body)
	}
	if got := rt.callAs(t, "delete_media", map[string]any{"mediaId": draft}, bearer(eraser)); got.IsError {
		t.Errorf("with the scope to delete: %+v", got)
	}
	rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, bearer(both), apiKey(one.Key)).Is(t, http.StatusBadRequest, "a key and a token")
	for name, token := range map[string]string{"a key": one.Key, "a refresh token": "mrt_" + both[4:], "another one": both[:len(both)-1] + "_"} {
		got := rt.post(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, bearer(token))
		if got.Status != http.StatusUnauthorized || !strings.Contains(got.Header.Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s as a token: %d %q", name, got.Status, got.Header.Get("WWW-Authenticate"))
		}
	}
	rt.send(t, http.MethodPost, "/mcp?access_token="+both, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)).Is(t, http.StatusUnauthorized, "a token in the query")
}
