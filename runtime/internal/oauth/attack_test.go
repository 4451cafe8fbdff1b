package oauth_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/edgetest"
)

const owner = "ana@example.org"

// eventually waits until something is so: changes reach replicas by notification.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

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
		"a private address": {"client_id": {"https://127.0.0.1/client.json"}},
	} {
		p := b.get(app.query(query))
		if p.StatusCode != http.StatusBadRequest || p.Header.Get("Location") != "" || !strings.Contains(p.body, "<h1") || strings.Contains(p.body, "evil.test") {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.body)
		}
	}
}

func TestWrongRequestsAreToldToTheApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.replica(t).browser(t)
	app := b.application("App", "https://app.test/cb?tenant=a")
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
		"an address of a page": {url.Values{"request_uri": {"https://evil.test/"}}, "request_not_supported"},
	} {
		p := b.get(app.query(tt.more))
		to, err := url.Parse(p.Header.Get("Location"))
		must(t, err)
		told := to.Query()
		if p.StatusCode != http.StatusSeeOther || to.Host != "app.test" || told.Get("tenant") != "a" || told.Get("error") != tt.code || told.Get("error_description") == "" || told.Get("iss") != baseURL || told.Has("code") {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.Header.Get("Location"))
		}
		if state := told.Get("state"); len(tt.more["state"]) == 0 && state != "s t&te" {
			t.Errorf("%s: the state is %q", name, state)
		}
	}
	if n := w.Number(t, "SELECT count(*) FROM login_request"); n != 0 {
		t.Errorf("%d logins began", n)
	}
	for scope, want := range map[string]string{"": "media:read media:write", "media:read offline_access openid": "media:read", "media:write media:read": "media:read media:write"} {
		p := b.get(app.query(url.Values{"scope": {scope}}))
		if p.StatusCode != http.StatusOK {
			t.Errorf("scope %q: %d", scope, p.StatusCode)
		}
		if n := w.Number(t, `SELECT count(*) FROM login_request WHERE ask->>'scopes' = $1`, `["`+strings.ReplaceAll(want, " ", `", "`)+`"]`); n != 1 {
			t.Errorf("scope %q did not become %q", scope, want)
		}
		w.exec(t, "DELETE FROM login_request")
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

func TestPagesAreGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	app := b.application("App", "https://app.test/cb")
	check := func(name string, p page, formsTo string) {
		t.Helper()
		policy := p.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'" + formsTo + ";"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %q", name, policy, want)
			}
		}
		if p.Header.Get("X-Frame-Options") != "DENY" || p.Header.Get("Cache-Control") != "no-store" || p.Header.Get("Referrer-Policy") != "same-origin" || p.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", name, p.Header)
		}
		if p.Header.Get("Access-Control-Allow-Origin") != "" || strings.Contains(p.body, "<script") {
			t.Errorf("%s can be read or run by others", name)
		}
	}
	first := b.get(app.query(nil))
	check("the first page", first, "")
	check("a problem", b.get("/oauth/login?request=x"), "")
	p := b.post("/oauth/login/email", first, url.Values{"address": {owner}})
	check("the page of the code", p, "")
	code, _ := b.rt.code(t, owner)
	p = b.post("/oauth/login/code", p, url.Values{"code": {code}})
	check("the consent", p, " https://app.test")
	p = b.send("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}})
	check("the redirect", p, "")
	if p.StatusCode != http.StatusSeeOther {
		t.Errorf("the redirect is %d", p.StatusCode)
	}
}

