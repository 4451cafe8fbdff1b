package webfiles_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// running makes a resumable upload of which content has arrived.
func running(t *testing.T, w *webtest.World, rt *webtest.Replica, of runtimetest.Tenant, name, content string, length int64) uuid.UUID {
	t.Helper()
	upload, err := rt.Uploads.CreateResumable(t.Context(), w.Principal(t, of), length, media.Fields{FileName: name}, "")
	must(t, err)
	if content != "" {
		must(t, check.ErrorOf(upload.Append(t.Context(), 0, strings.NewReader(content), int64(len(content)), nil)))
	}
	return upload.State().ItemID
}

// uploads returns the rows of all running uploads: it changes with each of them.
func uploads(t *testing.T, w *webtest.World) string {
	t.Helper()
	return w.Text(t, "SELECT coalesce(string_agg(item_id::text, ',' ORDER BY item_id), '') || (SELECT string_agg(bytes::text, ',' ORDER BY account_id) FROM account_usage) FROM upload")
}

// cancelField returns the id in the first form that cancels an upload.
func cancelField(t *testing.T, p webtest.Page) string {
	t.Helper()
	_, form, ok := strings.Cut(p.Text, `action="/account/files/cancel`)
	_, form, found := strings.Cut(form, `name="item" value="`)
	if !ok || !found {
		t.Fatalf("the page offers no end of an upload: %s", p.Text)
	}
	id, _, _ := strings.Cut(form, `"`)
	return id
}

// Each request of an owner goes to another replica than the one before.
func TestFiles_RunningUploadsAreShownAndCancelled(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	replicas := []*webtest.Replica{w.Replica(t), w.Replica(t)}
	b := replicas[0].Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	if strings.Contains(p.Text, "Running uploads") {
		t.Errorf("without an upload: %s", p.Text)
	}
	older, newer := running(t, w, replicas[0], tenant, "film.mp4", "hello", 20<<20), running(t, w, replicas[0], tenant, "unknown.bin", "abc", upload.UnknownLength)
	b.At(replicas[1])
	p = b.Get("/account/files")
	p.Says(t, http.StatusOK, "Running uploads", "film.mp4", "5 bytes of 20 MiB", "unknown.bin", "3 bytes, of an unknown size", "Started less than a minute ago", "Cancel upload", "20 MiB of 64 MiB used")
	if first := cancelField(t, p); first != newer.String() {
		t.Errorf("the first upload is %s, want %s", first, newer)
	}
	b.At(replicas[0])
	p = b.Change("cancel", p, tenant, older.String(), "back", "state=draft")
	p.Says(t, http.StatusOK, "The upload was cancelled, and its room is free again.", "unknown.bin", "3 bytes of 64 MiB used", "All files are kept")
	if strings.Contains(p.Text, "film.mp4") {
		t.Errorf("after its end it is shown: %s", p.Text)
	}
	b.At(replicas[1])
	b.Change("cancel", p, tenant, older.String()).Says(t, http.StatusOK, "This upload was no longer running: it is complete, was cancelled, or has expired.")
	complete := running(t, w, replicas[0], tenant, "done.txt", "", 3)
	found, err := replicas[0].Uploads.FindResumable(t.Context(), w.Principal(t, tenant), complete)
	must(t, err)
	must(t, check.ErrorOf(found.Append(t.Context(), 0, strings.NewReader("abc"), 3, nil)))
	must(t, check.ErrorOf(found.Finish(t.Context())))
	b.Change("cancel", p, tenant, complete.String()).Says(t, http.StatusConflict, "The upload is complete")
	w.Counts(t, 1, "removals are queued", `SELECT count(*) FROM object_removal WHERE abort_multipart`)
}

