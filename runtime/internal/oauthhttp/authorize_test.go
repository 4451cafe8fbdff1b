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
)

func TestTheDocumentsSayWhatIsConfiguredWhateverTheHost(t *testing.T) {
	t.Parallel()
	b := newWorld(t).replica(t).browser(t)
	read := func(path string) map[string]any {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, absolute(path), nil)
		must(t, err)
		r.Host = "evil.test"
		for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
			r.Header.Set(name, "host=evil.test;proto=https")
		}
		r.Header.Set("Origin", "https://app.test")
		p := b.do(r)
		document := map[string]any{}
		must(t, json.Unmarshal([]byte(p.body), &document))
		if p.StatusCode != http.StatusOK || strings.Contains(p.body, "evil") || p.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %v %s", path, p.StatusCode, p.Header, p.body)
		}
		return document
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"} {
		if d := read(path); d["resource"] != resource || d["authorization_servers"].([]any)[0] != baseURL || strings.Contains(strings.Join(words(d["scopes_supported"]), " "), "offline_access") {
			t.Errorf("%s: %v", path, d)
		}
	}
	d := read("/.well-known/oauth-authorization-server")
	if d["issuer"] != baseURL || words(d["code_challenge_methods_supported"])[0] != "S256" || len(words(d["code_challenge_methods_supported"])) != 1 ||
		d["authorization_response_iss_parameter_supported"] != true || d["client_id_metadata_document_supported"] != true || words(d["token_endpoint_auth_methods_supported"])[0] != "none" {
		t.Errorf("the server: %v", d)
	}
	for name, value := range d {
		if strings.HasSuffix(name, "_endpoint") && !strings.HasPrefix(value.(string), baseURL+"/oauth/") {
			t.Errorf("%s is %v", name, value)
		}
	}
}

func words(list any) []string {
	var found []string
	for _, word := range list.([]any) {
		found = append(found, word.(string))
	}
	return found
}

func TestNothingGoesToARedirectThatIsNotTheApplications(t *testing.T) {
	t.Parallel()
	b := newWorld(t).replica(t).browser(t)
	app := b.application("App", "https://app.test/cb")
	for name, query := range map[string]url.Values{
		"another host":      {"redirect_uri": {"https://evil.test/cb"}},
		"user information":  {"redirect_uri": {"https://app.test@evil.test/cb"}},
		"another path":      {"redirect_uri": {"https://app.test/cb/../x"}},
		"a query":           {"redirect_uri": {"https://app.test/cb?x=1"}},
		"loopback":          {"redirect_uri": {"http://localhost/cb"}},
		"a script":          {"redirect_uri": {"javascript:alert(1)"}},
		"none":              {"redirect_uri": nil},
		"two":               {"redirect_uri": {"https://app.test/cb", "https://evil.test/"}},
		"no application":    {"client_id": nil},
		"two applications":  {"client_id": {app.id, "x"}},
		"an unknown one":    {"client_id": {"mcl_unknown"}},
		"a nameless byte":   {"client_id": {"mcl_\x00"}},
		"a broken letter":   {"client_id": {"mcl_\xff"}},
		"a line":            {"client_id": {"mcl_x\n"}},
		"a NUL":             {"redirect_uri": {"https://app.test/cb\x00"}},
		"half a letter":     {"redirect_uri": {"https://app.test/cb\xc3"}},
		"a private address": {"client_id": {"https://127.0.0.1/client.json"}},
	} {
		p := b.get(app.query(query))
		if p.StatusCode != http.StatusBadRequest || p.Header.Get("Location") != "" || !strings.Contains(p.body, "<h1") || strings.Contains(p.body, "evil.test") {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.body)
		}
	}
}

var link = regexp.MustCompile(`<a [^>]*href="([^"]*)"`)

func TestWrongRequestsAreToldToTheApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.replica(t).browser(t)
	app := b.application("App", "https://claude.ai/cb?tenant=a")
	stranger := b.application("App", "https://app.test/cb?tenant=a")
	for name, tt := range map[string]struct {
		more url.Values
		code string
	}{
		"a token at once":      {url.Values{"response_type": {"token"}}, "unsupported_response_type"},
		"a fragment":           {url.Values{"response_mode": {"fragment"}}, "invalid_request"},
		"no challenge":         {url.Values{"code_challenge": nil}, "invalid_request"},
		"plain":                {url.Values{"code_challenge_method": {"plain"}}, "invalid_request"},
		"an unknown method":    {url.Values{"code_challenge_method": {"s256"}}, "invalid_request"},
		"no method":            {url.Values{"code_challenge_method": nil}, "invalid_request"},
		"a short challenge":    {url.Values{"code_challenge": {"short"}}, "invalid_request"},
		"a foreign resource":   {url.Values{"resource": {"https://other.test/mcp"}}, "invalid_target"},
		"the service alone":    {url.Values{"resource": {baseURL}}, "invalid_target"},
		"a slash too many":     {url.Values{"resource": {resource + "/"}}, "invalid_target"},
		"one more resource":    {url.Values{"resource": {resource, "https://other.test/mcp"}}, "invalid_target"},
		"other scopes":         {url.Values{"scope": {"admin"}}, "invalid_scope"},
		"without the person":   {url.Values{"prompt": {"none"}}, "login_required"},
		"a request object":     {url.Values{"request": {"x"}}, "request_not_supported"},
		"a parameter twice":    {url.Values{"scope": {"media:read", "media:write"}}, "invalid_request"},
		"a state without end":  {url.Values{"state": {strings.Repeat("s", 5000)}}, "invalid_request"},
		"a NUL in the state":   {url.Values{"state": {"s\x00"}}, "invalid_request"},
		"a line in the state":  {url.Values{"state": {"s\r\nx"}}, "invalid_request"},
		"half a letter":        {url.Values{"state": {"s\xff"}}, "invalid_request"},
		"a letter in a state":  {url.Values{"state": {"é"}}, "invalid_request"},
		"a NUL in the scope":   {url.Values{"scope": {"media:read \x00"}}, "invalid_request"},
		"a NUL in the target":  {url.Values{"resource": {resource + "\x00"}}, "invalid_request"},
		"an address of a page": {url.Values{"request_uri": {"https://evil.test/"}}, "request_not_supported"},
	} {
		// Where nobody vouches for, a person goes by a link or not at all.
		shown := b.get(stranger.query(tt.more))
		links := link.FindAllStringSubmatch(shown.body, -1)
		if shown.StatusCode != http.StatusBadRequest || shown.Header.Get("Location") != "" || strings.Contains(shown.body, `http-equiv="refresh"`) || !strings.Contains(shown.body, "app.test</bdi>") || len(links) != 1 {
			t.Errorf("%s, of a stranger: %d %v %s", name, shown.StatusCode, shown.Header, shown.body)
			continue
		}
		p := b.get(app.query(tt.more))
		if back := html.UnescapeString(links[0][1]); back != strings.Replace(p.Header.Get("Location"), "//claude.ai/", "//app.test/", 1) {
			t.Errorf("%s: a stranger is led to %s", name, back)
		}
		to, err := url.Parse(p.Header.Get("Location"))
		must(t, err)
		told := to.Query()
		if p.StatusCode != http.StatusSeeOther || to.Host != "claude.ai" || told.Get("tenant") != "a" || told.Get("error") != tt.code || told.Get("error_description") == "" || told.Get("iss") != baseURL || told.Has("code") {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.Header.Get("Location"))
		}
		if state := told.Get("state"); len(tt.more["state"]) == 0 && state != "s t&te" {
			t.Errorf("%s: the state is %q", name, state)
		}
	}
	local := b.application("App", redirect)
	if told := b.told(b.get(local.query(url.Values{"prompt": {"none"}}))); told.Get("error") != "login_required" {
		t.Errorf("a program on this computer is told %v", told)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM login_session"); n != 0 {
		t.Errorf("%d logins began", n)
	}
	for scope, want := range map[string]string{"": "media:read media:write", "media:read offline_access openid": "media:read", "media:write media:read": "media:read media:write"} {
		p := b.get(app.query(url.Values{"scope": {scope}}))
		if p.StatusCode != http.StatusOK {
			t.Errorf("scope %q: %d", scope, p.StatusCode)
		}
		if n := w.QueryInt(t, `SELECT count(*) FROM login_session WHERE authorization_request->>'scopes' = $1`, `["`+strings.ReplaceAll(want, " ", `", "`)+`"]`); n != 1 {
			t.Errorf("scope %q did not become %q", scope, want)
		}
		w.exec(t, "DELETE FROM login_session")
	}
}

func TestAnyPortOfTheComputerWillDo(t *testing.T) {
	t.Parallel()
	b := newWorld(t).replica(t).browser(t)
	app := b.application("App", "http://localhost/callback", "cursor://anysphere.cursor-mcp/oauth/callback")
	for uri, want := range map[string]int{
		"http://localhost:33418/callback":              http.StatusOK,
		"http://localhost/callback":                    http.StatusOK,
		"cursor://anysphere.cursor-mcp/oauth/callback": http.StatusOK,
		"http://127.0.0.1:33418/callback":              http.StatusBadRequest,
		"http://localhost:33418/other":                 http.StatusBadRequest,
		"cursor://anysphere.cursor-mcp/other":          http.StatusBadRequest,
	} {
		if p := b.get(app.query(url.Values{"redirect_uri": {uri}})); p.StatusCode != want {
			t.Errorf("%s: %d", uri, p.StatusCode)
		}
	}
}

