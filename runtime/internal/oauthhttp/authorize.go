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

// codeChallengePattern is a code_challenge of S256 (RFC 7636, section 4.2).
var codeChallengePattern = regexp.MustCompile(`^[0-9A-Za-z_-]{43}$`)

// checkedParams are the parameters that count besides client_id and redirect_uri.
var checkedParams = []string{"response_type", "response_mode", "scope", "state", "code_challenge", "code_challenge_method", "prompt", "resource"}

// printable reports whether a text holds nothing but what parameters may hold (RFC 6749,
// appendix A).
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) // what is no UTF-8 is read as U+FFFD
}

// maxState bounds what an application wants back with its answer.
const maxState = 4096

// authorizationError is an error of RFC 6749, section 4.1.2.1: it goes back to the application.
type authorizationError struct{ code, description string }

// authorize begins a login for an application (RFC 6749, section 4.1.1). Nothing is
// answered to a redirect URI before it is known to be the application's.
func (a *API) authorize(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		a.errorPage(w, r, fault.Wrap(err, fault.Invalid, "The application sent you here with an address that can't be read."))
		return
	}
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(query[name]) != 1 || query.Get(name) == "" {
			a.errorPage(w, r, fault.New(fault.Invalid, "The application sent you here without its %s.", name))
			return
		}
		if !printable(query.Get(name)) {
			a.errorPage(w, r, fault.New(fault.Invalid, "The application sent you here with a %s that can't be read.", name))
			return
		}
	}
	redirect := query.Get("redirect_uri")
	begin := a.startLogin
	if a.usesMetadataDocument(query.Get("client_id")) { // a fetch is made for those only who may begin a login
		if err := a.allowLogin(r); err != nil {
			a.errorPage(w, r, err)
			return
		}
		begin = a.createLogin
	}
	client, err := a.client(r.Context(), query.Get("client_id"))
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	if !a.redirectAllowed(redirect) || !matchRedirect(client.RedirectURIs, redirect) {
		a.errorPage(w, r, fault.New(fault.Invalid, "The application wants your answer sent to an address that is not one of its own."))
		return
	}
	authRequest := &oauth.AuthorizationRequest{ClientID: client.ID, ClientName: client.Name, Website: a.trustedWebsite(client), RedirectURI: redirect, State: query.Get("state"), HasState: query.Has("state"),
		Resource: a.issuer + resourcePath, CodeChallenge: query.Get("code_challenge"), Verified: a.isTrusted(client.ID, redirect), Registered: !isMetadataURL(client.ID)}
	var authErr *authorizationError
	if authRequest.Scopes, authErr = a.parseScopes(query); authErr != nil {
		a.errorRedirect(w, r, authRequest, authErr)
		return
	}
	session, err := begin(w, r, authRequest)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	next := url.Values{"request": {session.ID.String()}}
	if address, err := oauth.ParseEmail(query.Get("login_hint")); err == nil {
		next.Set("address", address)
	}
	a.seeOther(w, loginPath+"?"+next.Encode())
}

// usesMetadataDocument reports whether an application's document is to be fetched.
func (a *API) usesMetadataDocument(id string) bool {
	return a.cfg.ClientMetadataDocuments && isMetadataURL(id)
}

// client returns a registered application, or one that describes itself.
func (a *API) client(ctx context.Context, id string) (oauth.Client, error) {
	unknown := "This service does not know the application that sent you here. Remove the connection there and add it again."
	if !a.usesMetadataDocument(id) {
		client, err := a.OAuth.FindClient(ctx, id)
		if fault.Is(err, fault.NotFound) {
			err = fault.Wrap(err, fault.Invalid, "%s", unknown)
		}
		return client, err
	}
	metadata, err := a.metadata.get(ctx, id)
	switch {
	case fault.Is(err, fault.Unavailable):
		return oauth.Client{}, err
	case err != nil:
		return oauth.Client{}, fault.Wrap(err, fault.Invalid, "This service can't read who the application is that sent you here.")
	}
	client, err := a.newClient(metadata)
	return client, err
}

