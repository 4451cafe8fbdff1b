package pages_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

var must = check.NoError

const brandColor = "#2456d6"

// toApp opens a program on the device.
const toApp = "cursor://app/callback?code=c&iss=https%3A%2F%2Fmedia.test&state=s+t"

// toUnverifiedApp leads to an application that nobody knows.
const toUnverifiedApp = "https://evil.example/cb?error=login_required&state=s+t"

func newPages(t *testing.T) *pages.Pages {
	t.Helper()
	p, err := pages.New(pages.Config{Name: "Media <storage>", Color: brandColor})
	must(t, err)
	return p
}

var (
	form    = pages.Form{Request: "the-request", CSRF: "the-csrf"}
	claude  = pages.Application{Name: "Claude", Host: "claude.ai", Website: "https://claude.ai/about", Verified: true}
	moment  = time.Date(2026, 11, 21, 14, 5, 0, 0, time.UTC)
	account = pages.Account{ID: "account-1", Name: "Studio Lopez", Detail: "team-a / studio"}
	other   = pages.Account{ID: "account-2", Name: "Archive"}
	both    = []pages.Scope{"media:read", "media:write"}
)

// everyPage renders each page in its shapes, with the given untrusted text.
func everyPage(p *pages.Pages, words string) map[string]func(io.Writer) error {
	unverified := pages.Application{Name: words, Host: words, Website: words, Scheme: ""}
	opener := pages.Application{Name: words, Scheme: words}
	accounts := []pages.Account{account, {ID: words, Name: words, Detail: words}}
	return map[string]func(io.Writer) error{
		"email": func(w io.Writer) error { return p.Email(w, pages.EmailPage{Form: form, Application: &unverified}) },
		"email, wrong": func(w io.Writer) error {
			return p.Email(w, pages.EmailPage{Form: form, Application: &claude, Email: words, Error: words})
		},
		"email for the connections": func(w io.Writer) error { return p.Email(w, pages.EmailPage{Form: form, Notice: words}) },
		"code": func(w io.Writer) error {
			return p.Code(w, pages.CodePage{Form: form, Application: &unverified, Email: words, ValidFor: 10 * time.Minute, ResendIn: 30 * time.Second})
		},
		"code, wrong": func(w io.Writer) error { return p.Code(w, pages.CodePage{Form: form, Email: words, Error: words}) },
		"code, again": func(w io.Writer) error {
			return p.Code(w, pages.CodePage{Form: form, Email: words, Resent: true, ResendError: words})
		},
		"code, of the login before": func(w io.Writer) error {
			return p.Code(w, pages.CodePage{Form: form, Email: words, Continued: true, SentAgo: 12 * time.Second})
		},
		"email, a code was sent": func(w io.Writer) error {
			return p.Email(w, pages.EmailPage{Form: form, Email: words, Error: words, CodeSent: true, SentAgo: 12 * time.Second})
		},
		"deleting a file after a new login": func(w io.Writer) error {
			return p.DeleteFile(w, pages.DeleteFilePage{Form: form, Account: accounts[1], File: filesPage(words).Files[0], Back: words, BackURL: "/account/files", Permanent: true, LoginURL: "/oauth/login?change=1"})
		},
		"problem with links": func(w io.Writer) error {
			return p.Error(w, pages.ErrorPage{Title: "Expired", Text: words, Links: []pages.PageLink{{Text: "Log in again", URL: "/account/files?account=1"}}})
		},
		"consent": func(w io.Writer) error {
			return p.Consent(w, pages.ConsentPage{Form: form, Application: unverified, Email: words, Accounts: accounts[:1], Scopes: both})
		},
		"consent with a choice": func(w io.Writer) error {
			return p.Consent(w, pages.ConsentPage{Form: form, Application: opener, Email: words, Accounts: accounts, Scopes: []pages.Scope{pages.Scope(words)}, Error: words})
		},
		"connections": func(w io.Writer) error {
			return p.AuthorizedApps(w, pages.AuthorizedAppsPage{Form: form, Email: words, Error: words, Notice: words, Apps: []pages.AuthorizedApp{
				{ID: words, Name: words, Host: words, Account: words, Scopes: []pages.Scope{pages.Scope(words)}, Since: moment},
				{ID: "c2", Name: "Claude", Host: "claude.ai", Account: "Studio", Scopes: both, Verified: true, Since: moment, LastUsed: moment},
			}})
		},
		"no connections": func(w io.Writer) error {
			return p.AuthorizedApps(w, pages.AuthorizedAppsPage{Form: form, Email: words, Endpoint: words})
		},
		"email for the files": func(w io.Writer) error {
			return p.Email(w, pages.EmailPage{Form: form, Files: true, Notice: words})
		},
		"connections beside files": func(w io.Writer) error {
			return p.AuthorizedApps(w, pages.AuthorizedAppsPage{Form: form, Email: words, FilesURL: "/account/files?request=the-request"})
		},
		"files": func(w io.Writer) error { return p.Files(w, filesPage(words)) },
		"files, without a match": func(w io.Writer) error {
			page := filesPage(words)
			page.Files, page.Usage, page.Error, page.Notice, page.Several = nil, nil, "", words, false
			return p.Files(w, page)
		},
		"files, deleted": func(w io.Writer) error {
			page := filesPage(words)
			page.State, page.Deleted, page.Notice, page.Error = "deleted", []string{words, words}, words, ""
			page.Files = []pages.File{{ID: words, Name: words, DeletedAt: moment, RestorableUntil: moment, CanRestore: true}}
			return p.Files(w, page)
		},
		"files, a failed upload": func(w io.Writer) error {
			page := filesPage(words)
			page.State, page.Error, page.UploadError, page.UploadURL = "draft", "", words, ""
			page.Typed = pages.TypedUpload{Caption: words, Group: words, Public: true}
			return p.Files(w, page)
		},
		"files, read only": func(w io.Writer) error {
			return p.Files(w, pages.FilesPage{Form: form, Account: accounts[1], Email: words})
		},
		"a file": func(w io.Writer) error { return p.ViewFile(w, viewFilePage(words)) },
		"a recording": func(w io.Writer) error {
			page := viewFilePage(words)
			page.Kind, page.Large, page.Edit, page.Error = "video", thumbnail, nil, ""
			return p.ViewFile(w, page)
		},
		"a file, read only": func(w io.Writer) error {
			return p.ViewFile(w, pages.ViewFilePage{Form: form, Account: accounts[1], File: filesPage(words).Files[1], Kind: "audio", Large: thumbnail, BackURL: "/account/files"})
		},
		"problem with what was typed": func(w io.Writer) error {
			return p.Error(w, pages.ErrorPage{Title: "Expired", Text: words, Typed: []pages.Typed{{Name: words, Text: words}}})
		},
		"deleting a file": func(w io.Writer) error {
			return p.DeleteFile(w, pages.DeleteFilePage{Form: form, Account: accounts[1], File: filesPage(words).Files[0], Back: words, BackURL: "/account/files", Permanent: true})
		},
		"deleting several files": func(w io.Writer) error {
			return p.DeleteFile(w, pages.DeleteFilePage{Form: form, Account: accounts[1], Items: []string{words, "2"}, Back: words, BackURL: "/account/files", Permanent: true})
		},
		"deleting a file, with undo": func(w io.Writer) error {
			return p.DeleteFile(w, pages.DeleteFilePage{Form: form, Account: accounts[1], File: filesPage(words).Files[1], Back: words, BackURL: "/account/files"})
		},
		"approval": func(w io.Writer) error { return p.Approval(w, approvalPage(words)) },
		"approval, after a new login": func(w io.Writer) error {
			page := approvalPage(words)
			page.LoginURL, page.Error = "/oauth/login?change=1", words
			return p.Approval(w, page)
		},
		"approval, carried out": func(w io.Writer) error {
			page := approvalPage(words)
			page.State, page.Application, page.KeyID = "done", "", "0199f3c2-5f0a-7c4e-8f5e-0d5a6f1b2c3d"
			for i, state := range []string{"done", "changed", "failed"} {
				page.Steps[i].State, page.Steps[i].Failure = state, words
			}
			return p.Approval(w, page)
		},
		"request for a file": func(w io.Writer) error { return p.UploadRequest(w, uploadRequestPage(words)) },
		"request for a file, on its way": func(w io.Writer) error {
			page := uploadRequestPage(words)
			page.State, page.Resumable, page.Received, page.Length, page.Error = "uploading", true, 3<<20, 10<<20, ""
			return p.UploadRequest(w, page)
		},
		"request for a file, in one request": func(w io.Writer) error {
			page := uploadRequestPage(words)
			page.State, page.Asker, page.Types, page.Error = "uploading", "", nil, ""
			return p.UploadRequest(w, page)
		},
		"request for a file, uploaded": func(w io.Writer) error {
			return p.UploadRequest(w, pages.UploadRequestPage{State: "uploaded", UploadedName: words, UploadedBytes: 5})
		},
		"request for a file, rejected": func(w io.Writer) error { return p.UploadRequest(w, pages.UploadRequestPage{State: "rejected"}) },
		"request for a file, deleted":  func(w io.Writer) error { return p.UploadRequest(w, pages.UploadRequestPage{State: "deleted"}) },
		"request for a file, expired":  func(w io.Writer) error { return p.UploadRequest(w, pages.UploadRequestPage{State: "expired"}) },
		"choice of an account": func(w io.Writer) error {
			return p.ChooseAccount(w, pages.ChooseAccountPage{Form: form, Email: words, Accounts: accounts})
		},
		"choice of an account for its activity": func(w io.Writer) error {
			return p.ChooseAccount(w, pages.ChooseAccountPage{Form: form, Email: words, Accounts: accounts, Activity: true})
		},
		"activity": func(w io.Writer) error { return p.Activity(w, activityPage(words)) },
		"activity, without a match": func(w io.Writer) error {
			page := activityPage(words)
			page.Events, page.Error = nil, ""
			return p.Activity(w, page)
		},
		"activity, wrong": func(w io.Writer) error {
			page := activityPage(words)
			page.Events, page.FirstURL, page.OlderURL = nil, "", ""
			return p.Activity(w, page)
		},
		"activity, without a journal": func(w io.Writer) error {
			return p.Activity(w, pages.ActivityPage{Form: form, Account: accounts[1], Email: words, Off: true})
		},
		"no account": func(w io.Writer) error {
			return p.ChooseAccount(w, pages.ChooseAccountPage{Form: form, Email: words})
		},
		"return": func(w io.Writer) error {
			return p.AppRedirect(w, pages.AppRedirectPage{Application: opener, Link: toApp, Allowed: true})
		},
		"return, denied": func(w io.Writer) error {
			return p.AppRedirect(w, pages.AppRedirectPage{Application: opener, Link: toApp})
		},
		"problem": func(w io.Writer) error {
			return p.Error(w, pages.ErrorPage{Title: "Expired", Text: words, Hint: words})
		},
		"problem with a way back": func(w io.Writer) error {
			return p.Error(w, pages.ErrorPage{Title: "No", Text: words, Back: &pages.BackLink{Host: words, Link: toUnverifiedApp}})
		},
	}
}

