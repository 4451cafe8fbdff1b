package rest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/rest"
	"mediastack.dev/runtime/internal/runtimetest"
)

func bearer(token string) option { return header("Authorization", "Bearer "+token) }

// scopeOf returns the scope that the document requires for an operation; empty = it accepts no login.
func (c *contract) scopeOf(o operation) string {
	operation := c.document.Paths.Value(o.path).GetOperation(o.method)
	requirements := c.document.Security
	if operation.Security != nil {
		requirements = *operation.Security
	}
	for _, requirement := range requirements {
		if scopes := requirement["login"]; len(scopes) > 0 {
			return strings.Join(scopes, " ")
		}
	}
	return ""
}

// tool returns the operation that the document names for a path (x-operation).
func (c *contract) tool(o operation) account.Operation {
	name, _ := c.document.Paths.Value(o.path).Extensions["x-operation"].(string)
	return account.Operation(name)
}

func TestRoutes_RequireTheScopeOfTheOpenAPIDocument(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, func(o *options) { o.Auth.Resource = runtimetest.BaseURL + "/mcp" })
	item := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")))
	job := decode[api.URLUpload](t, rt.do(t, http.MethodPost, "/media/create/url", key(one.Key), text(`{"url": "https://files.example.com/x.txt"}`))).JobId
	before := rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key)).Body
	described, cases := loadContract(t), isolations()
	tokens := map[string]string{"": w.Session(t, one), "media:read": w.Session(t, one, auth.ScopeRead), "media:write": w.Session(t, one, auth.ScopeWrite), "media:delete": w.Session(t, one, auth.ScopeDelete)}
	for _, route := range routesOf(t, (&rest.API{}).Mount) {
		if cases[route].open {
			continue
		}
		scope := described.scopeOf(route)
		if scope == "" {
			t.Errorf("%s describes no scope", route)
		}
		path := strings.Replace(route.path, "{mediaId}", item.MediaId.String(), 1)
		if route.method == http.MethodDelete {
			path = strings.Replace(route.path, "{mediaId}", anyItem, 1)
		}
		for has, token := range tokens {
			got := rt.do(t, route.method, path, append(cases[route].send, bearer(token))...)
			challenge := got.Header.Get("WWW-Authenticate")
			switch {
			case has == scope && (got.Status == http.StatusForbidden || got.Status == http.StatusUnauthorized):
				t.Errorf("%s with %q: %d %s", route, has, got.Status, got.Body)
			case has != scope && (got.Status != http.StatusForbidden || !strings.Contains(challenge, `error="insufficient_scope", scope="media:read media:write media:delete"`)):
				t.Errorf("%s with %q: %d %q %s", route, has, got.Status, challenge, got.Body)
			}
		}
	}
	// The tool policy restricts a login at REST as at MCP. It does not restrict a key.
	for name, agents := range map[string]account.ToolPolicy{"read-only": {ReadOnly: true}, "three tools": {Tools: []string{"list_media", "get_media_count", "update_media_settings"}}, "none": {Tools: []string{}}} {
		w.Change(t, one, func(s *account.Spec) { s.ToolPolicy, s.Journal = agents, time.Hour })
		both := w.Session(t, one, auth.ScopeRead, auth.ScopeWrite)
		for _, route := range routesOf(t, (&rest.API{}).Mount) {
			if cases[route].open || route.method == http.MethodDelete {
				continue
			}
			path := strings.NewReplacer("{mediaId}", item.MediaId.String(), "{jobId}", job.String()).Replace(route.path)
			operation := described.tool(route)
			if route.path == api.BatchRoute {
				operation = account.SealMedia // that of the batch of the case
			}
			if !operation.Known() {
				t.Fatalf("%s has the x-operation %q", route, operation)
			}
			want := agents.Allows(operation)
			if got := rt.do(t, route.method, path, append(cases[route].send, bearer(both))...); (got.Status != http.StatusForbidden) != want {
				t.Errorf("%s: %s: %d %s", name, route, got.Status, got.Body)
			}
			if got := rt.do(t, route.method, path, append(cases[route].send, key(one.Key))...); got.Status/100 != 2 {
				t.Errorf("%s: %s with the key: %d %s", name, route, got.Status, got.Body)
			}
		}
	}
	// Two credentials are rejected, and so is a credential of another kind.
	read := tokens["media:read"]
	for name, send := range map[string][]option{
		"a key and a token":       {key(one.Key), bearer(read)},
		"a signature and a token": {signature(rt.sign(t, one.Key, "")), bearer(read), form(filePart("a.txt", []byte("x")))},
		"two tokens":              {bearer(read), func(r *request) { r.Header.Add("Authorization", "Bearer "+read) }},
	} {
		method, path := http.MethodGet, "/media/get"
		if strings.HasPrefix(name, "a signature") {
			method, path = http.MethodPost, "/media/create"
		}
		rt.do(t, method, path, send...).rejected(t, http.StatusBadRequest, "Bad Request")
	}
	for name, token := range map[string]string{"an API key": one.Key, "nothing": "", "another token": read[:len(read)-1] + "_", "too much": read + "x", "a refresh token": "mrt_" + read[4:]} {
		got := rt.do(t, http.MethodGet, "/media/get", bearer(token))
		got.rejected(t, http.StatusUnauthorized, "Unauthorized")
		if challenge := got.Header.Get("WWW-Authenticate"); !strings.Contains(challenge, "ApiKey ") || !strings.Contains(challenge, `resource_metadata="`+baseURL+`/.well-known/oauth-protected-resource/mcp"`) || !strings.Contains(challenge, `error="invalid_token"`) {
			t.Errorf("%s: %q", name, challenge)
		}
	}
	after := rt.do(t, http.MethodGet, "/settings/media/get", key(one.Key)).Body
	if string(after) == string(before) {
		t.Error("the token that may write wrote no settings")
	}
}

