package oauthhttp_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/internal/runtimetest"
)

func TestStrangersSeeWhatOwnersSee(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, paused)
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
	// So it is within the pause, in another browser.
	known, one = shown(owner)
	unknown, two = shown("eve@example.org")
	if known.StatusCode != http.StatusTooManyRequests || unknown.StatusCode != known.StatusCode || one != two || !strings.Contains(one, "A code was sent just now.") {
		t.Errorf("within the pause: %d and %d\n%s\n%s", known.StatusCode, unknown.StatusCode, one, two)
	}
	if _, ok := rt.code(t, "eve@example.org"); ok {
		t.Error("a stranger got a code")
	}
}

func TestTheLoginShowsItsProblemsBesideTheField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, paused)
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
	wrong := "00000000"
	if right == wrong {
		wrong = "00000001"
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

// The page said "We sent a code to" nobody, and that the code had expired.
func TestLoginCode_WithoutAnAddressShowsTheEmailStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t)
	b := rt.browser(t)
	first := b.get(b.application("App").query(nil))
	for _, code := range []string{"12345678", "", "x"} {
		p := b.post("/oauth/login/code", first, url.Values{"code": {code}})
		if p.StatusCode != http.StatusBadRequest || !strings.Contains(p.body, "No code has been sent yet. Enter your e-mail address first.") ||
			!strings.Contains(p.body, `name="address"`) || strings.Contains(p.body, "We sent") {
			t.Errorf("the code %q: %d %s", code, p.StatusCode, p.body)
		}
	}
	// Nothing was used up, and the login goes on.
	if p := b.login("/oauth/login?request="+first.fields().Get("request"), owner); p.StatusCode != http.StatusOK {
		t.Errorf("after it: %d %s", p.StatusCode, p.body)
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
	for _, of := range []runtimetest.Tenant{one, two} {
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

func TestTheWebsiteIsLinkedWhenItsHostIsTrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	for website, want := range map[string]bool{"https://claude.ai/about": true, "https://claude.com/about": true, "https://evil.test/about": false, "https://claude.ai:8443/about": false} {
		_, made := b.json("/oauth/register", map[string]any{"client_name": "Claude " + website, "client_uri": website, "redirect_uris": []string{"https://claude.ai/cb"}})
		app := application{id: made["client_id"].(string), redirect: "https://claude.ai/cb", verifier: verifier}
		p := b.login(app.query(nil), owner)
		if p.StatusCode != http.StatusOK || !strings.Contains(p.body, "Allow") || strings.Contains(p.body, `href="`+website) != want {
			t.Errorf("%s: %d %s", website, p.StatusCode, p.body)
		}
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

func TestAnotherAddressIsNotASecondCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, paused)
	b := rt.browser(t)
	first := b.get(b.application("App").query(nil))
	b.post("/oauth/login/email", first, url.Values{"address": {"anna@example.org"}})
	p := b.post("/oauth/login/email", first, url.Values{"address": {owner}})
	if p.StatusCode != http.StatusOK || !strings.Contains(p.body, owner) || strings.Contains(p.body, "anna@example.org") || strings.Contains(p.body, "A new code") {
		t.Errorf("another address: %d %s", p.StatusCode, p.body)
	}
	if _, ok := rt.code(t, owner); !ok {
		t.Error("no code for the other address")
	}
	if p := b.post("/oauth/login/email", p, url.Values{"address": {owner}}); p.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the same again: %d", p.StatusCode)
	}
}

func TestAProgramIsOpenedByAPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	studio := w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	app := b.application("Cursor", "cursor://anysphere.cursor-mcp/oauth/callback")
	opened := func(p page) url.Values {
		t.Helper()
		match := regexp.MustCompile(`<meta http-equiv="refresh" content="0;url=([^"]*)">`).FindStringSubmatch(p.body)
		if p.StatusCode != http.StatusOK || match == nil || p.Header.Get("Cache-Control") != "no-store" || strings.Count(p.body, match[1]) != 2 {
			t.Fatalf("no page that opens it: %d %v %s", p.StatusCode, p.Header, p.body)
		}
		to, err := url.Parse(html.UnescapeString(match[1]))
		must(t, err)
		if to.Scheme != "cursor" || to.Host != "anysphere.cursor-mcp" || to.Path != "/oauth/callback" {
			t.Errorf("it opens %s", to)
		}
		return to.Query()
	}
	told := opened(b.send("/oauth/consent", b.login(app.query(nil), owner), url.Values{"decision": {"allow"}, "account": {studio.Account.ID.String()}}))
	if told.Get("state") != "s t&te" || told.Get("iss") != baseURL {
		t.Errorf("it is told %v", told)
	}
	if status, response := b.redeem(app, told.Get("code")); status != http.StatusOK {
		t.Errorf("tokens: %d %v", status, response)
	}
	if told := opened(b.send("/oauth/consent", b.login(app.query(nil), owner), url.Values{"decision": {"deny"}})); told.Get("error") != "access_denied" || told.Get("state") != "s t&te" || told.Has("code") {
		t.Errorf("after a refusal it is told %v", told)
	}
	if told := opened(b.get(app.query(url.Values{"scope": {"nothing"}}))); told.Get("error") != "invalid_scope" || told.Get("iss") != baseURL {
		t.Errorf("after a wrong wish it is told %v", told)
	}
}