func TestFiles_OnlyTheOwnersFormCancelsAnUpload(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	mine, theirs := w.Undoable(t, "mine", webtest.Owner), w.Undoable(t, "theirs", "bo@example.org")
	beside := w.AddApp(t, mine, "beside")
	rt := w.Replica(t, webtest.Many)
	id, foreign, other := running(t, w, rt, mine, "mine.bin", "a", 9), running(t, w, rt, theirs, "theirs.bin", "a", 9), running(t, w, rt, beside, "beside.bin", "a", 9)
	b, another := rt.Browser(t), rt.Browser(t)
	p, theirPage := b.Login("/account/files", webtest.Owner), another.Login("/account/files", "bo@example.org")
	for _, text := range []string{"theirs.bin", "beside.bin"} {
		if strings.Contains(p.Text, text) {
			t.Errorf("the page shows %s", text)
		}
	}
	before := uploads(t, w)
	fields := func(account uuid.UUID, item, token string) url.Values {
		return url.Values{"request": {p.Fields().Get("request")}, "csrf": {token}, "account": {account.String()}, "item": {item}}
	}
	token := p.Fields().Get("csrf")
	site := func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	same := func(*http.Request) {}
	for name, c := range map[string]struct {
		by     *webtest.Browser
		sent   url.Values
		change func(*http.Request)
		status int
	}{
		"from another site":            {b, fields(mine.Account.ID, id.String(), token), site, http.StatusForbidden},
		"without a token":              {b, fields(mine.Account.ID, id.String(), ""), same, http.StatusForbidden},
		"with another session's token": {b, fields(mine.Account.ID, id.String(), theirPage.Fields().Get("csrf")), same, http.StatusForbidden},
		"by another session":           {another, fields(mine.Account.ID, id.String(), token), same, http.StatusNotFound},
		"another account":              {b, fields(theirs.Account.ID, foreign.String(), token), same, http.StatusForbidden},
		// These end nothing, and say the same as for an upload that has ended.
		"another account's upload": {b, fields(mine.Account.ID, foreign.String(), token), same, http.StatusSeeOther},
		"another app's upload":     {b, fields(mine.Account.ID, other.String(), token), same, http.StatusSeeOther},
		"a missing upload":         {b, fields(mine.Account.ID, uuid.NewString(), token), same, http.StatusSeeOther},
		"no id":                    {b, fields(mine.Account.ID, "x", token), same, http.StatusNotFound},
	} {
		got := c.by.Send("/account/files/cancel", p, c.sent, c.change)
		if got.StatusCode != c.status || c.status == http.StatusSeeOther && !strings.Contains(got.Header.Get("Location"), "done=ended") {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Header.Get("Location"))
		}
	}
	query := url.Values{"request": {p.Fields().Get("request")}, "csrf": {token}, "account": {mine.Account.ID.String()}, "item": {id.String()}}
	if got := b.Get("/account/files/cancel?" + query.Encode()); got.StatusCode != http.StatusOK {
		t.Errorf("GET: %d", got.StatusCode)
	}
	w.Change(t, mine, func(s *account.Spec) { s.ToolPolicy.ReadOnly = true })
	shown := b.Get("/account/files")
	shown.Says(t, http.StatusOK, "mine.bin")
	if strings.Contains(shown.Text, "Cancel upload") {
		t.Error("a login that may only read is offered the end of an upload")
	}
	b.Send("/account/files/cancel", p, fields(mine.Account.ID, id.String(), token)).Says(t, http.StatusForbidden, "This account does not allow logins to do this.")
	w.Change(t, mine, func(s *account.Spec) { s.ToolPolicy = account.ToolPolicy{Tools: []string{string(account.ListMedia)}} })
	if shown := b.Get("/account/files"); strings.Contains(shown.Text, "mine.bin") {
		t.Error("a login that may not list drafts sees the upload")
	}
	if uploads(t, w) != before {
		t.Error("an upload was ended")
	}
}

func TestFiles_OfManyRunningUploadsTheNewestAreShown(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	running(t, w, rt, tenant, "oldest.bin", "", 1)
	rt.Clock.Advance(3 * time.Hour)
	for range 20 {
		running(t, w, rt, tenant, "new.bin", "", 1)
	}
	p := rt.Browser(t).Login("/account/files", webtest.Owner)
	p.Says(t, http.StatusOK, "Only 20 are listed, the newest first.")
	if strings.Contains(p.Text, "oldest.bin") || strings.Count(p.Text, "Cancel upload") != 20 {
		t.Errorf("the page is %s", p.Text)
	}
}

