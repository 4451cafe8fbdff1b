package oauthhttp_test

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"image"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	nethtml "golang.org/x/net/html"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/settings"
)

// many permits any number of logins.
func many(o *options) {
	o.login.CodesPerEmail, o.login.AttemptsPerEmail, o.login.CodesPerIP = 100, 100, 1000
}

// undoable is a tenant whose deletes can be undone.
func (w *world) undoable(t *testing.T, name string, owners ...string) runtimetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, DisplayName: "The " + name, Owners: owners, MaxStorage: 64 << 20, MaxUploadSize: 24 << 20,
		Undo: account.Undo{Window: time.Hour, For: account.UndoAgents}})
}

// actions returns the URLs of the forms and links of a page that begin with a path.
func (p page) actions(path string) []string {
	var found []string
	for _, match := range regexp.MustCompile(`(?:action|formaction|href)="(`+regexp.QuoteMeta(path)+`\?[^"]*)"`).FindAllStringSubmatch(p.body, -1) {
		found = append(found, html.UnescapeString(match[1]))
	}
	return found
}

// action returns the first of them.
func (p page) action(t *testing.T, path string) string {
	t.Helper()
	found := p.actions(path)
	if len(found) == 0 {
		t.Fatalf("the page leads nowhere at %s: %d %s", path, p.StatusCode, p.body)
	}
	return found[0]
}

// part is a part of a multipart form.
type part struct{ name, file, value string }

// multipartBody returns the body of a form as browsers send it, with its type.
func multipartBody(t *testing.T, parts ...part) (string, string) {
	t.Helper()
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	for _, p := range parts {
		var to io.Writer
		var err error
		if p.name == "file" {
			to, err = writer.CreateFormFile(p.name, p.file)
		} else {
			to, err = writer.CreateFormField(p.name)
		}
		must(t, err)
		_, err = io.WriteString(to, p.value)
		must(t, err)
	}
	must(t, writer.Close())
	return body.String(), writer.FormDataContentType()
}

// sendFile posts a file to the URL of an upload form.
func (b *browser) sendFile(to string, parts []part, change ...func(*http.Request)) page {
	b.t.Helper()
	body, kind := multipartBody(b.t, parts...)
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, absolute(to), strings.NewReader(body))
	must(b.t, err)
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Origin", baseURL)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, apply := range change {
		apply(r)
	}
	return b.do(r)
}

// upload uploads a file with the form of the page and returns the next page.
func (b *browser) upload(p page, name, content string, more ...part) page {
	b.t.Helper()
	return b.follow(b.sendFile(p.action(b.t, "/account/files/upload"), append([]part{{"file", name, content}}, more...)))
}

// change posts a form about an item.
func (b *browser) change(action string, p page, of runtimetest.Tenant, item string, more ...string) page {
	b.t.Helper()
	fields := url.Values{"account": {of.Account.ID.String()}, "item": {item}}
	for i := 0; i+1 < len(more); i += 2 {
		fields.Set(more[i], more[i+1])
	}
	return b.post("/account/files/"+action, p, fields)
}

// says requires a page with these texts.
func (p page) says(t *testing.T, status int, texts ...string) {
	t.Helper()
	if p.StatusCode != status {
		t.Fatalf("%d, want %d: %s", p.StatusCode, status, p.body)
	}
	for _, text := range texts {
		if !strings.Contains(p.body, html.EscapeString(text)) {
			t.Errorf("the page lacks %q: %s", text, p.body)
		}
	}
}

// names returns the names of the files on a page, in order.
func (p page) names() []string {
	names := []string{}
	for _, match := range regexp.MustCompile(`<h3 id="file-\d+">(?:<a [^>]*>)?<bdi>([^<]*)</bdi>`).FindAllStringSubmatch(p.body, -1) {
		names = append(names, html.UnescapeString(match[1]))
	}
	return names
}