// uploadRequestPage is a request with all that it can have.
func uploadRequestPage(words string) pages.UploadRequestPage {
	return pages.UploadRequestPage{ID: "1", State: "waiting", URL: "/upload/mup_1", Asker: words, Account: words, FileName: words, Caption: words, Types: []string{"image/*", words}, MaxBytes: 2 << 30, ExpiresAt: moment, Error: words}
}

// thumbnail is where the pages load the picture of a file.
const thumbnail = "/media/file/1/thumbnail/a.webp"

// filesPage is a page with all that it can have.
func filesPage(words string) pages.FilesPage {
	total := int64(1234)
	return pages.FilesPage{Form: form, EndsIn: 900, Email: words, Account: pages.Account{ID: words, Name: words, Detail: words}, App: words, Several: true, Usage: &pages.Usage{Used: 3 << 29, Max: 10 << 30},
		Tabs:   []pages.Tab{{Name: "Files", URL: "/account/files?request=the-request", Current: true}, {Name: "Drafts", URL: "/account/files?state=draft"}},
		Filter: pages.FileFilter{Words: words, Name: words, Type: words, From: words, To: words, Size: words, Sort: words}, Total: &total, Back: words, FirstURL: "/account/files?a", NextURL: "/account/files?b", ClearURL: "/account/files?c",
		UploadURL: "/account/files/upload?csrf=the-csrf&request=the-request", UploadDraftURL: "/account/files/upload?csrf=the-csrf&draft=1&request=the-request", MaxUploadSize: 2 << 30, Script: &pages.UploadScript{SignatureURL: "/account/files/signature?request=the-request", ListURL: "/account/files?request=the-request", Draft: true}, Error: words, Selection: pages.Selection{Keep: true, Restore: true, Change: true, Download: true, Delete: true}, Groups: []string{words}, SelectURL: "/account/files?select=all", PreviousURL: "/account/files?before=b",
		Running: &pages.RunningUploads{More: true, Uploads: []pages.RunningUpload{{ID: words, Name: words, Size: 10 << 20, Received: 3 << 20, Age: 3 * time.Hour, ExpiresAt: moment, CanCancel: true}, {ID: "3", Name: "c.bin", Size: -1, ExpiresAt: moment}}},
		Files: []pages.File{
			{ID: words, Name: words, Type: words, Size: 5, Caption: words, Group: words, Public: true, At: moment, URL: "/media/file/1/original/a.jpg", ViewURL: "/account/files/view?item=1", Thumbnail: thumbnail, Width: 640, Height: 480, Original: &pages.Original{URL: "/media/file/1/original/a.png", Type: words, Size: 7}, CanDelete: true, DeleteURL: "/account/files/delete?item=1"},
			{ID: "2", Name: "b.pdf", Type: "application/pdf", Size: 1 << 20, At: moment, URL: "/media/file/2/original/b.pdf", ViewURL: "/account/files/view?item=2", ExpiresAt: moment, CanSeal: true, CanDelete: true},
		}}
}

