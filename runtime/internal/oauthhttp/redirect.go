package oauthhttp

import (
	"io"
	"net/http"
	"net/url"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// errorRedirect returns an error to the client before the user has logged in. Registration
// is open: an attacker can register a redirect URI and publish a link that ends there. So the
// browser is redirected to trusted hosts and loopback addresses only; for other targets the
// user gets a link (RFC 9700, section 4.11.2).
func (a *API) errorRedirect(w http.ResponseWriter, r *http.Request, request *oauth.AuthorizationRequest, authErr *authorizationError) {
	values := url.Values{"error": {authErr.code}, "error_description": {authErr.description}}
	uri, err := url.Parse(request.RedirectURI)
	if err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	if request.Verified || isLoopback(uri) {
		a.redirectToClient(w, r, request, values)
		return
	}
	page := pages.ErrorPage{Title: "Request failed", Text: "The application sent an invalid authorization request: " + authErr.description + ".",
		Back: &pages.BackLink{Host: uri.Host, Link: a.redirectURL(r, request, uri, values)}}
	a.page(w, r, http.StatusBadRequest, "", func(to io.Writer) error { return a.Pages.Error(to, page) })
}

// redirectToClient returns the authorization response to the client. For a custom scheme it
// shows a page that opens the application, because the browser would otherwise keep showing
// the submitted form.
func (a *API) redirectToClient(w http.ResponseWriter, r *http.Request, request *oauth.AuthorizationRequest, values url.Values) {
	uri, err := url.Parse(request.RedirectURI)
	if err != nil {
		a.ErrorPage(w, r, err)
		return
	}
	link := a.redirectURL(r, request, uri, values)
	if uri.Scheme == "http" || uri.Scheme == "https" {
		a.SeeOther(w, link)
		return
	}
	page := pages.AppRedirectPage{Application: *applicationView(request), Link: link, Allowed: values.Has("code")}
	a.page(w, r, http.StatusOK, "", func(to io.Writer) error { return a.Pages.AppRedirect(to, page) })
}

// redirectURL returns the redirect URI with the authorization response and the issuer (RFC
// 9207). It records an error response for the log.
func (a *API) redirectURL(r *http.Request, request *oauth.AuthorizationRequest, uri *url.URL, values url.Values) string {
	if request.HasState {
		values.Set("state", request.State)
	}
	values.Set("iss", a.issuer)
	target := *uri
	if target.RawQuery != "" {
		target.RawQuery += "&"
	}
	target.RawQuery += values.Encode()
	if code := values.Get("error"); code != "" {
		httpapi.SetError(r.Context(), fault.New(fault.Invalid, "%s: %s", code, values.Get("error_description")))
	}
	return target.String()
}

// SeeOther redirects with status 303, so that the browser does not repeat a POST at the target.
func (a *API) SeeOther(w http.ResponseWriter, to string) {
	setSecurityHeaders(w, sources{})
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
