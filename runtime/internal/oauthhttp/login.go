package oauthhttp

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// stepURL is the address of the page that a login is at.
func stepURL(session oauth.LoginSession) string { return loginPath + "?request=" + session.ID.String() }

// redirectToStep is for somebody who opens the address of a form, where a page with a problem
// stays: a browser that comes back to it does.
func (a *API) redirectToStep(w http.ResponseWriter, r *http.Request) {
	a.seeOther(w, loginPath+"?"+url.Values{"request": {r.URL.Query().Get("request")}}.Encode())
}

// showLogin shows the page that is due. Its address stays the same from step to step,
// so that a reload or the back button shows where the login really is.
func (a *API) showLogin(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	session, err := a.loginSession(r, query.Get("request"))
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	switch {
	case session.LoggedIn() && query.Has("change"):
		a.restartLogin(w, r, session)
	case session.LoggedIn() && session.AuthorizationRequest == nil:
		a.seeOther(w, connectionsPath+"?request="+session.ID.String())
	case session.LoggedIn():
		a.consentPage(w, r, session, nil)
	case session.Email != "" && !query.Has("change"):
		a.codePage(w, r, session, pages.CodePage{Resent: query.Has("resent")}, nil)
	default:
		page := pages.EmailPage{Email: query.Get("address")}
		if query.Has("out") {
			page.Notice = "You are logged out."
		}
		a.emailPage(w, r, session, page, nil)
	}
}

// restartLogin is for somebody who logged in with the wrong address: the application still
// waits, and what it asks for is known.
func (a *API) restartLogin(w http.ResponseWriter, r *http.Request, session oauth.LoginSession) {
	next, err := a.startLogin(w, r, session.AuthorizationRequest)
	if err == nil {
		err = a.OAuth.EndLogin(r.Context(), session)
	}
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	a.writeCookie(w, a.cookieName(session.ID), "", -1)
	a.seeOther(w, stepURL(next))
}

func (a *API) emailPage(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, page pages.EmailPage, err error) {
	page.Form, page.Application = a.formFields(session), applicationView(session.AuthorizationRequest)
	status := http.StatusOK
	if err != nil {
		status, page.Error = statusOf(fault.From(err), w), errorText(err)
		httpapi.SetError(r.Context(), err)
	}
	a.page(w, r, status, "", func(to io.Writer) error { return a.Pages.Email(to, page) })
}

func (a *API) codePage(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, page pages.CodePage, err error) {
	page.Form, page.Application, page.Email = a.formFields(session), applicationView(session.AuthorizationRequest), session.Email
	page.ResendIn = a.OAuth.ResendIn(session)
	if session.CodeSentAt != nil && session.CodeExpiresAt != nil {
		page.ValidFor = session.CodeExpiresAt.Sub(*session.CodeSentAt)
	}
	status := http.StatusOK
	if err != nil {
		status = statusOf(fault.From(err), w)
		httpapi.SetError(r.Context(), err)
	}
	a.page(w, r, status, "", func(to io.Writer) error { return a.Pages.Code(to, page) })
}

// errorText returns the sentence that the user reads, with the time after which to retry.
func errorText(err error) string {
	f := fault.From(err)
	text, ok := pages.ErrorText(err)
	if !ok {
		text = f.Public
	}
	if f.RetryAfter <= 0 {
		return text
	}
	n, unit := int(math.Ceil(f.RetryAfter.Seconds())), "second"
	if f.RetryAfter >= time.Minute {
		n, unit = int(math.Ceil(f.RetryAfter.Minutes())), "minute"
	}
	if n > 1 {
		unit += "s"
	}
	return fmt.Sprintf("%s Try again in %d %s.", text, n, unit)
}

// isFieldError tells the faults that a page shows beside its field from those that end a login.
func isFieldError(err error) bool { return fault.Is(err, fault.Invalid) || fault.Is(err, fault.Busy) }

