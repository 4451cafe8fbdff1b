package oauthhttp

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

// destination is a page with parameters that a login without an authorization request leads to.
type destination struct {
	page  OwnerPage
	query url.Values
}

// appsDestination is the list of the authorized applications.
var appsDestination = destination{page: OwnerPage{Path: appsPath}}

// maxDestination bounds the parameters of a destination in a cookie, in bytes. A browser sends each cookie
// with each request.
const maxDestination = 1 << 10

// isFiles reports whether the page is about files.
func (d destination) isFiles() bool { return d.page.Name != "" }

// again returns the URL of the page for a browser whose session has ended.
func (d destination) again() string {
	if len(d.query) == 0 {
		return d.page.Path
	}
	return d.page.Path + "?" + d.query.Encode()
}

// url returns the URL of the page for a session.
func (d destination) url(session oauth.LoginSession) string {
	return SessionURL(d.page.Path, session, d.query)
}

// pageSeparator separates the parts of a cookie: the secret, the page and its parameters. None of them
// contains it.
const pageSeparator = "."

// cookie returns the value of a cookie with a secret.
func (d destination) cookie(secret string) string {
	if !d.isFiles() {
		return secret
	}
	value := secret + pageSeparator + d.page.Name
	if len(d.query) > 0 {
		value += pageSeparator + base64.RawURLEncoding.EncodeToString([]byte(d.query.Encode()))
	}
	return value
}

// parseCookie returns the parts of a cookie's value. What is unreadable leads to the page alone: another
// replica may be older, or newer.
func (a *API) parseCookie(value string) (secret string, to destination) {
	parts := strings.Split(value, pageSeparator)
	if len(parts) == 1 {
		return parts[0], appsDestination
	}
	page, ok := a.Files.find(parts[1])
	if !ok {
		return parts[0], appsDestination
	}
	query := url.Values{}
	if len(parts) > 2 {
		if text, err := base64.RawURLEncoding.DecodeString(parts[2]); err == nil {
			if parsed, err := url.ParseQuery(string(text)); err == nil {
				query = parsed
			}
		}
	}
	return parts[0], a.Files.destination(page.Name, query)
}

// destination returns the page that the login of a browser leads to.
func (a *API) destination(r *http.Request, session oauth.LoginSession) destination {
	cookie, err := r.Cookie(a.cookieName(session.ID))
	if err != nil {
		return appsDestination
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
			_, err = a.OAuth.Principal(ctx, session, id, to.query.Get("app"))
		}
		if err != nil && !fault.Is(err, fault.Unavailable) {
			to = destination{page: a.Files.Home}
		}
	}
	return to.url(session)
}

// interrupted returns the page to return to from a request that a session does not permit any more.
func (a *API) interrupted(r *http.Request) destination {
	if !a.Files.covers(r.URL.Path) {
		return appsDestination
	}
	return a.Files.destination(a.Files.Resume(r))
}
