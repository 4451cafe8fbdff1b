package mcp_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
)

// The toolset capabilities adds arguments and results to create_upload_signature, on every replica, and
// no tool. Without it the tool is as it was.
func TestCapabilities_AreArgumentsOfTheirToolset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, plain := w.tenant(t, "one"), w.tenant(t, "plain")
	rt, second := w.replica(t), w.replica(t)
	names := rt.names(t, plain.Key)
	w.Change(t, one, func(s *account.Spec) {
		s.ToolPolicy.Toolsets = []string{account.ToolsetCapabilities, account.ToolsetCore}
	})
	listed := func(rt *replica, key string) string {
		text, err := json.Marshal(rt.tools(t, key))
		must(t, err)
		return string(text)
	}
	for _, rt := range []*replica{rt, second} {
		wait.Until(t, "the tool has more arguments", func() bool { return strings.Contains(listed(rt, one.Key), "expiresIn") })
	}
	if !slices.Equal(rt.names(t, one.Key), names) || strings.Contains(listed(rt, plain.Key), "expiresIn") {
		t.Error("the toolset changes other tools, or other accounts")
	}
	created := succeeded[api.Signature](t, rt.call(t, one.Key, "create_upload_signature", object{"group": "g", "expiresIn": 90, "maxBytes": 5, "types": []string{"text/plain"},
		"count": 1, "access": "public", "metadata": object{"a": "b"}, "ref": "r", "seal": true}))
	if created.UploadUrl != baseURL+"/media/create" || created.ResumableUrl != baseURL+"/media/create/resumable" || created.ExpiresAt.IsZero() {
		t.Errorf("created: %+v", created)
	}
	send := func(text string) (int, api.MediaItem) {
		body := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n" + text + "\r\n--x--\r\n"
		got := second.send(t, http.MethodPost, "/media/create", strings.NewReader(body), header("x-service-signature", created.Signature), header("Content-Type", "multipart/form-data; boundary=x"))
		var item api.MediaItem
		must(t, json.Unmarshal(got.Body, &item))
		return got.Status, item
	}
	if status, _ := send("hello!"); status != http.StatusRequestEntityTooLarge {
		t.Errorf("six bytes are answered %d", status)
	}
	if status, item := send("hello"); status != http.StatusCreated || item.Temp || item.Group != "g" || item.Ref != "r" || item.Access != api.Public {
		t.Errorf("%d %+v", status, item)
	}
	if status, _ := send("hello"); status != http.StatusForbidden {
		t.Errorf("a second upload is answered %d", status)
	}
	for text, wrong := range map[string]object{"expiresIn must be from 60": {"expiresIn": 1}, "types must be a list": {"types": "a"}, "types must have 1 to 32 entries": {"types": []string{}}, "metadata.k must be a string": {"metadata": object{"k": 1}}, "metadata must be an object": {"metadata": "a"}, "seal must be": {"seal": 1}} {
		if got := failed(t, rt.call(t, one.Key, "create_upload_signature", wrong)); !strings.Contains(got, text) {
			t.Errorf("%v is answered %q", wrong, got)
		}
	}
	// Without the toolset, the argument is unknown and the result has the signature only.
	if got := failed(t, rt.call(t, plain.Key, "create_upload_signature", object{"count": 1})); !strings.Contains(got, `unknown argument "count"`) {
		t.Errorf("an account without the toolset gets %q", got)
	}
	if got := rt.call(t, plain.Key, "create_upload_signature", object{"group": "g"}); strings.Count(string(got.StructuredContent), `":`) != 1 {
		t.Errorf("the result is %s", got.StructuredContent)
	}
}
