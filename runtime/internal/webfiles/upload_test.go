package webfiles_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	nethtml "golang.org/x/net/html"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/webtest"
	"mediastack.dev/runtime/internal/webfiles"
	"mediastack.dev/runtime/media"
)

// uploadHeld uploads a file, of which the end is sent after meanwhile.
func uploadHeld(t *testing.T, b *webtest.Browser, p webtest.Page, meanwhile func()) webtest.Page {
	t.Helper()
	body, kind := webtest.MultipartBody(t, webtest.File("b.txt", "the content"))
	paused := runtimetest.NewPausedBody(strings.NewReader(body[:len(body)-20]), strings.NewReader(body[len(body)-20:]))
	answered := make(chan webtest.Page, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, runtimetest.Absolute(p.Action(t, "/account/files/upload")), paused)
		if err != nil {
			panic(err)
		}
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		runtimetest.Expect(r.Header)
		answered <- b.Do(r)
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
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	rt := w.Replica(t, webtest.Many)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	uploadHeld(t, b, p, func() { w.Change(t, tenant, func(s *account.Spec) { s.Suspended = true }) }).Says(t, http.StatusForbidden, "There is no such account")
	w.Counts(t, 0, "items", "SELECT count(*) FROM stored_item")
	w.Change(t, tenant, func(*account.Spec) {})
	if got := uploadHeld(t, b, p, func() { rt.Clock.Advance(16 * time.Minute) }); got.StatusCode != http.StatusSeeOther {
		t.Errorf("a session that expired during the upload: %d %s", got.StatusCode, got.Text)
	}
	w.Counts(t, 1, "sealed items", "SELECT count(*) FROM item WHERE sealed_at IS NOT NULL")
}

