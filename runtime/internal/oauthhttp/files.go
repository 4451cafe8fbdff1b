package oauthhttp

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/accountmetrics"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/settings"
)

// The files page shows the files of one account of the logged-in user, in the Default App, for which
// a login stands. Everything that it needs is in the URL, the form or the database, so that any
// replica answers each request: notices are codes in the URL of the next page.

// Media are the use cases of the files page. media.Service implements it.
type Media interface {
	Find(ctx context.Context, p account.Principal, q media.Query) (media.Results, error)
	ListDeleted(ctx context.Context, p account.Principal, page, limit int) (media.DeletedPage, error)
	Usage(ctx context.Context, p account.Principal) (media.Usage, error)
	Get(ctx context.Context, p account.Principal, id uuid.UUID) (media.Item, error)
	Begin(ctx context.Context, p account.Principal, sizeHint int64) (*media.Upload, error)
	Seal(ctx context.Context, p account.Principal, id uuid.UUID) (media.Item, error)
	Delete(ctx context.Context, p account.Principal, id uuid.UUID, options media.DeleteOptions) (restorableUntil *time.Time, err error)
	Restore(ctx context.Context, p account.Principal, id uuid.UUID) (media.Item, error)
}

var _ Media = (*media.Service)(nil)

// Files are the dependencies of the files page.
type Files struct {
	Media Media
	// Uploads are the resumable uploads that are running; nil = they are not shown.
	Uploads RunningUploads
	URLs    api.URLs
	// Settings are those of accounts, by which originals are public.
	Settings api.SettingsOf
	// StoreOrigin returns the origin to which the URLs of a bucket's files redirect; empty = they do not.
	StoreOrigin func(ctx context.Context, bucket string) (string, error)
	// DraftTTL is the age at which a draft is purged.
	DraftTTL time.Duration
	// CheckWritable rejects operations that cannot be carried out now.
	CheckWritable func(account.Operation) error
}

// mountFiles adds the routes of the files page.
func (a *API) mountFiles(r chi.Router) {
	r.Get(filesPath, a.showFiles)
	r.Get(deleteFilePath, a.showDeleteFile)
	r.Post(uploadFilePath, a.uploadFile)
	r.Post(sealFilePath, a.csrfProtected(a.sealFile))
	r.Post(deleteFilePath, a.csrfProtected(a.deleteFile))
	r.Post(restoreFilePath, a.csrfProtected(a.restoreFile))
	if a.Files.Uploads != nil {
		r.Post(cancelUploadPath, a.csrfProtected(a.cancelUpload))
		r.Get(cancelUploadPath, a.redirectToFiles)
	}
	for _, path := range []string{uploadFilePath, sealFilePath, restoreFilePath} {
		r.Get(path, a.redirectToFiles)
	}
}

// filesURL returns the URL of the files page for a session. query has the other parameters.
func filesURL(session oauth.LoginSession, query url.Values) string {
	return sessionURL(filesPath, session, query)
}

// sessionURL returns the URL of a page or a form of a session.
func sessionURL(path string, session oauth.LoginSession, query url.Values) string {
	all := url.Values{}
	maps.Copy(all, query)
	all.Set("request", session.ID.String())
	return path + "?" + all.Encode()
}

// redirectToFiles handles GET requests for the URL of a form, where the browser stays if the form is
// answered with an error.
func (a *API) redirectToFiles(w http.ResponseWriter, r *http.Request) {
	query := url.Values{}
	for _, name := range []string{"request", "account"} {
		query.Set(name, r.URL.Query().Get(name))
	}
	a.seeOther(w, filesPath+"?"+query.Encode())
}

// fileOwner is the logged-in user of a request, and the principal whose files are shown.
type fileOwner struct {
	session   oauth.LoginSession
	principal account.Principal
}

// url returns the URL of a page or a form about the account. query has the other parameters.
func (o fileOwner) url(path string, query url.Values) string {
	all := url.Values{}
	maps.Copy(all, query)
	all.Set("account", o.principal.Account.ID.String())
	return sessionURL(path, o.session, all)
}

