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

// stepOf is the address of the page that a login is at.
func stepOf(request oauth.Request) string { return loginPath + "?request=" + request.ID.String() }

// showStep is for somebody who opens the address of a form, where a page with a problem
// stays: a browser that comes back to it does.
func (a *API) showStep(w http.ResponseWriter, r *http.Request) {
	a.seeOther(w, loginPath+"?"+url.Values{"request": {r.URL.Query().Get("request")}}.Encode())
}

// showLogin shows the page that is due. Its address stays the same from step to step,
// so that a reload or the back button shows where the login really is.
func (a *API) showLogin(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	request, err := a.request(r, query.Get("request"))
	if err != nil {
		a.problem(w, r, err)
		return
	}
	switch {
	case request.LoggedIn() && query.Has("change"):
		a.beginAgain(w, r, request)
	case request.LoggedIn() && request.Ask == nil:
		a.seeOther(w, connectionsPath+"?request="+request.ID.String())
	case request.LoggedIn():
		a.consentPage(w, r, request, nil)
	case request.Address != "" && !query.Has("change"):
		a.codePage(w, r, request, pages.CodePage{Resent: query.Has("resent")}, nil)
	default:
		page := pages.EmailPage{Address: query.Get("address")}
		if query.Has("out") {
			page.Notice = "You are logged out."
		}
		a.emailPage(w, r, request, page, nil)
	}
}

// beginAgain is for somebody who logged in with the wrong address: the application still
// waits, and what it asks for is known.
func (a *API) beginAgain(w http.ResponseWriter, r *http.Request, request oauth.Request) {
	next, err := a.begin(w, r, request.Ask)
	if err == nil {
		err = a.Logins.End(r.Context(), request)
	}
	if err != nil {
		a.problem(w, r, err)
		return
	}
	a.writeCookie(w, a.cookieName(request.ID), "", -1)
	a.seeOther(w, stepOf(next))
}

func (a *API) emailPage(w http.ResponseWriter, r *http.Request, request oauth.Request, page pages.EmailPage, err error) {
	page.Form, page.Application = a.formOf(request), applicationOf(request.Ask)
	status := http.StatusOK
	if err != nil {
		status, page.Problem = statusOf(fault.From(err), w), sentence(err)
		httpapi.SetError(r.Context(), err)
	}
	a.page(w, r, status, "", func(to io.Writer) error { return a.Pages.Email(to, page) })
}

func (a *API) codePage(w http.ResponseWriter, r *http.Request, request oauth.Request, page pages.CodePage, err error) {
	page.Form, page.Application, page.Address = a.formOf(request), applicationOf(request.Ask), request.Address
	page.ResendIn = a.Logins.ResendIn(request)
	if request.CodeSentAt != nil && request.CodeExpires != nil {
		page.ValidFor = request.CodeExpires.Sub(*request.CodeSentAt)
	}
	status := http.StatusOK
	if err != nil {
		status = statusOf(fault.From(err), w)
		httpapi.SetError(r.Context(), err)
	}
	a.page(w, r, status, "", func(to io.Writer) error { return a.Pages.Code(to, page) })
}

// sentence is what a person reads of a fault, with the time after which to come back.
func sentence(err error) string {
	f := fault.From(err)
	if f.RetryAfter <= 0 {
		return f.Public
	}
	n, unit := int(math.Ceil(f.RetryAfter.Seconds())), "second"
	if f.RetryAfter >= time.Minute {
		n, unit = int(math.Ceil(f.RetryAfter.Minutes())), "minute"
	}
	if n > 1 {
		unit += "s"
	}
	return fmt.Sprintf("%s Try again in %d %s.", f.Public, n, unit)
}

// mine tells the faults that a page shows beside its field from those that end a login.
func mine(err error) bool { return fault.Is(err, fault.Invalid) || fault.Is(err, fault.Busy) }

