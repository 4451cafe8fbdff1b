package webfiles

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
)

// maxSelected is how many items a form can be about: those of the largest page.
const maxSelected = media.MaxLimit

// errNothingSelected is the error of a form about no item.
var errNothingSelected = fault.New(fault.Invalid, "Select files first.")

// selectedItems returns the ids of the items that a form is about, each once.
func selectedItems(form url.Values) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for n := range maxSelected {
		text := form.Get("item" + strconv.Itoa(n))
		if text == "" {
			continue
		}
		id, err := uuid.Parse(text)
		if err != nil {
			id = uuid.Nil // which no item has
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, errNothingSelected
	}
	return ids, nil
}

// selectedAction is something that is done with each item of a form.
type selectedAction struct {
	operation account.Operation
	// do is about one item. It reports whether the item is checked before it is done.
	do func(ctx context.Context, a *API, o fileOwner, id uuid.UUID, form url.Values) (checking bool, err error)
	// done says what became of the items.
	done string
}

// updating returns the action that updates items.
func updating(done string, of func(url.Values) media.Change) selectedAction {
	return selectedAction{account.UpdateMedia, func(ctx context.Context, a *API, o fileOwner, id uuid.UUID, form url.Values) (bool, error) {
		_, err := a.Media.Update(ctx, o.principal, id, of(form), media.Condition{})
		return false, err
	}, done}
}

// selectedActions are what can be done with selected items, by the value of the button. Download is not among them.
var selectedActions = map[string]selectedAction{
	"keep": {account.SealMedia, func(ctx context.Context, a *API, o fileOwner, id uuid.UUID, _ url.Values) (bool, error) {
		item, err := a.Media.Seal(ctx, o.principal, id)
		return err == nil && item.Draft(), err
	}, "kept"},
	"restore": {account.RestoreMedia, func(ctx context.Context, a *API, o fileOwner, id uuid.UUID, _ url.Values) (bool, error) {
		_, err := a.Media.Restore(ctx, o.principal, id)
		return false, err
	}, "restored"},
	"delete": {account.DeleteMedia, func(ctx context.Context, a *API, o fileOwner, id uuid.UUID, form url.Values) (bool, error) {
		permanent := form.Get("permanent") == "1"
		_, err := a.deleteOne(ctx, o, id, permanent)
		if !permanent && errors.Is(err, media.ErrItemNotFound) { // another tab may have deleted it meanwhile
			if _, failed := a.Media.Deleted(ctx, o.principal, id); failed == nil {
				err = nil
			}
		}
		return false, err
	}, "deleted"},
	"group":   updating("moved", func(form url.Values) media.Change { return media.Change{Group: new(form.Get("group"))} }),
	"public":  updating("made public", func(url.Values) media.Change { return media.Change{Access: new(media.Public)} }),
	"private": updating("made private", func(url.Values) media.Change { return media.Change{Access: new(media.Private)} }),
}

// changeSelected does something with several items, and returns to the list. An item that fails does not stop the others.
func (a *API) changeSelected(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	o, err := a.findFileOwner(w, r, session, form.Get("account"))
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	query, name := backQuery(form), form.Get("action")
	ids, err := selectedItems(form)
	if err == nil && name == "download" {
		if err = a.sendArchive(w, r, o, ids); err == nil {
			return
		}
	}
	action, known := selectedActions[name]
	if err == nil && !known {
		err = fault.New(fault.Invalid, "Choose what to do with the selected files.")
	}
	if err == nil {
		err = a.checkOperation(o.principal, action.operation)
	}
	if err != nil {
		a.writeFilesPage(w, r, o, query, filesMessage{err: err})
		return
	}
	if name == "delete" && form.Get("permanent") != "1" && (query.Get("state") == draftFiles || !o.principal.Account.Undo.Covers(loginDelete.Agent)) {
		a.askDeleteSelected(w, r, o, query, ids)
		return
	}
	done, checking, failed := a.doAll(r.Context(), o, ids, form, action)
	if failed != nil {
		text := fmt.Sprintf("%d of %d files are %s. %s", len(done), len(ids), action.done, fileErrorText(o.principal.Account, failed))
		a.writeFilesPage(w, r, o, query, filesMessage{err: failed, text: text})
		return
	}
	query.Set("done", "many-"+name)
	if checking {
		query.Set("done", "many-checking")
	}
	query.Set("count", strconv.Itoa(len(done)))
	if name == "delete" && form.Get("permanent") != "1" {
		query.Set("deleted", encodeItems(done))
	}
	a.Login.SeeOther(w, o.url(filesPath, query))
}

// doAll does something with all items. It returns those with which it was done, whether some are checked before, and the first error. When nothing can be changed at all, or the
// client is gone, it stops.
func (a *API) doAll(ctx context.Context, o fileOwner, ids []uuid.UUID, form url.Values, action selectedAction) (done []uuid.UUID, checking bool, failed error) {
	for _, id := range ids {
		later, err := action.do(ctx, a, o, id, form)
		checking = checking || later
		if err == nil {
			done = append(done, id)
			continue
		}
		if failed == nil {
			failed = err
		}
		if kind := fault.From(err).Kind; kind == fault.Unavailable || kind == fault.Internal || ctx.Err() != nil {
			break
		}
	}
	return done, checking, failed
}

// askDeleteSelected asks whether to delete items permanently.
func (a *API) askDeleteSelected(w http.ResponseWriter, r *http.Request, o fileOwner, back url.Values, ids []uuid.UUID) {
	page := pages.DeleteFilePage{Form: a.Login.FormFields(o.session), Account: o.accountView(), Back: back.Encode(), BackURL: o.url(filesPath, back), Permanent: true}
	for _, id := range ids {
		page.Items = append(page.Items, id.String())
	}
	a.Login.WritePage(w, r, http.StatusOK, nil, func(to io.Writer) error { return a.Pages.DeleteFile(to, page) })
}

// encodeItems returns ids as a parameter of a URL.
func encodeItems(ids []uuid.UUID) string {
	var all []byte
	for _, id := range ids {
		all = append(all, id[:]...)
	}
	return base64.RawURLEncoding.EncodeToString(all)
}

// decodeItems returns the ids in a parameter: one id as text, or those of encodeItems. What cannot be read is that of no item.
func decodeItems(text string) []string {
	if id, err := uuid.Parse(text); err == nil {
		return []string{id.String()}
	}
	all, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(all)%16 != 0 || len(all) > 16*maxSelected {
		return nil
	}
	var ids []string
	for one := range slices.Chunk(all, 16) {
		ids = append(ids, uuid.UUID(one).String())
	}
	return ids
}

// manyNotice returns the notice after something was done with several items.
func manyNotice(name, count string) string {
	action, ok := selectedActions[name]
	if name == "checking" {
		return doneNotices["many-checking"]
	}
	n, err := strconv.Atoi(count)
	switch {
	case !ok || err != nil || n < 1 || n > maxSelected:
		return ""
	case n == 1:
		return "1 file is " + action.done + "."
	}
	return fmt.Sprintf("%d files are %s.", n, action.done)
}