func TestFormsCountFromOurOwnPagesInTheSameBrowserOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t)
	b, thief := rt.browser(t), rt.browser(t)
	app := b.application("App")
	first := b.get(app.query(nil))
	theirs := thief.get(app.query(nil))
	foreign := map[string]func(*http.Request){
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "https://evil.test"); r.Header.Del("Sec-Fetch-Site") },
		"a cross-site form": func(r *http.Request) {
			r.Header.Set("Origin", "https://evil.test")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		},
		"an unknown origin": func(r *http.Request) { r.Header.Set("Origin", "null"); r.Header.Del("Sec-Fetch-Site") },
		"a neighbour": func(r *http.Request) {
			r.Header.Set("Origin", "https://x.media.test")
			r.Header.Set("Sec-Fetch-Site", "same-site")
		},
		"another type": func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
	}
	step := func(path string, from page, fields url.Values) {
		t.Helper()
		for name, change := range foreign {
			if p := b.post(path, from, fields, change); p.StatusCode != http.StatusForbidden && p.StatusCode != http.StatusBadRequest {
				t.Errorf("%s from %s: %d", path, name, p.StatusCode)
			}
		}
		for name, wrong := range map[string]url.Values{
			"no token":          {"csrf": {""}},
			"another's token":   {"csrf": {theirs.fields().Get("csrf")}},
			"another's request": {"request": {theirs.fields().Get("request")}},
			"no request":        {"request": {""}},
			"a field twice":     {"csrf": {from.fields().Get("csrf"), "x"}},
		} {
			sent := url.Values{}
			for k, v := range fields {
				sent[k] = v
			}
			for k, v := range wrong {
				sent[k] = v
			}
			if p := b.post(path, from, sent); p.StatusCode/100 != 4 {
				t.Errorf("%s with %s: %d", path, name, p.StatusCode)
			}
		}
		// The thief has the whole form, but another browser.
		if p := thief.post(path, from, fields); p.StatusCode != http.StatusNotFound {
			t.Errorf("%s from another browser: %d", path, p.StatusCode)
		}
	}
	step("/oauth/login/email", first, url.Values{"address": {owner}})
	if _, ok := rt.code(t, owner); ok {
		t.Error("a forged form had a code mailed")
	}
	p := b.post("/oauth/login/email", first, url.Values{"address": {owner}})
	code, _ := rt.code(t, owner)
	before := p
	step("/oauth/login/code", p, url.Values{"code": {code}})
	p = b.post("/oauth/login/code", p, url.Values{"code": {code}})
	allow := url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}
	step("/oauth/consent", p, allow)
	// The token of the page before the login is worth nothing after it.
	if p := b.post("/oauth/consent", before, allow); p.StatusCode != http.StatusForbidden {
		t.Errorf("the form from before the login: %d", p.StatusCode)
	}
	if n := w.Number(t, "SELECT count(*) FROM login_grant"); n != 0 {
		t.Errorf("%d grants by forged forms", n)
	}
	b.allow(p, tenant)
}

// A cookie that somebody planted before the login opens nothing after it (fixation).
func TestTheCookieChangesAtTheLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t)
	thief, victim := rt.browser(t), rt.browser(t)
	app := thief.application("App")
	planted := thief.get(app.query(nil))
	base, _ := url.Parse(baseURL)
	victim.http.Jar.SetCookies(base, thief.http.Jar.Cookies(base))
	p := victim.post("/oauth/login/email", planted, url.Values{"address": {owner}})
	code, _ := rt.code(t, owner)
	p = victim.post("/oauth/login/code", p, url.Values{"code": {code}})
	if p.StatusCode != http.StatusOK || !strings.Contains(p.body, "The studio") {
		t.Fatalf("the victim: %d", p.StatusCode)
	}
	if p := thief.get("/oauth/login?request=" + planted.fields().Get("request")); p.StatusCode != http.StatusNotFound {
		t.Errorf("the thief sees %d %s", p.StatusCode, p.body)
	}
	if p := thief.post("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}); p.StatusCode != http.StatusNotFound {
		t.Errorf("the thief consents: %d", p.StatusCode)
	}
}

// A second application in the same browser is not connected by the first one's login
// (the confused deputy).
func TestEveryApplicationNeedsALoginOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	good, evil := b.application("Good"), b.application("Evil", "https://evil.test/cb")
	consent := b.login(good.query(nil), owner)
	p := b.get(evil.query(nil))
	if p.StatusCode != http.StatusOK || !strings.Contains(p.body, `name="address"`) {
		t.Fatalf("the second application: %d %s", p.StatusCode, p.body)
	}
	mixed := url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}, "request": {p.fields().Get("request")}, "csrf": {p.fields().Get("csrf")}}
	if p := b.post("/oauth/consent", p, mixed); p.StatusCode != http.StatusOK || !strings.Contains(p.body, `name="address"`) {
		t.Errorf("consent without a login: %d %s", p.StatusCode, p.body)
	}
	if told := b.allow(consent, tenant); told.Get("code") == "" { // two tabs do not disturb each other
		t.Errorf("the first application: %v", told)
	}
	if n := w.Number(t, "SELECT count(*) FROM login_grant WHERE client_id = $1", evil.id); n != 0 {
		t.Error("the second application was connected")
	}
	p = b.get(good.query(nil))
	if !strings.Contains(p.body, `name="address"`) {
		t.Error("the first application is connected again without a login")
	}
}

