package webfiles

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/journal"
)

// eventsPerPage is how many events are on one page.
const eventsPerPage = 50

// activityParameters are the parameters of the list of events.
var activityParameters = []string{"type", "item", "before"}

// showActivity shows who did what in an account, to its owner. Without a session it starts a login.
func (a *API) showActivity(w http.ResponseWriter, r *http.Request) {
	session, ok := a.Login.RequireUser(w, r, activityPage, r.URL.Query())
	if !ok {
		return
	}
	id, ok := a.chosenAccount(w, r, session, pages.ChooseAccountPage{Activity: true})
	if !ok {
		return
	}
	o, err := a.findFileOwner(w, r, session, id)
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	page, err := a.activityContent(r.Context(), o, parametersOf(r.URL.Query(), activityParameters))
	status := http.StatusOK
	switch kind := fault.From(err).Kind; {
	case err == nil:
	case kind == fault.Invalid, kind == fault.Forbidden:
		status = httpapi.Fail(w, r, err)
		page.Error = fileErrorText(o.principal.Account, err)
	default:
		a.Login.ErrorPage(w, r, err)
		return
	}
	a.Login.WritePage(w, r, status, nil, func(to io.Writer) error { return a.Pages.Activity(to, page) })
}

// activityContent returns the page. With an error, which may be about its parameters, it returns the page without events.
func (a *API) activityContent(ctx context.Context, o fileOwner, query url.Values) (pages.ActivityPage, error) {
	p := o.principal
	page := pages.ActivityPage{Form: a.Login.FormFields(o.session), Email: o.session.Email, Account: oauthhttp.AccountView(p.Account), Kept: p.Account.Journal,
		Filter: pages.ActivityFilter{Type: query.Get("type"), File: query.Get("item")}}
	accounts, err := a.OAuth.Accounts(ctx, o.session)
	if err != nil {
		return page, err
	}
	page.Several = len(accounts) > 1
	if page.Filtered() {
		page.ClearURL = o.url(activityPath, nil)
	}
	if query.Has("before") {
		page.FirstURL = o.url(activityPath, with(query, "before", ""))
	}
	if err := a.checkOperation(p, account.ListActivity); err != nil {
		return page, err
	}
	request := journal.RecentRequest{Before: query.Get("before"), AllApps: true, Limit: eventsPerPage}
	if query.Has("type") {
		request.Types = []journal.Type{journal.Type(query.Get("type"))}
	}
	if query.Has("item") {
		if request.ItemID, err = uuid.Parse(strings.TrimSpace(query.Get("item"))); err != nil {
			return page, fault.New(fault.Invalid, "the id of a file looks like 0197f2a4-7c1e-7d3a-9b2e-5f6a7b8c9d0e")
		}
	}
	recent, err := a.Activity.Recent(ctx, p, request)
	if fault.Is(err, fault.Conflict) { // there is no journal
		page.Off = true
		return page, nil
	}
	if err != nil {
		return page, err
	}
	items := map[uuid.UUID]journal.NamedItem{}
	if a.may(p, account.ListMedia) {
		if items, err = a.Activity.Items(ctx, p, recent.Events); err != nil {
			return page, err
		}
	}
	for _, event := range recent.Events {
		page.Events = append(page.Events, a.eventView(o, event, items, request.ItemID))
	}
	if recent.Older != "" {
		page.OlderURL = o.url(activityPath, with(query, "before", recent.Older))
	}
	return page, nil
}

// eventView returns an event as the page shows it. items are those that are there, and only is the item whose events are listed.
func (a *API) eventView(o fileOwner, event journal.Event, items map[uuid.UUID]journal.NamedItem, only uuid.UUID) pages.ActivityEvent {
	view := pages.ActivityEvent{At: event.At, Type: string(event.Type), Percent: event.Percent, Fields: event.Fields,
		Actor: pages.ActivityActor{Kind: string(event.Actor.Kind), Name: event.Actor.Name, Email: event.Actor.Email, ApprovedBy: event.Actor.ApprovedBy}}
	if asker := event.Actor.AskedBy; asker != nil {
		view.Actor.AskedBy = &pages.ActivityActor{Kind: string(asker.Kind), Name: asker.Name, Email: asker.Email}
	}
	if event.Type.OfApproval() {
		view.Fields, view.Wanted = nil, wantedOf(event)
	}
	if event.ApprovalID != uuid.Nil && a.Approvals != nil && time.Since(event.At) < approval.Retention { // later it may be deleted
		view.ApprovalURL = oauthhttp.SessionURL(approvalPath, o.session, url.Values{"approval": {event.ApprovalID.String()}})
	}
	if event.ItemID == uuid.Nil {
		return view
	}
	view.FileID = event.ItemID.String()
	if only == uuid.Nil {
		view.HistoryURL = o.url(activityPath, url.Values{"item": {view.FileID}})
	}
	item, ok := items[event.ItemID]
	if !ok {
		return view
	}
	view.FileName = item.Name
	if item.AppID != o.principal.App.ID { // the files page shows those of one app
		view.App = item.AppName
		return view
	}
	list, operation := url.Values{"name": {item.Name}}, account.ListMedia
	switch {
	case item.Deleted: // the list of deleted files has no filter
		list, operation = url.Values{"state": {deletedFiles}}, account.ListDeletedMedia
	case item.Draft:
		list.Set("state", draftFiles)
		operation = account.ListDrafts
	}
	if a.may(o.principal, operation) {
		view.FileURL = o.url(filesPath, list)
	}
	return view
}

// wantedOf returns what an owner is asked to allow, in words.
func wantedOf(event journal.Event) string {
	var all []string
	for _, operation := range event.Fields {
		if words, ok := approval.Words(account.Operation(operation)); ok {
			all = append(all, words)
		}
	}
	return strings.Join(all, ", ")
}
