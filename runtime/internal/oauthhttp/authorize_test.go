package oauthhttp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
)

func words(list any) []string {
	var found []string
	for _, word := range list.([]any) {
		found = append(found, word.(string))
	}
	return found
}

func TestAuthorize_RejectsUnregisteredRedirectURI(t *testing.T) {
	t.Parallel()
	b := webtest.NewWorld(t).Replica(t).Browser(t)
	app := b.Application("App", "https://app.test/cb")
	for name, query := range map[string]url.Values{
		"another host":           {"redirect_uri": {"https://evil.test/cb"}},
		"user information":       {"redirect_uri": {"https://app.test@evil.test/cb"}},
		"another path":           {"redirect_uri": {"https://app.test/cb/../x"}},
		"a query":                {"redirect_uri": {"https://app.test/cb?x=1"}},
		"loopback":               {"redirect_uri": {"http://localhost/cb"}},
		"a script":               {"redirect_uri": {"javascript:alert(1)"}},
		"none":                   {"redirect_uri": nil},
		"two":                    {"redirect_uri": {"https://app.test/cb", "https://evil.test/"}},
		"no application":         {"client_id": nil},
		"two applications":       {"client_id": {app.ID, "x"}},
		"an unknown one":         {"client_id": {"mcl_unknown"}},
		"a nameless byte":        {"client_id": {"mcl_\x00"}},
		"an ID in invalid UTF-8": {"client_id": {"mcl_\xff"}},
		"a line":                 {"client_id": {"mcl_x\n"}},
		"a NUL":                  {"redirect_uri": {"https://app.test/cb\x00"}},
		"invalid UTF-8":          {"redirect_uri": {"https://app.test/cb\xc3"}},
		"a private address":      {"client_id": {"https://127.0.0.1/client.json"}},
	} {
		p := b.Get(app.Query(query))
		if p.StatusCode != http.StatusBadRequest || p.Header.Get("Location") != "" || !strings.Contains(p.Text, "<h1") || strings.Contains(p.Text, "evil.test") {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.Text)
		}
	}
}

var link = regexp.MustCompile(`<a [^>]*href="([^"]*)"`)

func TestAuthorize_ReturnsErrorsToTheClient(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	b := w.Replica(t).Browser(t)
	app := b.Application("App", "https://claude.ai/cb?tenant=a")
	unverified := b.Application("App", "https://app.test/cb?tenant=a")
	for name, tt := range map[string]struct {
		more url.Values
		code string
	}{
		"a token at once":           {url.Values{"response_type": {"token"}}, "unsupported_response_type"},
		"a fragment":                {url.Values{"response_mode": {"fragment"}}, "invalid_request"},
		"no challenge":              {url.Values{"code_challenge": nil}, "invalid_request"},
		"plain":                     {url.Values{"code_challenge_method": {"plain"}}, "invalid_request"},
		"an unknown method":         {url.Values{"code_challenge_method": {"s256"}}, "invalid_request"},
		"no method":                 {url.Values{"code_challenge_method": nil}, "invalid_request"},
		"a short challenge":         {url.Values{"code_challenge": {"short"}}, "invalid_request"},
		"a foreign resource":        {url.Values{"resource": {"https://other.test/mcp"}}, "invalid_target"},
		"the service alone":         {url.Values{"resource": {webtest.BaseURL}}, "invalid_target"},
		"a slash too many":          {url.Values{"resource": {webtest.Resource + "/"}}, "invalid_target"},
		"one more resource":         {url.Values{"resource": {webtest.Resource, "https://other.test/mcp"}}, "invalid_target"},
		"other scopes":              {url.Values{"scope": {"admin"}}, "invalid_scope"},
		"without interaction":       {url.Values{"prompt": {"none"}}, "login_required"},
		"a request object":          {url.Values{"request": {"x"}}, "request_not_supported"},
		"a parameter twice":         {url.Values{"scope": {"media:read", "media:write"}}, "invalid_request"},
		"a state without end":       {url.Values{"state": {strings.Repeat("s", 5000)}}, "invalid_request"},
		"a NUL in the state":        {url.Values{"state": {"s\x00"}}, "invalid_request"},
		"a line in the state":       {url.Values{"state": {"s\r\nx"}}, "invalid_request"},
		"invalid UTF-8":             {url.Values{"state": {"s\xff"}}, "invalid_request"},
		"a state that is not ASCII": {url.Values{"state": {"é"}}, "invalid_request"},
		"a NUL in the scope":        {url.Values{"scope": {"media:read \x00"}}, "invalid_request"},
		"a NUL in the target":       {url.Values{"resource": {webtest.Resource + "\x00"}}, "invalid_request"},
		"an address of a page":      {url.Values{"request_uri": {"https://evil.test/"}}, "request_not_supported"},
	} {
		// To an unverified target the user gets a link only.
		shown := b.Get(unverified.Query(tt.more))
		links := link.FindAllStringSubmatch(shown.Text, -1)
		if shown.StatusCode != http.StatusBadRequest || shown.Header.Get("Location") != "" || strings.Contains(shown.Text, `http-equiv="refresh"`) || !strings.Contains(shown.Text, "app.test</bdi>") || len(links) != 1 {
			t.Errorf("%s, of an unverified client: %d %v %s", name, shown.StatusCode, shown.Header, shown.Text)
			continue
		}
		p := b.Get(app.Query(tt.more))
		if back := html.UnescapeString(links[0][1]); back != strings.Replace(p.Header.Get("Location"), "//claude.ai/", "//app.test/", 1) {
			t.Errorf("%s: an unverified client gets the link %s", name, back)
		}
		to, err := url.Parse(p.Header.Get("Location"))
		must(t, err)
		told := to.Query()
		if p.StatusCode != http.StatusSeeOther || to.Host != "claude.ai" || told.Get("tenant") != "a" || told.Get("error") != tt.code || told.Get("error_description") == "" || told.Get("iss") != webtest.BaseURL || told.Has("code") {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.Header.Get("Location"))
		}
		if state := told.Get("state"); len(tt.more["state"]) == 0 && state != "s t&te" {
			t.Errorf("%s: the state is %q", name, state)
		}
	}
	local := b.Application("App", webtest.RedirectURI)
	if told := b.Told(b.Get(local.Query(url.Values{"prompt": {"none"}}))); told.Get("error") != "login_required" {
		t.Errorf("a program on this computer is told %v", told)
	}
	w.Counts(t, 0, "logins began", "SELECT count(*) FROM login_session")
	for scope, want := range map[string]string{"": "media:read media:write media:delete", "media:delete media:read": "media:read media:delete", "media:read offline_access openid": "media:read", "media:write media:read": "media:read media:write"} {
		p := b.Get(app.Query(url.Values{"scope": {scope}}))
		p.Is(t, http.StatusOK, "scope %q", scope)
		if n := w.QueryInt(t, `SELECT count(*) FROM login_session WHERE authorization_request->>'scopes' = $1`, `["`+strings.ReplaceAll(want, " ", `", "`)+`"]`); n != 1 {
			t.Errorf("scope %q did not become %q", scope, want)
		}
		w.Exec(t, "DELETE FROM login_session")
	}
}