// findFileOwner returns the owner with the account that the text names, and counts the request
// towards the limit of its key, as a request with a token of a login. From here on the request has a
// credential.
func (a *API) findFileOwner(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, text string) (fileOwner, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return fileOwner{}, oauth.ReasonNotOwner.Fault()
	}
	p, err := a.OAuth.Principal(r.Context(), session, id)
	if err != nil {
		return fileOwner{}, err
	}
	decision := a.Limits.AllowKey(p.Key.ID)
	decision.AddHeaders(w.Header())
	if err := decision.Err(); err != nil {
		return fileOwner{}, err
	}
	info := httpapi.FromContext(r.Context())
	info.AccountID, info.AppID, info.KeyID = p.Account.ID, p.App.ID, p.Key.ID
	info.Account = accountmetrics.Account{ID: p.Account.ID, Namespace: p.Account.Namespace, Name: p.Account.Name}
	if err := httpapi.AdmitBody(r.Context(), p.Account.ID); err != nil {
		return fileOwner{}, err
	}
	return fileOwner{session: session, principal: p}, nil
}

// checkOperation rejects what a login may not do in the account, and changes that cannot be carried
// out now.
func (a *API) checkOperation(p account.Principal, operation account.Operation) error {
	if !p.Account.ToolPolicy.Allows(operation) {
		return fault.New(fault.Forbidden, "This account does not allow logins to do this.")
	}
	return a.Files.CheckWritable(operation)
}

// may reports whether a login may do something in the account.
func (a *API) may(p account.Principal, operation account.Operation) bool {
	return a.checkOperation(p, operation) == nil
}

// showFiles shows the files of an account. Without a session it starts a login. An owner of several
// accounts chooses one.
func (a *API) showFiles(w http.ResponseWriter, r *http.Request) {
	session, ok := a.requireUser(w, r, destinationOf(filesPage, r.URL.Query()))
	if !ok {
		return
	}
	query := r.URL.Query()
	id := query.Get("account")
	if id == "" {
		accounts, err := a.OAuth.Accounts(r.Context(), session)
		switch {
		case err != nil:
			a.errorPage(w, r, err)
			return
		case len(accounts) != 1:
			a.chooseAccount(w, r, session, accounts)
			return
		}
		id = accounts[0].ID.String()
	}
	o, err := a.findFileOwner(w, r, session, id)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	done := query.Get("done")
	message := filesMessage{notice: doneNotices[done], cancelled: done == "cancelled" || done == "ended"}
	if done == "deleted" {
		message.deleted = query.Get("deleted")
	}
	a.writeFilesPage(w, r, o, listQuery(query), message)
}

// chooseAccount shows the accounts of the user.
func (a *API) chooseAccount(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, accounts []account.Account) {
	page := pages.ChooseAccountPage{Form: a.formFields(session), Email: session.Email}
	for _, owned := range accounts {
		page.Accounts = append(page.Accounts, accountChoice(owned))
	}
	a.page(w, r, http.StatusOK, "", func(to io.Writer) error { return a.Pages.ChooseAccount(to, page) })
}

// The states that the page lists.
const (
	sealedFiles  = ""
	draftFiles   = "draft"
	deletedFiles = "deleted"
)

// listParameters are the parameters of a list.
var listParameters = []string{"state", "name", "type", "sort", "after", "page"}