// item makes an item of a tenant, by the use cases.
func (rt *replica) item(t *testing.T, w *world, of runtimetest.Tenant, name, content string, seal bool) media.Item {
	t.Helper()
	p := w.Principal(t, of)
	upload, err := rt.media.Begin(t.Context(), p, 0)
	must(t, err)
	defer upload.Close(t.Context())
	must(t, upload.Receive(t.Context(), strings.NewReader(content), ""))
	item, err := upload.Commit(t.Context(), media.Fields{FileName: name})
	must(t, err)
	if seal {
		item, err = rt.media.Seal(t.Context(), p, item.ID)
		must(t, err)
	}
	return item
}

// rows returns the state of all items: it changes with each of them.
func (w *world) rows(t *testing.T) string {
	t.Helper()
	return w.text(t, "SELECT coalesce(string_agg(i::text, ',' ORDER BY i.id), '') FROM stored_item i")
}

// Each request of an owner goes to another replica than the one before.
func TestFiles_WorkAcrossReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.undoable(t, "studio", owner)
	replicas := []*replica{w.replica(t), w.replica(t)}
	b := replicas[0].browser(t)
	p := b.login("/account/files", owner)
	turn := 0
	next := func() { turn++; b.at(replicas[turn%2]) }
	p.says(t, http.StatusOK, "Files of", "The studio", "team/studio", "No files yet", "0 bytes of 64 MiB used")

	next()
	draft := p.actions("/account/files/upload")[1]
	p = b.follow(b.sendFile(draft, []part{{"file", "notes.txt", "hello"}, {"caption", "", "My notes"}, {"group", "", "Texts"}, {"access", "", "public"}}))
	p.says(t, http.StatusOK, "The file was uploaded as a draft.", "notes.txt", "My notes", "Texts", "Public", "Draft", "Expires", "5 bytes of 64 MiB used")
	id := p.fields().Get("item")
	next()
	if sealed := b.get("/account/files"); !slices.Equal(sealed.names(), []string{}) {
		t.Errorf("a draft is among the files: %v", sealed.names())
	}
	next()
	p = b.change("seal", p, tenant, id, "back", "state=draft")
	p.says(t, http.StatusOK, "The file was sealed", "No drafts")
	next()
	p = b.get("/account/files")
	p.says(t, http.StatusOK, "notes.txt", "1 file")
	next()
	p = b.change("delete", p, tenant, id)
	p.says(t, http.StatusOK, "The file was deleted.", "Undo", "No files yet")
	next()
	p = b.change("restore", p, tenant, id)
	p.says(t, http.StatusOK, "The file was restored.", "notes.txt")
	next()
	p = b.change("delete", p, tenant, id)
	next()
	p = b.get(p.action(t, "/account/files") + "&state=deleted")
	p.says(t, http.StatusOK, "Deleted files", "notes.txt", "Kept until", "Restore")
	next()
	b.change("restore", p, tenant, id, "back", "state=deleted").says(t, http.StatusOK, "The file was restored.", "No deleted files")
	next()
	p = b.upload(b.get("/account/files"), "photo.bin", "12345678")
	p.says(t, http.StatusOK, "The file was uploaded.", "photo.bin", "2 files", "13 bytes of 64 MiB used")
}

func TestFiles_ADeleteThatIsPermanentIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, undoable := w.tenant(t, "plain", owner), w.undoable(t, "undoable", "bo@example.org")
	rt := w.replica(t)
	sealed, draft := rt.item(t, w, plain, "a.txt", "a", true), rt.item(t, w, undoable, "b.txt", "b", false)
	for _, tt := range []struct {
		owner string
		of    runtimetest.Tenant
		item  media.Item
		state string
	}{{owner, plain, sealed, ""}, {"bo@example.org", undoable, draft, "draft"}} {
		b := rt.browser(t)
		b.login("/account/files", tt.owner)
		p := b.get("/account/files?request=" + b.get("/account/files").fields().Get("request") + "&account=" + tt.of.Account.ID.String() + "&state=" + tt.state)
		before := w.rows(t)
		// A form that nobody was asked about, as one from before the account lost its undo window.
		b.change("delete", p, tt.of, tt.item.ID.String(), "back", "state="+tt.state).says(t, http.StatusConflict, "This file would be deleted permanently.", tt.item.FileName)
		question := b.get(p.action(t, "/account/files/delete"))
		question.says(t, http.StatusOK, "Delete this file permanently?", tt.item.FileName, "This cannot be undone.", "Keep it")
		if w.rows(t) != before {
			t.Fatal("something changed before the user confirmed")
		}
		p = b.change("delete", question, tt.of, tt.item.ID.String(), "permanent", "1", "back", "state="+tt.state)
		p.says(t, http.StatusOK, "The file was deleted permanently.") // once it sounded like a delete that can be undone
		if len(p.names()) > 0 || strings.Contains(p.body, "Undo") {
			t.Errorf("after the delete: %s", p.body)
		}
		b.change("delete", question, tt.of, tt.item.ID.String(), "permanent", "1").says(t, http.StatusNotFound, "There is no such file.")
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM stored_item"); n != 0 {
		t.Errorf("%d items are left", n)
	}
}

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

// uploadHeld uploads a file, of which the end is sent after meanwhile.
func (b *browser) uploadHeld(t *testing.T, p page, meanwhile func()) page {
	t.Helper()
	body, kind := multipartBody(t, part{"file", "b.txt", "the content"})
	paused := runtimetest.NewPausedBody(strings.NewReader(body[:len(body)-20]), strings.NewReader(body[len(body)-20:]))
	answered := make(chan page, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, absolute(p.action(t, "/account/files/upload")), paused)
		if err != nil {
			panic(err)
		}
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		runtimetest.Expect(r.Header)
		answered <- b.do(r)
	}()
	paused.Wait(t)
	meanwhile()
	paused.Release()
	return <-answered
}

// An owner who is removed while the body of an upload arrives adds no file, and a session that
// expires meanwhile does not end the upload.
func TestFiles_CheckTheOwnerAtTheEndOfAnUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t, many)
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	b.uploadHeld(t, p, func() { w.Change(t, tenant, func(s *account.Spec) { s.Suspended = true }) }).says(t, http.StatusForbidden, "There is no such account")
	if n := w.QueryInt(t, "SELECT count(*) FROM stored_item"); n != 0 {
		t.Errorf("there are %d items", n)
	}
	w.Change(t, tenant, func(*account.Spec) {})
	if got := b.uploadHeld(t, p, func() { rt.clock.Advance(16 * time.Minute) }); got.StatusCode != http.StatusSeeOther {
		t.Errorf("a session that expired during the upload: %d %s", got.StatusCode, got.body)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM item WHERE sealed_at IS NOT NULL"); n != 1 {
		t.Errorf("there are %d sealed items", n)
	}
}

func TestFiles_RejectedUploadsShowThePageAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.Tenant(t, account.Spec{Name: "small", DisplayName: "Small", Owners: []string{owner}, MaxStorage: 3 << 20, MaxUploadSize: 2 << 20})
	rt := w.replica(t, func(o *options) { many(o); o.media.MaxUploads, o.media.UploadQueue = 1, 0 })
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	p.says(t, http.StatusOK, "One file of up to 2 MiB.")
	to := p.action(t, "/account/files/upload")
	big := strings.Repeat("x", 2<<20)
	for name, tt := range map[string]struct {
		parts  []part
		change func(*http.Request)
		status int
		text   string
	}{
		"no file chosen":    {[]part{{"file", "", ""}}, nil, http.StatusBadRequest, "Choose a file."},
		"no file field":     {[]part{{"caption", "", "x"}}, nil, http.StatusBadRequest, "Missing form field"},
		"too large":         {[]part{{"file", "a", big + "x"}}, nil, http.StatusRequestEntityTooLarge, "The file is too large. A file may have 2 MiB."},
		"a wrong access":    {[]part{{"access", "", "everyone"}, {"file", "a", "x"}}, nil, http.StatusBadRequest, "Access must be public or private."},
		"another form":      {nil, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType, "The body must be multipart/form-data."},
		"without boundary":  {nil, func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data") }, http.StatusBadRequest, "boundary"},
		"a caption of 5 KB": {[]part{{"caption", "", strings.Repeat("c", 5000)}, {"file", "a", "x"}}, nil, http.StatusBadRequest, "Caption must be at most 4096 bytes."},
	} {
		change := tt.change
		if change == nil {
			change = func(*http.Request) {}
		}
		got := b.sendFile(to, tt.parts, change)
		if got.StatusCode != tt.status || !strings.Contains(got.body, tt.text) || !strings.Contains(got.body, `<details class="upload" open>`) || !strings.Contains(got.body, `role="alert"`) {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.body)
		}
	}
	b.upload(p, "one.bin", big).says(t, http.StatusOK, "The file was uploaded.")
	b.upload(p, "two.bin", big).says(t, http.StatusRequestEntityTooLarge, "The file does not fit: the account may store 3 MiB in all.", "2 MiB of 3 MiB used")

	// One that stalls gives its slot back.
	stalling := w.replica(t, func(o *options) {
		many(o)
		o.media.MaxUploads, o.media.UploadQueue, o.stall = 1, 0, time.Second
	})
	b.at(stalling)
	body, kind := multipartBody(t, part{"file", "b.txt", "the content"})
	paused := runtimetest.NewPausedBody(strings.NewReader(body[:len(body)-20]), strings.NewReader(body[len(body)-20:]))
	answered := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, absolute(to), paused)
		if err == nil {
			r.Header.Set("Content-Type", kind)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			runtimetest.Expect(r.Header)
			var response *http.Response
			if response, err = b.http.Do(r); err == nil {
				_ = response.Body.Close()
				if response.StatusCode < 400 {
					err = fmt.Errorf("answered %d", response.StatusCode)
				}
			}
		}
		answered <- err
	}()
	paused.Wait(t)
	b.upload(p, "two.txt", "x").says(t, http.StatusTooManyRequests, "Too many uploads at once")
	wait.Until(t, "the slot is free", func() bool {
		return b.sendFile(to, []part{{"file", "three.txt", "x"}}).StatusCode == http.StatusSeeOther
	})
	paused.Release()
	if err := <-answered; err != nil {
		t.Logf("the client that stalled: %v", err)
	}
	if n := w.QueryInt(t, "SELECT count(*) FROM item WHERE account_id = $1 AND file_name = 'b.txt'", tenant.Account.ID); n != 0 {
		t.Error("the file that stalled is there")
	}
}

// sealFails is a service whose database goes away between an upload and its seal.
type sealFails struct{ oauthhttp.Media }

// Seal fails.
func (sealFails) Seal(context.Context, account.Principal, uuid.UUID) (media.Item, error) {
	return media.Item{}, fault.New(fault.Unavailable, "away")
}

// A user whose file was stored, but not sealed, is not led to upload it again.
func TestFiles_AnUploadThatIsNotSealedIsADraft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	b := w.replica(t, func(o *options) { o.useCases = func(all oauthhttp.Media) oauthhttp.Media { return sealFails{all} } }).browser(t)
	got := b.upload(b.login("/account/files", owner), "kept.txt", "x")
	got.says(t, http.StatusServiceUnavailable, "The file was uploaded as a draft, but could not be sealed. Seal it here.", "Expires")
	if !slices.Equal(got.names(), []string{"kept.txt"}) {
		t.Errorf("the page lists %v", got.names())
	}
}

// The body of an upload has the time of uploads: the owner is known before it is read. That of other
// forms has the time of requests without a credential.
func TestFiles_UploadsHaveTheTimeOfUploads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	b := w.replica(t).browser(t)
	p := b.login("/account/files", owner)
	b.at(w.replica(t, func(o *options) { o.anonymous = time.Nanosecond }))
	expect := func(r *http.Request) { runtimetest.Expect(r.Header) } // the body is not there before it is read
	if got := b.sendFile(p.action(t, "/account/files/upload"), []part{{"file", "a.txt", "a"}}, expect); got.StatusCode != http.StatusSeeOther {
		t.Errorf("an upload: %d %s", got.StatusCode, got.body)
	}
	if got := b.send("/account/files/seal", p, url.Values{"account": {tenant.Account.ID.String()}, "item": {uuid.NewString()}}, expect); got.StatusCode != http.StatusBadRequest {
		t.Errorf("another form: %d %s", got.StatusCode, got.body)
	}
}

func TestFiles_AreFilteredSortedAndPaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t, func(o *options) { o.oauth.FilesPerPage = 2 })
	for i, name := range []string{"delta.txt", "alpha.txt", "echo.txt", "bravo.txt", "charlie.pdf"} {
		content := strings.Repeat("x", i+1)
		if strings.HasSuffix(name, ".pdf") {
			content = "%PDF-1.7\n" + content
		}
		rt.item(t, w, tenant, name, content, true)
	}
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	all := func(query string) []string {
		t.Helper()
		names := []string{}
		for p := b.get(p.action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + query); ; {
			p.says(t, http.StatusOK)
			if len(p.names()) > 2 {
				t.Fatalf("a page has %v", p.names())
			}
			names = append(names, p.names()...)
			next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(p.body)
			if next == nil {
				return names
			}
			p = b.get(html.UnescapeString(next[1]))
			if !strings.Contains(p.body, "First page") {
				t.Error("no way back to the first page")
			}
		}
	}
	for query, want := range map[string]string{
		"":                             "charlie.pdf bravo.txt echo.txt alpha.txt delta.txt",
		"&sort=time":                   "delta.txt alpha.txt echo.txt bravo.txt charlie.pdf",
		"&sort=name":                   "alpha.txt bravo.txt charlie.pdf delta.txt echo.txt",
		"&sort=-size&name=&type=":      "charlie.pdf bravo.txt echo.txt alpha.txt delta.txt",
		"&name=H":                      "charlie.pdf echo.txt alpha.txt",
		"&type=text/*&sort=name":       "alpha.txt bravo.txt delta.txt echo.txt",
		"&type=application/pdf&name=c": "charlie.pdf",
		"&name=nothing":                "",
		"&state=draft":                 "",
	} {
		if got := strings.Join(all(query), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{"&sort=color", "&type=x", "&state=all", "&after=x", "&state=draft&sort=name", "&name=%00", "&state=deleted&page=x", "&state=deleted&page=0"} {
		if got := b.get(p.action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + query); got.StatusCode != http.StatusBadRequest || !strings.Contains(got.body, `role="alert"`) {
			t.Errorf("%s: %d %s", query, got.StatusCode, got.body)
		}
	}
}

func TestFiles_LookingChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.undoable(t, "studio", owner)
	rt := w.replica(t)
	draft, sealed := rt.item(t, w, tenant, "a.txt", "a", false), rt.item(t, w, tenant, "b.txt", "b", true)
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	before := w.rows(t)
	for _, path := range []string{"", "/upload", "/seal", "/delete", "/restore"} {
		for _, item := range []media.Item{draft, sealed} {
			query := url.Values{"request": {p.fields().Get("request")}, "csrf": {p.fields().Get("csrf")}, "account": {tenant.Account.ID.String()}, "item": {item.ID.String()},
				"permanent": {"1"}, "done": {"deleted"}, "deleted": {item.ID.String()}}
			if got := b.get("/account/files" + path + "?" + query.Encode()); got.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", path, got.StatusCode)
			}
		}
	}
	if w.rows(t) != before {
		t.Error("an item was changed")
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

func TestFiles_AnOwnerOfSeveralAccountsChooses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.tenant(t, "one", owner), w.tenant(t, "two", owner)
	other := w.tenant(t, "closed", owner, "bo@example.org")
	w.Change(t, other, func(s *account.Spec) { s.Suspended = true })
	rt := w.replica(t, many)
	rt.item(t, w, one, "of-one.txt", "1", true)
	rt.item(t, w, two, "of-two.txt", "2", true)
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	p.says(t, http.StatusOK, "Which account?", "The one", "team/one", "The two")
	if strings.Contains(p.body, "The closed") {
		t.Error("a suspended account is listed")
	}
	for id, name := range map[uuid.UUID]string{one.Account.ID: "of-one.txt", two.Account.ID: "of-two.txt"} {
		for _, link := range p.actions("/account/files") {
			if strings.Contains(link, id.String()) {
				shown := b.get(link)
				shown.says(t, http.StatusOK, "Choose another account")
				if !slices.Equal(shown.names(), []string{name}) {
					t.Errorf("%s shows %v", name, shown.names())
				}
			}
		}
	}
}

