package oauthhttp

import (
	"errors"
	"io"
	"net/http"
	"net/url"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// stepURL returns the URL of the current page of a login.
func stepURL(session oauth.LoginSession) string { return loginPath + "?request=" + session.ID.String() }

// redirectToStep handles GET requests for the URL of a form, where the browser stays if the
// form is answered with an error: a reload leads to the current page of the login.
func (a *API) redirectToStep(w http.ResponseWriter, r *http.Request) {
	a.SeeOther(w, loginPath+"?"+url.Values{"request": {r.URL.Query().Get("request")}}.Encode())
}

// showLogin shows the current page of a login. All steps have the same URL, so that a reload
// or the back button shows the actual state.
func (a *API) showLogin(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	session, err := a.loginSession(r, query.Get("request"))
	if err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	switch {
	case session.LoggedIn() && session.AuthorizationRequest == nil:
		a.SeeOther(w, a.homeURL(r.Context(), a.destination(r, session), session))
	case session.LoggedIn():
		a.consentPage(w, r, session, nil)
	case session.Email != "" && !query.Has("change"):
		a.codePage(w, r, session, pages.CodePage{Resent: query.Has("resent"), Continued: query.Has("continued")}, nil)
	default:
		page := pages.EmailPage{Email: query.Get("email")}
		switch {
		case query.Has("out"):
			page.Notice = "You are logged out."
		case query.Has("ended"):
			page.Notice = "Your login has ended. Log in again to go on where you were."
		}
		a.emailPage(w, r, session, page, nil)
	}
}

// restartLogin starts a new login for the same authorization request, and ends the one that there is: the user logged in with
// the wrong e-mail address, or has to log in again for a page, which the URL names. Only a form of the session can ask for it.
func (a *API) restartLogin(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, _ url.Values) {
	if !session.LoggedIn() { // nothing is ended: the address can be changed where it is typed
		a.SeeOther(w, stepURL(session)+"&change=1")
		return
	}
	to, email := a.destination(r, session), ""
	if query := r.URL.Query(); session.AuthorizationRequest == nil {
		if page, ok := a.Files.find(query.Get("page")); ok && page.NeedsRecentLogin {
			to, email = a.Files.destination(page.Name, query), session.Email
		}
	}
	next, err := a.startLogin(w, r, session.AuthorizationRequest, to)
	if err == nil {
		err = a.OAuth.EndLogin(r.Context(), session)
	}
	if err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	a.clearCookie(w, session)
	target := stepURL(next)
	if email != "" {
		target += "&" + url.Values{"email": {email}}.Encode()
	}
	a.SeeOther(w, target)
}

func (a *API) emailPage(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, page pages.EmailPage, err error) {
	page.Form, page.Application = a.FormFields(session), applicationView(session.AuthorizationRequest)
	page.Files = a.destination(r, session).isFiles()
	status := http.StatusOK
	if err != nil {
		status, page.Error = httpapi.Fail(w, r, err), errorText(err)
	}
	a.page(w, r, status, "", func(to io.Writer) error { return a.Pages.Email(to, page) })
}

// codePage shows the page for the code. The caller sets the text of err in page.
func (a *API) codePage(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, page pages.CodePage, err error) {
	page.Form, page.Application, page.Email = a.FormFields(session), applicationView(session.AuthorizationRequest), session.Email
	page.ResendIn, page.FixedCodes = a.OAuth.ResendIn(session), a.OAuth.HasReviewCodes()
	if session.CodeSentAt != nil {
		page.SentAgo = max(0, a.Now().Sub(*session.CodeSentAt))
	}
	if session.CodeSentAt != nil && session.CodeExpiresAt != nil {
		page.ValidFor = session.CodeExpiresAt.Sub(*session.CodeSentAt)
	}
	status := http.StatusOK
	if err != nil {
		status = httpapi.Fail(w, r, err)
	}
	a.page(w, r, status, "", func(to io.Writer) error { return a.Pages.Code(to, page) })
}

// submitEmail sends a login code.
func (a *API) submitEmail(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	email, _ := oauth.ParseEmail(form.Get("email"))
	isResend := session.Email != "" && session.Email == email
	if !isResend && a.continuePending(w, r, session, email) {
		return
	}
	err := a.OAuth.SendCode(r.Context(), session, form.Get("email"), clientPrefix(r))
	switch {
	case err == nil && isResend:
		a.SeeOther(w, stepURL(session)+"&resent=1")
	case err == nil:
		a.SeeOther(w, stepURL(session))
	case fault.Is(err, fault.Conflict): // logged in, in another tab
		a.SeeOther(w, stepURL(session))
	case !isFieldError(err):
		a.ErrorPage(w, r, err)
	case !isResend && isTooSoon(err):
		a.emailPage(w, r, session, pages.EmailPage{Email: form.Get("email"), CodeSent: true, SentAgo: a.OAuth.SentAgo(err)}, err)
	case isResend && fault.Is(err, fault.Busy):
		a.codePage(w, r, session, pages.CodePage{ResendError: errorText(err)}, err)
	default:
		a.emailPage(w, r, session, pages.EmailPage{Email: form.Get("email")}, err)
	}
}

// isTooSoon reports whether no code was sent because one was sent to the address a short time ago.
func isTooSoon(err error) bool {
	var reason oauth.Reason
	return errors.As(err, &reason) && reason == oauth.ReasonResendTooSoon
}

// continuePending leads the user to the login of the same browser to which the newest code was sent, for
// what this one asks for, and reports whether there is such a login.
func (a *API) continuePending(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, email string) bool {
	pending, ok := a.pendingLogin(r, session, email)
	if !ok || a.OAuth.ContinueLogin(r.Context(), pending, session) != nil {
		return false
	}
	cookie, err := r.Cookie(a.cookieName(pending.ID))
	if err != nil {
		return false
	}
	secret, _ := a.parseCookie(cookie.Value)
	a.writeCookie(w, cookie.Name, a.destination(r, session).cookie(secret), int(pending.ExpiresAt.Sub(a.Now()).Seconds()))
	a.clearCookie(w, session)
	a.SeeOther(w, stepURL(pending)+"&continued=1")
	return true
}

// submitCode verifies a login code and logs the user in.
func (a *API) submitCode(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	cookie, err := a.OAuth.VerifyCode(r.Context(), session, form.Get("code"))
	switch {
	case err == nil:
		a.setCookie(w, r, session, cookie, a.destination(r, session))
		a.SeeOther(w, stepURL(session))
	case fault.Is(err, fault.Conflict): // logged in, in another tab
		a.SeeOther(w, stepURL(session))
	case isFieldError(err) && session.Email == "":
		a.emailPage(w, r, session, pages.EmailPage{}, err)
	case isFieldError(err):
		a.codePage(w, r, session, pages.CodePage{Error: errorText(err)}, err)
	default:
		a.ErrorPage(w, r, err)
	}
}