// parseScopes checks what an application asks for and gives the scopes.
func (a *API) parseScopes(query url.Values) ([]oauth.Scope, *authorizationError) {
	for name, values := range query {
		if len(values) > 1 && name != "resource" {
			return nil, &authorizationError{"invalid_request", "a parameter was sent twice"}
		}
		if slices.Contains(checkedParams, name) && slices.ContainsFunc(values, func(value string) bool { return !printable(value) }) {
			return nil, &authorizationError{"invalid_request", name + " must hold printable ASCII alone"}
		}
	}
	switch {
	case query.Get("response_type") != "code":
		return nil, &authorizationError{"unsupported_response_type", "response_type must be code"}
	case query.Has("response_mode") && query.Get("response_mode") != "query":
		return nil, &authorizationError{"invalid_request", "response_mode must be query"}
	case query.Has("request") || query.Has("request_uri"):
		return nil, &authorizationError{"request_not_supported", "send the parameters themselves"}
	case query.Get("code_challenge_method") != "S256" || !codeChallengePattern.MatchString(query.Get("code_challenge")):
		return nil, &authorizationError{"invalid_request", "send a code_challenge with the method S256 (RFC 7636)"}
	case len(query.Get("state")) > maxState:
		return nil, &authorizationError{"invalid_request", "state is too long"}
	case query.Get("prompt") == "none":
		return nil, &authorizationError{"login_required", "the person logs in for every connection"}
	case slices.ContainsFunc(query["resource"], func(resource string) bool { return resource != a.issuer+resourcePath }):
		return nil, &authorizationError{"invalid_target", "resource must be " + a.issuer + resourcePath}
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
		return nil, &authorizationError{"invalid_scope", "scope must hold " + string(oauth.ScopeRead) + ", " + string(oauth.ScopeWrite) + " or both"}
	}
	return granted, nil
}

// errorRedirect answers what an application asks for wrongly, before anybody has logged in.
// Anybody can register an address and make a link that ends there at once, so a person is
// led on only to where the configuration vouches for, or to a program of their own, and
// decides elsewhere (RFC 9700, section 4.11.2).
func (a *API) errorRedirect(w http.ResponseWriter, r *http.Request, authRequest *oauth.AuthorizationRequest, authErr *authorizationError) {
	values := url.Values{"error": {authErr.code}, "error_description": {authErr.description}}
	uri, err := url.Parse(authRequest.RedirectURI)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	if authRequest.Verified || isLoopback(uri) {
		a.redirectToClient(w, r, authRequest, values)
		return
	}
	host, link := uri.Host, a.redirectURL(r, authRequest, uri, values)
	page := pages.ErrorPage{Title: "That did not work", Text: "The application sent you here with a request that does not work: " + authErr.description + ".", Back: &pages.BackLink{Host: host, Link: link}}
	a.page(w, r, http.StatusBadRequest, "", func(to io.Writer) error { return a.Pages.Error(to, page) })
}

// redirectToClient sends the person back to the application. A program on the device that has a
// scheme of its own is opened by a page: the browser would leave the one before it on
// the screen, whose form was used already.
func (a *API) redirectToClient(w http.ResponseWriter, r *http.Request, authRequest *oauth.AuthorizationRequest, values url.Values) {
	uri, err := url.Parse(authRequest.RedirectURI)
	if err != nil {
		a.errorPage(w, r, err)
		return
	}
	link := a.redirectURL(r, authRequest, uri, values)
	if uri.Scheme == "http" || uri.Scheme == "https" {
		a.seeOther(w, link)
		return
	}
	page := pages.AppRedirectPage{Application: *applicationView(authRequest), Link: link, Allowed: values.Has("code")}
	a.page(w, r, http.StatusOK, "", func(to io.Writer) error { return a.Pages.AppRedirect(to, page) })
}

// redirectURL is where an application gets its answer, with the issuer (RFC 9207).
func (a *API) redirectURL(r *http.Request, authRequest *oauth.AuthorizationRequest, uri *url.URL, values url.Values) string {
	if authRequest.HasState {
		values.Set("state", authRequest.State)
	}
	values.Set("iss", a.issuer)
	response := *uri
	if response.RawQuery != "" {
		response.RawQuery += "&"
	}
	response.RawQuery += values.Encode()
	if code := values.Get("error"); code != "" {
		httpapi.SetError(r.Context(), fault.New(fault.Invalid, "%s: %s", code, values.Get("error_description")))
	}
	return response.String()
}

// seeOther leads on with 303: a form that was posted is not posted again elsewhere.
func (a *API) seeOther(w http.ResponseWriter, to string) {
	a.setSecurityHeaders(w, "")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
