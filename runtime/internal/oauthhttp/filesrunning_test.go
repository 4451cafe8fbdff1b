package oauthhttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
)

// running makes a resumable upload of which content has arrived.
func (rt *replica) running(t *testing.T, w *world, of runtimetest.Tenant, name, content string, length int64) uuid.UUID {
	t.Helper()
	upload, err := rt.media.CreateResumable(t.Context(), w.Principal(t, of), length, media.Fields{FileName: name}, "")
	must(t, err)
	if content != "" {
		_, err = upload.Append(t.Context(), 0, strings.NewReader(content), int64(len(content)), nil)
		must(t, err)
	}
	return upload.State().ItemID
}

// uploads returns the rows of all running uploads: it changes with each of them.
func (w *world) uploads(t *testing.T) string {
	t.Helper()
	return w.text(t, "SELECT coalesce(string_agg(item_id::text, ',' ORDER BY item_id), '') || (SELECT string_agg(bytes::text, ',' ORDER BY account_id) FROM account_usage) FROM upload")
}

// cancelField returns the id in the first form that cancels an upload.
func (p page) cancelField(t *testing.T) string {
	t.Helper()
	_, form, ok := strings.Cut(p.body, `action="/account/files/cancel`)
	_, form, found := strings.Cut(form, `name="item" value="`)
	if !ok || !found {
		t.Fatalf("the page offers no end of an upload: %s", p.body)
	}
	id, _, _ := strings.Cut(form, `"`)
	return id
}

// Each request of an owner goes to another replica than the one before.
func TestFiles_RunningUploadsAreShownAndCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.undoable(t, "studio", owner)
	replicas := []*replica{w.replica(t), w.replica(t)}
	b := replicas[0].browser(t)
	p := b.login("/account/files", owner)
	if strings.Contains(p.body, "Running uploads") {
		t.Errorf("without an upload: %s", p.body)
	}
	older, newer := replicas[0].running(t, w, tenant, "film.mp4", "hello", 20<<20), replicas[0].running(t, w, tenant, "unknown.bin", "abc", media.UnknownLength)
	b.at(replicas[1])
	p = b.get("/account/files")
	p.says(t, http.StatusOK, "Running uploads", "film.mp4", "5 bytes of 20 MiB", "unknown.bin", "3 bytes, of an unknown size", "Started less than a minute ago", "Cancel upload", "20 MiB of 64 MiB used")
	if first := p.cancelField(t); first != newer.String() {
		t.Errorf("the first upload is %s, want %s", first, newer)
	}
	b.at(replicas[0])
	p = b.change("cancel", p, tenant, older.String(), "back", "state=draft")
	p.says(t, http.StatusOK, "The upload was cancelled, and its room is free.", "unknown.bin", "3 bytes of 64 MiB used", "No drafts")
	if strings.Contains(p.body, "film.mp4") {
		t.Errorf("after its end it is shown: %s", p.body)
	}
	b.at(replicas[1])
	b.change("cancel", p, tenant, older.String()).says(t, http.StatusOK, "This upload is not running any more.")
	complete := replicas[0].running(t, w, tenant, "done.txt", "", 3)
	found, err := replicas[0].media.FindResumable(t.Context(), w.Principal(t, tenant), complete)
	must(t, err)
	_, err = found.Append(t.Context(), 0, strings.NewReader("abc"), 3, nil)
	must(t, err)
	_, err = found.Finish(t.Context())
	must(t, err)
	b.change("cancel", p, tenant, complete.String()).says(t, http.StatusConflict, "The upload is complete")
	if left := w.QueryInt(t, `SELECT count(*) FROM object_removal WHERE abort_multipart`); left != 1 {
		t.Errorf("%d removals are queued", left)
	}
}

