package oauthhttp

import (
	"maps"
	"net/http"
	"net/url"
	"strings"

	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/redact"
)

// AccountPaths is what the paths of all pages for owners of accounts begin with.
const AccountPaths = accountPath + "/"

// OwnerPage is a page for owners of accounts, where a login without an authorization request can lead.
type OwnerPage struct {
	// Name is that of the page in cookies and URLs. It contains no dot.
	Name string
	Path string
	// Parameters are those with which a login may lead there. account is the id of an account of the user.
	Parameters []string
	// Required is the parameter without which a login leads to the home page instead; empty = none.
	Required string
	// NeedsRecentLogin permits that LogInAgainURL leads there.
	NeedsRecentLogin bool
}

// OwnerPages are the pages of another package for owners of accounts.
type OwnerPages struct {
	// Home is where a login leads that cannot lead to another one.
	Home   OwnerPage
	Others []OwnerPage
	// Resume returns the page, with its parameters, to return to from a request below the path of a page whose session has
	// ended. The form of the request, if it has one, is parsed.
	Resume func(*http.Request) (page string, parameters url.Values)
}

// find returns a page, and reports whether there is one of this name.
func (p *OwnerPages) find(name string) (OwnerPage, bool) {
	if p == nil {
		return OwnerPage{}, false
	}
	for _, page := range append([]OwnerPage{p.Home}, p.Others...) {
		if page.Name == name {
			return page, true
		}
	}
	return OwnerPage{}, false
}

// covers reports whether a path is that of a page, or below one.
func (p *OwnerPages) covers(path string) bool {
	if p == nil {
		return false
	}
	for _, page := range append([]OwnerPage{p.Home}, p.Others...) {
		if path == page.Path || strings.HasPrefix(path, page.Path+"/") {
			return true
		}
	}
	return false
}

// destination returns a page with those of the values that are its parameters. A value that contains a
// credential, which was sent in the wrong field, is left out: the page is in links and a cookie. Without the
// room for the others the page is that of the account alone.
func (p *OwnerPages) destination(name string, values url.Values) destination {
	page, ok := p.find(name)
	if !ok {
		page = p.Home
	}
	d := destination{page: page, query: url.Values{}}
	for _, name := range page.Parameters {
		if value := values.Get(name); value != "" && !redact.Secret(value) {
			d.query.Set(name, value)
		}
	}
	if len(d.query.Encode()) > maxDestination {
		of := d.query.Get("account")
		d.query = url.Values{}
		if of != "" {
			d.query.Set("account", of)
		}
	}
	if len(d.query.Encode()) > maxDestination || page.Required != "" && !d.query.Has(page.Required) {
		d = destination{page: p.Home}
	}
	return d
}

// RequireUser returns the session of the logged-in user, and extends it, or responds: it starts a login
// that leads to a page with parameters, or continues the one that there is.
func (a *API) RequireUser(w http.ResponseWriter, r *http.Request, page string, parameters url.Values) (oauth.LoginSession, bool) {
	return a.requireUser(w, r, a.Files.destination(page, parameters))
}

// User returns the session of a logged-in user whose request names it. It starts no login.
func (a *API) User(r *http.Request) (oauth.LoginSession, bool) {
	session, err := a.loginSession(r, r.URL.Query().Get("request"))
	return session, err == nil && session.LoggedIn() && session.AuthorizationRequest == nil
}

// LogInAgainURL returns the action of a form, with the fields of FormFields, that starts a new login of the user of a session, which leads to a page
// with parameters.
func (a *API) LogInAgainURL(session oauth.LoginSession, page string, parameters url.Values) string {
	query := maps.Clone(a.Files.destination(page, parameters).query)
	if query == nil {
		query = url.Values{}
	}
	query.Set("page", page)
	return SessionURL(loginChangePath, session, query)
}

// SessionURL returns the URL of a page or a form of a session.
func SessionURL(path string, session oauth.LoginSession, query url.Values) string {
	all := url.Values{}
	maps.Copy(all, query)
	all.Set("request", session.ID.String())
	return path + "?" + all.Encode()
}
