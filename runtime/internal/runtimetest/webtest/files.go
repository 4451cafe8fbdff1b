package webtest

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

	nethtml "golang.org/x/net/html"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
)

// Many permits any number of logins.
func Many(o *Options) {
	o.Login.CodesPerEmail, o.Login.AttemptsPerEmail, o.Login.CodesPerIP = 100, 100, 1000
}

// Undoable is a tenant whose deletes can be undone.
func (w *World) Undoable(t *testing.T, name string, owners ...string) runtimetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, DisplayName: "The " + name, Owners: owners, MaxStorage: 64 << 20, MaxUploadSize: 24 << 20,
		Undo: account.Undo{Window: time.Hour, For: account.UndoAgents}})
}

// Actions returns the URLs of the forms and links of a page that begin with a path.
func (p Page) Actions(path string) []string {
	var found []string
	for _, match := range regexp.MustCompile(`(?:action|formaction|href)="(`+regexp.QuoteMeta(path)+`\?[^"]*)"`).FindAllStringSubmatch(p.Text, -1) {
		found = append(found, html.UnescapeString(match[1]))
	}
	return found
}

// Action returns the first of them.
func (p Page) Action(t *testing.T, path string) string {
	t.Helper()
	found := p.Actions(path)
	if len(found) == 0 {
		t.Fatalf("the page leads nowhere at %s: %d %s", path, p.StatusCode, p.Text)
	}
	return found[0]
}

// Part is a part of a multipart form.
type Part struct{ Name, File, Value string }

// File returns the part of a file.
func File(name, content string) Part { return Part{Name: "file", File: name, Value: content} }

// Field returns the part of another field.
func Field(name, value string) Part { return Part{Name: name, Value: value} }

// MultipartBody returns the body of a form as browsers send it, with its type.
func MultipartBody(t *testing.T, parts ...Part) (string, string) {
	t.Helper()
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	for _, p := range parts {
		var to io.Writer
		var err error
		if p.Name == "file" {
			to, err = writer.CreateFormFile(p.Name, p.File)
		} else {
			to, err = writer.CreateFormField(p.Name)
		}
		must(t, err)
		_, err = io.WriteString(to, p.Value)
		must(t, err)
	}
	must(t, writer.Close())
	return body.String(), writer.FormDataContentType()
}

// SendFile posts a file to the URL of an upload form.
func (b *Browser) SendFile(to string, parts []Part, change ...func(*http.Request)) Page {
	b.t.Helper()
	body, kind := MultipartBody(b.t, parts...)
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, runtimetest.Absolute(to), strings.NewReader(body))
	must(b.t, err)
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Origin", BaseURL)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, apply := range change {
		apply(r)
	}
	return b.Do(r)
}

// Upload uploads a file with the form of the page and returns the next page.
func (b *Browser) Upload(p Page, name, content string, more ...Part) Page {
	b.t.Helper()
	return b.Follow(b.SendFile(p.Action(b.t, "/account/files/upload"), append([]Part{File(name, content)}, more...)))
}

// Change posts a form about an item.
func (b *Browser) Change(action string, p Page, of runtimetest.Tenant, item string, more ...string) Page {
	b.t.Helper()
	fields := url.Values{"account": {of.Account.ID.String()}, "item": {item}}
	for i := 0; i+1 < len(more); i += 2 {
		fields.Set(more[i], more[i+1])
	}
	return b.Post("/account/files/"+action, p, fields)
}

// Says requires a page with these texts.
func (p Page) Says(t *testing.T, status int, texts ...string) {
	t.Helper()
	if p.StatusCode != status {
		t.Fatalf("%d, want %d: %s", p.StatusCode, status, p.Text)
	}
	for _, text := range texts {
		if !strings.Contains(p.Text, html.EscapeString(text)) {
			t.Errorf("the page lacks %q: %s", text, p.Text)
		}
	}
}

// Names returns the names of the files on a page, in order.
func (p Page) Names() []string {
	names := []string{}
	for _, match := range regexp.MustCompile(`<h3 id="file-\d+">(?:<a [^>]*>)?<bdi>([^<]*)</bdi>`).FindAllStringSubmatch(p.Text, -1) {
		names = append(names, html.UnescapeString(match[1]))
	}
	return names
}

// Item makes an item of a tenant, by the use cases.
func (rt *Replica) Item(t *testing.T, w *World, of runtimetest.Tenant, name, content string, seal bool) media.Item {
	t.Helper()
	p := w.Principal(t, of)
	upload, err := rt.Uploads.Begin(t.Context(), p, 0)
	must(t, err)
	defer upload.Close(t.Context())
	must(t, upload.Receive(t.Context(), strings.NewReader(content), ""))
	item, err := upload.Commit(t.Context(), media.Fields{FileName: name})
	must(t, err)
	if seal {
		item, err = rt.Media.Seal(t.Context(), p, item.ID)
		must(t, err)
	}
	return item
}

// Rows returns the state of all items: it changes with each of them.
func (w *World) Rows(t *testing.T) string {
	t.Helper()
	return w.Text(t, "SELECT coalesce(string_agg(i::text, ',' ORDER BY i.id), '') FROM stored_item i")
}

// Elements returns the elements of a page with this name.
func (p Page) Elements(t *testing.T, name string) []*nethtml.Node {
	t.Helper()
	root, err := nethtml.Parse(strings.NewReader(p.Text))
	must(t, err)
	var found []*nethtml.Node
	for n := range root.Descendants() {
		if n.Type == nethtml.ElementNode && n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

// AttributeOf returns an attribute of an element.
func AttributeOf(n *nethtml.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// TextOf returns what can be read in an element, in one line.
func TextOf(n *nethtml.Node) string {
	var text strings.Builder
	for child := range n.Descendants() {
		if child.Type == nethtml.TextNode {
			text.WriteString(child.Data + " ")
		}
	}
	return strings.Join(strings.Fields(text.String()), " ")
}
