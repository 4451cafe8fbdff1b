package oauthhttp

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/oauth"
)

// codeVerifierPattern matches a code_verifier (RFC 7636, section 4.1).
var codeVerifierPattern = regexp.MustCompile(`^[0-9A-Za-z._~-]{43,128}$`)

// endpointError is an OAuth error response (RFC 6749, section 5.2).
type endpointError struct {
	status int
	code   string
	err    error
}

func (e *endpointError) write(w http.ResponseWriter, r *http.Request) {
	httpapi.WriteOAuthError(w, r, e.status, e.code, e.err)
}

// badRequest returns an error with status 400.
func badRequest(code string, err error) *endpointError {
	return &endpointError{http.StatusBadRequest, code, err}
}

// invalid returns an error with status 400 and a description.
func invalid(code, format string, args ...any) *endpointError {
	return badRequest(code, fault.New(fault.Invalid, format, args...))
}

// token is the token endpoint (RFC 6749, sections 4.1.3 and 6).
func (a *API) token(w http.ResponseWriter, r *http.Request) {
	tokens, rejected := a.requestTokens(w, r)
	if rejected != nil {
		rejected.write(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
	httpapi.WriteJSON(w, r, http.StatusOK, map[string]any{
		"access_token": tokens.Access, "token_type": "Bearer", "expires_in": int(tokens.Lifetime.Seconds()),
		"refresh_token": tokens.Refresh, "scope": oauth.JoinScopes(tokens.Scopes),
	})
}

// requestTokens checks what all grant types have in common and dispatches by grant type.
func (a *API) requestTokens(w http.ResponseWriter, r *http.Request) (oauth.Tokens, *endpointError) {
	form, err := parseForm(w, r)
	if err != nil {
		return oauth.Tokens{}, badRequest("invalid_request", err)
	}
	if rejected := rejectClientSecret(w, r, form); rejected != nil {
		return oauth.Tokens{}, rejected
	}
	requestByType, ok := map[string]func(*http.Request, url.Values) (oauth.Tokens, *endpointError){
		"authorization_code": a.exchangeCode, "refresh_token": a.refresh,
	}[form.Get("grant_type")]
	resource := form.Get("resource")
	switch {
	case !ok:
		return oauth.Tokens{}, invalid("unsupported_grant_type", "grant_type must be authorization_code or refresh_token")
	case form.Get("client_id") == "":
		return oauth.Tokens{}, invalid("invalid_request", "send client_id")
	case resource != "" && resource != a.issuer+resourcePath:
		return oauth.Tokens{}, invalid("invalid_target", "resource must be %s", a.issuer+resourcePath)
	}
	return requestByType(r, form)
}

// rejectClientSecret rejects requests with client authentication: all clients are public.
func rejectClientSecret(w http.ResponseWriter, r *http.Request, form url.Values) *endpointError {
	hasHeader := r.Header.Get("Authorization") != ""
	if !hasHeader && !form.Has("client_secret") && !form.Has("client_assertion") {
		return nil
	}
	if hasHeader {
		w.Header().Set("WWW-Authenticate", `Basic realm="oauth"`) // required by RFC 6749, section 5.2
	}
	return &endpointError{http.StatusUnauthorized, "invalid_client", fault.New(fault.Invalid, "clients have no secret: send client_id only")}
}

func (a *API) exchangeCode(r *http.Request, form url.Values) (oauth.Tokens, *endpointError) {
	request := oauth.TokenRequest{Code: form.Get("code"), ClientID: form.Get("client_id"), RedirectURI: form.Get("redirect_uri"),
		CodeVerifier: form.Get("code_verifier"), Resource: form.Get("resource")}
	if request.Code == "" || request.RedirectURI == "" || !codeVerifierPattern.MatchString(request.CodeVerifier) {
		return oauth.Tokens{}, invalid("invalid_request", "send code, redirect_uri and code_verifier (43 to 128 characters)")
	}
	tokens, err := a.OAuth.ExchangeCode(r.Context(), request)
	return tokens, rejectGrant(err)
}

func (a *API) refresh(r *http.Request, form url.Values) (oauth.Tokens, *endpointError) {
	if form.Get("refresh_token") == "" {
		return oauth.Tokens{}, invalid("invalid_request", "send refresh_token")
	}
	tokens, err := a.OAuth.Refresh(r.Context(), form.Get("refresh_token"), form.Get("client_id"), form.Get("resource"), form.Get("scope"))
	return tokens, rejectGrant(err)
}

// rejectGrant returns the response for an error of a code or token; nil without an error.
func rejectGrant(err error) *endpointError {
	if err == nil {
		return nil
	}
	if errors.Is(err, oauth.ErrInvalidScope) {
		return badRequest("invalid_scope", err)
	}
	return badRequest("invalid_grant", err)
}

// revoke is the revocation endpoint (RFC 7009). Possession of the token is sufficient.
func (a *API) revoke(w http.ResponseWriter, r *http.Request) {
	form, err := parseForm(w, r)
	if err == nil && form.Get("token") == "" {
		err = fault.New(fault.Invalid, "send token")
	}
	if err != nil {
		badRequest("invalid_request", err).write(w, r)
		return
	}
	if err := a.OAuth.RevokeToken(r.Context(), form.Get("token"), form.Get("client_id")); err != nil {
		badRequest("invalid_grant", err).write(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}
