package oauthhttp_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
)

// forms are the forms of the page, with all their fields but request and csrf.
func forms(of runtimetest.Tenant, item string) map[string]url.Values {
	fields := url.Values{"account": {of.Account.ID.String()}, "item": {item}, "permanent": {"1"}}
	return map[string]url.Values{"/account/files/seal": fields, "/account/files/delete": fields, "/account/files/restore": fields}
}

func TestFiles_FormsOfOtherSitesAndSessionsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.undoable(t, "studio", owner)
	rt := w.replica(t, many)
	draft := rt.item(t, w, tenant, "a.txt", "a", false)
	b, other, anonymous := rt.browser(t), rt.browser(t), rt.browser(t)
	p, foreign := b.login("/account/files", owner), other.login("/account/files", owner)
	before := w.rows(t)
	site := func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	same := func(*http.Request) {}
	type attack struct {
		by     *browser
		token  func() string
		change func(*http.Request)
		status int
	}
	own := func() string { return p.fields().Get("csrf") }
	attacks := map[string]attack{
		"from another site":           {b, own, site, http.StatusForbidden},
		"from a sibling of the host":  {b, own, func(r *http.Request) { site(r); r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		"from an opaque origin":       {b, own, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") }, http.StatusForbidden},
		"without a token":             {b, func() string { return "" }, same, http.StatusForbidden},
		"with a made-up token":        {b, func() string { return strings.Repeat("A", 43) }, same, http.StatusForbidden},
		"with another session's":      {b, func() string { return foreign.fields().Get("csrf") }, same, http.StatusForbidden},
		"by a browser without cookie": {anonymous, own, same, http.StatusNotFound},
		"by another session":          {other, own, same, http.StatusNotFound},
	}
	for name, tt := range attacks {
		for path, fields := range forms(tenant, draft.ID.String()) {
			sent := url.Values{"request": {p.fields().Get("request")}, "csrf": {tt.token()}}
			for field := range fields {
				sent.Set(field, fields.Get(field))
			}
			if got := tt.by.send(path, p, sent, tt.change); got.StatusCode != tt.status {
				t.Errorf("%s, %s: %d, want %d", path, name, got.StatusCode, tt.status)
			}
		}
		to, err := url.Parse(p.action(t, "/account/files/upload"))
		must(t, err)
		query := to.Query()
		query.Set("csrf", tt.token())
		to.RawQuery = query.Encode()
		// The body is not asked for: the token is checked before.
		body, kind := multipartBody(t, part{"file", "b.txt", "b"})
		untouched := runtimetest.NewPausedBody(strings.NewReader(body), strings.NewReader(""))
		untouched.Release()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, absolute(to.String()), io.NopCloser(countReads{untouched, func() { t.Errorf("%s: the body of an upload was read", name) }}))
		must(t, err)
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Origin", baseURL)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		runtimetest.Expect(r.Header)
		tt.change(r)
		if got := tt.by.do(r); got.StatusCode != tt.status {
			t.Errorf("upload, %s: %d, want %d", name, got.StatusCode, tt.status)
		}
	}
	if w.rows(t) != before {
		t.Error("an item was changed")
	}
	b.change("seal", p, tenant, draft.ID.String()).says(t, http.StatusOK, "The file was sealed")
}

// countReads calls read before each read.
type countReads struct {
	io.Reader
	read func()
}

// Read reads the next bytes.
func (c countReads) Read(p []byte) (int, error) { c.read(); return c.Reader.Read(p) }

func TestFiles_OfOthersAreMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, theirs := w.undoable(t, "mine", owner), w.undoable(t, "theirs", "bo@example.org")
	beside := w.AddApp(t, mine, "beside")
	rt := w.replica(t)
	items := map[string]string{
		"a draft of another account":      rt.item(t, w, theirs, "secret-a.txt", "a", false).ID.String(),
		"a file of another account":       rt.item(t, w, theirs, "secret-b.txt", "b", true).ID.String(),
		"a file of another app":           rt.item(t, w, beside, "secret-c.txt", "c", true).ID.String(),
		"a missing one":                   uuid.Must(uuid.NewV7()).String(),
		"no id":                           "../../etc/passwd",
		"a deleted one of another tenant": rt.item(t, w, theirs, "secret-d.txt", "d", true).ID.String(),
	}
	if _, err := rt.media.Delete(t.Context(), w.Principal(t, theirs), uuid.MustParse(items["a deleted one of another tenant"]), media.DeleteOptions{Agent: true}); err != nil {
		t.Fatal(err)
	}
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	if names := p.names(); len(names) != 0 {
		t.Errorf("the page lists %v", names)
	}
	before := w.rows(t)
	request := p.fields().Get("request")
	answers := map[string]map[string]string{}
	record := func(path, item string, got page) {
		if answers[path] == nil {
			answers[path] = map[string]string{}
		}
		answers[path][item] = fmt.Sprint(got.StatusCode, got.body)
		got.says(t, http.StatusNotFound, "There is no such file.")
	}
	for what, item := range items {
		for path, fields := range forms(mine, item) {
			record(path, what, b.send(path, p, fields))
		}
		record("the question", what, b.get("/account/files/delete?"+url.Values{"request": {request}, "account": {mine.Account.ID.String()}, "item": {item}}.Encode()))
	}
	for path, all := range answers {
		for what, got := range all {
			if got != all["a missing one"] {
				t.Errorf("%s: %s is answered %s, not as a missing one: %s", path, what, got, all["a missing one"])
			}
		}
	}

	// Nor does an account of others differ from a missing one.
	missing := uuid.NewString()
	for _, id := range []string{theirs.Account.ID.String(), missing, "x"} {
		for path, fields := range forms(mine, items["a missing one"]) {
			fields.Set("account", id)
			b.send(path, p, fields).says(t, http.StatusForbidden, "There is no such account, or you do not own it (any more).")
		}
		b.get("/account/files?request="+request+"&account="+id).says(t, http.StatusForbidden, "There is no such account, or you do not own it (any more).")
		to := strings.Replace(p.action(t, "/account/files/upload"), mine.Account.ID.String(), id, 1)
		b.sendFile(to, []part{{"file", "a.txt", "a"}}).says(t, http.StatusForbidden, "There is no such account")
	}
	if w.rows(t) != before {
		t.Error("an item was changed")
	}
}

func TestFiles_EndWithTheSessionAndTheAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.undoable(t, "studio", owner)
	rt := w.replica(t, many)
	draft := rt.item(t, w, tenant, "a.txt", "a", false)
	submit := func(b *browser, p page, status int, text string) {
		t.Helper()
		before := w.rows(t)
		for path, fields := range forms(tenant, draft.ID.String()) {
			b.send(path, p, fields).says(t, status, text)
		}
		b.sendFile(p.action(t, "/account/files/upload"), []part{{"file", "b.txt", "b"}}).says(t, status, text)
		if w.rows(t) != before {
			t.Error("an item was changed")
		}
	}
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	const denied = "There is no such account, or you do not own it (any more)."
	for name, change := range map[string]func(*account.Spec){
		"suspended": func(s *account.Spec) { s.Suspended = true },
		"removed":   func(s *account.Spec) { s.Owners = []string{"bo@example.org"} },
	} {
		w.Change(t, tenant, change)
		submit(b, p, http.StatusForbidden, denied)
		b.get(p.action(t, "/account/files")+"&account="+tenant.Account.ID.String()).says(t, http.StatusForbidden, denied)
		if got := b.get("/account/files"); got.StatusCode != http.StatusOK || !strings.Contains(got.body, "There is no account whose files you can see.") {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.body)
		}
		w.Change(t, tenant, func(*account.Spec) {})
	}
	out := b.post("/account/connections/logout", p, nil)
	out.says(t, http.StatusOK, "logged out", "See, add and delete the files of your account.")
	submit(b, p, http.StatusNotFound, "Login expired")

	p = b.login("/account/files", owner)
	rt.clock.Advance(16 * time.Minute)
	submit(b, p, http.StatusNotFound, "/account/files") // where to begin again
	if again := b.get("/account/files?request=" + p.fields().Get("request")); !strings.Contains(again.body, `name="email"`) {
		t.Errorf("an expired session shows %s", again.body)
	}
	// A login for an application sees no files.
	app := b.application("App")
	consent := b.login(app.query(nil), owner)
	for path, fields := range forms(tenant, draft.ID.String()) {
		b.send(path, consent, fields).says(t, http.StatusUnauthorized, "Log in first.")
	}
	if got := b.get("/account/files?request=" + consent.fields().Get("request") + "&account=" + tenant.Account.ID.String()); strings.Contains(got.body, "a.txt") || !strings.Contains(got.body, "Allow") {
		t.Errorf("with the login of an application: %s", got.body)
	}
}

