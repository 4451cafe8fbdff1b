package webfiles

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
)

// Approvals are the requests of assistants and applications that wait for an owner. approval.Service implements it.
type Approvals interface {
	Find(ctx context.Context, id uuid.UUID) (approval.Approval, error)
	Waiting(ctx context.Context, accountID uuid.UUID, most int) ([]approval.Approval, error)
	Open(ctx context.Context, id uuid.UUID) error
	Decide(ctx context.Context, decision approval.Decision) error
}

var _ Approvals = (*approval.Service)(nil)

// Paths of the page on which an owner decides.
const (
	approvalPath = approval.Page
	decidePath   = approvalPath + "/decide"
)

// showApproval shows what an application or an assistant wants to do, to an owner of the account. Only the session of a login opens it: a token
// or a key of the one who asks is no such session.
func (a *API) showApproval(w http.ResponseWriter, r *http.Request) {
	session, ok := a.Login.RequireUser(w, r, approvalPage, r.URL.Query())
	if !ok {
		return
	}
	o, found, err := a.findApproval(w, r, session, r.URL.Query().Get("approval"))
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	if found.State == approval.Waiting {
		if err := a.Approvals.Open(r.Context(), found.ID); err != nil {
			a.Login.ErrorPage(w, r, err)
			return
		}
		// What was added meanwhile is shown, and nothing is added from now on.
		if found, err = a.Approvals.Find(r.Context(), found.ID); err != nil {
			a.Login.ErrorPage(w, r, err)
			return
		}
	}
	a.writeApproval(w, r, o, found, nil)
}

// maxWaiting is how many requests the files page names.
const maxWaiting = 5

// waiting returns what waits for the owners of an account, for the files page: the e-mail about it comes once in ten minutes. An account without
// approvals costs nothing.
func (a *API) waiting(ctx context.Context, o fileOwner) ([]pages.WaitingRequest, error) {
	if a.Approvals == nil || !o.principal.Account.ToolPolicy.Approval.On() {
		return nil, nil
	}
	waiting, err := a.Approvals.Waiting(ctx, o.principal.Account.ID, maxWaiting)
	links := make([]pages.WaitingRequest, 0, len(waiting))
	for _, one := range waiting {
		link := pages.WaitingRequest{URL: oauthhttp.SessionURL(approvalPath, o.session, url.Values{"approval": {one.ID.String()}})}
		if one.GrantID != uuid.Nil {
			link.Application = cmp.Or(one.Actor.Name, "An application")
		}
		links = append(links, link)
	}
	return links, err
}

// findApproval returns an approval with the owner of its account. Who is none learns nothing of it.
func (a *API) findApproval(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, text string) (fileOwner, approval.Approval, error) {
	id, err := uuid.Parse(text)
	if err != nil || a.Approvals == nil {
		return fileOwner{}, approval.Approval{}, errNoApproval
	}
	found, err := a.Approvals.Find(r.Context(), id)
	if err != nil {
		return fileOwner{}, approval.Approval{}, noApproval(err)
	}
	o, err := a.findFileOwner(w, r, session, found.AccountID.String())
	return o, found, noApproval(err)
}

// errNoApproval is the error of an approval that does not exist, and of one of another owner. It is no NotFound, which is that of a session.
var errNoApproval = fault.New(fault.Forbidden, "There is no such request, or it is not for your login.")

// noApproval returns errNoApproval for an error that would tell whether there is such an approval.
func noApproval(err error) error {
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) {
		return errNoApproval
	}
	return err
}

// decide carries out the form of the page.
func (a *API) decide(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	if !session.LoggedIn() || session.AuthorizationRequest != nil {
		a.Login.ErrorPage(w, r, oauth.ReasonNotLoggedIn.Fault())
		return
	}
	o, found, err := a.findApproval(w, r, session, form.Get("approval"))
	if err != nil {
		a.Login.ErrorPage(w, r, err)
		return
	}
	if err := a.recordDecision(r.Context(), o, found, form); err != nil {
		if found, again := a.Approvals.Find(r.Context(), found.ID); again == nil {
			a.writeApproval(w, r, o, found, err)
			return
		}
		a.Login.ErrorPage(w, r, err)
		return
	}
	a.Login.SeeOther(w, oauthhttp.SessionURL(approvalPath, session, url.Values{"approval": {found.ID.String()}}))
}

func (a *API) recordDecision(ctx context.Context, o fileOwner, found approval.Approval, form url.Values) error {
	revision, err := strconv.ParseInt(form.Get("revision"), 10, 32)
	if err != nil {
		return approval.ErrDecided
	}
	decision := approval.Decision{ID: found.ID, AccountID: o.principal.Account.ID, Revision: int(revision), By: o.session.Email}
	switch form.Get("decision") {
	case "allow":
		decision.Allow = true
	case "more":
		decision.Allow, decision.Allowance = true, found.Deletes() > 0
	case "deny":
	default:
		return fault.New(fault.Invalid, "decision must be allow or deny")
	}
	if decision.Allow {
		if err := a.CheckWritable(account.DeleteMedia); err != nil {
			return err
		}
		if a.decisionNeedsLogin(o, found) {
			return fault.New(fault.Forbidden, "You logged in too long ago to allow a permanent delete. Log in again.")
		}
	}
	return a.Approvals.Decide(ctx, decision)
}

