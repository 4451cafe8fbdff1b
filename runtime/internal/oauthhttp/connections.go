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

// showAuthorizedApps shows the person what is connected, after a login.
func (a *API) showAuthorizedApps(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	session, err := a.loginSession(r, query.Get("request"))
	switch {
	case fault.Is(err, fault.NotFound):
		if mine, ok := a.currentSession(r); ok && !query.Has("request") {
			a.seeOther(w, connectionsPath+"?request="+mine.ID.String())
			return
		}
		a.startUserLogin(w, r, "")
		return
	case err != nil:
		a.errorPage(w, r, err)
		return
	case !session.LoggedIn() || session.AuthorizationRequest != nil:
		a.seeOther(w, stepURL(session))
		return
	}
	apps, err := a.OAuth.AuthorizedApps(r.Context(), session)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	page := pages.AuthorizedAppsPage{Form: a.formFields(session), Email: session.Email, Endpoint: a.issuer + resourcePath}
	if n, err := strconv.Atoi(query.Get("ended")); err == nil {
		switch n {
		case 0:
			page.Notice = "The connection had ended already."
		case 1:
			page.Notice = "The connection has ended."
		default:
			page.Notice = fmt.Sprintf("%d connections have ended.", n)
		}
	}
	for _, app := range apps {
		page.Apps = append(page.Apps, a.authorizedAppView(app))
	}
	a.page(w, r, http.StatusOK, "", func(to io.Writer) error { return a.Pages.AuthorizedApps(to, page) })
}

func (a *API) authorizedAppView(app oauth.AuthorizedApp) pages.AuthorizedApp {
	shown := pages.AuthorizedApp{ID: app.ID.String(), Name: app.ClientName, Account: app.AccountName, Verified: a.isTrusted(app.ClientID, app.RedirectURI), Since: app.CreatedAt}
	if uri, err := url.Parse(app.RedirectURI); err == nil {
		shown.Host = uri.Host
		switch {
		case isLoopback(uri):
			shown.Host = "a program on your computer"
		case uri.Scheme != "https":
			shown.Host = uri.Scheme + " links"
		}
	}
	for _, scope := range app.Scopes {
		shown.Scopes = append(shown.Scopes, pages.Scope(scope))
	}
	if app.LastUsedAt != nil {
		shown.LastUsed = *app.LastUsedAt
	}
	return shown
}

// startUserLogin begins the login of a person whom no application sent.
func (a *API) startUserLogin(w http.ResponseWriter, r *http.Request, more string) {
	session, err := a.startLogin(w, r, nil)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	a.seeOther(w, stepURL(session)+more)
}

// revokeApps ends one connection, or all.
func (a *API) revokeApps(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	id, err := uuid.Parse(form.Get("connection"))
	if form.Get("all") == "1" {
		id, err = uuid.Nil, nil
	}
	if err != nil || session.AuthorizationRequest != nil || form.Get("all") != "1" && id == uuid.Nil {
		a.errorPage(w, r, fault.New(fault.Invalid, "There is no such connection."))
		return
	}
	revoked, err := a.OAuth.RevokeApps(r.Context(), session, id)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	a.seeOther(w, connectionsPath+"?request="+session.ID.String()+"&ended="+strconv.Itoa(revoked))
}

// logOut ends the person's own login.
func (a *API) logOut(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, _ url.Values) {
	if err := a.OAuth.EndLogin(r.Context(), session); err != nil {
		a.errorPage(w, r, err)
		return
	}
	a.writeCookie(w, a.cookieName(session.ID), "", -1)
	a.startUserLogin(w, r, "&out=1")
}
