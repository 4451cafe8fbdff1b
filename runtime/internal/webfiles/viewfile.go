package webfiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// firstItem and lastItem are the items of links to the first and the last file of a part of a list: those beside the part before and after it.
const (
	firstItem = "first"
	lastItem  = "last"
)

// viewMessage is what the page of a file says about what the user did before.
type viewMessage struct {
	err    error // of the form that the page answers; nil = none
	notice string
	edit   *pages.EditFile  // what the user typed; nil = the fields of the file
	share  *pages.ShareFile // the link that was made; nil = none
}

// showFile shows a file with all that is known of it.
func (a *API) showFile(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	session, ok := a.Login.RequireUser(w, r, viewPage, query)
	if !ok {
		return
	}
	o, err := a.findFileOwner(w, r, session, query.Get("account"))
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	if which := query.Get("item"); which == firstItem || which == lastItem {
		a.redirectToEnd(w, r, o, backQuery(query), which)
		return
	}
	message := viewMessage{}
	if query.Get("done") == "changed" {
		message.notice = doneNotices["changed"]
	}
	a.writeViewPage(w, r, o, query, message)
}

// redirectToEnd leads to the first or the last file of a part of a list, or to the list if it has none.
func (a *API) redirectToEnd(w http.ResponseWriter, r *http.Request, o fileOwner, back url.Values, which string) {
	list, err := a.list(r.Context(), o, back)
	if err != nil {
		a.writeFilesPage(w, r, o, back, filesMessage{err: err})
		return
	}
	at := 0
	if which == lastItem {
		at = len(list.files) - 1
	}
	if len(list.files) == 0 || list.files[at].ViewURL == "" {
		a.Login.SeeOther(w, o.url(filesPath, back))
		return
	}
	a.Login.SeeOther(w, list.files[at].ViewURL)
}

// viewURL returns the URL of the page of an item. query is the list to return to.
func (o fileOwner) viewURL(item string, query url.Values) string {
	return o.url(viewFilePath, with(url.Values{}, "item", item, "back", query.Encode()))
}

// writeViewPage writes the page of the item that the form or the URL names. A file that is missing leads to the list.
func (a *API) writeViewPage(w http.ResponseWriter, r *http.Request, o fileOwner, form url.Values, message viewMessage) {
	back := backQuery(form)
	item, pictures, err := a.itemOf(r.Context(), o, form, account.GetMedia)
	if err != nil {
		a.writeFilesPage(w, r, o, back, filesMessage{err: cmp.Or(message.err, err)})
		return
	}
	page, err := a.viewContent(r.Context(), o, item, back, message)
	if err != nil {
		a.Login.ErrorPage(w, r, cmp.Or(message.err, err))
		return
	}
	status := http.StatusOK
	if message.err != nil {
		status = httpapi.Fail(w, r, message.err)
		showError(&page, message.err, fileErrorText(o.principal.Account, message.err))
	}
	a.Login.WritePage(w, r, status, pictures, func(to io.Writer) error { return a.Pages.ViewFile(to, page) })
}

// showError shows an error beside the field that it is about, or above the page.
func showError(page *pages.ViewFilePage, err error, text string) {
	about, ok := errors.AsType[fieldError](err)
	switch {
	case ok && page.Edit != nil && about.field == nameField:
		page.Edit.NameError = text
	case ok && page.Edit != nil && about.field == metadataField:
		page.Edit.MetadataError = text
	default:
		page.Error = text
	}
}

// viewContent returns the page of an item.
func (a *API) viewContent(ctx context.Context, o fileOwner, item media.Item, back url.Values, message viewMessage) (pages.ViewFilePage, error) {
	originals := a.originals(ctx, o.principal.Account.ID)
	page := pages.ViewFilePage{Form: a.Login.FormFields(o.session), EndsIn: a.endsIn(o), Account: o.accountView(), File: a.fileView(o, originals, item, back),
		Back: back.Encode(), BackURL: o.url(filesPath, back) + "#" + pages.FileAnchor(item.ID.String()), Facts: a.factsOf(o, item), Notice: message.notice, Edit: message.edit}
	page.Kind, page.Large = a.shown(item, originals)
	if page.Kind == "image" {
		page.File.Width, page.File.Height = item.Facts.Width, item.Facts.Height
	}
	var err error
	if page.PreviousURL, page.NextURL, err = a.neighbours(ctx, o, item.ID, back); err != nil {
		return page, err
	}
	if a.may(o.principal, account.UpdateMedia) {
		if page.Edit == nil {
			page.Edit = editOf(item)
		}
		page.Edit.Version = item.Version
		if page.Edit.Groups, err = a.groups(ctx, o.principal); err != nil {
			return page, err
		}
		page.Share = a.shareOf(item, originals, message.share)
	}
	return page, nil
}