func TestFiles_RejectedUploadsShowThePageAgain(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Tenant(t, account.Spec{Name: "small", DisplayName: "Small", Owners: []string{webtest.Owner}, MaxStorage: 3 << 20, MaxUploadSize: 2 << 20})
	rt := w.Replica(t, func(o *webtest.Options) { webtest.Many(o); o.Upload.MaxUploads, o.Upload.UploadQueue = 1, 0 })
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	p.Says(t, http.StatusOK, "One file of up to 2 MiB.")
	to := p.Action(t, "/account/files/upload")
	big := strings.Repeat("x", 2<<20)
	for name, tt := range map[string]struct {
		parts  []webtest.Part
		change func(*http.Request)
		status int
		text   string
	}{
		"no file chosen":    {[]webtest.Part{webtest.File("", "")}, nil, http.StatusBadRequest, "Choose a file."},
		"no file field":     {[]webtest.Part{webtest.Field("caption", "x")}, nil, http.StatusBadRequest, "Missing form field"},
		"too large":         {[]webtest.Part{webtest.File("a", big+"x")}, nil, http.StatusRequestEntityTooLarge, "The file is too large. A file may have 2 MiB."},
		"a wrong access":    {[]webtest.Part{webtest.Field("access", "everyone"), webtest.File("a", "x")}, nil, http.StatusBadRequest, "Access must be public or private."},
		"another form":      {nil, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType, "The body must be multipart/form-data."},
		"without boundary":  {nil, func(r *http.Request) { r.Header.Set("Content-Type", "multipart/form-data") }, http.StatusBadRequest, "boundary"},
		"a caption of 5 KB": {[]webtest.Part{webtest.Field("caption", strings.Repeat("c", 5000)), webtest.File("a", "x")}, nil, http.StatusBadRequest, "Caption must be at most 4096 bytes."},
	} {
		change := tt.change
		if change == nil {
			change = func(*http.Request) {}
		}
		got := b.SendFile(to, tt.parts, change)
		if got.StatusCode != tt.status || !strings.Contains(got.Text, tt.text) || !strings.Contains(got.Text, `<details class="panel upload" open>`) || !strings.Contains(got.Text, `role="alert"`) {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Text)
		}
	}
	b.Upload(p, "one.bin", big).Says(t, http.StatusOK, "The file was uploaded.")
	b.Upload(p, "two.bin", big).Says(t, http.StatusRequestEntityTooLarge, "The file does not fit: the account may store 3 MiB in all.", "2 MiB of 3 MiB used")

	// One that stalls gives its slot back.
	stalling := w.Replica(t, func(o *webtest.Options) {
		webtest.Many(o)
		o.Upload.MaxUploads, o.Upload.UploadQueue, o.Stall = 1, 0, time.Second
	})
	b.At(stalling)
	body, kind := webtest.MultipartBody(t, webtest.File("b.txt", "the content"))
	paused := runtimetest.NewPausedBody(strings.NewReader(body[:len(body)-20]), strings.NewReader(body[len(body)-20:]))
	answered := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, runtimetest.Absolute(to), paused)
		if err == nil {
			r.Header.Set("Content-Type", kind)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			runtimetest.Expect(r.Header)
			var response *http.Response
			if response, err = b.HTTP.Do(r); err == nil {
				page, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				// The session was not found with the context of a request that had ended.
				if response.StatusCode != http.StatusBadRequest || !strings.Contains(string(page), "The upload made no progress for too long") {
					t.Errorf("the client that stalled is answered %d %s", response.StatusCode, page)
				}
			}
		}
		answered <- err
	}()
	paused.Wait(t)
	b.Upload(p, "two.txt", "x").Says(t, http.StatusTooManyRequests, "Too many uploads at once")
	wait.Until(t, "the slot is free", func() bool {
		return b.SendFile(to, []webtest.Part{webtest.File("three.txt", "x")}).StatusCode == http.StatusSeeOther
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
type sealFails struct{ webfiles.Media }

// Seal fails.
func (sealFails) Seal(context.Context, account.Principal, uuid.UUID) (media.Item, error) {
	return media.Item{}, fault.New(fault.Unavailable, "away")
}

// A user whose file was stored, but not sealed, is not led to upload it again.
func TestFiles_AnUploadThatIsNotSealedIsADraft(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	w.OwnedTenant(t, "studio", webtest.Owner)
	b := w.Replica(t, func(o *webtest.Options) {
		o.UseCases = func(all webfiles.Media) webfiles.Media { return sealFails{all} }
	}).Browser(t)
	got := b.Upload(b.Login("/account/files", webtest.Owner), "kept.txt", "x")
	got.Says(t, http.StatusServiceUnavailable, "The file was uploaded, but could not be kept. Keep it here.", "Until")
	if !slices.Equal(got.Names(), []string{"kept.txt"}) {
		t.Errorf("the page lists %v", got.Names())
	}
}

// The body of an upload has the time of uploads: the owner is known before it is read. That of other
// forms has the time of requests without a credential.
func TestFiles_UploadsHaveTheTimeOfUploads(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.OwnedTenant(t, "studio", webtest.Owner)
	b := w.Replica(t).Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	b.At(w.Replica(t, func(o *webtest.Options) { o.Anonymous = time.Nanosecond }))
	expect := func(r *http.Request) { runtimetest.Expect(r.Header) } // the body is not there before it is read
	if got := b.SendFile(p.Action(t, "/account/files/upload"), []webtest.Part{webtest.File("a.txt", "a")}, expect); got.StatusCode != http.StatusSeeOther {
		t.Errorf("an upload: %d %s", got.StatusCode, got.Text)
	}
	if got := b.Send("/account/files/seal", p, url.Values{"account": {tenant.Account.ID.String()}, "item": {uuid.NewString()}}, expect); got.StatusCode != http.StatusBadRequest {
		t.Errorf("another form: %d %s", got.StatusCode, got.Text)
	}
}

// What the user typed was lost with every error.
func TestFiles_AFailedUploadKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	w := webtest.NewWorld(t)
	tenant := w.Tenant(t, account.Spec{Name: "small", DisplayName: "Small", Owners: []string{webtest.Owner}, MaxStorage: 3 << 20, MaxUploadSize: 2 << 20})
	rt := w.Replica(t, webtest.Many)
	b := rt.Browser(t)
	p := b.Login("/account/files", webtest.Owner)
	// A browser sends the fields in the order of the form.
	var order []string
	for _, name := range []string{"input", "select"} {
		for _, field := range p.Elements(t, name) {
			if name := webtest.AttributeOf(field, "name"); webtest.AttributeOf(field, "form") == "" && webtest.AttributeOf(field, "id") != "to-group" && (name == "caption" || name == "group" || name == "file") {
				order = append(order, name)
			}
		}
	}
	if !slices.Equal(order, []string{"caption", "group", "file"}) || strings.Index(p.Text, `name="access"`) > strings.Index(p.Text, `name="file"`) {
		t.Errorf("the form sends %v", order)
	}
	const caption, group = `The "last" <evening>`, "Trip & more"
	typed := []webtest.Part{webtest.Field("caption", caption), webtest.Field("group", group), webtest.Field("access", "public")}
	to := p.Action(t, "/account/files/upload")
	reject := func(name string, status int, to string, parts ...webtest.Part) {
		t.Helper()
		got := b.SendFile(to, append(slices.Clone(typed), parts...))
		if got.StatusCode != status {
			t.Fatalf("%s: %d %s", name, got.StatusCode, got.Text)
		}
		values := map[string]string{}
		for _, input := range got.Elements(t, "input") {
			if webtest.AttributeOf(input, "id") == "to-group" || webtest.AttributeOf(input, "form") == "filter" { // of the selected files, and of the list
				continue
			}
			values[webtest.AttributeOf(input, "name")] = webtest.AttributeOf(input, "value")
		}
		for _, option := range got.Elements(t, "option") {
			if webtest.AttributeOf(option, "value") == "public" && slices.ContainsFunc(option.Attr, func(a nethtml.Attribute) bool { return a.Key == "selected" }) {
				values["access"] = "public"
			}
		}
		if values["caption"] != caption || values["group"] != group || values["access"] != "public" {
			t.Errorf("%s: the form has %q", name, values)
		}
	}
	big := strings.Repeat("x", 2<<20)
	reject("no file chosen", http.StatusBadRequest, to, webtest.File("", ""))
	reject("no file", http.StatusBadRequest, to)
	reject("a little too large", http.StatusRequestEntityTooLarge, to, webtest.File("a", big+"x"))
	reject("too large by its length", http.StatusRequestEntityTooLarge, to, webtest.File("a", big+big))
	b.Upload(p, "one.bin", big).Says(t, http.StatusOK, "The file was uploaded.")
	reject("over the cap", http.StatusRequestEntityTooLarge, to, webtest.File("a", big))
	b.At(w.Replica(t, webtest.Many, func(o *webtest.Options) { o.Writable = func() error { return fmt.Errorf("held") } }))
	held := b.SendFile(to, append(slices.Clone(typed), webtest.File("a", "x")))
	held.Says(t, http.StatusServiceUnavailable, "The service cannot change files at the moment.")
	w.Counts(t, 1, "items", "SELECT count(*) FROM item WHERE account_id = $1", tenant.Account.ID)
	// The form is empty again after an upload, and in the next account.
	b.At(rt)
	for _, input := range b.Upload(p, "two.bin", "x", typed...).Elements(t, "input") {
		if name := webtest.AttributeOf(input, "name"); (name == "caption" || name == "group") && webtest.AttributeOf(input, "value") != "" {
			t.Errorf("after an upload %s is %q", name, webtest.AttributeOf(input, "value"))
		}
	}
}
