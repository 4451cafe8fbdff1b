package oauthhttp

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// challengeForm is a code_challenge of S256 (RFC 7636, section 4.2).
var challengeForm = regexp.MustCompile(`^[0-9A-Za-z_-]{43}$`)

// named are the parameters that count besides client_id and redirect_uri.
var named = []string{"response_type", "response_mode", "scope", "state", "code_challenge", "code_challenge_method", "prompt", "resource"}

// printable reports whether a text holds nothing but what parameters may hold (RFC 6749,
// appendix A).
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) // what is no UTF-8 is read as U+FFFD
}

// longestState bounds what an application wants back with its answer.
const longestState = 4096

// refusal is an error of RFC 6749, section 4.1.2.1: it goes back to the application.
type refusal struct{ code, description string }

// authorize begins a login for an application (RFC 6749, section 4.1.1). Nothing is
// answered to a redirect URI before it is known to be the application's.
func (a *API) authorize(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		a.problem(w, r, fault.Wrap(err, fault.Invalid, "The application sent you here with an address that can't be read."))
		return
	}
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(query[name]) != 1 || query.Get(name) == "" {
			a.problem(w, r, fault.New(fault.Invalid, "The application sent you here without its %s.", name))
			return
		}
		if !printable(query.Get(name)) {
			a.problem(w, r, fault.New(fault.Invalid, "The application sent you here with a %s that can't be read.", name))
			return
		}
	}
	redirect := query.Get("redirect_uri")
	begin := a.begin
	if a.describesItself(query.Get("client_id")) { // a fetch is made for those only who may begin a login
		if err := a.takeLogin(r); err != nil {
			a.problem(w, r, err)
			return
		}
		begin = a.note
	}
	client, err := a.client(r.Context(), query.Get("client_id"))
	if err != nil {
		a.problem(w, r, err)
		return
	}
	if !a.redirectAllowed(redirect) || !matchRedirect(client.RedirectURIs, redirect) {
		a.problem(w, r, fault.New(fault.Invalid, "The application wants your answer sent to an address that is not one of its own."))
		return
	}
	ask := &oauth.Ask{ClientID: client.ID, ClientName: client.Name, Website: a.websiteOf(client), RedirectURI: redirect, State: query.Get("state"), HasState: query.Has("state"),
		Resource: a.base + resourcePath, Challenge: query.Get("code_challenge"), Verified: a.trusted(client.ID, redirect), Registered: !documentURL(client.ID)}
	var wrong *refusal
	if ask.Scopes, wrong = a.wished(query); wrong != nil {
		a.turnBack(w, r, ask, wrong)
		return
	}
	request, err := begin(w, r, ask)
	if err != nil {
		a.problem(w, r, err)
		return
	}
	next := url.Values{"request": {request.ID.String()}}
	if address, err := oauth.ParseAddress(query.Get("login_hint")); err == nil {
		next.Set("address", address)
	}
	a.seeOther(w, loginPath+"?"+next.Encode())
}

// describesItself reports whether an application's document is to be fetched.
func (a *API) describesItself(id string) bool { return a.cfg.Documents && documentURL(id) }

// client returns a registered application, or one that describes itself.
func (a *API) client(ctx context.Context, id string) (oauth.Client, error) {
	unknown := "This service does not know the application that sent you here. Remove the connection there and add it again."
	if !a.describesItself(id) {
		client, err := a.Logins.FindClient(ctx, id)
		if fault.Is(err, fault.NotFound) {
			err = fault.Wrap(err, fault.Invalid, "%s", unknown)
		}
		return client, err
	}
	sent, err := a.documents.fetch(ctx, id)
	switch {
	case fault.Is(err, fault.Unavailable):
		return oauth.Client{}, err
	case err != nil:
		return oauth.Client{}, fault.Wrap(err, fault.Invalid, "This service can't read who the application is that sent you here.")
	}
	client, err := a.clientOf(sent)
	return client, err
}

