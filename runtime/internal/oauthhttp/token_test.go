package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

func TestToken_IssuesTokensForValidRequestsOnly(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, func(o *webtest.Options) { o.Login.CodesPerEmail, o.Login.AttemptsPerEmail = 100, 100 })
	b := rt.Browser(t)
	app, other := b.Application("App"), b.Application("Other")
	good := func(code string) url.Values {
		return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {app.ID}, "redirect_uri": {app.Redirect}, "code_verifier": {app.Verifier}, "resource": {webtest.Resource}}
	}
	granted := func() string { return b.Allow(b.Login(app.Query(nil), webtest.Owner), tenant).Get("code") }
	code := granted()
	for name, tt := range map[string]struct {
		change url.Values
		err    string
	}{
		"no grant type":     {url.Values{"grant_type": nil}, "unsupported_grant_type"},
		"a password":        {url.Values{"grant_type": {"password"}}, "unsupported_grant_type"},
		"no code":           {url.Values{"code": nil}, "invalid_request"},
		"no application":    {url.Values{"client_id": nil}, "invalid_request"},
		"no verifier":       {url.Values{"code_verifier": nil}, "invalid_request"},
		"a short verifier":  {url.Values{"code_verifier": {"short"}}, "invalid_request"},
		"a foreign target":  {url.Values{"resource": {"https://other.test/mcp"}}, "invalid_target"},
		"a NUL":             {url.Values{"client_id": {"mcl_\x00"}}, "invalid_request"},
		"invalid UTF-8":     {url.Values{"code": {code + "\xff"}}, "invalid_request"},
		"a broken redirect": {url.Values{"redirect_uri": {"\x00"}}, "invalid_request"},
		"a secret":          {url.Values{"client_secret": {"x"}}, "invalid_client"},
		"a parameter twice": {url.Values{"code": {code, code}}, "invalid_request"},
	} {
		form := good(code)
		for k, v := range tt.change {
			form[k] = v
			if v == nil {
				form.Del(k)
			}
		}
		if status, response := b.Form("/oauth/token", form); status/100 != 4 || response["error"] != tt.err {
			t.Errorf("%s: %d %v", name, status, response)
		}
	}
	if status, response := b.Form("/oauth/token", good(code)); status != http.StatusOK { // the rejected requests did not use the code
		t.Errorf("then right: %d %v", status, response)
	}
	for name, change := range map[string]url.Values{
		"another application": {"client_id": {other.ID}},
		"another redirect":    {"redirect_uri": {app.Redirect + "x"}},
		"another verifier":    {"code_verifier": {strings.Repeat("v", 43)}},
	} {
		form := good(granted())
		for k, v := range change {
			form[k] = v
		}
		if status, response := b.Form("/oauth/token", form); status != http.StatusBadRequest || response["error"] != "invalid_grant" {
			t.Errorf("%s: %d %v", name, status, response)
		}
	}
	// Parameters in the URL are ignored.
	if status, response := b.Form("/oauth/token?"+good(granted()).Encode(), url.Values{}); status != http.StatusBadRequest {
		t.Errorf("in the address: %d %v", status, response)
	}
	access, refresh := b.Connect(app, webtest.Owner, tenant)
	for name, token := range map[string]string{"a refresh token": refresh, "a code": granted()} {
		if status, _ := b.Whoami(token); status != http.StatusUnauthorized {
			t.Errorf("%s as access token: %d", name, status)
		}
	}
	if status, response := b.Refresh(other, refresh); status != http.StatusBadRequest || response["error"] != "invalid_grant" {
		t.Errorf("another application refreshes: %d %v", status, response)
	}
	if status, _ := b.Whoami(access); status != http.StatusOK {
		t.Error("the grant was revoked")
	}
	rt.Clock.Advance(time.Hour)
	if status, _ := b.Whoami(access); status != http.StatusUnauthorized {
		t.Errorf("an hour later: %d", status)
	}
	if status, _ := b.Refresh(app, refresh); status != http.StatusOK {
		t.Errorf("refresh an hour later: %d", status)
	}
	if status, _ := b.Refresh(app, refresh+"x"); status != http.StatusBadRequest {
		t.Errorf("garbage: %d", status)
	}
}

func TestToken_RejectsClientSecrets(t *testing.T) {
	t.Parallel()
	b := webtest.NewWorld(t).Replica(t).Browser(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, runtimetest.Absolute("/oauth/token"), strings.NewReader("grant_type=refresh_token&refresh_token=x"))
	must(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("mcl_x", "secret")
	p := b.Do(r)
	if p.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(p.Header.Get("WWW-Authenticate"), "Basic ") || !strings.Contains(p.Text, `"invalid_client"`) {
		t.Errorf("%d %v %s", p.StatusCode, p.Header, p.Text)
	}
}

func TestToken_ConcurrentExchangesYieldOnePair(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	replicas := []*webtest.Replica{w.Replica(t), w.Replica(t)}
	b := replicas[0].Browser(t)
	app := b.Application("App")
	code := b.Allow(b.Login(app.Query(nil), webtest.Owner), tenant).Get("code")
	var mu sync.Mutex
	var given []string
	var redeeming sync.WaitGroup
	for i := range 20 {
		each := replicas[i%2].Browser(t)
		redeeming.Go(func() {
			status, response := each.Redeem(app, code)
			mu.Lock()
			defer mu.Unlock()
			if status == http.StatusOK {
				given = append(given, response["access_token"].(string))
			} else if status != http.StatusBadRequest || response["error"] != "invalid_grant" {
				t.Errorf("%d %v", status, response)
			}
		})
	}
	redeeming.Wait()
	if len(given) != 1 {
		t.Fatalf("%d pairs", len(given))
	}
	for _, rt := range replicas {
		if status, _ := rt.Browser(t).Whoami(given[0]); status != http.StatusUnauthorized {
			t.Errorf("after a replay the token is answered %d", status)
		}
	}
}

// The answer of a refresh names the scopes of its token, and a scope that was not granted is invalid_scope.
func TestToken_RefreshesWithANarrowerScope(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	b := w.Replica(t).Browser(t)
	app := b.Application("App")
	_, token := b.Connect(app, webtest.Owner, tenant)
	refresh := func(scope string) (int, map[string]any) {
		return b.Form("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {app.ID}, "scope": {scope}})
	}
	for _, scope := range []string{"media:delete", "media:read media:delete", "other", "\x00"} {
		if status, response := refresh(scope); status != http.StatusBadRequest || response["error"] != "invalid_scope" && scope != "\x00" {
			t.Errorf("scope %q: %d %v", scope, status, response)
		}
	}
	for _, step := range [][2]string{{"media:read", "media:read"}, {"", "media:read media:write"}, {"media:write", "media:write"}} {
		status, response := refresh(step[0])
		if status != http.StatusOK || response["scope"] != step[1] {
			t.Errorf("scope %q: %d %v", step[0], status, response)
		}
		token, _ = response["refresh_token"].(string)
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {app.ID}, "scope": {"media:read", "media:write"}}
	if status, response := b.Form("/oauth/token", form); status != http.StatusBadRequest || response["error"] != "invalid_request" {
		t.Errorf("two scopes: %d %v", status, response)
	}
}