func TestStrangersSeeWhatOwnersSee(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t)
	shown := func(address string) (page, string) {
		b := rt.browser(t)
		p := b.post("/oauth/login/email", b.get(b.application("App").query(nil)), url.Values{"address": {address}})
		text := strings.ReplaceAll(p.body, address, "ADDRESS")
		for _, name := range []string{"request", "csrf"} {
			text = strings.ReplaceAll(text, p.fields().Get(name), "FIELD")
		}
		return p, text
	}
	known, one := shown(owner)
	unknown, two := shown("eve@example.org")
	if known.StatusCode != unknown.StatusCode || one != two {
		t.Errorf("%d and %d\n%s\n%s", known.StatusCode, unknown.StatusCode, one, two)
	}
	for name := range known.Header {
		if name != "X-Request-Id" && name != "Date" && name != "Content-Length" && known.Header.Get(name) != unknown.Header.Get(name) {
			t.Errorf("%s: %q and %q", name, known.Header.Get(name), unknown.Header.Get(name))
		}
	}
	if _, ok := rt.code(t, "eve@example.org"); ok {
		t.Error("a stranger got a code")
	}
}

func TestTheLoginShowsItsProblemsBesideTheField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t)
	b := rt.browser(t)
	app := b.application("App")
	first := b.get(app.query(nil))
	if p := b.post("/oauth/login/email", first, url.Values{"address": {"ana"}}); p.StatusCode != http.StatusBadRequest || !strings.Contains(p.body, "Enter an e-mail address") || !strings.Contains(p.body, `value="ana"`) {
		t.Errorf("no address: %d %s", p.StatusCode, p.body)
	}
	p := b.post("/oauth/login/email", first, url.Values{"address": {owner}})
	right, _ := rt.code(t, owner)
	if again := b.post("/oauth/login/email", p, url.Values{"address": {owner}}); again.StatusCode != http.StatusTooManyRequests || again.Header.Get("Retry-After") == "" || !strings.Contains(again.body, "30 seconds") {
		t.Errorf("another code at once: %d %s", again.StatusCode, again.body)
	}
	wrong := "000000"
	if right == wrong {
		wrong = "000001"
	}
	for range 4 {
		if p := b.post("/oauth/login/code", p, url.Values{"code": {wrong}}); p.StatusCode != http.StatusBadRequest || !strings.Contains(p.body, "not the code") {
			t.Errorf("a wrong code: %d %s", p.StatusCode, p.body)
		}
	}
	rt.clock.Advance(31 * time.Second)
	resent := b.post("/oauth/login/email", p, url.Values{"address": {owner}})
	right, ok := rt.code(t, owner)
	if resent.StatusCode != http.StatusOK || !ok {
		t.Errorf("another code: %d", resent.StatusCode)
	}
	for range 2 { // the fifth is the last, whichever code it was for
		p = b.post("/oauth/login/code", resent, url.Values{"code": {wrong}})
	}
	if p.StatusCode != http.StatusNotFound || !strings.Contains(p.body, "oo many wrong codes") {
		t.Errorf("after five wrong codes: %d %s", p.StatusCode, p.body)
	}
	if p := b.post("/oauth/login/code", resent, url.Values{"code": {right}}); p.StatusCode != http.StatusNotFound {
		t.Errorf("the right code after five wrong ones: %d", p.StatusCode)
	}
	if p := b.get("/oauth/login?request=" + first.fields().Get("request") + "&change=1"); !strings.Contains(p.body, `name="address"`) {
		t.Errorf("another address: %d", p.StatusCode)
	}
	rt.clock.Advance(16 * time.Minute)
	if p := b.get("/oauth/login?request=" + first.fields().Get("request")); p.StatusCode != http.StatusNotFound || !strings.Contains(p.body, "This login is over") {
		t.Errorf("after its time: %d %s", p.StatusCode, p.body)
	}
}

func TestAPersonRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	app := b.application("App")
	p := b.login(app.query(nil), owner)
	told := b.told(b.send("/oauth/consent", p, url.Values{"decision": {"deny"}}))
	if told.Get("error") != "access_denied" || told.Get("state") != "s t&te" || told.Get("iss") != baseURL || told.Has("code") {
		t.Errorf("the application is told %v", told)
	}
	if p := b.post("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {tenant.Account.ID.String()}}); p.StatusCode != http.StatusNotFound {
		t.Errorf("consent after the refusal: %d", p.StatusCode)
	}
}

func TestAPersonChoosesAmongTheirOwnAccounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two, other := w.tenant(t, "one", owner), w.tenant(t, "two", owner), w.tenant(t, "other", "bo@example.org")
	b := w.replica(t).browser(t)
	app := b.application("App")
	p := b.login(app.query(nil), owner)
	for _, of := range []edgetest.Tenant{one, two} {
		if !strings.Contains(p.body, of.Account.ID.String()) {
			t.Errorf("%s is not offered", of.Account.Name)
		}
	}
	if strings.Contains(p.body, other.Account.ID.String()) {
		t.Error("another tenant's account is offered")
	}
	for name, fields := range map[string]url.Values{
		"no account":         {"decision": {"allow"}},
		"no decision":        {"account": {one.Account.ID.String()}},
		"another's account":  {"decision": {"allow"}, "account": {other.Account.ID.String()}},
		"one that never was": {"decision": {"allow"}, "account": {"0190a0a0-0000-7000-8000-000000000000"}},
		"garbage":            {"decision": {"allow"}, "account": {"x"}},
	} {
		if p := b.post("/oauth/consent", p, fields); p.StatusCode/100 != 4 || !strings.Contains(p.body, one.Account.ID.String()) {
			t.Errorf("%s: %d", name, p.StatusCode)
		}
	}
	status, tokens := b.redeem(app, b.allow(p, two).Get("code"))
	if status != http.StatusOK {
		t.Fatal(tokens)
	}
	if _, who := b.whoami(tokens["access_token"].(string)); who["account"] != two.Account.ID.String() {
		t.Errorf("connected to %v", who)
	}
}

func TestAPersonTakesAnotherAddressAfterTheLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "one", owner)
	two := w.tenant(t, "two", "bo@example.org")
	b := w.replica(t).browser(t)
	app := b.application("App")
	before := b.login(app.query(nil), owner)
	change := "/oauth/login?request=" + before.fields().Get("request") + "&change=1"
	p := b.login(change, "bo@example.org")
	if !strings.Contains(p.body, two.Account.ID.String()) {
		t.Fatalf("the consent: %d %s", p.StatusCode, p.body)
	}
	if p := b.post("/oauth/consent", before, url.Values{"decision": {"deny"}}); p.StatusCode != http.StatusNotFound {
		t.Errorf("the login before it: %d", p.StatusCode)
	}
	if told := b.allow(p, two); told.Get("code") == "" || told.Get("state") != "s t&te" {
		t.Errorf("the application is told %v", told)
	}
}

