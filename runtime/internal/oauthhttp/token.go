package oauthhttp

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/oauth"
)

// maxForm bounds every form.
const maxForm = 8 << 10

// codeVerifierPattern is a code_verifier (RFC 7636, section 4.1).
var codeVerifierPattern = regexp.MustCompile(`^[0-9A-Za-z._~-]{43,128}$`)

// token answers with tokens for a code or a refresh token (RFC 6749, sections 4.1.3 and 6).
func (a *API) token(w http.ResponseWriter, r *http.Request) {
	form, err := a.parseForm(w, r)
	if err != nil {
		a.writeOAuthError(w, r, http.StatusBadRequest, "invalid_request", err)
		return
	}
	grant, clientID, resource := form.Get("grant_type"), form.Get("client_id"), form.Get("resource")
	var tokens oauth.Tokens
	switch {
	case r.Header.Get("Authorization") != "" || form.Has("client_secret") || form.Has("client_assertion"):
		if r.Header.Get("Authorization") != "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="oauth"`) // as RFC 6749, section 5.2, has it
		}
		a.writeOAuthError(w, r, http.StatusUnauthorized, "invalid_client", fault.New(fault.Invalid, "applications have no secret here: send client_id alone"))
		return
	case grant != "authorization_code" && grant != "refresh_token":
		a.writeOAuthError(w, r, http.StatusBadRequest, "unsupported_grant_type", fault.New(fault.Invalid, "grant_type must be authorization_code or refresh_token"))
		return
	case clientID == "":
		a.writeOAuthError(w, r, http.StatusBadRequest, "invalid_request", fault.New(fault.Invalid, "send client_id"))
		return
	case resource != "" && resource != a.issuer+resourcePath:
		a.writeOAuthError(w, r, http.StatusBadRequest, "invalid_target", fault.New(fault.Invalid, "resource must be %s", a.issuer+resourcePath))
		return
	case grant == "authorization_code":
		tokenRequest := oauth.TokenRequest{Code: form.Get("code"), ClientID: clientID, RedirectURI: form.Get("redirect_uri"), CodeVerifier: form.Get("code_verifier"), Resource: resource}
		if tokenRequest.Code == "" || tokenRequest.RedirectURI == "" || !codeVerifierPattern.MatchString(tokenRequest.CodeVerifier) {
			a.writeOAuthError(w, r, http.StatusBadRequest, "invalid_request", fault.New(fault.Invalid, "send code, redirect_uri and code_verifier (43 to 128 characters)"))
			return
		}
		tokens, err = a.OAuth.ExchangeCode(r.Context(), tokenRequest)
	default:
		if form.Get("refresh_token") == "" {
			a.writeOAuthError(w, r, http.StatusBadRequest, "invalid_request", fault.New(fault.Invalid, "send refresh_token"))
			return
		}
		tokens, err = a.OAuth.Refresh(r.Context(), form.Get("refresh_token"), clientID, resource)
	}
	if err != nil {
		a.writeOAuthError(w, r, 0, "invalid_grant", err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
	httpapi.WriteJSON(w, r, http.StatusOK, map[string]any{
		"access_token": tokens.Access, "token_type": "Bearer", "expires_in": int(tokens.Lifetime.Seconds()),
		"refresh_token": tokens.Refresh, "scope": joinScopes(tokens.Scopes),
	})
}

// revoke ends a connection (RFC 7009). Whoever has a token may end it.
func (a *API) revoke(w http.ResponseWriter, r *http.Request) {
	form, err := a.parseForm(w, r)
	if err == nil && form.Get("token") == "" {
		err = fault.New(fault.Invalid, "send token")
	}
	if err != nil {
		a.writeOAuthError(w, r, http.StatusBadRequest, "invalid_request", err)
		return
	}
	if err := a.OAuth.RevokeToken(r.Context(), form.Get("token"), form.Get("client_id")); err != nil {
		a.writeOAuthError(w, r, 0, "invalid_grant", err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

// parameters reads a form from the body; nothing in the address counts, and nothing
// may be sent twice (RFC 6749, section 3.2), and all must be text.
func (a *API) parseForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, fault.New(fault.Invalid, "send a form: application/x-www-form-urlencoded")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return nil, fault.Wrap(errors.New("unreadable form"), fault.Invalid, "the form can't be read, or is longer than 8 KiB")
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			return nil, fault.New(fault.Invalid, "send %q once", sanitizeName(name))
		}
		// What the database can't hold is nobody's.
		if len(values) == 1 && (!utf8.ValidString(values[0]) || strings.Contains(values[0], "\x00")) {
			return nil, fault.New(fault.Invalid, "%q can't be read", sanitizeName(name))
		}
	}
	return r.PostForm, nil
}

// writeOAuthError writes an OAuth error response (RFC 6749, section 5.2).
func (a *API) writeOAuthError(w http.ResponseWriter, r *http.Request, status int, code string, err error) {
	if status == 0 {
		status = http.StatusBadRequest
	}
	httpapi.WriteOAuthError(w, r, status, code, err)
}

func joinScopes(scopes []oauth.Scope) string {
	words := make([]string, 0, len(scopes))
	for _, scope := range scopes {
		words = append(words, string(scope))
	}
	return strings.Join(words, " ")
}
