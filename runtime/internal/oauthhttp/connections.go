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

// showConnections shows the person what is connected, after a login.
func (a *API) showConnections(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	request, err := a.request(r, query.Get("request"))
	switch {
	case fault.Is(err, fault.NotFound):
		if mine, ok := a.own(r); ok && !query.Has("request") {
			a.seeOther(w, connectionsPath+"?request="+mine.ID.String())
			return
		}
		a.beginAlone(w, r, "")
		return
	case err != nil:
		a.problem(w, r, err)
		return
	case !request.LoggedIn() || request.Ask != nil:
		a.seeOther(w, stepOf(request))
		return
	}
	connections, err := a.Logins.Connections(r.Context(), request)
	if err != nil {
		a.problem(w, r, err)
		return
	}
	page := pages.AuthorizedAppsPage{Form: a.formOf(request), Email: request.Address, Endpoint: a.base + resourcePath}
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
	for _, one := range connections {
		page.Apps = append(page.Apps, a.connectionOf(one))
	}
	a.page(w, r, http.StatusOK, "", func(to io.Writer) error { return a.Pages.AuthorizedApps(to, page) })
}

func (a *API) connectionOf(one oauth.Connection) pages.AuthorizedApp {
	shown := pages.AuthorizedApp{ID: one.ID.String(), Name: one.ClientName, Account: one.AccountName, Verified: a.trusted(one.ClientID, one.RedirectURI), Since: one.CreatedAt}
	if uri, err := url.Parse(one.RedirectURI); err == nil {
		shown.Host = uri.Host
		switch {
		case isLoopback(uri):
			shown.Host = "a program on your computer"
		case uri.Scheme != "https":
			shown.Host = uri.Scheme + " links"
		}
	}
	for _, scope := range one.Scopes {
		shown.Scopes = append(shown.Scopes, pages.Scope(scope))
	}
	if one.LastUsedAt != nil {
		shown.LastUsed = *one.LastUsedAt
	}
	return shown
}

// beginAlone begins the login of a person whom no application sent.
func (a *API) beginAlone(w http.ResponseWriter, r *http.Request, more string) {
	request, err := a.begin(w, r, nil)
	if err != nil {
		a.problem(w, r, err)
		return
	}
	a.seeOther(w, stepOf(request)+more)
}

// endConnections ends one connection, or all.
func (a *API) endConnections(w http.ResponseWriter, r *http.Request, request oauth.Request, form url.Values) {
	id, err := uuid.Parse(form.Get("connection"))
	if form.Get("all") == "1" {
		id, err = uuid.Nil, nil
	}
	if err != nil || request.Ask != nil || form.Get("all") != "1" && id == uuid.Nil {
		a.problem(w, r, fault.New(fault.Invalid, "There is no such connection."))
		return
	}
	ended, err := a.Logins.EndConnections(r.Context(), request, id)
	if err != nil {
		a.problem(w, r, err)
		return
	}
	a.seeOther(w, connectionsPath+"?request="+request.ID.String()+"&ended="+strconv.Itoa(ended))
}

// logOut ends the person's own login.
func (a *API) logOut(w http.ResponseWriter, r *http.Request, request oauth.Request, _ url.Values) {
	if err := a.Logins.End(r.Context(), request); err != nil {
		a.problem(w, r, err)
		return
	}
	a.writeCookie(w, a.cookieName(request.ID), "", -1)
	a.beginAlone(w, r, "&out=1")
}
