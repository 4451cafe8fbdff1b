package webfiles_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/media"
)

// selected posts the form of selected files.
func selected(b *webtest.Browser, p webtest.Page, of runtimetest.Tenant, action string, items []media.Item, more ...string) webtest.Page {
	fields := url.Values{"account": {of.Account.ID.String()}, "action": {action}}
	for n, item := range items {
		fields.Set(fmt.Sprint("item", n), item.ID.String())
	}
	for i := 0; i+1 < len(more); i += 2 {
		fields.Set(more[i], more[i+1])
	}
	return b.Post("/account/files/selected", p, fields)
}

func TestSelected_AreChangedTogether(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	var items []media.Item
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		items = append(items, rt.Item(t, w, tenant, name, name, false))
	}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	selected(b, p, tenant, "keep", items, "back", "state=draft").Says(t, http.StatusOK, "3 files are kept.", "All files are kept")
	selected(b, p, tenant, "group", items[:2], "group", "Trips").Says(t, http.StatusOK, "2 files are moved.")
	selected(b, p, tenant, "public", items[1:]).Says(t, http.StatusOK, "2 files are made public.")
	selected(b, p, tenant, "private", items[2:]).Says(t, http.StatusOK, "1 file is made private.")
	for _, want := range []struct {
		group  string
		access media.Access
	}{{"", media.Private}, {"Trips", media.Public}, {"Trips", media.Private}} {
		w.Counts(t, 1, "files of "+want.group+" that are "+string(want.access), "SELECT count(*) FROM item WHERE group_label = $1 AND access::text = $2", want.group, string(want.access))
	}

	deleted := selected(b, p, tenant, "delete", items[:2])
	deleted.Says(t, http.StatusOK, "2 files are deleted.", "Undo")
	if !slices.Equal(deleted.Names(), []string{"c.txt"}) {
		t.Errorf("after the delete the files are %q", deleted.Names())
	}
	undo := url.Values{"account": {tenant.Account.ID.String()}, "action": {"restore"}}
	for name, values := range deleted.Fields() {
		if strings.HasPrefix(name, "item") {
			undo[name] = values
		}
	}
	restored := b.Post("/account/files/selected", p, undo)
	restored.Says(t, http.StatusOK, "are restored.")
	if names := restored.Names(); len(names) != 3 {
		t.Errorf("after the undo the files are %q", names)
	}

	before := w.Rows(t)
	missing := append(slices.Clone(items), media.Item{ID: uuid.Must(uuid.NewV7())})
	got := selected(b, p, tenant, "delete", missing[3:])
	got.Says(t, http.StatusNotFound, "0 of 1 files are deleted.", "There is no such file.")
	selected(b, p, tenant, "delete", nil).Says(t, http.StatusBadRequest, "Select files first.")
	selected(b, p, tenant, "", items).Says(t, http.StatusBadRequest, "Choose what to do with the selected files.")
	selected(b, p, tenant, "group", items, "group", strings.Repeat("x", 300)).Says(t, http.StatusBadRequest, "0 of 3 files are moved.", "Group must be at most 255 bytes.")
	if w.Rows(t) != before {
		t.Error("a rejected form changed a file")
	}
	selected(b, p, tenant, "group", missing, "group", "Rest").Says(t, http.StatusNotFound, "3 of 4 files are moved.")
}

func TestSelected_APermanentDeleteIsConfirmed(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	plain, undoable := w.OwnedTenant(t, "plain", webtest.Owner), w.Undoable(t, "undoable", "bo@example.org")
	rt := w.Replica(t, webtest.Many)
	for _, tt := range []struct {
		owner string
		of    runtimetest.Tenant
		items []media.Item
		back  string
	}{
		{webtest.Owner, plain, []media.Item{rt.Item(t, w, plain, "a.txt", "a", true), rt.Item(t, w, plain, "b.txt", "b", true)}, ""},
		{"bo@example.org", undoable, []media.Item{rt.Item(t, w, undoable, "c.txt", "c", false), rt.Item(t, w, undoable, "d.txt", "d", false)}, "state=draft"},
	} {
		b := rt.Browser(t)
		p := b.Login("/account/files", tt.owner)
		before := w.Rows(t)
		question := selected(b, p, tt.of, "delete", tt.items, "back", tt.back)
		question.Says(t, http.StatusOK, "Delete 2 files permanently?", "This cannot be undone.")
		// A form that says it is about another list.
		if tt.back != "" {
			selected(b, p, tt.of, "delete", tt.items).Says(t, http.StatusConflict, "0 of 2 files are deleted.", "This file would be deleted permanently.")
		}
		if w.Rows(t) != before {
			t.Fatal("something was deleted before the user confirmed")
		}
		selected(b, question, tt.of, "delete", tt.items, "back", tt.back, "permanent", "1").Says(t, http.StatusOK, "2 files are deleted.")
	}
	w.Counts(t, 0, "items are left", "SELECT count(*) FROM stored_item")
}