func TestTokensAreGivenForWhatFits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t, func(o *options) { o.login.CodesOfAddress, o.login.TriesOfAddress = 100, 100 })
	b := rt.browser(t)
	app, other := b.application("App"), b.application("Other")
	good := func(code string) url.Values {
		return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {app.id}, "redirect_uri": {app.redirect}, "code_verifier": {app.verifier}, "resource": {resource}}
	}
	granted := func() string { return b.allow(b.login(app.query(nil), owner), tenant).Get("code") }
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
		if status, answer := b.form("/oauth/token", form); status/100 != 4 || answer["error"] != tt.err {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	if status, answer := b.form("/oauth/token", good(code)); status != http.StatusOK { // what could not be read used nothing up
		t.Errorf("then right: %d %v", status, answer)
	}
	for name, change := range map[string]url.Values{
		"another application": {"client_id": {other.id}},
		"another redirect":    {"redirect_uri": {app.redirect + "x"}},
		"another verifier":    {"code_verifier": {strings.Repeat("v", 43)}},
	} {
		form := good(granted())
		for k, v := range change {
			form[k] = v
		}
		if status, answer := b.form("/oauth/token", form); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	// The address of a request is no place for parameters.
	if status, answer := b.form("/oauth/token?"+good(granted()).Encode(), url.Values{}); status != http.StatusBadRequest {
		t.Errorf("in the address: %d %v", status, answer)
	}
	access, refresh := b.connect(app, owner, tenant)
	for name, token := range map[string]string{"a refresh token": refresh, "a code": granted()} {
		if status, _ := b.whoami(token); status != http.StatusUnauthorized {
			t.Errorf("%s as access token: %d", name, status)
		}
	}
	if status, answer := b.refresh(other, refresh); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("another application refreshes: %d %v", status, answer)
	}
	if status, _ := b.whoami(access); status != http.StatusOK {
		t.Error("the connection suffered")
	}
	rt.clock.Advance(time.Hour)
	if status, _ := b.whoami(access); status != http.StatusUnauthorized {
		t.Errorf("an hour later: %d", status)
	}
	if status, _ := b.refresh(app, refresh); status != http.StatusOK {
		t.Errorf("refresh an hour later: %d", status)
	}
	if status, _ := b.refresh(app, refresh+"x"); status != http.StatusBadRequest {
		t.Errorf("garbage: %d", status)
	}
}

func TestTwentyRedemptionsOverTwoReplicasGiveOnePair(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	replicas := []*replica{w.replica(t), w.replica(t)}
	b := replicas[0].browser(t)
	app := b.application("App")
	code := b.allow(b.login(app.query(nil), owner), tenant).Get("code")
	var mu sync.Mutex
	var given []string
	var redeeming sync.WaitGroup
	for i := range 20 {
		each := replicas[i%2].browser(t)
		redeeming.Go(func() {
			status, answer := each.redeem(app, code)
			mu.Lock()
			defer mu.Unlock()
			if status == http.StatusOK {
				given = append(given, answer["access_token"].(string))
			} else if status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
				t.Errorf("%d %v", status, answer)
			}
		})
	}
	redeeming.Wait()
	if len(given) != 1 {
		t.Fatalf("%d pairs", len(given))
	}
	for _, rt := range replicas {
		if status, _ := rt.browser(t).whoami(given[0]); status != http.StatusUnauthorized {
			t.Errorf("after a replay the token is answered %d", status)
		}
	}
}

func TestEndsReachEveryReplicaAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	change := func(o *options) {
		o.login.CodesOfAddress, o.login.TriesOfAddress, o.login.CodesOfClient = 100, 100, 100
	}
	first, second := w.replica(t, change), w.replica(t, change)
	b := first.browser(t)
	app := b.application("App")
	back := func(t *testing.T) { t.Helper(); w.ensure(t, tenant, func(*account.Spec) {}) }
	for name, end := range map[string]func(t *testing.T, access, refresh string){
		"the owner is taken out": func(t *testing.T, _, _ string) {
			w.ensure(t, tenant, func(s *account.Spec) { s.Owners = []string{"bo@example.org"} })
		},
		"the account is suspended": func(t *testing.T, _, _ string) { w.ensure(t, tenant, func(s *account.Spec) { s.Suspended = true }) },
		"the key ends": func(t *testing.T, _, _ string) {
			_, _, err := w.Registry.IssueKey(t.Context(), tenant.App.ID, 2, 0)
			must(t, err)
		},
		"the application revokes it": func(t *testing.T, access, _ string) {
			if status, _ := b.form("/oauth/revoke", url.Values{"token": {access}, "client_id": {app.id}}); status != http.StatusOK {
				t.Errorf("revoke: %d", status)
			}
		},
		"the person ends it": func(t *testing.T, _, _ string) {
			p := b.login("/account/connections", owner)
			if p.StatusCode != http.StatusOK || !strings.Contains(p.body, "App") {
				t.Fatalf("the connections: %d %s", p.StatusCode, p.body)
			}
			if p = b.post("/account/connections/end", p, url.Values{"all": {"1"}}); p.StatusCode != http.StatusOK || !strings.Contains(p.body, "ended") {
				t.Errorf("end all: %d %s", p.StatusCode, p.body)
			}
		},
	} {
		access, refresh := b.connect(app, owner, tenant)
		other := second.browser(t)
		for _, at := range []*browser{b, other} { // now both remember the token
			if status, _ := at.whoami(access); status != http.StatusOK {
				t.Fatalf("%s: before: %d", name, status)
			}
		}
		end(t, access, refresh)
		for _, at := range []*browser{b, other} {
			eventually(t, name, func() bool { status, _ := at.whoami(access); return status == http.StatusUnauthorized })
			if status, _ := at.refresh(app, refresh); status != http.StatusBadRequest {
				t.Errorf("%s: refresh: %d", name, status)
			}
		}
		back(t)
		if status, _ := other.whoami(access); status != http.StatusUnauthorized {
			t.Errorf("%s: the token is back", name)
		}
	}
}

func TestOnesConnectionsAreOnesOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, theirs := w.tenant(t, "mine", owner), w.tenant(t, "theirs", "bo@example.org")
	rt := w.replica(t)
	b, other := rt.browser(t), rt.browser(t)
	app := b.application("App")
	access, _ := b.connect(app, owner, mine)
	foreign, _ := other.connect(app, "bo@example.org", theirs)
	id := func(of edgetest.Tenant) string {
		t.Helper()
		return w.text(t, "SELECT id::text FROM login_grant WHERE account_id = $1", of.Account.ID)
	}
	p := b.login("/account/connections", owner)
	if strings.Count(p.body, "App") == 0 || strings.Contains(p.body, "The theirs") {
		t.Errorf("the page shows %s", p.body)
	}
	b.post("/account/connections/end", p, url.Values{"connection": {id(theirs)}})
	if status, _ := b.whoami(foreign); status != http.StatusOK {
		t.Error("another person's connection was ended")
	}
	for _, fields := range []url.Values{{}, {"connection": {"x"}}, {"connection": {"00000000-0000-0000-0000-000000000000"}}, {"all": {"0"}}} {
		if p := b.post("/account/connections/end", p, fields); p.StatusCode != http.StatusBadRequest {
			t.Errorf("%v: %d", fields, p.StatusCode)
		}
	}
	if status, _ := b.whoami(access); status != http.StatusOK {
		t.Error("a form that could not be read ended a connection")
	}
	b.post("/account/connections/end", p, url.Values{"connection": {id(mine)}})
	eventually(t, "the connection has ended", func() bool { status, _ := b.whoami(access); return status == http.StatusUnauthorized })
	out := b.post("/account/connections/logout", p, nil)
	if out.StatusCode != http.StatusOK || !strings.Contains(out.body, "logged out") {
		t.Errorf("log out: %d %s", out.StatusCode, out.body)
	}
	if p := b.post("/account/connections/end", p, url.Values{"all": {"1"}}); p.StatusCode != http.StatusNotFound {
		t.Errorf("after logging out: %d", p.StatusCode)
	}
	// The login of an application opens no page of connections.
	consent := b.login(app.query(nil), owner)
	if p := b.post("/account/connections/end", consent, url.Values{"all": {"1"}}); p.StatusCode != http.StatusBadRequest {
		t.Errorf("with an application's login: %d", p.StatusCode)
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
	if status != http.StatusCreated || made["client_name"] != "Cursor x" || made["token_endpoint_auth_method"] != "none" || len(made["redirect_uris"].([]any)) != 2 || made["client_secret"] != nil || made["client_uri"] != nil || made["logo_uri"] != nil {
		t.Errorf("%d %v", status, made)
	}
	before := w.Number(t, "SELECT count(*) FROM login_client")
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
		if status, answer := b.json("/oauth/register", tt.sent); status != tt.status || answer["error"] != tt.err {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	if after := w.Number(t, "SELECT count(*) FROM login_client"); after != before {
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

func TestCookiesAreHeldToTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for base, want := range map[string]string{
		baseURL:              "login-",
		"https://media.test": "__Host-login-",
	} {
		b := w.replica(t, func(o *options) { o.base = base }).browser(t)
		app := b.application("App")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, absolute(app.query(url.Values{"resource": {base + "/mcp"}})), nil)
		must(t, err)
		for _, cookie := range b.do(r).Cookies() {
			if !strings.HasPrefix(cookie.Name, want) || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" || cookie.Secure != (want[0] == '_') || cookie.MaxAge < 800 || cookie.MaxAge > 900 {
				t.Errorf("%s: %+v", base, cookie)
			}
			want = ""
		}
		if want != "" {
			t.Errorf("%s sets no cookie", base)
		}
	}
}