// listQuery returns the parameters of a list that are set.
func listQuery(values url.Values) url.Values {
	query := url.Values{}
	for _, name := range listParameters {
		if value := values.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// with returns the parameters of a list with others. An empty value removes one.
func with(query url.Values, pairs ...string) url.Values {
	changed := maps.Clone(query)
	for i := 0; i+1 < len(pairs); i += 2 {
		changed.Set(pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			changed.Del(pairs[i])
		}
	}
	return changed
}

// fileList is a part of a list.
type fileList struct {
	files []pages.File
	total *int64     // of the whole list; nil = not known
	next  url.Values // the parameters of the next part; nil = there is none
}

// list returns a part of a list of the account's files.
func (a *API) list(ctx context.Context, o fileOwner, query url.Values) (fileList, error) {
	switch query.Get("state") {
	case sealedFiles:
		return a.find(ctx, o, query, account.ListMedia)
	case draftFiles:
		return a.find(ctx, o, query, account.ListDrafts)
	case deletedFiles:
		return a.listDeleted(ctx, o, query)
	}
	return fileList{}, fault.New(fault.Invalid, "state must be draft or deleted")
}

func (a *API) find(ctx context.Context, o fileOwner, query url.Values, operation account.Operation) (fileList, error) {
	if err := a.checkOperation(o.principal, operation); err != nil {
		return fileList{}, err
	}
	q, err := media.QueryText{State: query.Get("state"), Name: query.Get("name"), Type: query.Get("type"), Sort: query.Get("sort"), After: query.Get("after"), Limit: &a.cfg.FilesPerPage}.Parse()
	if err != nil {
		return fileList{}, err
	}
	results, err := a.Files.Media.Find(ctx, o.principal, q)
	if err != nil {
		return fileList{}, err
	}
	originals := a.originals(ctx, o.principal.Account.ID)
	list := fileList{total: results.Total}
	for _, item := range results.Items {
		list.files = append(list.files, a.fileView(o, originals, item, query))
	}
	if results.Next != "" {
		list.next = with(query, "after", results.Next, "page", "")
	}
	return list, nil
}

func (a *API) listDeleted(ctx context.Context, o fileOwner, query url.Values) (fileList, error) {
	if err := a.checkOperation(o.principal, account.ListDeletedMedia); err != nil {
		return fileList{}, err
	}
	number, err := strconv.Atoi(cmp.Or(query.Get("page"), "1"))
	if err != nil {
		return fileList{}, fault.New(fault.Invalid, "page must be an integer")
	}
	page, err := a.Files.Media.ListDeleted(ctx, o.principal, number, a.cfg.FilesPerPage)
	if err != nil {
		return fileList{}, err
	}
	list := fileList{total: &page.Total}
	for _, item := range page.Items {
		view := a.commonView(item.Item)
		view.DeletedAt, view.RestorableUntil = item.DeletedAt, item.RestorableUntil
		view.CanRestore = a.may(o.principal, account.RestoreMedia)
		list.files = append(list.files, view)
	}
	if int64(number)*int64(page.Limit) < page.Total {
		list.next = with(query, "page", strconv.Itoa(number+1), "after", "")
	}
	return list, nil
}

// commonView returns what the page shows of every file.
func (a *API) commonView(item media.Item) pages.File {
	file := item.File()
	return pages.File{ID: item.ID.String(), Name: item.FileName, Type: file.MimeType, Size: file.Bytes, Caption: item.Caption, Group: item.Group,
		Public: item.Access == media.Public, At: item.CreatedAt}
}

// originals returns whether the originals of an account are public. While that cannot be read, their URLs are
// signed, which are valid whatever it is.
func (a *API) originals(ctx context.Context, accountID uuid.UUID) settings.Originals {
	layers, err := a.Files.Settings.Get(ctx, accountID)
	if err != nil {
		return settings.OriginalsSigned
	}
	originals, _ := layers.Originals()
	return originals
}

// fileView returns a file that is not deleted as the page shows it. query is the list to return to.
func (a *API) fileView(o fileOwner, originals settings.Originals, item media.Item, query url.Values) pages.File {
	view := a.commonView(item)
	file := item.File()
	view.URL = a.Files.URLs.URL(item, file, originals)
	if original, ok := item.Objects.Find(media.Original); ok && file.Variant != media.Original {
		view.Original = &pages.Original{URL: a.Files.URLs.URL(item, original, originals), Type: original.MimeType, Size: original.Bytes}
	}
	if thumbnail, ok := item.Objects.Find(media.Thumbnail); ok {
		view.Thumbnail = a.Files.URLs.URL(item, thumbnail, originals)
	}
	if item.Draft() {
		view.ExpiresAt = item.CreatedAt.Add(a.Files.DraftTTL)
		view.CanSeal = a.may(o.principal, account.SealMedia)
	}
	if a.may(o.principal, account.DeleteMedia) {
		view.CanDelete = true
		if isPermanentDelete(o.principal, item) {
			view.DeleteURL = o.url(deleteFilePath, with(url.Values{}, "item", view.ID, "back", query.Encode()))
		}
	}
	return view
}

// filesMessage is what the page says about what the user did before.
type filesMessage struct {
	err    error        // of the form that the page answers; nil = none
	upload bool         // err is about the upload form
	typed  media.Fields // what the user typed in it
	text   string       // instead of that of err; empty = that of err
	notice string
	// deleted is the id of an item that was deleted just now and can be restored, as the URL has it.
	deleted string
	// cancelled is set after the end of a running upload.
	cancelled bool
}

// doneNotices are the notices by the code in the URL.
var doneNotices = map[string]string{
	"uploaded":  "The file was uploaded.",
	"drafted":   "The file was uploaded as a draft.",
	"sealed":    "The file was sealed: it stays.",
	"deleted":   "The file was deleted.",
	"permanent": "The file was deleted permanently.",
	"restored":  "The file was restored.",

	"cancelled": "The upload was cancelled, and its room is free again.",
	"ended":     "This upload was no longer running: it is complete, was cancelled, or has expired.",
}

// writeFilesPage writes the page with a list of files.
func (a *API) writeFilesPage(w http.ResponseWriter, r *http.Request, o fileOwner, query url.Values, message filesMessage) {
	allowed, err := a.imageSources(r.Context(), o.principal.Account.Bucket)
	if err != nil {
		a.errorPage(w, r, cmp.Or(message.err, err))
		return
	}
	page, err := a.filesContent(r.Context(), o, query)
	switch kind := fault.From(err).Kind; {
	case err == nil:
	case kind == fault.Invalid, kind == fault.Forbidden:
		message.err = cmp.Or(message.err, err)
	default:
		a.errorPage(w, r, cmp.Or(message.err, err))
		return
	}
	page.Notice = message.notice
	if page.Running != nil {
		page.Running.Shown = message.cancelled
	}
	if id, err := uuid.Parse(message.deleted); err == nil && a.may(o.principal, account.RestoreMedia) {
		page.Deleted = id.String()
	}
	status := http.StatusOK
	if message.err != nil {
		status = a.fail(w, r, message.err)
		text := cmp.Or(message.text, fileErrorText(o.principal.Account, message.err))
		if message.upload && page.UploadDraftURL != "" {
			page.UploadError = text
			page.Typed = pages.TypedUpload{Caption: message.typed.Caption, Group: message.typed.Group, Public: message.typed.Access == media.Public}
		} else {
			page.Error = text
		}
	}
	a.pageWith(w, r, status, allowed, func(to io.Writer) error { return a.Pages.Files(to, page) })
}

// filesContent returns the page without a message. With the error of a list, which may be about its
// parameters, it returns the rest of the page.
func (a *API) filesContent(ctx context.Context, o fileOwner, query url.Values) (pages.FilesPage, error) {
	p := o.principal
	page := pages.FilesPage{Form: a.formFields(o.session), Email: o.session.Email, Account: accountChoice(p.Account), App: p.App.Name,
		State: query.Get("state"), Back: query.Encode(), MaxUploadSize: min(p.Account.MaxUploadSize, p.Account.MaxStorage),
		Filter: pages.FileFilter{Name: query.Get("name"), Type: query.Get("type"), Sort: query.Get("sort")}}
	accounts, err := a.OAuth.Accounts(ctx, o.session)
	if err != nil {
		return page, err
	}
	page.Several = len(accounts) > 1
	for _, tab := range []struct{ name, state string }{{"Files", sealedFiles}, {"Drafts", draftFiles}, {"Deleted", deletedFiles}} {
		if tab.state != deletedFiles || p.Account.Undo.Window > 0 || page.State == deletedFiles {
			page.Tabs = append(page.Tabs, pages.Tab{Name: tab.name, URL: o.url(filesPath, with(url.Values{}, "state", tab.state)), Current: tab.state == page.State})
		}
	}
	if a.may(p, account.UploadMedia) {
		target := url.Values{"csrf": {page.CSRF}}
		if a.may(p, account.SealMedia) {
			page.UploadURL = o.url(uploadFilePath, target)
		}
		page.UploadDraftURL = o.url(uploadFilePath, with(target, "draft", "1"))
	}
	if a.may(p, account.GetTotalStorage) {
		usage, err := a.Files.Media.Usage(ctx, p)
		if err != nil {
			return page, err
		}
		page.Usage = &pages.Usage{Used: usage.Used, Max: usage.MaxStorage}
	}
	if page.Running, err = a.runningUploads(ctx, o, page.State); err != nil {
		return page, err
	}
	list, err := a.list(ctx, o, query)
	if err != nil {
		return page, err
	}
	page.Files, page.Total = list.files, list.total
	if list.next != nil {
		page.NextURL = o.url(filesPath, list.next)
	}
	if query.Has("after") || query.Has("page") {
		page.FirstURL = o.url(filesPath, with(query, "after", "", "page", ""))
	}
	if query.Has("name") || query.Has("type") {
		page.ClearURL = o.url(filesPath, with(query, "name", "", "type", "", "after", "", "page", ""))
	}
	return page, nil
}

// imageSources returns the origins of thumbnails: that of the files' URLs, which a browser may not have
// in its address bar, and that of the object store if these redirect.
func (a *API) imageSources(ctx context.Context, bucket string) (sources, error) {
	store, err := a.Files.StoreOrigin(ctx, bucket)
	if err != nil {
		return sources{}, err
	}
	origins := []string{originSource(a.BaseURL)}
	if store != "" {
		origins = append(origins, originSource(store))
	}
	var allowed sources
	for _, origin := range slices.Compact(origins) {
		allowed.images += origin
	}
	return allowed, nil
}
