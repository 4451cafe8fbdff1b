package oauthhttp

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/redact"
)

// accountPage is a page for owners of accounts: where a login without an authorization request leads.
type accountPage string

// The pages.
const (
	appsPage   accountPage = "" // the authorized applications
	filesPage  accountPage = "files"
	deletePage accountPage = "delete" // the question whether to delete a file
)

// pagePaths are the paths of the pages, and pageParameters the parameters with which a login may lead there.
var (
	pagePaths      = map[accountPage]string{appsPage: appsPath, filesPage: filesPath, deletePage: deleteFilePath}
	pageParameters = map[accountPage][]string{filesPage: append([]string{"account"}, listParameters...), deletePage: {"account", "item", "back"}}
)

// destination is a page with parameters that a login leads to.
type destination struct {
	page  accountPage
	query url.Values
}

// maxDestination bounds the parameters of a destination in a cookie, in bytes. A browser sends each cookie
// with each request.
const maxDestination = 1 << 10

// destinationOf returns a page with those of the values that are its parameters. A value that contains a
// credential, which was sent in the wrong field, is left out: the page is in links and a cookie. Without the
// room for the others the page is that of the account alone.
func destinationOf(page accountPage, values url.Values) destination {
	d := destination{page: page, query: url.Values{}}
	for _, name := range pageParameters[page] {
		if value := values.Get(name); value != "" && !redact.Secret(value) {
			d.query.Set(name, value)
		}
	}
	if len(d.query.Encode()) > maxDestination {
		d.query = with(url.Values{}, "account", d.query.Get("account"))
	}
	if len(d.query.Encode()) > maxDestination || page == deletePage && !d.query.Has("item") {
		d = destination{page: filesPage}
	}
	return d
}

// isFiles reports whether the page is about files.
func (d destination) isFiles() bool { return d.page != appsPage }

// again returns the URL of the page for a browser whose session has ended.
func (d destination) again() string {
	if len(d.query) == 0 {
		return pagePaths[d.page]
	}
	return pagePaths[d.page] + "?" + d.query.Encode()
}

// url returns the URL of the page for a session.
func (d destination) url(session oauth.LoginSession) string {
	return sessionURL(pagePaths[d.page], session, d.query)
}

// pageSeparator separates the parts of a cookie: the secret, the page and its parameters. None of them
// contains it.
const pageSeparator = "."

// cookie returns the value of a cookie with a secret.
func (d destination) cookie(secret string) string {
	if d.page == appsPage {
		return secret
	}
	value := secret + pageSeparator + string(d.page)
	if len(d.query) > 0 {
		value += pageSeparator + base64.RawURLEncoding.EncodeToString([]byte(d.query.Encode()))
	}
	return value
}

// parseCookie returns the parts of a cookie's value. What is unreadable leads to the page alone: another
// replica may be older, or newer.
func (a *API) parseCookie(value string) (secret string, to destination) {
	parts := strings.Split(value, pageSeparator)
	if len(parts) == 1 || a.Files == nil || !slices.Contains([]accountPage{filesPage, deletePage}, accountPage(parts[1])) {
		return parts[0], destination{page: appsPage}
	}
	query := url.Values{}
	if len(parts) > 2 {
		if text, err := base64.RawURLEncoding.DecodeString(parts[2]); err == nil {
			if parsed, err := url.ParseQuery(string(text)); err == nil {
				query = parsed
			}
		}
	}
	return parts[0], destinationOf(accountPage(parts[1]), query)
}

// destination returns the page that the login of a browser leads to.
func (a *API) destination(r *http.Request, session oauth.LoginSession) destination {
	cookie, err := r.Cookie(a.cookieName(session.ID))
	if err != nil {
		return destination{page: appsPage}
	}
	_, to := a.parseCookie(cookie.Value)
	return to
}

// homeURL returns the URL of the page that a login leads to. Another user than before may have logged in,
// who does not own the account.
func (a *API) homeURL(ctx context.Context, to destination, session oauth.LoginSession) string {
	if to.query.Has("account") {
		id, err := uuid.Parse(to.query.Get("account"))
		if err == nil {
			_, err = a.OAuth.Principal(ctx, session, id)
		}
		if err != nil && !fault.Is(err, fault.Unavailable) {
			to = destination{page: filesPage}
		}
	}
	return to.url(session)
}

// interrupted returns the page to return to from a request that a session does not permit any more.
func (a *API) interrupted(r *http.Request) destination {
	if a.Files == nil || !strings.HasPrefix(r.URL.Path, filesPath) {
		return destination{page: appsPage}
	}
	values := url.Values{}
	for _, name := range append([]string{"account", "item", "back"}, listParameters...) {
		if value := r.URL.Query().Get(name); value != "" {
			values.Set(name, value)
		}
		if value := r.PostForm.Get(name); value != "" {
			values.Set(name, value)
		}
	}
	if r.URL.Path == deleteFilePath && (r.Method == http.MethodGet || r.PostForm.Get("permanent") == "1") {
		return destinationOf(deletePage, values)
	}
	if list := backQuery(values); len(list) > 0 { // a form is sent from a list
		for name := range list {
			values.Set(name, list.Get(name))
		}
	}
	return destinationOf(filesPage, values)
}