// viewFilePage is the page of a file with all that it can have.
func viewFilePage(words string) pages.ViewFilePage {
	return pages.ViewFilePage{Form: form, EndsIn: 900, Account: pages.Account{ID: words, Name: words, Detail: words}, File: filesPage(words).Files[0], Kind: "image", Large: thumbnail,
		Facts: []pages.Fact{{Name: words, Text: words}, {Name: "Uploaded", At: moment}}, Back: words, BackURL: "/account/files?a", PreviousURL: "/account/files/view?item=0", NextURL: "/account/files/view?item=2",
		Edit:  &pages.EditFile{Name: words, Caption: words, Group: words, Public: true, Metadata: []pages.Pair{{Key: words, Value: words}, {}}, Groups: []string{words}, Version: 3, Open: true},
		Share: &pages.ShareFile{URL: "/media/file/1/original/a.jpg?signature=s", Until: moment, Times: []pages.Option{{Value: "1h", Name: "1 hour"}}}, Notice: words, Error: words}
}

// activityPage is a page with all that it can have.
func activityPage(words string) pages.ActivityPage {
	return pages.ActivityPage{Form: form, Email: words, Account: pages.Account{ID: words, Name: words, Detail: words}, Several: true, Kept: 168 * time.Hour, Filter: pages.ActivityFilter{Type: words, File: words}, Error: words,
		FirstURL: "/account/activity?a", OlderURL: "/account/activity?b", ClearURL: "/account/activity?c",
		Events: []pages.ActivityEvent{
			{At: moment, Type: words, FileID: words, FileName: words, FileURL: "/account/files?name=a", HistoryURL: "/account/activity?item=1", Actor: pages.ActivityActor{Kind: "login", Name: words, Email: words}, Fields: []string{words, "fileName"}},
			{At: moment, Type: "media.deleted", FileID: "2", App: words, Actor: pages.ActivityActor{Kind: words, Email: words}},
			{At: moment, Type: "key.issued", Actor: pages.ActivityActor{Kind: "operator"}},
		}}
}

