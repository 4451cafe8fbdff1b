package webfiles

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/settings"
)

// showFiles shows the files of an account. Without a session it starts a login. An owner of several
// accounts chooses one.
func (a *API) showFiles(w http.ResponseWriter, r *http.Request) {
	session, ok := a.Login.RequireUser(w, r, listPage, r.URL.Query())
	if !ok {
		return
	}
	query := r.URL.Query()
	id, ok := a.chosenAccount(w, r, session, pages.ChooseAccountPage{})
	if !ok {
		return
	}
	o, err := a.findFileOwner(w, r, session, id)
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	done := query.Get("done")
	message := filesMessage{notice: doneNotices[done], cancelled: done == "cancelled" || done == "ended", selected: query.Get("select") == "all"}
	if name, many := strings.CutPrefix(done, "many-"); many {
		message.notice = manyNotice(name, query.Get("count"))
	}
	if done == "deleted" || done == "many-delete" {
		message.deleted = query.Get("deleted")
	}
	a.writeFilesPage(w, r, o, listQuery(query), message)
}

// chosenAccount returns the id of the account in the URL, or of the only account of the user. Otherwise it writes the page on which the
// user chooses one.
func (a *API) chosenAccount(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, page pages.ChooseAccountPage) (id string, ok bool) {
	if id := r.URL.Query().Get("account"); id != "" {
		return id, true
	}
	accounts, err := a.OAuth.Accounts(r.Context(), session)
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return "", false
	}
	if len(accounts) == 1 {
		return accounts[0].ID.String(), true
	}
	page.Form, page.Email = a.Login.FormFields(session), session.Email
	page.Accounts = oauthhttp.AccountViews(accounts)
	a.Login.WritePage(w, r, http.StatusOK, nil, func(to io.Writer) error { return a.Pages.ChooseAccount(to, page) })
	return "", false
}

// The states that the page lists.
const (
	sealedFiles  = ""
	draftFiles   = "draft"
	deletedFiles = "deleted"
)

// listQuery returns the parameters of a list that are set.
func listQuery(values url.Values) url.Values { return parametersOf(values, listParameters) }