// shown returns how a browser shows the file of an item, and from where.
func (a *API) shown(item media.Item, originals settings.Originals) (kind, address string) {
	file := item.File()
	kind, _, _ = strings.Cut(file.MimeType, "/")
	if !a.Inline(file.MimeType) || kind != "image" && kind != "video" && kind != "audio" {
		return "", ""
	}
	return kind, a.URLs.FileURL(item, originals)
}

// factsOf returns what is known of an item, in the order of the page.
func (a *API) factsOf(o fileOwner, item media.Item) []pages.Fact {
	file := item.File()
	facts := []pages.Fact{{Name: "Name", Text: item.FileName}, {Name: "Type", Text: file.MimeType}, {Name: "Size", Text: media.HumanBytes(file.Bytes)}}
	add := func(name, text string) {
		if text != "" {
			facts = append(facts, pages.Fact{Name: name, Text: text})
		}
	}
	if item.Facts.HasSize() {
		add("Width and height", fmt.Sprintf("%d × %d pixels", item.Facts.Width, item.Facts.Height))
	}
	add("Main color", item.Facts.DominantColor)
	if item.Facts.Duration > 0 {
		add("Length", item.Facts.Duration.Round(time.Second).String())
	}
	if item.Facts.Pages > 0 {
		add("Pages", strconv.Itoa(item.Facts.Pages))
	}
	facts = append(facts, captureFacts(item.Capture)...)
	if original, ok := item.Objects.Find(media.Original); ok && file.Variant != media.Original {
		add("Original", original.MimeType+", "+media.HumanBytes(original.Bytes))
	}
	if item.Group != "" {
		state := sealedFiles
		if item.Draft() {
			state = draftFiles
		}
		facts = append(facts, pages.Fact{Name: "Group", Text: item.Group, URL: o.url(filesPath, with(url.Values{}, "group", item.Group, "state", state))})
	}
	add("Reference", item.Ref)
	for _, pair := range pairsOf(item.Metadata) {
		add(pair.Key, pair.Value)
	}
	facts = append(facts, pages.Fact{Name: "Uploaded", At: item.CreatedAt})
	if item.SealedAt != nil {
		facts = append(facts, pages.Fact{Name: "Kept since", At: *item.SealedAt})
	}
	if original, ok := item.Objects.Find(media.Original); ok {
		add("SHA-256", original.SHA256.String())
	}
	add("Id", item.ID.String())
	return facts
}

// neighbours returns the URLs of the files beside an item in the list to return to. Of a list that cannot be read, or does not have the item any
// more, there are none.
func (a *API) neighbours(ctx context.Context, o fileOwner, id uuid.UUID, back url.Values) (previous, next string, err error) {
	if back.Get("state") == deletedFiles {
		return "", "", nil
	}
	list, err := a.list(ctx, o, back)
	switch kind := fault.From(err).Kind; {
	case err == nil:
	case kind == fault.Invalid, kind == fault.Forbidden:
		return "", "", nil
	default:
		return "", "", err
	}
	at := slices.IndexFunc(list.files, func(file pages.File) bool { return file.ID == id.String() })
	if at < 0 {
		return "", "", nil
	}
	switch {
	case at > 0:
		previous = list.files[at-1].ViewURL
	case list.previous != nil:
		previous = o.viewURL(lastItem, list.previous)
	}
	switch {
	case at+1 < len(list.files):
		next = list.files[at+1].ViewURL
	case list.next != nil:
		next = o.viewURL(firstItem, list.next)
	}
	return previous, next, nil
}

// shownGroups is how many groups a field offers.
const shownGroups = 200

// groups returns the names of the groups of the app that a field offers, in their order.
func (a *API) groups(ctx context.Context, p account.Principal) ([]string, error) {
	if !a.may(p, account.ListGroups) {
		return nil, nil
	}
	found, _, err := a.Media.Groups(ctx, p, "", "", shownGroups)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, group := range found {
		if group.Name != "" {
			names = append(names, group.Name)
		}
	}
	return names, nil
}
