package oauthhttp

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/limit"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// maxLoginCookies is how many logins of one browser may run side by side, and mostCleared how
// many cookies of others one answer takes away: the header of an answer has an end, too.
const (
	maxLoginCookies   = 8
	maxClearedCookies = 20
)

// cookiePrefix begins the names of cookies. Each login has one of its own, so that tabs do
// not disturb each other.
func (a *API) cookiePrefix() string {
	if a.secure {
		return "__Host-login-" // held to this host, to https and to the path / by browsers
	}
	return "login-"
}

func (a *API) cookieName(id uuid.UUID) string {
	return a.cookiePrefix() + id.String()
}

// setCookie ties the browser to a request. SameSite is Lax: the first page comes by a
// link of another site, and every form is checked besides.
func (a *API) setCookie(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, value string) {
	var old []string
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, a.cookiePrefix()) && cookie.Name != a.cookieName(session.ID) {
			old = append(old, cookie.Name)
		}
	}
	if len(old) >= maxLoginCookies {
		for _, name := range old[:min(len(old), maxClearedCookies)] {
			a.writeCookie(w, name, "", -1)
		}
	}
	a.writeCookie(w, a.cookieName(session.ID), value, int(a.OAuth.SessionTTL().Seconds()))
}

func (a *API) writeCookie(w http.ResponseWriter, name, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure unless the service itself is reached by http
		Name: name, Value: value, Path: "/", MaxAge: age, Secure: a.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// session finds the login that a browser is in.
func (a *API) loginSession(r *http.Request, text string) (oauth.LoginSession, error) {
	lost := fault.New(fault.NotFound, "This login has ended, took too long, or began in another browser.")
	id, err := uuid.Parse(text)
	if err != nil {
		return oauth.LoginSession{}, lost
	}
	cookie, err := r.Cookie(a.cookieName(id))
	if err != nil {
		return oauth.LoginSession{}, lost
	}
	session, err := a.OAuth.FindLogin(r.Context(), id, cookie.Value)
	if fault.Is(err, fault.NotFound) {
		return oauth.LoginSession{}, lost
	}
	return session, err
}

// clientPrefix is what limits count a client by.
func clientPrefix(r *http.Request) string {
	return limit.ClientPrefix(httpapi.FromContext(r.Context()).ClientIP).String()
}

// startLogin notes a new login, as often as the limits allow.
func (a *API) startLogin(w http.ResponseWriter, r *http.Request, authRequest *oauth.AuthorizationRequest) (oauth.LoginSession, error) {
	if err := a.allowLogin(r); err != nil {
		return oauth.LoginSession{}, err
	}
	return a.createLogin(w, r, authRequest)
}

func (a *API) allowLogin(r *http.Request) error {
	return a.Limits.AllowLogin(httpapi.FromContext(r.Context()).ClientIP).Err()
}

// logRejection is begin for whom the limits have let through.
func (a *API) createLogin(w http.ResponseWriter, r *http.Request, authRequest *oauth.AuthorizationRequest) (oauth.LoginSession, error) {
	session, cookie, err := a.OAuth.StartLogin(r.Context(), authRequest)
	if err == nil {
		a.setCookie(w, r, session, cookie)
	}
	return session, err
}

// currentSession finds the login by which this browser already looks at its person's connections.
func (a *API) currentSession(r *http.Request) (oauth.LoginSession, bool) {
	for _, cookie := range r.Cookies() {
		text, ok := strings.CutPrefix(cookie.Name, a.cookiePrefix())
		if !ok {
			continue
		}
		if session, err := a.loginSession(r, text); err == nil && session.LoggedIn() && session.AuthorizationRequest == nil {
			return session, true
		}
	}
	return oauth.LoginSession{}, false
}

// formHandler takes a form that is known to come from our page in the right browser.
type formHandler func(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values)

// csrfProtected lets a posted form through only when it was sent from our own page, by the
// browser that the page was made for.
func (a *API) csrfProtected(next formHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := a.csrf.Check(r); err != nil {
			a.errorPage(w, r, fault.Wrap(err, fault.Forbidden, "The form came from another site."))
			return
		}
		form, err := a.parseForm(w, r)
		if err != nil {
			a.errorPage(w, r, err)
			return
		}
		session, err := a.loginSession(r, form.Get("request"))
		if err == nil && !a.OAuth.VerifyCSRFToken(session, form.Get("csrf")) {
			err = fault.New(fault.Forbidden, "The form is from before you logged in, or not from this site.")
		}
		if err != nil {
			a.errorPage(w, r, err)
			return
		}
		next(w, r, session, form)
	}
}

// formFields is what the forms of a page carry.
func (a *API) formFields(session oauth.LoginSession) pages.Form {
	return pages.Form{Request: session.ID.String(), CSRF: a.OAuth.CSRFToken(session)}
}

// applicationView shows who asks; nil when the person came alone.
func applicationView(authRequest *oauth.AuthorizationRequest) *pages.Application {
	if authRequest == nil {
		return nil
	}
	shown := &pages.Application{Name: authRequest.ClientName, Website: authRequest.Website, Verified: authRequest.Verified}
	if uri, err := url.Parse(authRequest.RedirectURI); err == nil {
		shown.Host = uri.Host
		switch {
		case isLoopback(uri):
			shown.Loopback = true
		case uri.Scheme != "https":
			shown.Scheme = uri.Scheme
		}
	}
	return shown
}

// setSecurityHeaders sets what protects every page: it stays out of frames and caches, loads nothing
// from elsewhere, and its forms lead nowhere but here and to the application.
func (a *API) setSecurityHeaders(w http.ResponseWriter, formsTo string) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'"+formsTo+"; frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers would hide the origin of forms from us, too
	header.Set("Cache-Control", "no-store")
}

// page answers with a page. formsTo is an application's redirect URI that its forms
// may lead to.
func (a *API) page(w http.ResponseWriter, r *http.Request, status int, formsTo string, render func(io.Writer) error) {
	var body bytes.Buffer
	if err := render(&body); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	if formsTo != "" {
		formsTo = formActionSource(formsTo)
	}
	a.setSecurityHeaders(w, formsTo)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the browser is gone, and the log line says how much it got
}

// error answers with a page that says what went wrong.
func (a *API) errorPage(w http.ResponseWriter, r *http.Request, err error) {
	f := fault.From(err)
	httpapi.SetError(r.Context(), err)
	shown := pages.ErrorPage{Title: "That did not work", Text: errorText(err), Hint: "Begin again where you came from: in your application, or at " + connectionsPath + "."}
	status := statusOf(f, w)
	switch f.Kind { //nolint:exhaustive // all others are told as they are
	case fault.NotFound:
		shown.Title = "This login is over"
	case fault.Unavailable, fault.Internal:
		shown.Title, shown.Text, shown.Hint = "Something is wrong on our side", "The service can't do this just now.", "Try again in a minute."
	}
	a.page(w, r, status, "", func(to io.Writer) error { return a.Pages.Error(to, shown) })
}

// statusOf is the status of a page that holds a problem, and its Retry-After.
func statusOf(f *fault.Error, w http.ResponseWriter) int {
	if f.Kind == fault.Busy || f.Kind == fault.Unavailable {
		httpapi.SetRetryAfter(w.Header(), f)
	}
	return httpapi.StatusOf(f.Kind)
}