func TestABrowserDoesNotDrownInCookies(t *testing.T) {
	t.Parallel()
	b := newWorld(t).replica(t).browser(t)
	app := b.application("App")
	base, _ := url.Parse(baseURL)
	for range 30 {
		b.get(app.query(nil))
		if n := len(b.http.Jar.Cookies(base)); n > 9 {
			t.Fatalf("%d cookies", n)
		}
	}
}

func TestALogOfTheWholeWayTellsNoSecret(t *testing.T) {
	t.Parallel()
	const owner = "maria@example.org" // in no text of a page
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t)
	b := rt.browser(t)
	app := b.application("App")
	p := b.post("/oauth/login/email", b.get(app.query(url.Values{"login_hint": {owner}})), url.Values{"address": {owner}})
	code, _ := rt.code(t, owner)
	b.post("/oauth/login/code", p, url.Values{"code": {code + "9"}})
	b.post("/oauth/login/email", p, url.Values{"address": {"no address but secret"}})
	p = b.post("/oauth/login/code", p, url.Values{"code": {code}})
	granted := b.allow(p, tenant).Get("code")
	status, tokens := b.redeem(app, granted)
	if status != http.StatusOK {
		t.Fatal(tokens)
	}
	access, refresh := tokens["access_token"].(string), tokens["refresh_token"].(string)
	b.whoami(access)
	_, more := b.refresh(app, refresh)
	b.redeem(app, granted) // a replay
	b.refresh(app, refresh)
	b.form("/oauth/revoke", url.Values{"token": {access}})
	base, _ := url.Parse(baseURL)
	secrets := map[string]string{"the code": code, "the authorization code": granted, "the access token": access, "the refresh token": refresh, "the address": owner, "what was typed": "no address but secret",
		"the state": "s t&te", "the verifier": app.verifier}
	if token, ok := more["access_token"].(string); ok {
		secrets["another access token"] = token
	}
	for _, cookie := range b.http.Jar.Cookies(base) {
		secrets["the cookie"] = cookie.Value
	}
	logged := rt.logs.String()
	for name, secret := range secrets {
		for _, form := range []string{secret, url.QueryEscape(secret)} {
			if name == "the code" {
				form = `"` + form + `"` // six digits stand in many a number
			}
			if strings.Contains(logged, form) {
				t.Errorf("%s is in the log: %s", name, logged[max(0, strings.Index(logged, form)-200):min(len(logged), strings.Index(logged, form)+100)])
			}
		}
	}
	for _, want := range []string{"m***@example.org", "logged in", "an application was connected", "the code was used before"} {
		if !strings.Contains(logged, want) {
			t.Errorf("the log says nothing of %q", want)
		}
	}
}

func TestAFailingDatabaseTellsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.replica(t)
	b := rt.browser(t)
	app := b.application("App")
	first := b.get(app.query(nil))
	w.exec(t, "ALTER TABLE login_request RENAME COLUMN address TO gone")
	w.exec(t, "ALTER TABLE login_client RENAME COLUMN name TO gone")
	w.exec(t, "ALTER TABLE login_token RENAME COLUMN hash TO gone")
	for name, p := range map[string]page{"authorize": b.get(app.query(nil)), "the login": b.get("/oauth/login?request=" + first.fields().Get("request")), "the address": b.post("/oauth/login/email", first, url.Values{"address": {owner}})} {
		if p.StatusCode != http.StatusInternalServerError || leaks(p.body) {
			t.Errorf("%s: %d %s", name, p.StatusCode, p.body)
		}
	}
	for name, answer := range map[string]func() (int, map[string]any){
		"register": func() (int, map[string]any) {
			return b.json("/oauth/register", map[string]any{"redirect_uris": []string{"https://new.test/"}})
		},
		"refresh": func() (int, map[string]any) { return b.refresh(app, "mrt_"+strings.Repeat("a", 43)) },
	} {
		status, body := answer()
		text, _ := json.Marshal(body)
		if status != http.StatusInternalServerError || body["error"] != "server_error" || leaks(string(text)) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

func leaks(text string) bool {
	for _, word := range []string{"SQL", "column", "login_", "pgx", "postgres"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
