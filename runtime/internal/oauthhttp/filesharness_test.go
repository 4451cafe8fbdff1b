package oauthhttp_test

import (
	"bytes"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
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
