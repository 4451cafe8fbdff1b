package webfiles_test

import (
	"html"
	"image"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// Each request of an owner goes to another replica than the one before.
func TestFiles_WorkAcrossReplicas(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	replicas := []*webtest.Replica{w.Replica(t), w.Replica(t)}
	b := replicas[0].Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	turn := 0
	next := func() { turn++; b.At(replicas[turn%2]) }
	p.Says(t, http.StatusOK, "Files of", "The studio", "No files yet", "0 bytes of 64 MiB used")

	next()
	draft := p.Actions("/account/files/upload")[1]
	p = b.Follow(b.SendFile(draft, []webtest.Part{webtest.File("notes.txt", "hello"), webtest.Field("caption", "My notes"), webtest.Field("group", "Texts"), webtest.Field("access", "public")}))
	p.Says(t, http.StatusOK, "The file was uploaded. It is not kept yet.", "notes.txt", "My notes", "Public", "Not kept yet", "Until", "5 bytes of 64 MiB used")
	id := p.Fields().Get("item")
	next()
	if sealed := b.Get("/account/files"); !slices.Equal(sealed.Names(), []string{}) {
		t.Errorf("a draft is among the files: %v", sealed.Names())
	}
	next()
	p = b.Change("seal", p, tenant, id, "back", "state=draft")
	p.Says(t, http.StatusOK, "The file is kept.", "All files are kept")
	next()
	p = b.Get("/account/files")
	p.Says(t, http.StatusOK, "notes.txt", "1 file")
	next()
	p = b.Change("delete", p, tenant, id)
	p.Says(t, http.StatusOK, "The file was deleted.", "Undo", "No files yet")
	next()
	p = b.Change("restore", p, tenant, id)
	p.Says(t, http.StatusOK, "The file was restored.", "notes.txt")
	next()
	p = b.Change("delete", p, tenant, id)
	next()
	p = b.Get(p.Action(t, "/account/files") + "&state=deleted")
	p.Says(t, http.StatusOK, "Deleted files", "notes.txt", "Can be restored until", "Restore")
	next()
	b.Change("restore", p, tenant, id, "back", "state=deleted").Says(t, http.StatusOK, "The file was restored.", "No deleted files")
	next()
	p = b.Upload(b.Get("/account/files"), "photo.bin", "12345678")
	p.Says(t, http.StatusOK, "The file was uploaded.", "photo.bin", "2 files", "13 bytes of 64 MiB used")
}

func TestFiles_ADeleteThatIsPermanentIsConfirmed(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	plain, undoable := w.OwnedTenant(t, "plain", webtest.Owner), w.Undoable(t, "undoable", "bo@example.org")
	rt := w.Replica(t)
	sealed, draft := rt.Item(t, w, plain, "a.txt", "a", true), rt.Item(t, w, undoable, "b.txt", "b", false)
	for _, tt := range []struct {
		owner string
		of    runtimetest.Tenant
		item  media.Item
		state string
	}{{webtest.Owner, plain, sealed, ""}, {"bo@example.org", undoable, draft, "draft"}} {
		b := rt.Browser(t)
		b.Login("/account/files", tt.owner)
		p := b.Get("/account/files?request=" + b.Get("/account/files").Fields().Get("request") + "&account=" + tt.of.Account.ID.String() + "&state=" + tt.state)
		before := w.Rows(t)
		// A form that nobody was asked about, as one from before the account lost its undo window.
		b.Change("delete", p, tt.of, tt.item.ID.String(), "back", "state="+tt.state).Says(t, http.StatusConflict, "This file would be deleted permanently.", tt.item.FileName)
		question := b.Get(b.Get(p.Action(t, "/account/files/view")).Action(t, "/account/files/delete"))
		question.Says(t, http.StatusOK, "Delete this file permanently?", tt.item.FileName, "This cannot be undone.", "Cancel")
		if w.Rows(t) != before {
			t.Fatal("something changed before the user confirmed")
		}
		p = b.Change("delete", question, tt.of, tt.item.ID.String(), "permanent", "1", "back", "state="+tt.state)
		p.Says(t, http.StatusOK, "The file was deleted permanently.") // once it sounded like a delete that can be undone
		if len(p.Names()) > 0 || strings.Contains(p.Text, "Undo") {
			t.Errorf("after the delete: %s", p.Text)
		}
		b.Change("delete", question, tt.of, tt.item.ID.String(), "permanent", "1").Says(t, http.StatusNotFound, "There is no such file.")
	}
	w.Counts(t, 0, "items are left", "SELECT count(*) FROM stored_item")
}

func TestFiles_AreFilteredSortedAndPaged(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, func(o *webtest.Options) { o.Files.PerPage = 2 })
	for i, name := range []string{"delta.txt", "alpha.txt", "echo.txt", "bravo.txt", "charlie.pdf"} {
		content := strings.Repeat("x", i+1)
		if strings.HasSuffix(name, ".pdf") {
			content = "%PDF-1.7\n" + content
		}
		rt.Item(t, w, tenant, name, content, true)
	}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	all := func(query string) []string {
		t.Helper()
		names := []string{}
		for p := b.Get(p.Action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + query); ; {
			p.Says(t, http.StatusOK)
			if len(p.Names()) > 2 {
				t.Fatalf("a page has %v", p.Names())
			}
			names = append(names, p.Names()...)
			next := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(p.Text)
			if next == nil {
				return names
			}
			p = b.Get(html.UnescapeString(next[1]))
			if !strings.Contains(p.Text, "First page") {
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
		"&size=small&sort=name":        "alpha.txt bravo.txt charlie.pdf delta.txt echo.txt",
		"&size=large":                  "",
		"&to=2000-01-01":               "",
		"&from=2000-01-01&sort=name":   "alpha.txt bravo.txt charlie.pdf delta.txt echo.txt",
		"&q=TXT+-alph":                 "bravo.txt echo.txt delta.txt",
		"&q=%22charlie+pdf%22":         "charlie.pdf",
		"&q=%22charlie+pdf":            "charlie.pdf",
		"&q=absent":                    "",
		"&state=draft":                 "",
	} {
		if got := strings.Join(all(query), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{"&sort=color", "&type=x", "&state=all", "&after=x", "&state=draft&sort=name", "&name=%00", "&q=%25", "&state=deleted&page=x", "&size=huge", "&capturedFrom=x", "&capturedTo=2026-02-30", "&capturedFrom=2026-02-02&capturedTo=2026-01-01", "&state=draft&sort=captured", "&from=x", "&to=2026-13-01", "&state=deleted&page=0"} {
		if got := b.Get(p.Action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + query); got.StatusCode != http.StatusBadRequest || !strings.Contains(got.Text, `role="alert"`) {
			t.Errorf("%s: %d %s", query, got.StatusCode, got.Text)
		}
	}
}

func TestFiles_AreFoundByTheDateTheyWereTaken(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	for name, at := range map[string]string{"evening.txt": "2024-05-01T23:30:00+02:00", "next.txt": "2024-05-02", "winter.txt": "2019-12", "never.txt": ""} {
		setCapture(t, w, rt.Item(t, w, tenant, name, name, true), capture.Capture{At: at})
	}
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	for query, want := range map[string]string{
		"&sort=captured":  "winter.txt evening.txt next.txt never.txt", // the last one by its upload
		"&sort=-captured": "never.txt next.txt evening.txt winter.txt",
		"&capturedFrom=2024-05-01&capturedTo=2024-05-01": "evening.txt",
		"&capturedFrom=2024-05-02":                       "next.txt",
		"&capturedTo=2024-05-01&sort=captured":           "winter.txt evening.txt",
	} {
		got := b.Get(p.Action(t, "/account/files") + "&account=" + tenant.Account.ID.String() + query)
		got.Says(t, http.StatusOK, "Taken from", "Taken until")
		if names := strings.Join(got.Names(), " "); names != want {
			t.Errorf("%s: %s, want %s", query, names, want)
		}
		if strings.HasPrefix(query, "&sort") == strings.Contains(got.Text, "Clear the search") {
			t.Errorf("%s: the page does not say that the list is filtered", query)
		}
		// The form has what the list has, and a file leads back to the same list.
		for _, field := range got.Elements(t, "input") {
			if name := webtest.AttributeOf(field, "name"); strings.HasPrefix(name, "captured") && !strings.Contains(query+"&", name+"="+webtest.AttributeOf(field, "value")+"&") && webtest.AttributeOf(field, "value") != "" {
				t.Errorf("%s: the form has %s=%s", query, name, webtest.AttributeOf(field, "value"))
			}
		}
		if back := b.Get(linkTo(t, b.Get(got.Action(t, "/account/files/view")), "Back to the list")); strings.Join(back.Names(), " ") != want {
			t.Errorf("%s: from a file the way back leads to %v", query, back.Names())
		}
	}
}

func TestFiles_LookingChangesNothing(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Undoable(t, "studio", webtest.Owner)
	rt := w.Replica(t)
	draft, sealed := rt.Item(t, w, tenant, "a.txt", "a", false), rt.Item(t, w, tenant, "b.txt", "b", true)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	before := w.Rows(t)
	for _, path := range []string{"", "/view", "/upload", "/edit", "/share", "/seal", "/delete", "/restore"} {
		for _, item := range []media.Item{draft, sealed} {
			query := url.Values{"request": {p.Fields().Get("request")}, "csrf": {p.Fields().Get("csrf")}, "account": {tenant.Account.ID.String()}, "item": {item.ID.String()},
				"permanent": {"1"}, "done": {"deleted"}, "deleted": {item.ID.String()}}
			if got := b.Get("/account/files" + path + "?" + query.Encode()); got.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", path, got.StatusCode)
			}
		}
	}
	if w.Rows(t) != before {
		t.Error("an item was changed")
	}
}

func TestFiles_AnOwnerOfSeveralAccountsChooses(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	one, two := w.OwnedTenant(t, "one", webtest.Owner), w.OwnedTenant(t, "two", webtest.Owner)
	other := w.OwnedTenant(t, "closed", webtest.Owner, "bo@example.org")
	w.Change(t, other, func(s *account.Spec) { s.Suspended = true })
	rt := w.Replica(t, webtest.Many)
	rt.Item(t, w, one, "of-one.txt", "1", true)
	rt.Item(t, w, two, "of-two.txt", "2", true)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	p.Says(t, http.StatusOK, "Which account?", "The one", "The two")
	if strings.Contains(p.Text, "The closed") {
		t.Error("a suspended account is listed")
	}
	for id, name := range map[uuid.UUID]string{one.Account.ID: "of-one.txt", two.Account.ID: "of-two.txt"} {
		for _, link := range p.Actions("/account/files") {
			if strings.Contains(link, id.String()) {
				shown := b.Get(link)
				shown.Says(t, http.StatusOK, "Choose another account")
				if !slices.Equal(shown.Names(), []string{name}) {
					t.Errorf("%s shows %v", name, shown.Names())
				}
			}
		}
	}
}

func TestFiles_HaveThumbnails(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, func(o *webtest.Options) { o.Images = true })
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	p = b.Upload(p, "red.png", string(imagetest.PNG(image.NewRGBA(image.Rect(0, 0, 640, 480)))))
	p.Says(t, http.StatusOK, "The file was uploaded.")
	shown := regexp.MustCompile(`<img src="([^"]*)" alt="" width="640" height="480" loading="lazy"`).FindStringSubmatch(p.Text)
	if shown == nil {
		t.Fatalf("no thumbnail: %s", p.Text)
	}
	thumbnail := b.Get(html.UnescapeString(shown[1]))
	if thumbnail.StatusCode != http.StatusOK || !strings.HasPrefix(thumbnail.Header.Get("Content-Type"), "image/") || !strings.HasPrefix(html.UnescapeString(shown[1]), webtest.BaseURL+"/media/file/") {
		t.Errorf("the thumbnail at %s: %d %v", shown[1], thumbnail.StatusCode, thumbnail.Header)
	}
}

// With useWebP the owner saw the conversion only, and never got the uploaded file back.
func TestFiles_OfferTheOriginalBesideItsConversion(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, func(o *webtest.Options) { o.Images = true })
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	uploaded := string(imagetest.PNG(image.NewRGBA(image.Rect(0, 0, 64, 48))))
	links := func(list webtest.Page) (names []string) {
		t.Helper()
		p := b.Get(list.Action(t, "/account/files/view"))
		p.Says(t, http.StatusOK)
		for _, link := range p.Elements(t, "a") {
			if target := webtest.AttributeOf(link, "href"); strings.HasPrefix(target, webtest.BaseURL+"/media/file/") {
				file := b.Get(target)
				file.Says(t, http.StatusOK)
				names = append(names, webtest.TextOf(link)+" "+file.Header.Get("Content-Type"))
				if webtest.TextOf(link) == "Download original" && file.Text != uploaded {
					t.Errorf("the original has %d bytes, not the %d that were uploaded", len(file.Text), len(uploaded))
				}
			}
		}
		return names
	}
	p = b.Upload(p, "plain.png", uploaded)
	if got := links(p); !slices.Equal(got, []string{"Open image/png", "Download image/png"}) {
		t.Errorf("without a conversion the page leads to %q", got)
	}
	_, err := w.Settings.Update(t.Context(), tenant.Account.ID, account.Actor{}, settings.Layer{UseWebP: new(true)})
	must(t, err)
	for _, access := range []string{"private", "public"} {
		p = b.Upload(p, access+".png", uploaded, webtest.Field("access", access))
		if got := links(p); !slices.Equal(got, []string{"Open image/webp", "Download original image/png"}) {
			t.Errorf("beside a %s conversion the page leads to %q", access, got)
		}
	}
}
