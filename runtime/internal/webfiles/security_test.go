package webfiles_test

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
	nethtml "golang.org/x/net/html"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
)

// forms are the forms of the page, with all their fields but request and csrf.
func forms(of runtimetest.Tenant, item string) map[string]url.Values {
	fields := url.Values{"account": {of.Account.ID.String()}, "item": {item}, "permanent": {"1"}}
	edit := url.Values{"account": fields["account"], "item": fields["item"], "name": {"changed.txt"}, "caption": {"changed"}, "key0": {"changed"}, "value0": {"x"}, "lifetime": {"1h"}}
	many := url.Values{"account": fields["account"], "item0": fields["item"], "action": {"public"}}
	return map[string]url.Values{"/account/files/selected": many, "/account/files/edit": edit, "/account/files/share": edit, "/account/files/seal": fields, "/account/files/delete": fields, "/account/files/restore": fields}
}

func TestFiles_FormsOfOtherSitesAndSessionsChangeNothing(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	draft := rt.Item(t, w, tenant, "a.txt", "a", false)
	b, other, anonymous := rt.Browser(t), rt.Browser(t), rt.Browser(t)
	p, foreign := b.Login("/account/files", webtest.Owner), other.Login("/account/files", webtest.Owner)
	before := w.Rows(t)
	site := func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	same := func(*http.Request) {}
	type attack struct {
		by     *webtest.Browser
		token  func() string
		change func(*http.Request)
		status int
	}
	own := func() string { return p.Fields().Get("csrf") }
	attacks := map[string]attack{
		"from another site":           {b, own, site, http.StatusForbidden},
		"from a sibling of the host":  {b, own, func(r *http.Request) { site(r); r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		"from an opaque origin":       {b, own, func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") }, http.StatusForbidden},
		"without a token":             {b, func() string { return "" }, same, http.StatusForbidden},
		"with a made-up token":        {b, func() string { return strings.Repeat("A", 43) }, same, http.StatusForbidden},
		"with another session's":      {b, func() string { return foreign.Fields().Get("csrf") }, same, http.StatusForbidden},
		"by a browser without cookie": {anonymous, own, same, http.StatusNotFound},
		"by another session":          {other, own, same, http.StatusNotFound},
	}
	for name, tt := range attacks {
		for path, fields := range forms(tenant, draft.ID.String()) {
			sent := url.Values{"request": {p.Fields().Get("request")}, "csrf": {tt.token()}}
			for field := range fields {
				sent.Set(field, fields.Get(field))
			}
			if got := tt.by.Send(path, p, sent, tt.change); got.StatusCode != tt.status {
				t.Errorf("%s, %s: %d, want %d", path, name, got.StatusCode, tt.status)
			}
		}
		to, err := url.Parse(p.Action(t, "/account/files/upload"))
		must(t, err)
		query := to.Query()
		query.Set("csrf", tt.token())
		to.RawQuery = query.Encode()
		// The body is not asked for: the token is checked before.
		body, kind := webtest.MultipartBody(t, webtest.File("b.txt", "b"))
		untouched := runtimetest.NewPausedBody(strings.NewReader(body), strings.NewReader(""))
		untouched.Release()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, runtimetest.Absolute(to.String()), io.NopCloser(countReads{untouched, func() { t.Errorf("%s: the body of an upload was read", name) }}))
		must(t, err)
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Origin", webtest.BaseURL)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		runtimetest.Expect(r.Header)
		tt.change(r)
		if got := tt.by.Do(r); got.StatusCode != tt.status {
			t.Errorf("upload, %s: %d, want %d", name, got.StatusCode, tt.status)
		}
	}
	if w.Rows(t) != before {
		t.Error("an item was changed")
	}
	b.Change("seal", p, tenant, draft.ID.String()).Says(t, http.StatusOK, "The file is kept.")
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
	w := webtest.NewWorld(t)
	mine, theirs := w.Undoable(t, "mine", webtest.Owner), w.Undoable(t, "theirs", "bo@example.org")
	beside := w.AddApp(t, mine, "beside")
	rt := w.Replica(t)
	items := map[string]string{
		"a draft of another account":      rt.Item(t, w, theirs, "secret-a.txt", "a", false).ID.String(),
		"a file of another account":       rt.Item(t, w, theirs, "secret-b.txt", "b", true).ID.String(),
		"a file of another app":           rt.Item(t, w, beside, "secret-c.txt", "c", true).ID.String(),
		"a missing one":                   uuid.Must(uuid.NewV7()).String(),
		"no id":                           "../../etc/passwd",
		"a deleted one of another tenant": rt.Item(t, w, theirs, "secret-d.txt", "d", true).ID.String(),
	}
	if _, err := rt.Media.Delete(t.Context(), w.Principal(t, theirs), uuid.MustParse(items["a deleted one of another tenant"]), media.DeleteOptions{Agent: true}); err != nil {
		t.Fatal(err)
	}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	if names := p.Names(); len(names) != 0 {
		t.Errorf("the page lists %v", names)
	}
	before := w.Rows(t)
	request := p.Fields().Get("request")
	answers := map[string]map[string]string{}
	record := func(path, item string, got webtest.Page) {
		if answers[path] == nil {
			answers[path] = map[string]string{}
		}
		answers[path][item] = fmt.Sprint(got.StatusCode, regexp.MustCompile(`data-ends="\d+"`).ReplaceAllString(got.Text, "")) // the time goes on
		got.Says(t, http.StatusNotFound, "There is no such file.")
	}
	for what, item := range items {
		for path, fields := range forms(mine, item) {
			record(path, what, b.Send(path, p, fields))
		}
		record("the page", what, b.Get("/account/files/view?"+url.Values{"request": {request}, "account": {mine.Account.ID.String()}, "item": {item}}.Encode()))
		record("the question", what, b.Get("/account/files/delete?"+url.Values{"request": {request}, "account": {mine.Account.ID.String()}, "item": {item}}.Encode()))
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
			b.Send(path, p, fields).Says(t, http.StatusForbidden, "There is no such account, or you do not own it (any more).")
		}
		b.Get("/account/files?request="+request+"&account="+id).Says(t, http.StatusForbidden, "There is no such account, or you do not own it (any more).")
		to := strings.Replace(p.Action(t, "/account/files/upload"), mine.Account.ID.String(), id, 1)
		b.SendFile(to, []webtest.Part{webtest.File("a.txt", "a")}).Says(t, http.StatusForbidden, "There is no such account")
	}
	if w.Rows(t) != before {
		t.Error("an item was changed")
	}
}

func TestFiles_EndWithTheSessionAndTheAccount(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	draft := rt.Item(t, w, tenant, "a.txt", "a", false)
	submit := func(b *webtest.Browser, p webtest.Page, status int, text string) {
		t.Helper()
		before := w.Rows(t)
		for path, fields := range forms(tenant, draft.ID.String()) {
			b.Send(path, p, fields).Says(t, status, text)
		}
		b.SendFile(p.Action(t, "/account/files/upload"), []webtest.Part{webtest.File("b.txt", "b")}).Says(t, status, text)
		if w.Rows(t) != before {
			t.Error("an item was changed")
		}
	}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	const denied = "There is no such account, or you do not own it (any more)."
	for name, change := range map[string]func(*account.Spec){
		"suspended": func(s *account.Spec) { s.Suspended = true },
		"removed":   func(s *account.Spec) { s.Owners = []string{"bo@example.org"} },
	} {
		w.Change(t, tenant, change)
		submit(b, p, http.StatusForbidden, denied)
		b.Get(p.Action(t, "/account/files")+"&account="+tenant.Account.ID.String()).Says(t, http.StatusForbidden, denied)
		if got := b.Get("/account/files"); got.StatusCode != http.StatusOK || !strings.Contains(got.Text, "There is no account whose files you can see.") {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Text)
		}
		w.Change(t, tenant, func(*account.Spec) {})
	}
	out := b.Post("/account/connections/logout", p, nil)
	out.Says(t, http.StatusOK, "logged out", "See, add and delete the files of your account.")
	submit(b, p, http.StatusNotFound, "Login expired")

	p = b.Login("/account/files", webtest.Owner)
	rt.Clock.Advance(16 * time.Minute)
	submit(b, p, http.StatusNotFound, "/account/files") // where to begin again
	if again := b.Get("/account/files?request=" + p.Fields().Get("request")); !strings.Contains(again.Text, `name="email"`) {
		t.Errorf("an expired session shows %s", again.Text)
	}
	// A login for an application sees no files.
	app := b.Application("App")
	consent := b.Login(app.Query(nil), webtest.Owner)
	for path, fields := range forms(tenant, draft.ID.String()) {
		b.Send(path, consent, fields).Says(t, http.StatusUnauthorized, "Log in first.")
	}
	if got := b.Get("/account/files?request=" + consent.Fields().Get("request") + "&account=" + tenant.Account.ID.String()); strings.Contains(got.Text, "a.txt") || !strings.Contains(got.Text, "Allow") {
		t.Errorf("with the login of an application: %s", got.Text)
	}
}

