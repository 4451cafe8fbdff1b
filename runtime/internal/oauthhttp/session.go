package oauthhttp

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/oauth"
)

// maxLoginCookies bounds the parallel logins of one browser, and maxClearedCookies the cookies
// that one response deletes: the size of a response header is limited.
const (
	maxLoginCookies   = 8
	maxClearedCookies = 20
)

// cookiePrefix returns the prefix of cookie names. Each login session has its own cookie, so
// that several tabs do not interfere.
func (a *API) cookiePrefix() string {
	if a.secure {
		return "__Host-login-" // browsers restrict it to this host, https and the path /
	}
	return "login-"
}

func (a *API) cookieName(id uuid.UUID) string {
	return a.cookiePrefix() + id.String()
}

// setCookie sets the cookie of a session: its secret, and the page that the login leads to. SameSite is Lax because the login starts with a link from another site; all forms
// have CSRF protection.
func (a *API) setCookie(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, secret string, to destination) {
	var others []string
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, a.cookiePrefix()) && cookie.Name != a.cookieName(session.ID) {
			others = append(others, cookie.Name)
		}
	}
	if len(others) >= maxLoginCookies {
		for _, name := range others[:min(len(others), maxClearedCookies)] {
			a.writeCookie(w, name, "", -1)
		}
	}
	a.writeCookie(w, a.cookieName(session.ID), to.cookie(secret), int(a.OAuth.SessionTTL().Seconds()))
}

// ExtendLogin extends the session of a user who uses the pages of the account, and its cookie. validAt is
// when the session was found.
func (a *API) ExtendLogin(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, validAt time.Time) oauth.LoginSession {
	session, extended := a.OAuth.ExtendLogin(r.Context(), session, validAt)
	if cookie, err := r.Cookie(a.cookieName(session.ID)); err == nil && extended {
		a.writeCookie(w, cookie.Name, cookie.Value, int(session.ExpiresAt.Sub(a.Now()).Seconds()))
	}
	return session
}

func (a *API) clearCookie(w http.ResponseWriter, session oauth.LoginSession) {
	a.writeCookie(w, a.cookieName(session.ID), "", -1)
}

func (a *API) writeCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure unless the service is reached by http
		Name: name, Value: value, Path: "/", MaxAge: maxAge, Secure: a.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// startLogin creates a login session and sets its cookie, within the rate limit. to is where the
// login leads without an authorization request.
func (a *API) startLogin(w http.ResponseWriter, r *http.Request, request *oauth.AuthorizationRequest, to destination) (oauth.LoginSession, error) {
	if err := a.allowLogin(r); err != nil {
		return oauth.LoginSession{}, err
	}
	return a.createLogin(w, r, request, to)
}

// allowLogin counts a login against the rate limit of the client IP.
func (a *API) allowLogin(r *http.Request) error {
	return a.Limits.AllowLogin(httpapi.FromContext(r.Context()).ClientIP).Err()
}

// createLogin is startLogin without the rate limit.
func (a *API) createLogin(w http.ResponseWriter, r *http.Request, request *oauth.AuthorizationRequest, to destination) (oauth.LoginSession, error) {
	session, cookie, err := a.OAuth.StartLogin(r.Context(), request)
	if err == nil {
		a.setCookie(w, r, session, cookie, to)
	}
	return session, err
}

// loginSession returns the login session with this ID if the browser has its cookie.
func (a *API) loginSession(r *http.Request, text string) (oauth.LoginSession, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return oauth.LoginSession{}, oauth.ReasonSessionExpired.Fault()
	}
	cookie, err := r.Cookie(a.cookieName(id))
	if err != nil {
		return oauth.LoginSession{}, oauth.ReasonSessionExpired.Fault()
	}
	secret, _ := a.parseCookie(cookie.Value)
	return a.OAuth.FindLogin(r.Context(), id, secret)
}

// userSession returns the session with which the user of this browser has logged in to see the
// pages of the account.
func (a *API) userSession(r *http.Request) (oauth.LoginSession, bool) {
	return a.findSession(r, func(session oauth.LoginSession) bool {
		return session.LoggedIn() && session.AuthorizationRequest == nil
	})
}

// pendingLogin returns another login of this browser whose code can be entered in place of one for newer.
func (a *API) pendingLogin(r *http.Request, newer oauth.LoginSession, email string) (oauth.LoginSession, bool) {
	return a.findSession(r, func(session oauth.LoginSession) bool { return a.OAuth.CanContinue(session, newer, email) })
}

// findSession returns a session of this browser. A browser may send any number of cookies.
func (a *API) findSession(r *http.Request, matches func(oauth.LoginSession) bool) (oauth.LoginSession, bool) {
	looked := 0
	for _, cookie := range r.Cookies() {
		text, ok := strings.CutPrefix(cookie.Name, a.cookiePrefix())
		if !ok {
			continue
		}
		if looked++; looked > 2*maxLoginCookies {
			break
		}
		if session, err := a.loginSession(r, text); err == nil && matches(session) {
			return session, true
		}
	}
	return oauth.LoginSession{}, false
}

// clientPrefix returns the IP prefix by which limits count a client.
func clientPrefix(r *http.Request) string {
	return ratelimit.ClientPrefix(httpapi.FromContext(r.Context()).ClientIP).String()
}