// What others named their files is shown as text, and what they sent is not run.
func TestFiles_HostileFilesStayFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.undoable(t, "studio", owner)
	rt := w.replica(t)
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	const script = `"><script>alert(1)</script>`
	svg := `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
	for name, content := range map[string]string{script + ".svg": svg, "\u202egpj.html": "<html><body onload=alert(1)>", "javascript:alert(1)": "x", "a%0d%0aSet-Cookie: x=1.txt": "x"} {
		got := b.upload(p, name, content, part{"caption", "", script}, part{"group", "", "' onfocus=alert(1) x='"}, part{"metadata", "", `{"title": "<script>"}`})
		got.says(t, http.StatusOK, "The file was uploaded.")
	}
	page := b.get("/account/files")
	if strings.Contains(page.body, "<script") || strings.Contains(page.body, "\u202e") || regexp.MustCompile(`<[a-z]+[^>]* on[a-z]+=`).MatchString(page.body) || strings.Contains(page.body, `<img`) {
		t.Errorf("the page runs or loads what others sent: %s", page.body)
	}
	if n := strings.Count(page.body, html.EscapeString(script)); n < 4 {
		t.Errorf("the texts are shown %d times", n)
	}
	links := regexp.MustCompile(`<h3 id="file-\d+"><a href="([^"]*)"`).FindAllStringSubmatch(page.body, -1)
	if len(links) != 4 {
		t.Fatalf("%d links", len(links))
	}
	for _, link := range links {
		target := html.UnescapeString(link[1])
		if !strings.HasPrefix(target, baseURL+"/media/file/") {
			t.Errorf("a link leads to %s", target)
		}
		file := b.get(target)
		if kind := file.Header.Get("Content-Type"); (strings.Contains(kind, "svg") || strings.Contains(kind, "html")) && !strings.HasPrefix(file.Header.Get("Content-Disposition"), "attachment") || file.Header.Get("X-Content-Type-Options") != "nosniff" || file.StatusCode != http.StatusOK {
			t.Errorf("%s is sent with %v", target, file.Header)
		}
	}
	// Nor do parameters become headers or addresses of other sites.
	item := rt.item(t, w, tenant, "x.txt", "x", false).ID.String()
	for _, back := range []string{"state=draft%0d%0aSet-Cookie:%20a=b", "//evil.example/?x=1", "state=draft&account=" + uuid.NewString() + "&request=x&done=sealed&deleted=" + uuid.NewString(), "%zz", "name=" + url.QueryEscape("a\r\nSet-Cookie: a=b")} {
		got := b.send("/account/files/seal", p, url.Values{"account": {tenant.Account.ID.String()}, "item": {item}, "back": {back}})
		location, err := url.Parse(got.Header.Get("Location"))
		must(t, err)
		query := location.Query()
		if got.StatusCode != http.StatusSeeOther || location.Host != "" || location.Path != "/account/files" || len(got.Header.Values("Set-Cookie")) != 0 ||
			query.Get("account") != tenant.Account.ID.String() || query.Get("request") != p.fields().Get("request") || query.Get("done") != "sealed" || query.Has("deleted") {
			t.Errorf("%q leads to %s with %v", back, location, got.Header)
		}
	}
}

func TestFiles_HaveSecurityHeaders(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	w := &world{runtimetest.NewWith(t, testenv.Postgres(t), access)}
	tenant := w.tenant(t, "studio", owner)
	presigner, err := objectstore.NewPresigner(runtimetest.ObjectStoreConfig(access), "https://files.example:9000")
	must(t, err)
	stream := w.replica(t, many)
	redirect := w.replica(t, many, func(o *options) {
		o.delivery.Mode, o.delivery.RedirectTTL, o.presigner = delivery.Redirect, time.Minute, presigner
	})
	draft := stream.item(t, w, tenant, "a.txt", "a", false)
	for images, rt := range map[string]*replica{
		"'self' " + baseURL: stream,
		"'self' " + baseURL + " https://files.example:9000": redirect,
	} {
		b := rt.browser(t)
		p := b.login("/account/files", owner)
		id := "&account=" + tenant.Account.ID.String() + "&item=" + draft.ID.String()
		for name, page := range map[string]page{
			"the page": p, "a failed upload": b.sendFile(p.action(t, "/account/files/upload"), []part{{"file", "", ""}}),
			"a failed form": b.change("seal", p, tenant, uuid.NewString()), "the question": b.get("/account/files/delete?request=" + p.fields().Get("request") + id),
		} {
			want := "default-src 'none'; style-src 'self'; img-src " + images + "; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
			if got := page.Header.Get("Content-Security-Policy"); got != want {
				t.Errorf("%s has the policy %s, want %s", name, got, want)
			}
			if page.Header.Get("X-Frame-Options") != "DENY" || page.Header.Get("Cache-Control") != "no-store" || page.Header.Get("Referrer-Policy") != "same-origin" ||
				page.Header.Get("X-Content-Type-Options") != "nosniff" || page.Header.Get("Access-Control-Allow-Origin") != "" || strings.Contains(page.body, "<script") {
				t.Errorf("%s: %v", name, page.Header)
			}
		}
	}
}

func TestFiles_FollowTheToolPolicyAndHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.undoable(t, "studio", owner)
	rt := w.replica(t, many)
	draft := rt.item(t, w, tenant, "a.txt", "a", false)
	b := rt.browser(t)
	p := b.get(b.login("/account/files", owner).action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + "&state=draft")
	p.says(t, http.StatusOK, "Seal", "Delete", "Upload a file")
	rejected := func(status int, text string) {
		t.Helper()
		before := w.rows(t)
		for path, fields := range forms(tenant, draft.ID.String()) {
			b.send(path, p, fields).says(t, status, text)
		}
		b.sendFile(p.action(t, "/account/files/upload"), []part{{"file", "b.txt", "b"}}).says(t, status, text)
		shown := b.get(p.action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + "&state=draft")
		shown.says(t, http.StatusOK, "a.txt")
		for _, path := range []string{"upload", "seal", "delete", "restore"} {
			if found := shown.actions("/account/files/" + path); len(found) > 0 {
				t.Errorf("the page offers %v", found)
			}
		}
		if w.rows(t) != before {
			t.Error("an item was changed")
		}
	}
	w.Change(t, tenant, func(s *account.Spec) { s.ToolPolicy.ReadOnly = true })
	rejected(http.StatusForbidden, "This account does not allow logins to do this.")
	w.Change(t, tenant, func(s *account.Spec) {
		s.ToolPolicy = account.ToolPolicy{Tools: []string{string(account.ListMedia), string(account.UploadMedia)}}
	})
	p.action(t, "/account/files/upload")
	b.get(p.action(t, "/account/files")+"&account="+tenant.Account.ID.String()+"&state=draft").says(t, http.StatusForbidden, "This account does not allow logins to do this.")
	limited := b.get(p.action(t, "/account/files") + "&account=" + tenant.Account.ID.String())
	if limited.StatusCode != http.StatusOK || strings.Contains(limited.body, "<meter") || len(limited.actions("/account/files/upload")) != 1 || !strings.Contains(limited.body, "draft=1") {
		t.Errorf("with two tools: %d %s", limited.StatusCode, limited.body)
	}
	w.Change(t, tenant, func(*account.Spec) {})

	b.at(w.replica(t, many, func(o *options) { o.writable = func() error { return fmt.Errorf("held") } }))
	rejected(http.StatusServiceUnavailable, "The service cannot change files at the moment.")
}

// The requests of an owner count towards the key for which the login stands. The token of an upload is
// in its URL, which is not logged.
func TestFiles_CountTowardsTheKeyAndLogNoToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, func(o *options) { o.limits.Key, o.limits.KeyBurst = 0.001, 3 })
	b := rt.browser(t)
	p := b.login("/account/files", owner) // the first request
	to := p.action(t, "/account/files/upload")
	if got := b.sendFile(to, []part{{"file", "secret-name.txt", "x"}}); got.StatusCode != http.StatusSeeOther {
		t.Fatalf("the second request: %d", got.StatusCode)
	}
	b.get("/account/files").says(t, http.StatusOK, "secret-name.txt")
	limited := b.get("/account/files")
	if limited.StatusCode != http.StatusTooManyRequests || limited.Header.Get("Retry-After") == "" || !strings.Contains(limited.body, "Try again in") {
		t.Errorf("the fourth request: %d %s", limited.StatusCode, limited.body)
	}
	if got := b.sendFile(to, []part{{"file", "b.txt", "x"}}); got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("an upload over the limit: %d", got.StatusCode)
	}
	logs := rt.logs.String()
	for what, secret := range map[string]string{"the CSRF token": p.fields().Get("csrf"), "the file name": "secret-name", "the owner": owner} {
		if strings.Contains(logs, secret) {
			t.Errorf("the log contains %s", what)
		}
	}
	if !strings.Contains(logs, `"route":"/account/files/upload"`) || !strings.Contains(logs, `"account":"`) {
		t.Errorf("the log does not say who uploaded: %s", logs)
	}
}