// noScripts returns a page without the scripts of the service.
func noScripts(page string) string {
	return regexp.MustCompile(`<script src="/oauth/assets/[a-z]+\.js\?v=[0-9a-f]+" defer></script>`).ReplaceAllString(page, "")
}

// runsNothing requires a page that runs no script but those of the service, loads no picture and changes no direction.
func runsNothing(t *testing.T, p webtest.Page) {
	t.Helper()
	root, err := nethtml.Parse(strings.NewReader(noScripts(p.Text)))
	must(t, err)
	for n := range root.Descendants() {
		if n.Type != nethtml.ElementNode {
			continue
		}
		if n.Data == "script" || n.Data == "img" || n.Data == "iframe" || n.Data == "video" {
			t.Errorf("the page has a %s %v", n.Data, n.Attr)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.HasPrefix(strings.ToLower(strings.TrimSpace(a.Val)), "javascript:") && (a.Key == "href" || a.Key == "src" || a.Key == "action") {
				t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
			}
		}
	}
	if strings.ContainsAny(p.Text, "\u202a\u202b\u202d\u202e\u2066\u2067\u2068") {
		t.Error("the page has a text that changes the direction")
	}
}

// itemOf returns the id of the first file of a list.
func itemOf(t *testing.T, list webtest.Page) string {
	t.Helper()
	to, err := url.Parse(list.Action(t, "/account/files/view"))
	must(t, err)
	return to.Query().Get("item")
}