// A login leads to the page that it began at.
func TestLogin_LeadsToItsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt, without := w.replica(t, many), w.replica(t, many, func(o *options) { o.oauth.FilesPage = false })
	b := rt.browser(t)
	files := b.login("/account/files", owner)
	files.says(t, http.StatusOK, "Files of", "Authorized applications")
	b.get(files.action(t, "/account/connections")).says(t, http.StatusOK, "No authorized applications yet", "Files")
	apps := rt.browser(t).login("/account/connections", owner)
	apps.says(t, http.StatusOK, "No authorized applications yet")
	if len(apps.actions("/account/files")) != 1 {
		t.Errorf("the connections do not lead to the files: %s", apps.body)
	}

	// Another replica may have the page switched off.
	b.at(without)
	for _, path := range []string{"/account/files", "/account/files/delete"} {
		if got := b.get(path); got.StatusCode != http.StatusNotFound || strings.Contains(got.body, "<html") {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	if got := b.send("/account/files/seal", files, nil); got.StatusCode != http.StatusNotFound {
		t.Errorf("a form: %d", got.StatusCode)
	}
	shown := b.get("/account/connections")
	shown.says(t, http.StatusOK, "No authorized applications yet")
	if len(shown.actions("/account/files")) != 0 {
		t.Error("the connections lead to a page that does not exist")
	}
}

func TestFiles_HaveThumbnails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "studio", owner)
	rt := w.replica(t, func(o *options) { o.images = true })
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	p = b.upload(p, "red.png", string(imagetest.PNG(image.NewRGBA(image.Rect(0, 0, 640, 480)))))
	p.says(t, http.StatusOK, "The file was uploaded.")
	shown := regexp.MustCompile(`<img src="([^"]*)" alt=""`).FindStringSubmatch(p.body)
	if shown == nil {
		t.Fatalf("no thumbnail: %s", p.body)
	}
	thumbnail := b.get(html.UnescapeString(shown[1]))
	if thumbnail.StatusCode != http.StatusOK || !strings.HasPrefix(thumbnail.Header.Get("Content-Type"), "image/") || !strings.HasPrefix(html.UnescapeString(shown[1]), baseURL+"/media/file/") {
		t.Errorf("the thumbnail at %s: %d %v", shown[1], thumbnail.StatusCode, thumbnail.Header)
	}
}

// With useWebP the owner saw the conversion only, and never got the uploaded file back.
func TestFiles_OfferTheOriginalBesideItsConversion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio", owner)
	rt := w.replica(t, func(o *options) { o.images = true })
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	uploaded := string(imagetest.PNG(image.NewRGBA(image.Rect(0, 0, 64, 48))))
	links := func(p page) (names []string) {
		t.Helper()
		for _, link := range p.elements(t, "a") {
			if target := attributeOf(link, "href"); strings.HasPrefix(target, baseURL+"/media/file/") {
				file := b.get(target)
				file.says(t, http.StatusOK)
				names = append(names, textOf(link)+" "+file.Header.Get("Content-Type"))
				if textOf(link) == "Download original" && file.body != uploaded {
					t.Errorf("the original has %d bytes, not the %d that were uploaded", len(file.body), len(uploaded))
				}
			}
		}
		return names
	}
	p = b.upload(p, "plain.png", uploaded)
	if got := links(p); !slices.Equal(got, []string{"plain.png image/png"}) {
		t.Errorf("without a conversion the page leads to %q", got)
	}
	_, err := w.Settings.Update(t.Context(), tenant.Account.ID, settings.Layer{UseWebP: new(true)})
	must(t, err)
	for _, access := range []string{"private", "public"} {
		p = b.upload(p, access+".png", uploaded, part{"access", "", access})
		p.says(t, http.StatusOK, "Download original", "image/png")
		if got := links(p)[:2]; !slices.Equal(got, []string{access + ".png image/webp", "Download original image/png"}) {
			t.Errorf("beside a %s conversion the page leads to %q", access, got)
		}
	}
}