func TestSelected_AreDownloadedAsAnArchive(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Files.MaxArchive = 1 << 10 })
	want := map[string]string{"a.txt": "one", "A (2).txt": "two", "_b_.txt": "three", "filecon.txt": "four", "gpj.exe": "five", "fileLPT1 .tar.gz": "six", "e\u0301.txt": "seven", "\u00e9 (2).txt": "eight"}
	var items []media.Item
	for _, file := range [][2]string{{"a.txt", "one"}, {"A.txt", "two"}, {`<b?.txt`, "three"}, {"con.txt", "four"}, {"LPT1 .tar.gz", "six"}, {"e\u0301.txt", "seven"}, {"\u00e9.txt", "eight"}, {"\u202egpj.exe. ", "five"}} {
		items = append(items, rt.Item(t, w, tenant, file[0], file[1], true))
	}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	got := selected(b, p, tenant, "download", items)
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/zip" || !strings.HasPrefix(got.Header.Get("Content-Disposition"), `attachment; filename="files-`) || got.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", got.StatusCode, got.Header)
	}
	archive, err := zip.NewReader(strings.NewReader(got.Text), int64(len(got.Text)))
	must(t, err)
	for _, file := range archive.File {
		reader, err := file.Open()
		must(t, err)
		content, err := io.ReadAll(reader) // which checks the sum
		must(t, err)
		if want[file.Name] != string(content) {
			t.Errorf("%q has %q, want %q", file.Name, content, want[file.Name])
		}
		delete(want, file.Name)
	}
	if len(want) > 0 {
		t.Errorf("the archive lacks %v", want)
	}

	large := append(slices.Clone(items), rt.Item(t, w, tenant, "large.txt", strings.Repeat("x", 1<<10), true))
	selected(b, p, tenant, "download", large).Says(t, http.StatusBadRequest, "These files have 1 KiB. An archive may have 1 KiB: select fewer files.")
	beside := w.AddApp(t, tenant, "beside")
	theirs := append(slices.Clone(items), rt.Item(t, w, beside, "secret.txt", "secret", true))
	if got := selected(b, p, tenant, "download", theirs); got.StatusCode != http.StatusNotFound || strings.Contains(got.Text, "secret") {
		t.Errorf("with a file of another app: %d %s", got.StatusCode, got.Text)
	}
	// An original that the object store has lost is told before anything is sent.
	original, _ := items[0].Objects.Find(media.Original)
	must(t, w.Objects.Remove(t.Context(), tenant.Account.Bucket, []string{original.Key}))
	if got := selected(b, p, tenant, "download", items); got.StatusCode == http.StatusOK || strings.HasPrefix(got.Text, "PK") {
		t.Errorf("with a lost file: %d", got.StatusCode)
	}
	w.Change(t, tenant, func(s *account.Spec) { s.ToolPolicy = account.ToolPolicy{Tools: []string{string(account.ListMedia)}} })
	selected(b, p, tenant, "download", items[1:]).Says(t, http.StatusForbidden, "This account does not allow logins to do this.")
}

// beginArchive asks for an archive, and does not read it. The test closes it.
func beginArchive(t *testing.T, b *webtest.Browser, p webtest.Page, of runtimetest.Tenant, items []media.Item) *http.Response {
	t.Helper()
	fields := url.Values{"account": {of.Account.ID.String()}, "action": {"download"}, "request": {p.Fields().Get("request")}, "csrf": {p.Fields().Get("csrf")}}
	for n, item := range items {
		fields.Set(fmt.Sprint("item", n), item.ID.String())
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, runtimetest.Absolute("/account/files/selected"), strings.NewReader(fields.Encode()))
	must(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", webtest.BaseURL)
	response, err := b.HTTP.Do(r)
	must(t, err)
	return response
}

// An archive that nobody reads holds its slot, and another one is told to wait, until the client is gone.
func TestSelected_ArchivesAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant, other := w.Undoable(t, "studio", webtest.Owner), w.Undoable(t, "others", "bo@example.org")
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Files.Archives = 4 })
	large := []media.Item{rt.Item(t, w, tenant, "large.bin", string(runtimetest.Noise(20<<20)), true)}
	small := []media.Item{rt.Item(t, w, other, "small.txt", "small", true)}
	b, bo := rt.Browser(t), rt.Browser(t)
	p, theirs := b.Login("/account/files", webtest.Owner), bo.Login("/account/files", "bo@example.org")
	held := beginArchive(t, b, p, tenant, large)
	defer func() { _ = held.Body.Close() }()
	if held.StatusCode != http.StatusOK {
		t.Fatalf("the first archive: %d", held.StatusCode)
	}
	busy := selected(b, p, tenant, "download", large)
	busy.Says(t, http.StatusTooManyRequests, "Other archives are still being downloaded.")
	if busy.Header.Get("Retry-After") == "" {
		t.Error("the second archive: no Retry-After")
	}
	if got := selected(bo, theirs, other, "download", small); got.StatusCode != http.StatusOK || !strings.HasPrefix(got.Text, "PK") {
		t.Errorf("the archive of another account: %d", got.StatusCode)
	}
	must(t, held.Body.Close())
	wait.Until(t, "the slot is free", func() bool { return selected(b, p, tenant, "download", large).StatusCode == http.StatusOK })
}

// A client that reads slowly held its slot for as long as it liked: hours, at a rate at which no other limit ends it. It is ended once another archive
// got no slot, and its archive is not whole.
func TestSelected_ASlowArchiveEndsForAnother(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Files.Archives = 4 })
	large := []media.Item{rt.Item(t, w, tenant, "large.bin", string(runtimetest.Noise(20<<20)), true)}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	held := beginArchive(t, b, p, tenant, large)
	defer func() { _ = held.Body.Close() }()
	wait.Until(t, "the slow archive ends for another one", func() bool { return selected(b, p, tenant, "download", large).StatusCode == http.StatusOK })
	sent, err := io.ReadAll(held.Body)
	_, broken := zip.NewReader(bytes.NewReader(sent), int64(len(sent)))
	if held.StatusCode != http.StatusOK || len(sent) == 0 || err == nil || broken == nil {
		t.Errorf("%d: %d bytes arrive, the connection ends with %v, and the archive is read with %v", held.StatusCode, len(sent), err, broken)
	}
}

// A lost original after the first one ends the connection: a browser shows a download that failed, and no program takes what has arrived for the whole.
func TestSelected_AnArchiveThatLacksAFileIsNotWhole(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	var items []media.Item
	for n, name := range []string{"a.bin", "b.bin", "c.bin"} {
		items = append(items, rt.Item(t, w, tenant, name, string(runtimetest.Noise(256<<10+n)), true))
	}
	lost, _ := items[1].Objects.Find(media.Original)
	must(t, w.Objects.Remove(t.Context(), tenant.Account.Bucket, []string{lost.Key}))
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	response := beginArchive(t, b, p, tenant, items)
	defer func() { _ = response.Body.Close() }()
	sent, err := io.ReadAll(response.Body)
	_, broken := zip.NewReader(bytes.NewReader(sent), int64(len(sent)))
	if response.StatusCode != http.StatusOK || !bytes.HasPrefix(sent, []byte("PK")) || err == nil || broken == nil {
		t.Errorf("%d: %d bytes arrive, the connection ends with %v, and the archive is read with %v", response.StatusCode, len(sent), err, broken)
	}
	if !strings.Contains(rt.Logs.String(), "sending an archive failed") {
		t.Errorf("the log does not say why: %s", rt.Logs.String())
	}
}