// open reports whether the running uploads stand open on the page.
func open(t *testing.T, p webtest.Page) bool {
	t.Helper()
	for _, list := range p.Elements(t, "details") {
		if webtest.AttributeOf(list, "class") == "running" {
			return strings.Contains(p.Text, `<details class="running" open>`)
		}
	}
	t.Fatalf("no running uploads: %s", p.Text)
	return false
}

// A client that starts an upload again and again leaves thousands. The page shows the newest ones, and each
// of them can be cancelled.
func TestFiles_OfThousandsOfRunningUploadsTwentyAreShown(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	running(t, w, rt, tenant, "again.bin", "", 1)
	w.Exec(t, fmt.Sprintf(`WITH made AS (
		INSERT INTO upload (item_id, account_id, app_id, reserved, lease_ends) SELECT gen_random_uuid(), account_id, app_id, 0, lease_ends FROM upload, generate_series(1, %d) RETURNING item_id
	) INSERT INTO resumable_upload (item_id, account_id, app_id, length, file_name, declared_type, access, caption, group_label, metadata, expires_at)
	SELECT made.item_id, r.account_id, r.app_id, r.length, r.file_name, r.declared_type, r.access, r.caption, r.group_label, r.metadata, r.expires_at FROM made, resumable_upload r`, upload.MaxExamined))
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	p.Says(t, http.StatusOK, "Running uploads", "more than 20", "Only 20 are listed, the newest first.", "No files yet")
	if open(t, p) {
		t.Error("so many uploads hide the files")
	}
	if shown := strings.Count(p.Text, "Cancel upload"); shown != 20 {
		t.Errorf("%d uploads are shown", shown)
	}
	before := w.QueryInt(t, "SELECT count(*) FROM upload")
	p = b.Change("cancel", p, tenant, cancelField(t, p))
	p.Says(t, http.StatusOK, "The upload was cancelled", "Only 20 are listed")
	if !open(t, p) {
		t.Error("after the end of one the list has to be opened for the next one")
	}
	if left := w.QueryInt(t, "SELECT count(*) FROM upload"); left != before-1 {
		t.Errorf("%d uploads are left of %d", left, before)
	}
}

// hostileNames are names that are legal, and that a page without care would show as something else.
var hostileNames = map[string]string{ // by what the page shows
	strings.Repeat("n", 56) + "…" + strings.Repeat("n", 20) + ".txt": strings.Repeat("n", 251) + ".txt",
	"תמונה שלי.txt":                "\u202eתמונה\u200f שלי.txt",
	"صورة (1).txt":                 "صورة (1).txt",
	"gpj.exe":                      "\u202egpj.exe",
	"<script>alert(1)<script>.txt": "<script>alert(1)<script>.txt",
	`"><img src=x onerror=a>.txt`:  `"><img src=x onerror=a>.txt`,
	"&lt;b&gt;.txt":                "&lt;b&gt;.txt",
	"{{.CSRF}}.txt":                "{{.CSRF}}.txt",
	"A file without a name":        "\u200b\u2060",
}

// Names are text wherever the page shows them, and change the direction of nothing else.
func TestFiles_NamesAreTextOnly(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	for _, name := range hostileNames {
		running(t, w, rt, tenant, name, "", 1)
		rt.Item(t, w, tenant, name, "a", true)
	}
	p := rt.Browser(t).Login("/account/files", webtest.Owner)
	shown := map[string]int{}
	for _, name := range p.Elements(t, "h3") {
		shown[webtest.TextOf(name)]++
	}
	for want, name := range hostileNames {
		if shown[want] != 2 {
			t.Errorf("%q is shown %d times as %q, want once as a file and once as an upload: %v", name, shown[want], want, shown)
		}
	}
	runsNothing(t, p)
	if strings.ContainsAny(p.Text, "\u202a\u202b\u202d\u202e\u2066\u2067\u2068") {
		t.Error("a name changes the direction of the page")
	}
}
