package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/runtimetest"
)

// A login may seal by an upload signature only while its account allows connected applications to seal.
// A key is not limited.
func TestCapability_SealFollowsTheToolPolicy(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, func(o *options) { o.Auth.Resource = runtimetest.BaseURL + "/mcp" })
	login := bearer(w.Session(t, one, auth.ScopeRead, auth.ScopeWrite))
	const path, sealed = "/media/signature/create", `{"seal": true}`
	made := signature(decode[api.Signature](t, rt.do(t, http.MethodPost, path, login, text(sealed))).Signature)
	send := func(with option) answer {
		return rt.do(t, http.MethodPost, "/media/create", with, form(filePart("a.txt", []byte("x"))))
	}
	if item := send(made).item(t); item.Temp {
		t.Error("the upload is not sealed")
	}
	w.Change(t, one, func(s *account.Spec) {
		s.Owners, s.ToolPolicy.Tools = []string{runtimetest.Owner}, []string{"create_upload_signature", "upload_media"}
	})
	if detail := rt.do(t, http.MethodPost, path, login, text(sealed)).rejected(t, http.StatusForbidden, "Forbidden"); !strings.Contains(detail, "leave out seal") {
		t.Errorf("%s", detail)
	}
	if detail := send(made).rejected(t, http.StatusForbidden, "Bad Request"); !strings.Contains(detail, "seal_media is not allowed") {
		t.Errorf("%s", detail)
	}
	w.Counts(t, 1, "items", `SELECT count(*) FROM item`)
	if item := send(signature(decode[api.Signature](t, rt.do(t, http.MethodPost, path, login, text(`{"seal": false, "count": 1}`))).Signature)).item(t); !item.Temp {
		t.Error("the upload is sealed")
	}
	if item := send(signature(decode[api.Signature](t, rt.do(t, http.MethodPost, path, key(one.Key), text(sealed))).Signature)).item(t); item.Temp {
		t.Error("the upload by the key is not sealed")
	}
}