// takeAddress has a code sent.
func (a *API) takeAddress(w http.ResponseWriter, r *http.Request, request oauth.Request, form url.Values) {
	err := a.Logins.SendCode(r.Context(), request, form.Get("address"), networkOf(r))
	address, _ := oauth.ParseAddress(form.Get("address"))
	again := request.Address != "" && request.Address == address // and not another one, which deserves its own page
	switch {
	case err == nil && again:
		a.seeOther(w, stepOf(request)+"&resent=1")
	case err == nil:
		a.seeOther(w, stepOf(request))
	case fault.Is(err, fault.Conflict): // logged in, in another tab
		a.seeOther(w, stepOf(request))
	case !mine(err):
		a.problem(w, r, err)
	case again && fault.Is(err, fault.Busy):
		a.codePage(w, r, request, pages.CodePage{ResendProblem: sentence(err)}, err)
	default:
		a.emailPage(w, r, request, pages.EmailPage{Address: form.Get("address")}, err)
	}
}

// takeCode logs the person in.
func (a *API) takeCode(w http.ResponseWriter, r *http.Request, request oauth.Request, form url.Values) {
	cookie, err := a.Logins.TryCode(r.Context(), request, form.Get("code"))
	switch {
	case err == nil:
		a.setCookie(w, r, request, cookie)
		a.seeOther(w, stepOf(request))
	case fault.Is(err, fault.Conflict):
		a.seeOther(w, stepOf(request))
	case mine(err) && request.Address == "":
		a.emailPage(w, r, request, pages.EmailPage{}, err)
	case mine(err):
		a.codePage(w, r, request, pages.CodePage{Problem: sentence(err)}, err)
	default:
		a.problem(w, r, err)
	}
}

// consentPage asks the person who has logged in.
func (a *API) consentPage(w http.ResponseWriter, r *http.Request, request oauth.Request, err error) {
	accounts, failed := a.Logins.Accounts(r.Context(), request)
	if failed == nil && len(accounts) == 0 {
		failed = fault.New(fault.Conflict, "There is no account that this address may connect.")
	}
	if failed != nil {
		a.problem(w, r, failed)
		return
	}
	page := pages.ConsentPage{Form: a.formOf(request), Application: *applicationOf(request.Ask), Address: request.Address}
	for _, one := range accounts {
		page.Accounts = append(page.Accounts, pages.Account{ID: one.ID.String(), Name: nameOf(one), Detail: one.Namespace + "/" + one.Name})
	}
	for _, scope := range request.Ask.Scopes {
		page.Scopes = append(page.Scopes, pages.Scope(scope))
	}
	status := http.StatusOK
	if err != nil {
		status, page.Problem = statusOf(fault.From(err), w), sentence(err)
		httpapi.SetError(r.Context(), err)
	}
	a.page(w, r, status, request.Ask.RedirectURI, func(to io.Writer) error { return a.Pages.Consent(to, page) })
}

func nameOf(one account.Account) string {
	if one.DisplayName != "" {
		return one.DisplayName
	}
	return one.Name
}

// takeConsent ends a login: the application gets its code, or is told of the refusal.
func (a *API) takeConsent(w http.ResponseWriter, r *http.Request, request oauth.Request, form url.Values) {
	if !request.LoggedIn() || request.Ask == nil {
		a.seeOther(w, stepOf(request))
		return
	}
	switch form.Get("decision") {
	case "deny":
		if err := a.Logins.End(r.Context(), request); err != nil {
			a.problem(w, r, err)
			return
		}
		a.writeCookie(w, a.cookieName(request.ID), "", -1)
		a.answer(w, r, request.Ask, url.Values{"error": {"access_denied"}, "error_description": {"the person did not allow the connection"}})
	case "allow":
		id, err := uuid.Parse(form.Get("account"))
		if err != nil {
			a.consentPage(w, r, request, fault.New(fault.Invalid, "Choose an account."))
			return
		}
		code, err := a.Logins.Allow(r.Context(), request, id)
		switch {
		case fault.Is(err, fault.Conflict):
			a.consentPage(w, r, request, err)
		case err != nil:
			a.problem(w, r, err)
		default:
			a.writeCookie(w, a.cookieName(request.ID), "", -1)
			a.answer(w, r, request.Ask, url.Values{"code": {code}})
		}
	default:
		a.consentPage(w, r, request, fault.New(fault.Invalid, "Allow the connection, or refuse it."))
	}
}