// wished checks what an application asks for and gives the scopes.
func (a *API) wished(query url.Values) ([]oauth.Scope, *refusal) {
	for name, values := range query {
		if len(values) > 1 && name != "resource" {
			return nil, &refusal{"invalid_request", "a parameter was sent twice"}
		}
		if slices.Contains(named, name) && slices.ContainsFunc(values, func(value string) bool { return !printable(value) }) {
			return nil, &refusal{"invalid_request", name + " must hold printable ASCII alone"}
		}
	}
	switch {
	case query.Get("response_type") != "code":
		return nil, &refusal{"unsupported_response_type", "response_type must be code"}
	case query.Has("response_mode") && query.Get("response_mode") != "query":
		return nil, &refusal{"invalid_request", "response_mode must be query"}
	case query.Has("request") || query.Has("request_uri"):
		return nil, &refusal{"request_not_supported", "send the parameters themselves"}
	case query.Get("code_challenge_method") != "S256" || !challengeForm.MatchString(query.Get("code_challenge")):
		return nil, &refusal{"invalid_request", "send a code_challenge with the method S256 (RFC 7636)"}
	case len(query.Get("state")) > longestState:
		return nil, &refusal{"invalid_request", "state is too long"}
	case query.Get("prompt") == "none":
		return nil, &refusal{"login_required", "the person logs in for every connection"}
	case slices.ContainsFunc(query["resource"], func(resource string) bool { return resource != a.base+resourcePath }):
		return nil, &refusal{"invalid_target", "resource must be " + a.base + resourcePath}
	}
	asked := strings.Fields(query.Get("scope"))
	if len(asked) == 0 {
		return scopes, nil
	}
	// What we do not know is passed over (RFC 6749, section 3.3): clients ask for
	// offline_access or openid out of habit.
	var granted []oauth.Scope
	for _, scope := range scopes {
		if slices.Contains(asked, string(scope)) {
			granted = append(granted, scope)
		}
	}
	if len(granted) == 0 {
		return nil, &refusal{"invalid_scope", "scope must hold " + string(oauth.ScopeRead) + ", " + string(oauth.ScopeWrite) + " or both"}
	}
	return granted, nil
}

// turnBack answers what an application asks for wrongly, before anybody has logged in.
// Anybody can register an address and make a link that ends there at once, so a person is
// led on only to where the configuration vouches for, or to a program of their own, and
// decides elsewhere (RFC 9700, section 4.11.2).
func (a *API) turnBack(w http.ResponseWriter, r *http.Request, ask *oauth.Ask, wrong *refusal) {
	values := url.Values{"error": {wrong.code}, "error_description": {wrong.description}}
	uri, err := url.Parse(ask.RedirectURI)
	if err != nil {
		a.problem(w, r, err)
		return
	}
	if ask.Verified || isLoopback(uri) {
		a.answer(w, r, ask, values)
		return
	}
	host, link := uri.Host, a.answerURI(r, ask, uri, values)
	page := pages.ProblemPage{Title: "That did not work", Text: "The application sent you here with a request that does not work: " + wrong.description + ".", Back: &pages.WayBack{Host: host, Link: link}}
	a.page(w, r, http.StatusBadRequest, "", func(to io.Writer) error { return a.Pages.Problem(to, page) })
}

// answer sends the person back to the application. A program on the device that has a
// scheme of its own is opened by a page: the browser would leave the one before it on
// the screen, whose form was used already.
func (a *API) answer(w http.ResponseWriter, r *http.Request, ask *oauth.Ask, values url.Values) {
	uri, err := url.Parse(ask.RedirectURI)
	if err != nil {
		a.problem(w, r, err)
		return
	}
	link := a.answerURI(r, ask, uri, values)
	if uri.Scheme == "http" || uri.Scheme == "https" {
		a.seeOther(w, link)
		return
	}
	page := pages.ReturnPage{Application: *applicationOf(ask), Link: link, Allowed: values.Has("code")}
	a.page(w, r, http.StatusOK, "", func(to io.Writer) error { return a.Pages.Return(to, page) })
}

// answerURI is where an application gets its answer, with the issuer (RFC 9207).
func (a *API) answerURI(r *http.Request, ask *oauth.Ask, uri *url.URL, values url.Values) string {
	if ask.HasState {
		values.Set("state", ask.State)
	}
	values.Set("iss", a.base)
	answer := *uri
	if answer.RawQuery != "" {
		answer.RawQuery += "&"
	}
	answer.RawQuery += values.Encode()
	if code := values.Get("error"); code != "" {
		httpapi.SetError(r.Context(), fault.New(fault.Invalid, "%s: %s", code, values.Get("error_description")))
	}
	return answer.String()
}

// seeOther leads on with 303: a form that was posted is not posted again elsewhere.
func (a *API) seeOther(w http.ResponseWriter, to string) {
	a.guard(w, "")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
