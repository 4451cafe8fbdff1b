package oauthhttp_test

import (
	"context"
	"fmt"
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
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
)

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
	w.Counts(t, 0, "items", "SELECT count(*) FROM stored_item")
	w.Change(t, tenant, func(*account.Spec) {})
	if got := b.uploadHeld(t, p, func() { rt.clock.Advance(16 * time.Minute) }); got.StatusCode != http.StatusSeeOther {
		t.Errorf("a session that expired during the upload: %d %s", got.StatusCode, got.body)
	}
	w.Counts(t, 1, "sealed items", "SELECT count(*) FROM item WHERE sealed_at IS NOT NULL")
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
	w.Counts(t, 1, "items", "SELECT count(*) FROM item WHERE account_id = $1", tenant.Account.ID)
	// The form is empty again after an upload, and in the next account.
	b.at(rt)
	for _, input := range b.upload(p, "two.bin", "x", typed...).elements(t, "input") {
		if name := attributeOf(input, "name"); (name == "caption" || name == "group") && attributeOf(input, "value") != "" {
			t.Errorf("after an upload %s is %q", name, attributeOf(input, "value"))
		}
	}
}