func TestRegistrations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.replica(t).browser(t)
	many := func(n int) []string {
		var uris []string
		for i := range n {
			uris = append(uris, "https://app.test/"+strings.Repeat("x", i+1))
		}
		return uris
	}
	status, made := b.json("/oauth/register", map[string]any{"client_name": "Cursor\u202e\n  x", "client_uri": "javascript:alert(1)", "logo_uri": "https://evil.test/", "token_endpoint_auth_method": "client_secret_basic",
		"redirect_uris": []string{"cursor://anysphere.cursor-mcp/oauth/callback", "http://evil.test/", "http://localhost:8080/cb", "other://x"}})
	for _, name := range []string{"\u3164", "\u2800", "\u115f\u1160", "\uffa0 \ufe0f"} {
		if _, made := b.json("/oauth/register", map[string]any{"client_name": name, "redirect_uris": many(1)}); made["client_name"] != "app.test" {
			t.Errorf("%q is registered as %v", name, made["client_name"])
		}
	}
	for _, website := range []string{"https://a;sandbox/", "https://x,y/", "https://*.evil.test/"} {
		if _, made := b.json("/oauth/register", map[string]any{"client_name": "x", "client_uri": website, "redirect_uris": many(1)}); made["client_id"] == nil || made["client_uri"] != nil {
			t.Errorf("%s is a website: %v", website, made)
		}
	}
	if status != http.StatusCreated || made["client_name"] != "Cursor x" || made["token_endpoint_auth_method"] != "none" || len(made["redirect_uris"].([]any)) != 2 || made["client_secret"] != nil || made["client_uri"] != nil || made["logo_uri"] != nil {
		t.Errorf("%d %v", status, made)
	}
	before := w.QueryInt(t, "SELECT count(*) FROM oauth_client")
	for name, tt := range map[string]struct {
		sent   any
		status int
		err    string
	}{
		"no redirect":          {map[string]any{"client_name": "x"}, 400, "invalid_redirect_uri"},
		"none that is allowed": {map[string]any{"redirect_uris": []string{"http://evil.test/", "javascript:alert(1)"}}, 400, "invalid_redirect_uri"},
		"eleven":               {map[string]any{"redirect_uris": many(11)}, 400, "invalid_redirect_uri"},
		"a list":               {[]int{1}, 400, "invalid_client_metadata"},
		"another type":         {map[string]any{"redirect_uris": "https://app.test/"}, 400, "invalid_client_metadata"},
		"more than 8 KiB":      {map[string]any{"client_name": strings.Repeat("x", 9<<10), "redirect_uris": many(1)}, 413, "invalid_client_metadata"},
	} {
		if status, response := b.json("/oauth/register", tt.sent); status != tt.status || response["error"] != tt.err {
			t.Errorf("%s: %d %v", name, status, response)
		}
	}
	if after := w.QueryInt(t, "SELECT count(*) FROM oauth_client"); after != before {
		t.Errorf("%d applications were registered by that", after-before)
	}
	if _, again := b.json("/oauth/register", map[string]any{"client_name": "Cursor x", "redirect_uris": []string{"http://localhost:8080/cb", "cursor://anysphere.cursor-mcp/oauth/callback"}}); again["client_id"] != made["client_id"] {
		t.Error("the same words gave another id")
	}
}

func TestLoginsBeginAsOftenAsALimitAllows(t *testing.T) {
	t.Parallel()
	b := newWorld(t).replica(t, func(o *options) { o.limits.Logins, o.limits.LoginsBurst = 1, 3 }).browser(t)
	app := b.application("App")
	for i := range 4 {
		p := b.get(app.query(nil))
		if want := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[i < 3]; p.StatusCode != want {
			t.Errorf("login %d: %d", i, p.StatusCode)
		}
	}
}

// hosts answer for the applications that describe themselves: those of good.test do.
type hosts struct{ asked atomic.Int64 }

func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	h.asked.Add(1)
	if r.URL.Host != "good.test" {
		return nil, errors.New("no such host")
	}
	document, err := json.Marshal(map[string]any{"client_id": r.URL.String(), "client_name": "Good", "redirect_uris": []string{redirect}})
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(document))}, err
}

func TestAFetchIsMadeForThoseWhoMayBeginALogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, want := range map[string]int{"good.test": http.StatusOK, "evil.test": http.StatusBadRequest} {
		answering := &hosts{}
		b := w.replica(t, func(o *options) { o.limits.Logins, o.limits.LoginsBurst, o.documents = 1, 3, answering }).browser(t)
		for i := range 6 {
			app := application{id: fmt.Sprintf("https://%s/%d", name, i), redirect: redirect, verifier: verifier}
			wanted := http.StatusTooManyRequests
			if i < 3 { // one login is counted once
				wanted = want
			}
			if p := b.get(app.query(nil)); p.StatusCode != wanted {
				t.Errorf("%s, %d: %d %s", name, i, p.StatusCode, p.body)
			}
		}
		if n := answering.asked.Load(); n != 3 {
			t.Errorf("%s was asked %d times", name, n)
		}
	}
}