// submitEmail has a code sent.
func (a *API) submitEmail(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	err := a.OAuth.SendCode(r.Context(), session, form.Get("address"), clientPrefix(r))
	address, _ := oauth.ParseEmail(form.Get("address"))
	again := session.Email != "" && session.Email == address // and not another one, which deserves its own page
	switch {
	case err == nil && again:
		a.seeOther(w, stepURL(session)+"&resent=1")
	case err == nil:
		a.seeOther(w, stepURL(session))
	case fault.Is(err, fault.Conflict): // logged in, in another tab
		a.seeOther(w, stepURL(session))
	case !isFieldError(err):
		a.errorPage(w, r, err)
	case again && fault.Is(err, fault.Busy):
		a.codePage(w, r, session, pages.CodePage{ResendError: errorText(err)}, err)
	default:
		a.emailPage(w, r, session, pages.EmailPage{Email: form.Get("address")}, err)
	}
}

// takeCode logs the person in.
func (a *API) submitCode(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	cookie, err := a.OAuth.VerifyCode(r.Context(), session, form.Get("code"))
	switch {
	case err == nil:
		a.setCookie(w, r, session, cookie)
		a.seeOther(w, stepURL(session))
	case fault.Is(err, fault.Conflict):
		a.seeOther(w, stepURL(session))
	case isFieldError(err) && session.Email == "":
		a.emailPage(w, r, session, pages.EmailPage{}, err)
	case isFieldError(err):
		a.codePage(w, r, session, pages.CodePage{Error: errorText(err)}, err)
	default:
		a.errorPage(w, r, err)
	}
}

// consentPage asks the person who has logged in.
func (a *API) consentPage(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, err error) {
	accounts, failed := a.OAuth.Accounts(r.Context(), session)
	if failed == nil && len(accounts) == 0 {
		failed = fault.New(fault.Conflict, "There is no account that this address may connect.")
	}
	if failed != nil {
		a.errorPage(w, r, failed)
		return
	}
	page := pages.ConsentPage{Form: a.formFields(session), Application: *applicationView(session.AuthorizationRequest), Email: session.Email}
	for _, owned := range accounts {
		page.Accounts = append(page.Accounts, pages.Account{ID: owned.ID.String(), Name: accountName(owned), Detail: owned.Namespace + "/" + owned.Name})
	}
	for _, scope := range session.AuthorizationRequest.Scopes {
		page.Scopes = append(page.Scopes, pages.Scope(scope))
	}
	status := http.StatusOK
	if err != nil {
		status, page.Error = statusOf(fault.From(err), w), errorText(err)
		httpapi.SetError(r.Context(), err)
	}
	a.page(w, r, status, session.AuthorizationRequest.RedirectURI, func(to io.Writer) error { return a.Pages.Consent(to, page) })
}

func accountName(owned account.Account) string {
	if owned.DisplayName != "" {
		return owned.DisplayName
	}
	return owned.Name
}

// submitConsent ends a login: the application gets its code, or is told of the refusal.
func (a *API) submitConsent(w http.ResponseWriter, r *http.Request, session oauth.LoginSession, form url.Values) {
	if !session.LoggedIn() || session.AuthorizationRequest == nil {
		a.seeOther(w, stepURL(session))
		return
	}
	switch form.Get("decision") {
	case "deny":
		if err := a.OAuth.EndLogin(r.Context(), session); err != nil {
			a.errorPage(w, r, err)
			return
		}
		a.writeCookie(w, a.cookieName(session.ID), "", -1)
		a.redirectToClient(w, r, session.AuthorizationRequest, url.Values{"error": {"access_denied"}, "error_description": {"the person did not allow the connection"}})
	case "allow":
		id, err := uuid.Parse(form.Get("account"))
		if err != nil {
			a.consentPage(w, r, session, fault.New(fault.Invalid, "Choose an account."))
			return
		}
		code, err := a.OAuth.Approve(r.Context(), session, id)
		switch {
		case fault.Is(err, fault.Conflict):
			a.consentPage(w, r, session, err)
		case err != nil:
			a.errorPage(w, r, err)
		default:
			a.writeCookie(w, a.cookieName(session.ID), "", -1)
			a.redirectToClient(w, r, session.AuthorizationRequest, url.Values{"code": {code}})
		}
	default:
		a.consentPage(w, r, session, fault.New(fault.Invalid, "Allow the connection, or refuse it."))
	}
}
