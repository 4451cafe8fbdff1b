package oauthhttp

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// consentPage asks the logged-in user to authorize the application.
func (a *API) consentPage(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, err error) {
	accounts, listErr := a.OAuth.Accounts(r.Context(), session)
	if listErr == nil && len(accounts) == 0 {
		listErr = fault.New(fault.Conflict, "There is no account that this address can authorize access to.")
	}
	if listErr != nil {
		a.ErrorPage(w, r, listErr)
		return
	}
	page := pages.ConsentPage{Form: a.FormFields(session), Application: *applicationView(session.AuthorizationRequest), Email: session.Email}
	page.Accounts = AccountViews(accounts)
	for i, owned := range accounts {
		page.Accounts[i].FixedCode = a.OAuth.HasReviewCode(oauth.NamespacedName(owned))
	}
	for _, scope := range session.AuthorizationRequest.Scopes {
		page.Scopes = append(page.Scopes, pages.Scope(scope))
	}
	status := http.StatusOK
	if err != nil {
		status, page.Error = httpapi.Fail(w, r, err), errorText(err)
	}
	a.page(w, r, status, session.AuthorizationRequest.RedirectURI, func(to io.Writer) error { return a.Pages.Consent(to, page) })
}

// AccountViews returns accounts among which a user chooses. Those of one name are told apart by their resources.
func AccountViews(accounts []account.Account) []pages.Account {
	views := make([]pages.Account, len(accounts))
	for i, owned := range accounts {
		views[i] = AccountView(owned)
		if slices.ContainsFunc(accounts, func(other account.Account) bool {
			return other.ID != owned.ID && strings.EqualFold(strings.TrimSpace(accountName(other)), strings.TrimSpace(accountName(owned)))
		}) {
			views[i].Detail = oauth.NamespacedName(owned)
		}
	}
	return views
}

// AccountView returns an account as the pages show it.
func AccountView(owned account.Account) pages.Account {
	view := pages.Account{ID: owned.ID.String(), Name: accountName(owned), Policy: owned.ToolPolicy}
	if owned.DisplayName == "" {
		view.Detail = oauth.NamespacedName(owned)
	}
	if owned.Undo.Covers(true) { // a login deletes as an agent does
		view.UndoWindow = owned.Undo.Window
	}
	return view
}

func accountName(owned account.Account) string {
	if owned.DisplayName != "" {
		return owned.DisplayName
	}
	return owned.Name
}

// submitConsent ends a login with the decision of the user.
func (a *API) submitConsent(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	if !session.LoggedIn() || session.AuthorizationRequest == nil {
		a.SeeOther(w, stepURL(session))
		return
	}
	switch form.Get("decision") {
	case "allow":
		a.approve(w, r, session, form.Get("account"))
	case "deny":
		a.deny(w, r, session)
	default:
		a.consentPage(w, r, session, fault.New(fault.Invalid, "Choose Allow or Deny."))
	}
}

// approve creates the grant and returns its authorization code to the client.
func (a *API) approve(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, accountID string) {
	id, err := uuid.Parse(accountID)
	if err != nil {
		a.consentPage(w, r, session, fault.New(fault.Invalid, "Choose an account."))
		return
	}
	code, err := a.OAuth.Approve(r.Context(), session, id)
	switch {
	case fault.Is(err, fault.Conflict):
		a.consentPage(w, r, session, err)
	case err != nil:
		a.ErrorPage(w, r, err)
	default:
		a.clearCookie(w, session)
		a.redirectToClient(w, r, session.AuthorizationRequest, url.Values{"code": {code}})
	}
}

// deny ends the session and returns access_denied to the client.
func (a *API) deny(w http.ResponseWriter, r *http.Request, session oauth.LoginSession) {
	if err := a.OAuth.EndLogin(r.Context(), session); err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	a.clearCookie(w, session)
	a.redirectToClient(w, r, session.AuthorizationRequest, url.Values{"error": {"access_denied"}, "error_description": {"the user denied the request"}})
}