// deletesPermanently reports whether a delete among the changes cannot be undone.
func deletesPermanently(o fileOwner, found approval.Approval) bool {
	return found.Deletes() > 0 && !o.principal.Account.Undo.Covers(loginDelete.Agent)
}

// decisionNeedsLogin reports whether the owner has to log in again, as for such a delete on the files page.
func (a *API) decisionNeedsLogin(o fileOwner, found approval.Approval) bool {
	return deletesPermanently(o, found) && !a.OAuth.IsRecentLogin(o.session)
}

// writeApproval writes the page. err is that of the form that it answers; nil = none.
func (a *API) writeApproval(w http.ResponseWriter, r *http.Request, o fileOwner, found approval.Approval, err error) {
	pictures, failure := a.pictureURLs(r.Context(), o.principal.Account.Bucket)
	if failure != nil {
		a.Login.ErrorPage(w, r, cmp.Or(err, failure))
		return
	}
	page := pages.ApprovalPage{Form: a.Login.FormFields(o.session), Account: oauthhttp.AccountView(o.principal.Account), ApprovalID: found.ID.String(), Revision: found.Revision,
		By: found.Actor.Email, AskedAt: found.CreatedAt, ExpiresAt: found.ExpiresAt, State: string(found.State), Permanent: deletesPermanently(o, found)}
	if found.GrantID != uuid.Nil {
		page.Application = cmp.Or(found.Actor.Name, "An application")
	} else {
		page.KeyID = found.KeyID.String()
	}
	if found.Deletes() > 0 {
		page.More = approval.AllowanceItems
	}
	if a.decisionNeedsLogin(o, found) {
		page.LoginURL = a.Login.LogInAgainURL(o.session, approvalPage, url.Values{"approval": {found.ID.String()}})
	}
	originals := a.originals(r.Context(), o.principal.Account.ID)
	of := o // in the app of the approval, which may be another one than that of the files page
	if o.principal.App.ID != found.AppID {
		of.principal.App = account.App{ID: found.AppID, AccountID: found.AccountID}
	}
	for _, step := range found.Steps {
		shown, failure := a.stepView(r.Context(), of, step, func(item media.Item) pages.File { return a.fileView(of, originals, item, url.Values{}) })
		if failure != nil {
			a.Login.ErrorPage(w, r, failure)
			return
		}
		page.Steps = append(page.Steps, shown)
	}
	status := http.StatusOK
	if err != nil {
		status = httpapi.Fail(w, r, err)
		page.Error = oauthhttp.WithRetry(fault.From(err).Public, fault.From(err))
	}
	a.Login.WritePage(w, r, status, pictures, func(to io.Writer) error { return a.Pages.Approval(to, page) })
}

// stepView returns a change as the page shows it. Of a file that is not there anymore it has the id.
func (a *API) stepView(ctx context.Context, of fileOwner, step approval.Step, view func(media.Item) pages.File) (pages.ApprovalStep, error) {
	shown := pages.ApprovalStep{Tool: string(step.Operation), State: string(step.State), Failure: step.Failure, Details: detailsOf(step.Arguments)}
	if step.ItemID == uuid.Nil {
		return shown, nil
	}
	shown.FileID, shown.Bytes = step.ItemID.String(), step.Bytes
	item, err := a.Media.Get(ctx, of.principal, step.ItemID)
	if fault.Is(err, fault.NotFound) {
		shown.Missing = step.State == approval.StepWaiting && step.Operation != account.RestoreMedia
		return a.deletedStepView(ctx, of, step, shown)
	}
	if err != nil {
		return shown, err
	}
	file := view(item)
	shown.File, shown.Missing = &file, step.State == approval.StepWaiting && int64(item.Version) != step.Version
	return shown, nil
}

// deletedStepView adds the file of a change that can be restored, so that an owner sees by its name what was deleted, or would be restored.
func (a *API) deletedStepView(ctx context.Context, of fileOwner, step approval.Step, shown pages.ApprovalStep) (pages.ApprovalStep, error) {
	deleted, err := a.Media.Deleted(ctx, of.principal, step.ItemID)
	if fault.Is(err, fault.NotFound) {
		return shown, nil
	}
	if err != nil {
		return shown, err
	}
	file := a.deletedView(of, deleted)
	if of.principal.App.Name == "" { // its thumbnails have addresses by the name
		file.Thumbnail = ""
	}
	shown.File, shown.Deleted, shown.RestorableUntil = &file, true, deleted.RestorableUntil
	return shown, nil
}

// maxDetail bounds the length of a value that the page shows, in characters.
const maxDetail = 300

// detailsOf returns the fields of the arguments of a change with their values, in the order of their names.
func detailsOf(arguments string) []pages.ApprovalDetail {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &fields) != nil {
		return nil
	}
	var details []pages.ApprovalDetail
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		var text string
		if json.Unmarshal(fields[name], &text) == nil {
			value = text
		}
		if short := []rune(value); len(short) > maxDetail {
			value = fmt.Sprintf("%s ... (%d characters)", string(short[:maxDetail]), len(short))
		}
		details = append(details, pages.ApprovalDetail{Name: name, Value: value})
	}
	return details
}