func TestAuthorize_IgnoresThePortOfLoopbackURIs(t *testing.T) {
	t.Parallel()
	b := webtest.NewWorld(t).Replica(t).Browser(t)
	app := b.Application("App", "http://localhost/callback", "cursor://anysphere.cursor-mcp/oauth/callback")
	for uri, want := range map[string]int{
		"http://localhost:33418/callback":              http.StatusOK,
		"http://localhost/callback":                    http.StatusOK,
		"cursor://anysphere.cursor-mcp/oauth/callback": http.StatusOK,
		"http://127.0.0.1:33418/callback":              http.StatusBadRequest,
		"http://localhost:33418/other":                 http.StatusBadRequest,
		"cursor://anysphere.cursor-mcp/other":          http.StatusBadRequest,
	} {
		b.Get(app.Query(url.Values{"redirect_uri": {uri}})).Is(t, want, "%s", uri)
	}
}

// noRefill is a rate limit whose burst a slow test does not get back: one in a quarter of an hour.
const noRefill = 0.001

func TestAuthorize_IsRateLimited(t *testing.T) {
	t.Parallel()
	b := webtest.NewWorld(t).Replica(t, func(o *webtest.Options) { o.Limits.Logins, o.Limits.LoginsBurst = noRefill, 3 }).Browser(t)
	app := b.Application("App")
	for i := range 4 {
		p := b.Get(app.Query(nil))
		if want := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[i < 3]; p.StatusCode != want {
			t.Errorf("login %d: %d", i, p.StatusCode)
		}
	}
}

// hosts answers for the hosts of metadata documents: those of good.test exist.
type hosts struct{ asked atomic.Int64 }

func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	h.asked.Add(1)
	if r.URL.Host != "good.test" {
		return nil, errors.New("no such host")
	}
	document, err := json.Marshal(map[string]any{"client_id": r.URL.String(), "client_name": "Good", "redirect_uris": []string{webtest.RedirectURI}})
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(document))}, err
}

func TestAuthorize_RateLimitsMetadataFetches(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	for name, want := range map[string]int{"good.test": http.StatusOK, "evil.test": http.StatusBadRequest} {
		answering := &hosts{}
		b := w.Replica(t, func(o *webtest.Options) {
			o.Limits.Logins, o.Limits.LoginsBurst, o.Configure = noRefill, 3, func(a *oauthhttp.API) { a.AnswerDocuments(answering) }
		}).Browser(t)
		for i := range 6 {
			app := webtest.Application{ID: fmt.Sprintf("https://%s/%d", name, i), Redirect: webtest.RedirectURI, Verifier: webtest.Verifier}
			wanted := http.StatusTooManyRequests
			if i < 3 { // one login is counted once
				wanted = want
			}
			b.Get(app.Query(nil)).Is(t, wanted, "%s, %d", name, i)
		}
		if n := answering.asked.Load(); n != 3 {
			t.Errorf("%s was asked %d times", name, n)
		}
	}
}