// parametersOf returns those of the parameters with these names that are set.
func parametersOf(values url.Values, names []string) url.Values {
	query := url.Values{}
	for _, name := range names {
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
	total *int64 // of the whole list; nil = not known
	// The parameters of the parts beside this one; nil = there is none.
	previous, next url.Values
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
	text, err := a.queryText(query)
	if err != nil {
		return fileList{}, err
	}
	q, err := text.Parse()
	if err != nil {
		return fileList{}, err
	}
	results, err := a.Media.Find(ctx, o.principal, q)
	if err != nil {
		return fileList{}, err
	}
	originals := a.originals(ctx, o.principal.Account.ID)
	list := fileList{total: results.Total}
	for _, item := range results.Items {
		list.files = append(list.files, a.fileView(o, originals, item, query))
	}
	if results.Next != "" {
		list.next = with(query, "after", results.Next, "before", "", "page", "")
	}
	if results.Previous != "" {
		list.previous = with(query, "after", "", "before", results.Previous, "page", "")
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
	page, err := a.Media.ListDeleted(ctx, o.principal, number, a.cfg.PerPage)
	if err != nil {
		return fileList{}, err
	}
	list := fileList{total: &page.Total}
	for _, item := range page.Items {
		list.files = append(list.files, a.deletedView(o, item))
	}
	if int64(number)*int64(page.Limit) < page.Total {
		list.next = with(query, "page", strconv.Itoa(number+1), "after", "")
	}
	if number > 1 {
		list.previous = with(query, "page", strconv.Itoa(number-1), "after", "")
	}
	return list, nil
}

// deletedView returns a deleted file as the pages show it.
func (a *API) deletedView(o fileOwner, item media.DeletedItem) pages.File {
	view := a.commonView(item.Item)
	if view.Thumbnail = a.deletedThumbnailURL(o, item.Item); view.Thumbnail != "" {
		view.Width, view.Height = item.Facts.Width, item.Facts.Height
	}
	view.DeletedAt, view.RestorableUntil = item.DeletedAt, item.RestorableUntil
	view.CanRestore = a.may(o.principal, account.RestoreMedia)
	return view
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
	layers, err := a.Settings.Get(ctx, accountID)
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
	view.URL = a.URLs.FileURL(item, originals)
	if original, ok := item.Objects.Find(media.Original); ok && file.Variant != media.Original {
		view.Original = &pages.Original{URL: a.URLs.URL(item, original, originals), Type: original.MimeType, Size: original.Bytes}
	}
	view.ViewURL = o.viewURL(view.ID, query)
	if thumbnail, ok := item.Thumbnail(); ok {
		view.Thumbnail = a.URLs.URL(item, thumbnail, originals)
		view.Width, view.Height = item.Facts.Width, item.Facts.Height
	}
	if item.Draft() {
		view.ExpiresAt = item.CreatedAt.Add(a.DraftTTL)
		view.CanSeal = a.may(o.principal, account.SealMedia) && item.Check != media.CheckSealWanted && item.Check != media.CheckRejected
		view.Checking, view.Rejected = item.Check == media.CheckSealWanted, item.Check == media.CheckRejected
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
	// selected is set if all files of the page are selected.
	selected bool
}

// doneNotices are the notices by the code in the URL.
var doneNotices = map[string]string{
	"uploaded": "The file was uploaded.",
	"drafted":  "The file was uploaded. It is not kept yet.",
	"checking": "The file is checked for malware. It is kept once it is known to be clean: look at the list again.",
	"sealed":   "The file is kept.",
	"changed":  "The file was changed.",

	"many-checking": "The files are checked for malware. They are kept once they are known to be clean: look at the list again.",

	"deleted":   "The file was deleted.",
	"permanent": "The file was deleted permanently.",
	"restored":  "The file was restored.",

	"cancelled": "The upload was cancelled, and its room is free again.",
	"ended":     "This upload was no longer running: it is complete, was cancelled, or has expired.",
}

// writeFilesPage writes the page with a list of files.
func (a *API) writeFilesPage(w http.ResponseWriter, r *http.Request, o fileOwner, query url.Values, message filesMessage) {
	pictures, err := a.pictureURLs(r.Context(), o.principal.Account.Bucket)
	if err != nil {
		a.Login.ErrorPage(w, r, cmp.Or(message.err, err))
		return
	}
	page, err := a.filesContent(r.Context(), o, query)
	switch kind := fault.From(err).Kind; {
	case err == nil:
	case kind == fault.Invalid, kind == fault.Forbidden:
		message.err = cmp.Or(message.err, err)
	default:
		a.Login.ErrorPage(w, r, cmp.Or(message.err, err))
		return
	}
	if page.Waiting, err = a.waiting(r.Context(), o); err != nil {
		a.Login.ErrorPage(w, r, cmp.Or(message.err, err))
		return
	}
	page.Notice = message.notice
	if page.Selection.Any() && len(page.Files) > 0 {
		page.Selected, page.SelectURL = message.selected, o.url(filesPath, with(query, "select", "all"))
		if message.selected {
			page.SelectURL = o.url(filesPath, query)
		}
	}
	if page.Running != nil {
		page.Running.Shown = message.cancelled
	}
	if a.may(o.principal, account.RestoreMedia) && message.notice != "" {
		page.Deleted = decodeItems(message.deleted)
	}
	status := http.StatusOK
	if message.err != nil {
		status = httpapi.Fail(w, r, message.err)
		text := cmp.Or(message.text, fileErrorText(o.principal.Account, message.err))
		if message.upload && page.UploadDraftURL != "" {
			page.UploadError = text
			page.Typed = pages.TypedUpload{Caption: message.typed.Caption, Group: message.typed.Group, Public: message.typed.Access == media.Public}
		} else {
			page.Error = text
		}
	}
	a.Login.WritePage(w, r, status, pictures, func(to io.Writer) error { return a.Pages.Files(to, page) })
}

// filesContent returns the page without a message. With the error of a list, which may be about its
// parameters, it returns the rest of the page.
func (a *API) filesContent(ctx context.Context, o fileOwner, query url.Values) (pages.FilesPage, error) {
	p := o.principal
	page := pages.FilesPage{Form: a.Login.FormFields(o.session), EndsIn: a.endsIn(o), Email: o.session.Email, Account: o.accountView(), App: p.App.Name,
		State: query.Get("state"), Back: query.Encode(), MaxUploadSize: min(p.Account.MaxUploadSize, p.Account.MaxStorage),
		Filter: pages.FileFilter{Words: query.Get("q"), Name: query.Get("name"), Type: query.Get("type"), Group: query.Get("group"), Access: query.Get("access"), Caption: query.Get("caption"), Orientation: query.Get("orientation"), From: query.Get("from"), To: query.Get("to"), CapturedFrom: query.Get("capturedFrom"), CapturedTo: query.Get("capturedTo"), Size: query.Get("size"), Sort: query.Get("sort")}}
	accounts, err := a.OAuth.Accounts(ctx, o.session)
	if err != nil {
		return page, err
	}
	page.Several = len(accounts) > 1
	if page.Apps, err = a.apps(ctx, o); err != nil {
		return page, err
	}
	for _, tab := range []struct{ name, state string }{{"Files", sealedFiles}, {"Not kept yet", draftFiles}, {"Deleted", deletedFiles}} {
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
		page.Script = a.uploadScript(o, &page)
	}
	if a.may(p, account.GetTotalStorage) {
		usage, err := a.Media.Usage(ctx, p)
		if err != nil {
			return page, err
		}
		page.Usage = &pages.Usage{Used: usage.Used, Max: usage.MaxStorage}
	}
	if err := a.selection(ctx, o, &page); err != nil {
		return page, err
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
	if list.previous != nil {
		page.PreviousURL = o.url(filesPath, list.previous)
	}
	if list.previous != nil || len(list.files) == 0 && (query.Has("after") || query.Has("before") || query.Has("page")) {
		page.FirstURL = o.url(filesPath, with(query, "after", "", "before", "", "page", ""))
	}
	if page.Filtered() {
		page.ClearURL = o.url(filesPath, parametersOf(query, []string{"state", "sort"}))
	}
	return page, nil
}

// apps returns links to the files of all apps of the account; none if there is one.
func (a *API) apps(ctx context.Context, o fileOwner) ([]pages.Tab, error) {
	names, err := a.OAuth.Apps(ctx, o.session, o.principal.Account.ID)
	if err != nil || len(names) < 2 {
		return nil, err
	}
	var apps []pages.Tab
	for _, name := range names {
		other := o
		other.principal.App.Name = name
		apps = append(apps, pages.Tab{Name: name, URL: other.url(filesPath, nil), Current: name == o.principal.App.Name})
	}
	return apps, nil
}

// endsIn returns in how many seconds the session ends unless it is used.
func (a *API) endsIn(o fileOwner) int { return int(o.session.ExpiresAt.Sub(a.Now()).Seconds()) }

// selection sets what can be done with selected files of the list.
func (a *API) selection(ctx context.Context, o fileOwner, page *pages.FilesPage) (err error) {
	switch page.State {
	case deletedFiles:
		page.Selection.Restore = a.may(o.principal, account.RestoreMedia)
		return nil
	case draftFiles:
		page.Selection.Keep = a.may(o.principal, account.SealMedia)
	}
	page.Selection.Download, page.Selection.Delete = a.may(o.principal, account.GetMedia), a.may(o.principal, account.DeleteMedia)
	page.Selection.Change = a.may(o.principal, account.UpdateMedia)
	page.Groups, err = a.groups(ctx, o.principal)
	return err
}

// pictureURLs returns URLs of the origins of thumbnails: that of the files' URLs, which a browser may not have
// in its address bar, and that of the object store if these redirect.
func (a *API) pictureURLs(ctx context.Context, bucket string) ([]string, error) {
	store, err := a.StoreOrigin(ctx, bucket)
	if err != nil {
		return nil, err
	}
	urls := []string{a.BaseURL}
	if store != "" {
		urls = append(urls, store)
	}
	return urls, nil
}
