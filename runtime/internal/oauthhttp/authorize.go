package oauthhttp

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

// codeChallengePattern matches a code_challenge of method S256 (RFC 7636, section 4.2).
var codeChallengePattern = regexp.MustCompile(`^[0-9A-Za-z_-]{43}$`)

// checkedParams are the parameters that are read besides client_id and redirect_uri.
var checkedParams = []string{"response_type", "response_mode", "scope", "state", "code_challenge", "code_challenge_method", "prompt", "resource"}

// maxState bounds the state parameter.
const maxState = 4096

// isPrintable reports whether a text consists of the characters that parameters may contain
// (RFC 6749, appendix A).
func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) // invalid UTF-8 is read as U+FFFD
}

// authorizationError is an error that is returned to the client (RFC 6749, section 4.1.2.1).
type authorizationError struct{ code, description string }

// authorize starts a login for a client (RFC 6749, section 4.1.1). Until the redirect URI is
// known to belong to the client, errors are shown to the user only.
func (a *API) authorize(w http.ResponseWriter, r *http.Request) {
	query, err := parseAuthorizationQuery(r)
	if err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	clientID, startLogin := query.Get("client_id"), a.startLogin
	if a.usesMetadataDocument(clientID) { // the login counts before the document is fetched
		if err := a.allowLogin(r); err != nil {
			a.ErrorPage(w, r, err)
			return
		}
		startLogin = a.createLogin
	}
	request, err := a.authorizationRequest(r.Context(), query)
	if err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	scopes, authErr := a.parseScopes(query)
	if authErr != nil {
		a.errorRedirect(w, r, request, authErr)
		return
	}
	request.Scopes = scopes
	session, err := startLogin(w, r, request, appsDestination)
	if err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	next := url.Values{"request": {session.ID.String()}}
	if email, err := oauth.ParseEmail(query.Get("login_hint")); err == nil {
		next.Set("email", email)
	}
	a.SeeOther(w, loginPath+"?"+next.Encode())
}

// parseAuthorizationQuery returns the parameters of an authorization request if client_id and
// redirect_uri are usable.
func parseAuthorizationQuery(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "The application sent an invalid authorization request.")
	}
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(query[name]) != 1 || query.Get(name) == "" {
			return nil, fault.New(fault.Invalid, "The application sent an authorization request without %s.", name)
		}
		if !isPrintable(query.Get(name)) {
			return nil, fault.New(fault.Invalid, "The application sent an authorization request with an invalid %s.", name)
		}
	}
	return query, nil
}

// authorizationRequest looks up the client and checks its redirect URI. The result has no scopes yet.
func (a *API) authorizationRequest(ctx context.Context, query url.Values) (*oauth.AuthorizationRequest, error) {
	client, err := a.findClient(ctx, query.Get("client_id"))
	if err != nil {
		return nil, err
	}
	redirectURI := query.Get("redirect_uri")
	if !a.redirectAllowed(redirectURI) || !matchRedirect(client.RedirectURIs, redirectURI) {
		return nil, fault.New(fault.Invalid, "The redirect URI is not registered for this application.")
	}
	return &oauth.AuthorizationRequest{
		ClientID: client.ID, ClientName: client.Name, Website: a.trustedWebsite(client), RedirectURI: redirectURI,
		State: query.Get("state"), HasState: query.Has("state"), Resource: a.issuer + resourcePath,
		CodeChallenge: query.Get("code_challenge"), Verified: a.isTrusted(client.ID, redirectURI), Registered: !isMetadataURL(client.ID),
	}, nil
}

// usesMetadataDocument reports whether a client ID is the URL of a metadata document to fetch.
func (a *API) usesMetadataDocument(id string) bool {
	return a.cfg.ClientMetadataDocuments && isMetadataURL(id)
}

// findClient returns a registered client, or one with a metadata document.
func (a *API) findClient(ctx context.Context, id string) (oauth.Client, error) {
	if !a.usesMetadataDocument(id) {
		client, err := a.OAuth.FindClient(ctx, id)
		if fault.Is(err, fault.NotFound) {
			err = fault.Wrap(err, fault.Invalid, "This service does not know the application that sent you here. Remove the connection in the application and add it again.")
		}
		return client, err
	}
	metadata, err := a.metadata.get(ctx, id)
	switch {
	case fault.Is(err, fault.Unavailable):
		return oauth.Client{}, err
	case err != nil:
		return oauth.Client{}, fault.Wrap(err, fault.Invalid, "This service cannot read the metadata of the application that sent you here.")
	}
	return a.newClient(metadata)
}

// parseScopes checks all other parameters and returns the scopes to ask the user for.
func (a *API) parseScopes(query url.Values) ([]oauth.Scope, *authorizationError) {
	if err := a.checkParameters(query); err != nil {
		return nil, err
	}
	requested := strings.Fields(query.Get("scope"))
	if len(requested) == 0 {
		return scopes, nil
	}
	// Unknown scopes are ignored (RFC 6749, section 3.3): clients commonly request
	// offline_access or openid.
	known := slices.DeleteFunc(slices.Clone(scopes), func(scope oauth.Scope) bool { return !slices.Contains(requested, string(scope)) })
	if len(known) == 0 {
		return nil, &authorizationError{"invalid_scope", "scope must hold one or more of " + strings.ReplaceAll(oauth.JoinScopes(scopes), " ", ", ")}
	}
	return known, nil
}

func (a *API) checkParameters(query url.Values) *authorizationError {
	for name, values := range query {
		if len(values) > 1 && name != "resource" {
			return &authorizationError{"invalid_request", "a parameter was sent twice"}
		}
		if slices.Contains(checkedParams, name) && slices.ContainsFunc(values, func(value string) bool { return !isPrintable(value) }) {
			return &authorizationError{"invalid_request", name + " must hold printable ASCII only"}
		}
	}
	switch {
	case query.Get("response_type") != "code":
		return &authorizationError{"unsupported_response_type", "response_type must be code"}
	case query.Has("response_mode") && query.Get("response_mode") != "query":
		return &authorizationError{"invalid_request", "response_mode must be query"}
	case query.Has("request") || query.Has("request_uri"):
		return &authorizationError{"request_not_supported", "request objects are not supported"}
	case query.Get("code_challenge_method") != "S256" || !codeChallengePattern.MatchString(query.Get("code_challenge")):
		return &authorizationError{"invalid_request", "send a code_challenge with the method S256 (RFC 7636)"}
	case len(query.Get("state")) > maxState:
		return &authorizationError{"invalid_request", "state is too long"}
	case query.Get("prompt") == "none":
		return &authorizationError{"login_required", "the user has to log in for every authorization request"}
	case slices.ContainsFunc(query["resource"], func(resource string) bool { return resource != a.issuer+resourcePath }):
		return &authorizationError{"invalid_target", "resource must be " + a.issuer + resourcePath}
	}
	return nil
}
