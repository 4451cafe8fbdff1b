package oauthhttp

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// appsURL returns the URL of the list of authorized applications for a session.
func appsURL(session oauth.LoginSession) string { return appsPath + "?request=" + session.ID.String() }

// showAuthorizedApps lists the authorized applications of the logged-in user. Without a
// session it starts a login.
func (a *API) showAuthorizedApps(w http.ResponseWriter, r *http.Request) {
	session, ok := a.requireUser(w, r, appsDestination)
	if !ok {
		return
	}
	query := r.URL.Query()
	apps, err := a.OAuth.AuthorizedApps(r.Context(), session)
	if err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	page := pages.AuthorizedAppsPage{Form: a.FormFields(session), Email: session.Email, Endpoint: a.issuer + resourcePath, Notice: revokedNotice(query)}
	if a.Files != nil {
		page.FilesURL = SessionURL(a.Files.Home.Path, session, nil)
	}
	for _, app := range apps {
		page.Apps = append(page.Apps, a.authorizedAppView(app))
	}
	a.WritePage(w, r, http.StatusOK, nil, func(to io.Writer) error { return a.Pages.AuthorizedApps(to, page) })
}

// requireUser returns the session of the logged-in user, and extends it, or responds: it starts a login
// that leads to the page, or continues the one that there is.
func (a *API) requireUser(w http.ResponseWriter, r *http.Request, to destination) (oauth.LoginSession, bool) {
	query := r.URL.Query()
	session, err := a.loginSession(r, query.Get("request"))
	switch {
	case fault.Is(err, fault.NotFound):
		if current, ok := a.userSession(r); ok { // the user may have logged in again, in another tab
			a.SeeOther(w, a.homeURL(r.Context(), to, current))
			break
		}
		ended := ""
		if query.Has("request") {
			ended = "&ended=1"
		}
		a.startUserLogin(w, r, to, ended)
	case err != nil:
		a.ErrorPage(w, r, err)
	case !session.LoggedIn() || session.AuthorizationRequest != nil:
		a.SeeOther(w, stepURL(session))
	default:
		return a.ExtendLogin(w, r, session, a.Now()), true
	}
	return oauth.LoginSession{}, false
}

// revokedNotice returns the notice after a revocation.
func revokedNotice(query url.Values) string {
	n, err := strconv.Atoi(query.Get("revoked"))
	switch {
	case err != nil:
		return ""
	case n == 0:
		return "Access had already ended."
	case n == 1:
		return "Access revoked."
	}
	return fmt.Sprintf("Access of %d applications revoked.", n)
}

func (a *API) authorizedAppView(app oauth.AuthorizedApp) pages.AuthorizedApp {
	view := pages.AuthorizedApp{ID: app.ID.String(), Name: app.ClientName, Account: app.AccountName, Verified: a.isTrusted(app.ClientID, app.RedirectURI), Since: app.CreatedAt, Policy: app.ToolPolicy, Requests: app.Requests}
	if uri, err := url.Parse(app.RedirectURI); err == nil {
		view.Host = uri.Host
		switch {
		case isLoopback(uri):
			view.Host = "an application on this computer"
		case uri.Scheme != "https":
			view.Host = uri.Scheme + " links"
		}
	}
	for _, scope := range app.Scopes {
		view.Scopes = append(view.Scopes, pages.Scope(scope))
	}
	if a.OAuth.HasReviewCode(app.Account) {
		view.Facts = append(view.Facts, pages.Fact{Name: "Reviewers", Text: "A fixed code, for the reviewers of directories, opens this account as well."})
	}
	view.Facts = append(view.Facts, ceilingFacts(app.Ceilings)...)
	if app.LastUsedAt != nil {
		view.LastUsed = *app.LastUsedAt
	}
	return view
}

// startUserLogin starts a login without an authorization request, which leads to a page.
func (a *API) startUserLogin(w http.ResponseWriter, r *http.Request, to destination, extraQuery string) {
	session, err := a.startLogin(w, r, nil, to)
	if err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	a.SeeOther(w, stepURL(session)+extraQuery)
}

// redirectToAccount handles GET requests for the first part of the addresses of the pages, which users shorten, and
// for the URL of a form, where the browser stays if the form is answered with an error.
func (a *API) redirectToAccount(w http.ResponseWriter, r *http.Request) {
	to := appsDestination
	if r.URL.Path == accountPath && a.Files != nil {
		to.page = a.Files.Home
	}
	a.SeeOther(w, to.again())
}

// revokeApps revokes the grant in the form, or all grants of the user.
func (a *API) revokeApps(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	all := form.Get("all") == "1"
	id, err := uuid.Parse(form.Get("grant"))
	if all {
		id, err = uuid.Nil, nil
	}
	if err != nil || session.AuthorizationRequest != nil || !all && id == uuid.Nil {
		a.ErrorPage(w, r, fault.New(fault.Invalid, "There is no such authorized application."))
		return
	}
	revoked, err := a.OAuth.RevokeApps(r.Context(), session, id)
	if err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	a.SeeOther(w, appsURL(session)+"&revoked="+strconv.Itoa(revoked))
}

// logOut ends the session of the user.
func (a *API) logOut(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, _ url.Values) {
	if err := a.OAuth.EndLogin(r.Context(), session); err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	a.afterLogout(w, r, session)
}

// loggedOut answers the logout of a session that has ended. The user has what the button says.
func (a *API) loggedOut(w http.ResponseWriter, r *http.Request, form url.Values, _ error) {
	id, err := uuid.Parse(form.Get("request"))
	if err != nil {
		id = uuid.Nil // of no cookie
	}
	a.afterLogout(w, r, oauth.LoginSession{ID: id})
}

// afterLogout shows the login, for the page that the session was for.
func (a *API) afterLogout(w http.ResponseWriter, r *http.Request, session oauth.LoginSession) {
	to := appsDestination // without its parameters: another user may be next
	if a.destination(r, session).isFiles() {
		to.page = a.Files.Home
	}
	a.clearCookie(w, session)
	a.startUserLogin(w, r, to, "&out=1")
}