// document is a page that was read.
type document struct {
	*html.Node
	source string
}

func read(t *testing.T, page func(io.Writer) error) document {
	t.Helper()
	var out bytes.Buffer
	must(t, page(&out))
	node, err := html.Parse(strings.NewReader(out.String()))
	must(t, err)
	return document{node, out.String()}
}

// all returns the elements with one of these names, in order; of any name without one.
func (d document) all(names ...string) []document {
	var found []document
	for n := range d.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		for _, name := range names {
			if n.Data == name {
				found = append(found, document{n, d.source})
			}
		}
		if len(names) == 0 {
			found = append(found, document{n, d.source})
		}
	}
	return found
}

// get returns an attribute.
func (d document) get(name string) string {
	for _, a := range d.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func (d document) has(name string) bool {
	for _, a := range d.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

// text is what can be read, in one line.
func (d document) text() string {
	var out strings.Builder
	for n := range d.Descendants() {
		if n.Type == html.TextNode {
			out.WriteString(n.Data)
		}
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// fields are the values of a form, hidden ones included.
func (d document) fields() map[string]string {
	fields := map[string]string{}
	for _, input := range d.all("input") {
		fields[input.get("name")] = input.get("value")
	}
	return fields
}

// form returns the form that posts to a path.
func (d document) form(t *testing.T, action string) document {
	t.Helper()
	for _, form := range d.all("form") {
		if path, _, _ := strings.Cut(form.get("action"), "?"); path == action {
			return form
		}
	}
	t.Fatalf("no form posts to %s:\n%s", action, d.source)
	return document{}
}

// approvalPage is a page with a change of each kind.
func approvalPage(words string) pages.ApprovalPage {
	files := filesPage(words).Files
	return pages.ApprovalPage{Form: form, Account: pages.Account{ID: "0198", Name: words}, ApprovalID: "0199", Revision: 2, Application: words, By: words, State: "waiting", More: 20, Permanent: true, Steps: []pages.ApprovalStep{
		{Tool: "delete_media", File: &files[0], FileID: files[0].ID, State: "waiting"},
		{Tool: "update_media", File: &files[1], FileID: files[1].ID, Missing: true, State: "waiting", Details: []pages.ApprovalDetail{{Name: "access", Value: "public"}, {Name: "caption", Value: words}}},
		{Tool: "update_media_settings", State: "waiting", Details: []pages.ApprovalDetail{{Name: "useWebP", Value: "true"}}},
		{Tool: "restore_media", FileID: words, State: "waiting"}}}
}