// What the user typed was lost with every error.
func TestFiles_AFailedUploadKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.Tenant(t, account.Spec{Name: "small", DisplayName: "Small", Owners: []string{owner}, MaxStorage: 3 << 20, MaxUploadSize: 2 << 20})
	rt := w.replica(t, many)
	b := rt.browser(t)
	p := b.login("/account/files", owner)
	// A browser sends the fields in the order of the form.
	var order []string
	for _, name := range []string{"input", "select"} {
		for _, field := range p.elements(t, name) {
			if name := attributeOf(field, "name"); name == "caption" || name == "group" || name == "file" {
				order = append(order, name)
			}
		}
	}
	if !slices.Equal(order, []string{"caption", "group", "file"}) || strings.Index(p.body, `name="access"`) > strings.Index(p.body, `name="file"`) {
		t.Errorf("the form sends %v", order)
	}
	const caption, group = `The "last" <evening>`, "Trip & more"
	typed := []part{{"caption", "", caption}, {"group", "", group}, {"access", "", "public"}}
	to := p.action(t, "/account/files/upload")
	reject := func(name string, status int, to string, parts ...part) {
		t.Helper()
		got := b.sendFile(to, append(slices.Clone(typed), parts...))
		if got.StatusCode != status {
			t.Fatalf("%s: %d %s", name, got.StatusCode, got.body)
		}
		values := map[string]string{}
		for _, input := range got.elements(t, "input") {
			values[attributeOf(input, "name")] = attributeOf(input, "value")
		}
		for _, option := range got.elements(t, "option") {
			if attributeOf(option, "value") == "public" && slices.ContainsFunc(option.Attr, func(a nethtml.Attribute) bool { return a.Key == "selected" }) {
				values["access"] = "public"
			}
		}
		if values["caption"] != caption || values["group"] != group || values["access"] != "public" {
			t.Errorf("%s: the form has %q", name, values)
		}
	}
	big := strings.Repeat("x", 2<<20)
	reject("no file chosen", http.StatusBadRequest, to, part{"file", "", ""})
	reject("no file", http.StatusBadRequest, to)
	reject("a little too large", http.StatusRequestEntityTooLarge, to, part{"file", "a", big + "x"})
	reject("too large by its length", http.StatusRequestEntityTooLarge, to, part{"file", "a", big + big})
	b.upload(p, "one.bin", big).says(t, http.StatusOK, "The file was uploaded.")
	reject("over the cap", http.StatusRequestEntityTooLarge, to, part{"file", "a", big})
	b.at(w.replica(t, many, func(o *options) { o.writable = func() error { return fmt.Errorf("held") } }))
	held := b.sendFile(to, append(slices.Clone(typed), part{"file", "a", "x"}))
	held.says(t, http.StatusServiceUnavailable, "The service cannot change files at the moment.")
	if n := w.QueryInt(t, "SELECT count(*) FROM item WHERE account_id = $1", tenant.Account.ID); n != 1 {
		t.Errorf("there are %d items", n)
	}
	// The form is empty again after an upload, and in the next account.
	b.at(rt)
	for _, input := range b.upload(p, "two.bin", "x", typed...).elements(t, "input") {
		if name := attributeOf(input, "name"); (name == "caption" || name == "group") && attributeOf(input, "value") != "" {
			t.Errorf("after an upload %s is %q", name, attributeOf(input, "value"))
		}
	}
}
