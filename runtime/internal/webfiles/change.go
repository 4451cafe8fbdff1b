package webfiles

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
)

// fileChange changes one item. It returns the parameters of the notice on the next page.
type fileChange func(ctx context.Context, o fileOwner, id uuid.UUID) (done url.Values, err error)

// changeFile carries out a form about one item, and returns to the list that it was sent from.
func (a *API) changeFile(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values, operation account.Operation, change fileChange) {
	o, err := a.findFileOwner(w, r, session, form.Get("account"))
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	query := backQuery(form)
	var done url.Values
	if err = a.checkOperation(o.principal, operation); err == nil {
		var id uuid.UUID
		if id, err = parseItem(form); err == nil {
			done, err = change(r.Context(), o, id)
		}
	}
	if err != nil {
		a.writeFilesPage(w, r, o, query, filesMessage{err: err})
		return
	}
	for name := range done {
		query.Set(name, done.Get(name))
	}
	a.Login.SeeOther(w, o.url(filesPath, query))
}

// parseItem returns the id of the item in a form. One that cannot be read is that of no item.
func parseItem(form url.Values) (uuid.UUID, error) {
	id, err := uuid.Parse(form.Get("item"))
	if err != nil {
		return uuid.Nil, media.ErrItemNotFound
	}
	return id, nil
}

// backQuery returns the parameters of the list that a form was sent from. Unreadable ones are those
// of the first page.
func backQuery(form url.Values) url.Values {
	back, err := url.ParseQuery(form.Get("back"))
	if err != nil {
		return url.Values{}
	}
	return listQuery(back)
}

// sealFile seals a draft.
func (a *API) sealFile(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	a.changeFile(w, r, session, form, account.SealMedia, func(ctx context.Context, o fileOwner, id uuid.UUID) (url.Values, error) {
		item, err := a.Media.Seal(ctx, o.principal, id)
		if err == nil && item.Draft() {
			return url.Values{"done": {"checking"}}, nil
		}
		return url.Values{"done": {"sealed"}}, err
	})
}

// restoreFile undoes a delete.
func (a *API) restoreFile(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	a.changeFile(w, r, session, form, account.RestoreMedia, func(ctx context.Context, o fileOwner, id uuid.UUID) (url.Values, error) {
		_, err := a.Media.Restore(ctx, o.principal, id)
		return url.Values{"done": {"restored"}}, err
	})
}

// loginDelete says who deletes on the page: a login, as by REST.
var loginDelete = media.DeleteOptions{Agent: true}

// isPermanentDelete reports whether a delete by the owner's login could not be undone.
func isPermanentDelete(p account.Principal, item media.Item) bool {
	return item.Draft() || !p.Account.Undo.Covers(loginDelete.Agent)
}

// needsRecentLogin reports whether the owner has to log in again before a delete: of what others may need
// and nobody can bring back. Drafts would not stay anyway.
func (a *API) needsRecentLogin(o fileOwner, item media.Item) bool {
	return !item.Draft() && isPermanentDelete(o.principal, item) && !a.OAuth.IsRecentLogin(o.session)
}

// errLogInAgain is the error of such a delete.
var errLogInAgain = fault.New(fault.Forbidden, "You logged in too long ago to delete a file permanently. Use Delete again and log in.")

// errConfirm is the error of a delete that the user has to confirm first.
var errConfirm = fault.New(fault.Conflict, "This file would be deleted permanently. Use Delete again and confirm it.")

// deleteFile deletes an item. A delete that cannot be undone must come from the page that asks: an
// account may have lost its undo window since the list was shown.
func (a *API) deleteFile(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	a.changeFile(w, r, session, form, account.DeleteMedia, func(ctx context.Context, o fileOwner, id uuid.UUID) (url.Values, error) {
		restorableUntil, err := a.deleteOne(ctx, o, id, form.Get("permanent") == "1")
		if restorableUntil == nil {
			return url.Values{"done": {"permanent"}}, err
		}
		return url.Values{"done": {"deleted"}, "deleted": {id.String()}}, err
	})
}

// deleteOne deletes an item, and returns until when that can be undone. permanent says that the user has confirmed a delete that cannot be.
func (a *API) deleteOne(ctx context.Context, o fileOwner, id uuid.UUID, permanent bool) (restorableUntil *time.Time, err error) {
	item, err := a.Media.Get(ctx, o.principal, id)
	if err != nil {
		return nil, err
	}
	if isPermanentDelete(o.principal, item) && !permanent {
		return nil, errConfirm
	}
	if a.needsRecentLogin(o, item) {
		return nil, errLogInAgain
	}
	return a.Media.Delete(ctx, o.principal, id, loginDelete)
}

// showDeleteFile asks whether to delete an item permanently.
func (a *API) showDeleteFile(w http.ResponseWriter, r *http.Request) {
	session, ok := a.Login.RequireUser(w, r, deletePage, r.URL.Query())
	if !ok {
		return
	}
	query := r.URL.Query()
	o, err := a.findFileOwner(w, r, session, query.Get("account"))
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	back := backQuery(query)
	item, pictures, err := a.itemOf(r.Context(), o, query, account.DeleteMedia)
	if err != nil {
		a.writeFilesPage(w, r, o, back, filesMessage{err: err})
		return
	}
	page := pages.DeleteFilePage{Form: a.Login.FormFields(session), Account: o.accountView(), File: a.fileView(o, a.originals(r.Context(), o.principal.Account.ID), item, back), Back: back.Encode(),
		BackURL: o.url(filesPath, back), Permanent: isPermanentDelete(o.principal, item)}
	if a.needsRecentLogin(o, item) {
		page.LoginURL = a.Login.LogInAgainURL(session, deletePage, query)
	}
	a.Login.WritePage(w, r, http.StatusOK, pictures, func(to io.Writer) error { return a.Pages.DeleteFile(to, page) })
}

// itemOf returns the item of a page or a form about an operation, and URLs of the origins of its picture.
func (a *API) itemOf(ctx context.Context, o fileOwner, query url.Values, operation account.Operation) (media.Item, []string, error) {
	if err := a.checkOperation(o.principal, operation); err != nil {
		return media.Item{}, nil, err
	}
	id, err := parseItem(query)
	if err != nil {
		return media.Item{}, nil, err
	}
	item, err := a.Media.Get(ctx, o.principal, id)
	if err != nil {
		return media.Item{}, nil, err
	}
	pictures, err := a.pictureURLs(ctx, o.principal.Account.Bucket)
	return item, pictures, err
}