func TestAccessToken_IsRejectedWithoutLogins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	token := w.Session(t, one, auth.ScopeRead)
	for _, resource := range []string{"", "http://other.test/mcp"} {
		rt := w.runtime(t, func(o *options) { o.Auth.Resource = resource })
		rt.do(t, http.MethodGet, "/media/get", bearer(token)).rejected(t, http.StatusUnauthorized, "Unauthorized")
	}
}

func TestSignature_EndsWithItsLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.runtime(t, func(o *options) { o.Auth.Resource = runtimetest.BaseURL + "/mcp" })
	for name, end := range map[string]func(t *testing.T, of tenant){
		"revoked": func(t *testing.T, of tenant) {
			w.QueryInt(t, "WITH ended AS (UPDATE oauth_grant SET revoked_at = now() WHERE account_id = $1 RETURNING 1) SELECT count(*) FROM ended", of.Account.ID)
		},
		"no owner": func(t *testing.T, of tenant) {
			w.Change(t, of, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
		},
		"read-only": func(t *testing.T, of tenant) {
			w.Change(t, of, func(s *account.Spec) { s.Owners, s.ToolPolicy.ReadOnly = []string{runtimetest.Owner}, true })
		},
	} {
		one := w.tenant(t, strings.ReplaceAll(name, " ", "-"))
		token := w.Session(t, one, auth.ScopeRead, auth.ScopeWrite)
		sign := func(credential option) string {
			return decode[api.Signature](t, rt.do(t, http.MethodPost, "/media/signature/create", credential, text(`{"group": "g"}`))).Signature
		}
		byLogin, byKey := sign(bearer(token)), sign(key(one.Key))
		file := filePart("a.txt", []byte("hello"))
		if item := rt.uploadSigned(t, byLogin, file).item(t); item.Group != "g" {
			t.Errorf("%s: before: %+v", name, item)
		}
		end(t, one)
		wait.Until(t, name+": the signature is void", func() bool {
			return rt.uploadSigned(t, byLogin, file).Status == http.StatusForbidden
		})
		rt.uploadSigned(t, byKey, file).item(t) // a signature that the key created stays valid
	}
}