// What others named their files is shown as text, and what they sent is not run.
func TestFiles_HostileFilesStayFiles(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	const script = `"><script>alert(1)</script>`
	svg := `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
	for name, content := range map[string]string{script + ".svg": svg, "\u202egpj.html": "<html><body onload=alert(1)>", "javascript:alert(1)": "x", "a%0d%0aSet-Cookie: x=1.txt": "x"} {
		got := b.Upload(p, name, content, webtest.Field("caption", script), webtest.Field("group", "' onfocus=alert(1) x='"), webtest.Field("metadata", `{"title": "<script>"}`))
		got.Says(t, http.StatusOK, "The file was uploaded.")
	}
	page := b.Get("/account/files")
	runsNothing(t, page)
	if n := strings.Count(page.Text, html.EscapeString(script)); n < 4 { // the captions
		t.Errorf("the texts are shown %d times", n)
	}
	links := page.Actions("/account/files/view")
	if len(links) != 4 {
		t.Fatalf("%d links", len(links))
	}
	for _, link := range links {
		view := b.Get(link)
		view.Says(t, http.StatusOK, script)
		runsNothing(t, view)
		target := linkTo(t, view, "Open")
		if !strings.HasPrefix(target, webtest.BaseURL+"/media/file/") {
			t.Errorf("a link leads to %s", target)
		}
		file := b.Get(target)
		if kind := file.Header.Get("Content-Type"); (strings.Contains(kind, "svg") || strings.Contains(kind, "html")) && !strings.HasPrefix(file.Header.Get("Content-Disposition"), "attachment") || file.Header.Get("X-Content-Type-Options") != "nosniff" || file.StatusCode != http.StatusOK {
			t.Errorf("%s is sent with %v", target, file.Header)
		}
	}
	// Nor do parameters become headers or addresses of other sites.
	item := rt.Item(t, w, tenant, "x.txt", "x", false).ID.String()
	for _, back := range []string{"state=draft%0d%0aSet-Cookie:%20a=b", "//evil.example/?x=1", "state=draft&account=" + uuid.NewString() + "&request=x&done=sealed&deleted=" + uuid.NewString(), "%zz", "name=" + url.QueryEscape("a\r\nSet-Cookie: a=b")} {
		got := b.Send("/account/files/seal", p, url.Values{"account": {tenant.Account.ID.String()}, "item": {item}, "back": {back}})
		location, err := url.Parse(got.Header.Get("Location"))
		must(t, err)
		query := location.Query()
		if got.StatusCode != http.StatusSeeOther || location.Host != "" || location.Path != "/account/files" || len(got.Header.Values("Set-Cookie")) != 0 ||
			query.Get("account") != tenant.Account.ID.String() || query.Get("request") != p.Fields().Get("request") || query.Get("done") != "sealed" || query.Has("deleted") {
			t.Errorf("%q leads to %s with %v", back, location, got.Header)
		}
	}
}

func TestFiles_HaveSecurityHeaders(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	w := &webtest.World{Env: runtimetest.NewWith(t, testenv.Postgres(t), access)}
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	presigner, err := objectstore.NewPresigner(runtimetest.ObjectStoreConfig(access), "https://files.example:9000")
	must(t, err)
	stream := w.Replica(t, webtest.Many)
	redirect := w.Replica(t, webtest.Many, func(o *webtest.Options) {
		o.Delivery.Mode, o.Delivery.RedirectTTL, o.Presigner = delivery.Redirect, time.Minute, presigner
	})
	draft := stream.Item(t, w, tenant, "a.txt", "a", false)
	for images, rt := range map[string]*webtest.Replica{
		"'self' " + webtest.BaseURL:                                 stream,
		"'self' " + webtest.BaseURL + " https://files.example:9000": redirect,
	} {
		b := rt.Browser(t)
		p := b.Login("/account/files", webtest.Owner)
		id := "&account=" + tenant.Account.ID.String() + "&item=" + draft.ID.String()
		for name, page := range map[string]webtest.Page{
			"the page": p, "a failed upload": b.SendFile(p.Action(t, "/account/files/upload"), []webtest.Part{webtest.File("", "")}),
			"a failed form": b.Change("seal", p, tenant, uuid.NewString()), "the question": b.Get("/account/files/delete?request=" + p.Fields().Get("request") + id),
			"a file": b.Get("/account/files/view?request=" + p.Fields().Get("request") + id),
		} {
			want := "default-src 'none'; style-src 'self'; img-src " + images + "; script-src 'self'; connect-src 'self'; media-src " + images + "; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
			if got := page.Header.Get("Content-Security-Policy"); got != want {
				t.Errorf("%s has the policy %s, want %s", name, got, want)
			}
			if page.Header.Get("X-Frame-Options") != "DENY" || page.Header.Get("Cache-Control") != "no-store" || page.Header.Get("Referrer-Policy") != "same-origin" ||
				page.Header.Get("X-Content-Type-Options") != "nosniff" || page.Header.Get("Access-Control-Allow-Origin") != "" || strings.Contains(noScripts(page.Text), "<script") {
				t.Errorf("%s: %v", name, page.Header)
			}
		}
	}
}

func TestFiles_FollowTheToolPolicyAndHolds(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	draft := rt.Item(t, w, tenant, "a.txt", "a", false)
	b := rt.Browser(t)
	p := b.Get(b.Login("/account/files", webtest.Owner).Action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + "&state=draft")
	p.Says(t, http.StatusOK, "Keep", "Upload")
	rejected := func(status int, text string) {
		t.Helper()
		before := w.Rows(t)
		for path, fields := range forms(tenant, draft.ID.String()) {
			b.Send(path, p, fields).Says(t, status, text)
		}
		b.SendFile(p.Action(t, "/account/files/upload"), []webtest.Part{webtest.File("b.txt", "b")}).Says(t, status, text)
		shown := b.Get(p.Action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + "&state=draft")
		shown.Says(t, http.StatusOK, "a.txt")
		for _, path := range []string{"upload", "edit", "share", "signature", "seal", "delete", "restore"} {
			if regexp.MustCompile(`name="action" value="(keep|group|public|private|delete|restore)"`).MatchString(shown.Text) {
				t.Error("the page offers to change selected files")
			}
			for _, one := range []webtest.Page{shown, b.Get(shown.Action(t, "/account/files/view"))} {
				if found := one.Actions("/account/files/" + path); len(found) > 0 {
					t.Errorf("the page offers %v", found)
				}
			}
		}
		if w.Rows(t) != before {
			t.Error("an item was changed")
		}
	}
	w.Change(t, tenant, func(s *account.Spec) { s.ToolPolicy.ReadOnly = true })
	rejected(http.StatusForbidden, "This account does not allow logins to do this.")
	w.Change(t, tenant, func(s *account.Spec) {
		s.ToolPolicy = account.ToolPolicy{Tools: []string{string(account.ListMedia), string(account.UploadMedia)}}
	})
	p.Action(t, "/account/files/upload")
	b.Get(p.Action(t, "/account/files")+"&account="+tenant.Account.ID.String()+"&state=draft").Says(t, http.StatusForbidden, "This account does not allow logins to do this.")
	limited := b.Get(p.Action(t, "/account/files") + "&account=" + tenant.Account.ID.String())
	if limited.StatusCode != http.StatusOK || strings.Contains(limited.Text, "<meter") || len(limited.Actions("/account/files/upload")) != 1 || !strings.Contains(limited.Text, "draft=1") {
		t.Errorf("with two tools: %d %s", limited.StatusCode, limited.Text)
	}
	w.Change(t, tenant, func(*account.Spec) {})

	b.At(w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Writable = func() error { return fmt.Errorf("held") } }))
	rejected(http.StatusServiceUnavailable, "The service cannot change files at the moment.")
}

// The requests of an owner count towards the key for which the login stands. The token of an upload is
// in its URL, which is not logged.
func TestFiles_CountTowardsTheKeyAndLogNoToken(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, func(o *webtest.Options) { o.Limits.Key, o.Limits.KeyBurst = 0.001, 3 })
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner) // the first request
	to := p.Action(t, "/account/files/upload")
	if got := b.SendFile(to, []webtest.Part{webtest.File("secret-name.txt", "x")}); got.StatusCode != http.StatusSeeOther {
		t.Fatalf("the second request: %d", got.StatusCode)
	}
	b.Get("/account/files").Says(t, http.StatusOK, "secret-name.txt")
	limited := b.Get("/account/files")
	if limited.StatusCode != http.StatusTooManyRequests || limited.Header.Get("Retry-After") == "" || !strings.Contains(limited.Text, "Try again in") {
		t.Errorf("the fourth request: %d %s", limited.StatusCode, limited.Text)
	}
	if got := b.SendFile(to, []webtest.Part{webtest.File("b.txt", "x")}); got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("an upload over the limit: %d", got.StatusCode)
	}
	logs := rt.Logs.String()
	for what, secret := range map[string]string{"the CSRF token": p.Fields().Get("csrf"), "the file name": "secret-name", "the owner": webtest.Owner} {
		if strings.Contains(logs, secret) {
			t.Errorf("the log contains %s", what)
		}
	}
	if !strings.Contains(logs, `"route":"/account/files/upload"`) || !strings.Contains(logs, `"account":"`) {
		t.Errorf("the log does not say who uploaded: %s", logs)
	}
}