func TestFiles_OnlyTheOwnersFormCancelsAnUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, theirs := w.undoable(t, "mine", owner), w.undoable(t, "theirs", "bo@example.org")
	beside := w.AddApp(t, mine, "beside")
	rt := w.replica(t, many)
	id, foreign, other := rt.running(t, w, mine, "mine.bin", "a", 9), rt.running(t, w, theirs, "theirs.bin", "a", 9), rt.running(t, w, beside, "beside.bin", "a", 9)
	b, another := rt.browser(t), rt.browser(t)
	p, theirPage := b.login("/account/files", owner), another.login("/account/files", "bo@example.org")
	for _, text := range []string{"theirs.bin", "beside.bin"} {
		if strings.Contains(p.body, text) {
			t.Errorf("the page shows %s", text)
		}
	}
	before := w.uploads(t)
	fields := func(account uuid.UUID, item, token string) url.Values {
		return url.Values{"request": {p.fields().Get("request")}, "csrf": {token}, "account": {account.String()}, "item": {item}}
	}
	token := p.fields().Get("csrf")
	site := func(r *http.Request) {
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	same := func(*http.Request) {}
	for name, c := range map[string]struct {
		by     *browser
		sent   url.Values
		change func(*http.Request)
		status int
	}{
		"from another site":            {b, fields(mine.Account.ID, id.String(), token), site, http.StatusForbidden},
		"without a token":              {b, fields(mine.Account.ID, id.String(), ""), same, http.StatusForbidden},
		"with another session's token": {b, fields(mine.Account.ID, id.String(), theirPage.fields().Get("csrf")), same, http.StatusForbidden},
		"by another session":           {another, fields(mine.Account.ID, id.String(), token), same, http.StatusNotFound},
		"another account":              {b, fields(theirs.Account.ID, foreign.String(), token), same, http.StatusForbidden},
		// These end nothing, and say the same as for an upload that has ended.
		"another account's upload": {b, fields(mine.Account.ID, foreign.String(), token), same, http.StatusSeeOther},
		"another app's upload":     {b, fields(mine.Account.ID, other.String(), token), same, http.StatusSeeOther},
		"a missing upload":         {b, fields(mine.Account.ID, uuid.NewString(), token), same, http.StatusSeeOther},
		"no id":                    {b, fields(mine.Account.ID, "x", token), same, http.StatusNotFound},
	} {
		got := c.by.send("/account/files/cancel", p, c.sent, c.change)
		if got.StatusCode != c.status || c.status == http.StatusSeeOther && !strings.Contains(got.Header.Get("Location"), "done=ended") {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Header.Get("Location"))
		}
	}
	query := url.Values{"request": {p.fields().Get("request")}, "csrf": {token}, "account": {mine.Account.ID.String()}, "item": {id.String()}}
	if got := b.get("/account/files/cancel?" + query.Encode()); got.StatusCode != http.StatusOK {
		t.Errorf("GET: %d", got.StatusCode)
	}
	w.Change(t, mine, func(s *account.Spec) { s.ToolPolicy.ReadOnly = true })
	shown := b.get("/account/files")
	shown.says(t, http.StatusOK, "mine.bin")
	if strings.Contains(shown.body, "Cancel upload") {
		t.Error("a login that may only read is offered the end of an upload")
	}
	b.send("/account/files/cancel", p, fields(mine.Account.ID, id.String(), token)).says(t, http.StatusForbidden, "This account does not allow logins to do this.")
	w.Change(t, mine, func(s *account.Spec) { s.ToolPolicy = account.ToolPolicy{Tools: []string{string(account.ListMedia)}} })
	if shown := b.get("/account/files"); strings.Contains(shown.body, "mine.bin") {
		t.Error("a login that may not list drafts sees the upload")
	}
	if w.uploads(t) != before {
		t.Error("an upload was ended")
	}
}

func TestFiles_OfManyRunningUploadsTheNewestAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.undoable(t, "studio", owner)
	rt := w.replica(t)
	rt.running(t, w, tenant, "oldest.bin", "", 1)
	rt.clock.Advance(3 * time.Hour)
	for range 20 {
		rt.running(t, w, tenant, "new.bin", "", 1)
	}
	p := rt.browser(t).login("/account/files", owner)
	p.says(t, http.StatusOK, "The newest 20.")
	if strings.Contains(p.body, "oldest.bin") || strings.Count(p.body, "Cancel upload") != 20 {
		t.Errorf("the page is %s", p.body)
	}
}
